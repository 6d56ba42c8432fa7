"""What features of users and items add to ALS: collective factorization, where they are more columns and rows.

After the thesis, section 7.1: "Especially the matrix factorization methods can be extended to include additional
features, which would improve their accuracy." No kernel is added. A feature of users is one more item, which they
rate, a feature of items one more user; factors then have to fit features beside ratings. Ratings count from their
damped biases, features from their means, in units of the ratings' standard deviation times a weight. ALS learns what
biases are left. Lambda is the same for rows of any length, so that features do not add to it. Errors are those of
ratings alone.

Features are the friends of Douban's users, a column a friend with as many users who are none, and in MovieLens 100K
the genres of items and the gender, age and occupation of users, as the package RecBole ships them. Entries near zero
help by holding factors and biases back, whatever they say: so ALS is also given features that are another user's or
item's. Ratings are split at random, or so that new users, or items, keep FEW ratings for training. On training
ratings that are held out in the same way lambda, and where there are features the weight, are chosen from as many
trials for each.
"""

import io
from dataclasses import replace
from functools import partial
from importlib import metadata
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS
from gpumf._util.counter_rng import positional_hash, random_order, random_subset
from gpumf.ratings import DataError, Ratings, files, load_dataset
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import identity, missing_files
from gpumf_study.experiments.gpumf.defaults import damped_biases

_PACKAGE = "recbole"
RANDOM, USERS, ITEMS = "random", "new users", "new items"
SPLITS = {"douban-monti": [RANDOM, USERS], "ml-100k": [RANDOM, USERS, ITEMS]}
"""The splits of each set: new are users, or items, only where they have features."""
BIASES = "damped biases"
PLAIN, OTHERS, FEATURES = MODELS = "ALS", "ALS with others' features", "ALS with features"
FEW = 5  # ratings that a new user or item has
_TEST, _HELD_OUT = 0.2, 0.1  # of the ratings, or of the users or items with more than FEW
_AGES = [0, 18, 25, 35, 45, 50, 56, 200]  # the groups of MovieLens 1M, in years

PROFILES = {
    "quick": {"data": ["douban-monti"], "regularizations": [4.0, 8.0, 16.0, 32.0],
              "with_features": {"regularization": [8.0, 32.0], "weight": [0.3, 1.0]}, "factors": 8, "epochs": 10,
              "seeds": 2, "device": "cpu"},
    "full": {"data": list(SPLITS), "regularizations": [2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0],
             "with_features": {"regularization": [4.0, 8.0, 16.0, 32.0], "weight": [0.3, 1.0]}, "factors": 8,
             "epochs": 10, "seeds": 5, "device": "cpu"},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"factors": 2, "epochs": 2}


def missing(name):
    """What of a set is not on this machine, its ratings or its features; None where both are."""
    if why := missing_files(name):
        return why
    if name == "ml-100k":
        try:
            metadata.distribution(_PACKAGE)
        except metadata.PackageNotFoundError:
            return f"the features of {name} are not installed; get them with `pip install --no-deps {_PACKAGE}`"
    return None


def why_unavailable():
    """What is missing of the set that every profile has, or None."""
    return missing("douban-monti")


def run(data, regularizations, with_features, factors, epochs, seeds, device):
    """Choose on held-out ratings, with features, with those of others and without any, then judge what was chosen.

    data : list of sets, of SPLITS; one that is `missing` here is left out
    regularizations : list, tried without features
    with_features : dict of the lists regularization and weight, all of whose pairs are tried with features
    seeds : int, of the splits, of who is drawn as no friend, of whose features others get, and of the initial factors

    A row is a training, or the biases alone: x_split (of SPLITS), x_step ('choice', on held-out ratings, or 'test'),
    model (BIASES or of MODELS), x_regularization, x_weight (0 without features), x_nnz (ratings trained on),
    x_features (entries of the matrix beside them), x_judged (how many ratings).

    Raise gpumf.ratings.DataError where none of the sets is here.
    """
    tried = [(PLAIN, value, 0.0) for value in regularizations]
    tried += product((OTHERS, FEATURES), with_features["regularization"], with_features["weight"])
    here = [name for name in data if not missing(name)]
    if not here:
        raise DataError("; ".join(map(missing, data)))
    rows, identities = [], []
    for name in here:
        ratings = load_dataset(name)
        identities.append(identity(ratings) | {"features_sha256": files.sha256(_files(name))})
        runs = list(product(SPLITS[name], range(seeds)))
        for split, seed in tqdm(runs, desc=f"further features {name}", leave=False):
            own = FEATURES_OF[name](ratings, seed)
            others = own[0].of_others(ratings.n_users, seed), own[1].of_others(ratings.n_items, seed)
            fit = partial(_fits, {FEATURES: own, OTHERS: others}, factors, epochs, seed, device)
            train, test = parted(ratings, split, _TEST, seed)
            choice = pd.DataFrame(fit(*parted(train, split, _HELD_OUT, seed), tried))
            best = choice.loc[choice[choice.model != BIASES].groupby("model").value.idxmin()]
            chosen = best[["model", "x_regularization", "x_weight"]].itertuples(index=False)
            judged = pd.DataFrame(fit(train, test, chosen))
            steps = pd.concat([choice.assign(x_step="choice"), judged.assign(x_step="test")])
            rows.append(steps.assign(data=name, x_split=split, repeat=seed))
    frame = pd.concat(rows, ignore_index=True).assign(task="fit", metric="rmse")
    frame.attrs["datasets"] = identities
    return frame


def parted(ratings, split, share, seed):
    """(train, judged): Ratings. Judged is a random share of the ratings, or what a share of the users or items, of
    those with more than FEW ratings, has beyond FEW random ones."""
    if split == RANDOM:
        return ratings.split(share, seed)
    side, counts = (ratings.users, ratings.user_counts) if split == USERS else (ratings.items, ratings.item_counts)
    known = np.flatnonzero(counts > FEW)
    new = known[random_subset(len(known), round(share * len(known)), seed)]
    place = pd.Series(positional_hash(ratings.nnz, seed)).groupby(side).rank(method="first").to_numpy()
    judged = np.isin(side, new) & (place > FEW)
    return ratings.select(~judged), ratings.select(judged)


def _fits(features, factors, epochs, seed, device, train, judged, tried):
    """Rows of the biases and of each (model, lambda, weight) that is tried."""
    of_user, of_item = damped_biases(train)

    def biases(ratings):
        return train.mean + of_user[ratings.users] + of_item[ratings.items]

    def row(model, predicted, **what):
        error = np.clip(predicted, *train.scale) - judged.values
        given = {"factors": factors, "epoch": epochs, "x_nnz": train.nnz, "x_judged": judged.nnz}
        return {"model": model} | what | given | {"value": np.sqrt(np.mean(error**2))}

    left = replace(train, values=train.values - biases(train), scale=None)
    rows = [row(BIASES, biases(judged))]
    for model, regularization, weight in tried:
        whole = joined(left, *features[model], weight * left.values.std()) if model in features else left
        fitted = ALS(factors, regularization, biases=True, clip=False, weighted=False, device=device, seed=seed)
        predicted = biases(judged) + fitted.fit(whole, epochs).predict(judged.users, judged.items, ids=False)
        what = {"x_regularization": regularization, "x_weight": weight, "solver": fitted.solver}
        rows.append(row(model, predicted, **what, x_features=whole.nnz - train.nnz))
    return rows


class Features(NamedTuple):
    """Features of users, or of items.

    rows : int (n,), positions of the users or items
    columns : int (n,), of the features, from 0; each has an entry
    values : float (n,), of mean 0 in each column and of standard deviation 1 in all
    """

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, rows, columns, values):
        """Of values that have other means and another standard deviation."""
        left = values - (np.bincount(columns, values) / np.bincount(columns))[columns]
        return cls(rows, columns, left / left.std())

    @classmethod
    def of_table(cls, table):
        """Of a DataFrame of 0 and 1, a row a user or item, a column a feature."""
        rows, columns = np.indices(table.shape)
        return cls.of(rows.ravel(), columns.ravel(), table.to_numpy(float).ravel())

    def of_others(self, n, seed):
        """The same, each of n users or items having those of another."""
        return self._replace(rows=random_order(n, seed)[self.rows])

    @property
    def count(self):
        """How many features."""
        return int(self.columns.max(initial=-1)) + 1


NONE = Features(*np.empty((2, 0), int), np.empty(0))


def joined(left, of_users, of_items, unit):
    """Ratings with features as further items, of users, and as further users, of items.

    left : Ratings, which count from 0
    of_users, of_items : Features
    unit : float, the standard deviation of the features beside the ratings
    """
    users = np.concatenate([left.users, of_users.rows, left.n_users + of_items.columns])
    items = np.concatenate([left.items, left.n_items + of_users.columns, of_items.rows])
    values = np.concatenate([left.values, unit * of_users.values, unit * of_items.values])
    shape = left.n_users + of_items.count, left.n_items + of_users.count
    return Ratings(users, items, values, *shape, name=f"{left.name} with features")


def _files(name):
    """The files that have a set's features."""
    if name == "douban-monti":
        return files.find(name, "training_test_dataset.mat")
    folder = metadata.distribution(_PACKAGE).locate_file(f"recbole/dataset_example/{name}")
    return [files.single(folder / f"{name}.{side}") for side in ("user", "item")]


def friends(ratings, seed):
    """(Features of users, of items): Douban's friends, and as many others drawn for each; items have none."""
    import h5py

    (file,) = _files(ratings.name)
    with h5py.File(io.BytesIO(file.contents)) as matlab:
        are_friends = matlab["W_users"][:] > 0
    rows, columns, values = [], [], []
    for column, user in enumerate(np.flatnonzero(are_friends.any(axis=0))):
        theirs, others = np.flatnonzero(are_friends[user]), np.flatnonzero(~are_friends[user])
        others = others[others != user]
        drawn = others[random_subset(len(others), len(theirs), seed * ratings.n_users + user)]
        rows += [theirs, drawn]
        columns.append(np.full(2 * len(theirs), column))
        values += [np.ones(len(theirs)), np.zeros(len(theirs))]
    return Features.of(*map(np.concatenate, (rows, columns, values))), NONE


def demographics_and_genres(ratings, seed):
    """(Features of users, of items) of MovieLens 100K, whatever the seed, each 0 or 1 for everyone."""
    tables = (pd.read_csv(file.path, sep="\t", quoting=3) for file in _files(ratings.name))
    users, items = (table.rename(columns=lambda name: name.split(":")[0]) for table in tables)
    users = users.set_index("user_id").loc[ratings.user_ids]
    users["age"] = pd.cut(users.age, _AGES, right=False).astype(str)
    genres = items.set_index("item_id")["class"].loc[ratings.item_ids].str.get_dummies(" ")
    return Features.of_table(pd.get_dummies(users[["gender", "age", "occupation"]])), Features.of_table(genres)


FEATURES_OF = {"douban-monti": friends, "ml-100k": demographics_and_genres}


def _tests(frame):
    """Test RMSE with a column a model, by data, split and repeat."""
    tests = frame[frame.x_step == "test"]
    return tests.pivot(index=["data", "x_split", "repeat"], columns="model", values="value")


def figure(frame):
    """Draw test RMSE over that of the biases: a mark a seed, by split, of each model, a panel a data set."""
    table = _tests(frame)
    ratios = table.div(table[BIASES], axis=0)
    sets = frame.data.unique()
    figure, (axes,) = style.panels(columns=len(sets), height=2.8, sharey=True)
    for axis, name in zip(axes, sets, strict=True):
        rows = ratios.loc[name]
        places = rows.index.get_level_values("x_split").map([RANDOM, USERS, ITEMS].index)
        for model, colour, shift in zip(MODELS, ("grey", "orange", "green"), (-0.2, 0.0, 0.2), strict=True):
            axis.plot(rows[model], places + shift, "o", color=style.COLOURS[colour], alpha=0.6, label=model)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set(title=style.data_name(name), xlabel="ratio of test RMSE to biases'")
        axis.locator_params(axis="x", nbins=5)
    axes[0].set_yticks(range(3), [RANDOM, USERS, ITEMS])
    axes[0].invert_yaxis()
    style.legend(figure, axes[0], 3)
    return figure


def each_gain(frame):
    """Return by how many percent test RMSE with features is below the better of that without and that with others'
    features: data, x_split, repeat, x_gain."""
    table = _tests(frame)
    gains = 100 * (1 - table[FEATURES] / table[[PLAIN, OTHERS]].min(axis=1))
    return gains.rename("x_gain").reset_index()


def min_gain(frame):
    """Return the least gain of the data sets at random splits, by repeat; nothing where one is missing."""
    table = each_gain(frame)
    table = table[table.x_split == RANDOM]
    return table.groupby("repeat").x_gain.min().reset_index() if set(table.data) == set(SPLITS) else table.iloc[:0]


_OF = {
    "douban-monti": "the friends of users",
    "ml-100k": "gender, age and occupation of users and genres of items",
}


def _claim(suffix, statement, where, table, criterion=None):
    return Claim(
        f"thesis-further-features{suffix}", "thesis", "Section 7.1",
        "Percent by which features lower the test RMSE of ALS, also below that with features of other users or "
        f"items: {statement}.",
        metric="median", select={"column": "x_gain", "where": where}, criterion=criterion, table=table, device="cpu",
    )  # fmt: skip


CLAIMS = [_claim("", "the least of the data sets, random splits", {}, min_gain, above(0))]
CLAIMS += [
    _claim(f"-{split.replace(' ', '-')}-{data}", f"{style.data_name(data)}, {_OF[data]}, {what}",
           {"data": data, "x_split": split}, each_gain)
    for data, splits in SPLITS.items()
    for split, what in (
        (RANDOM, "random splits"), (USERS, f"users with {FEW} training ratings"),
        (ITEMS, f"items with {FEW} training ratings"),
    ) if split in splits
]  # fmt: skip
