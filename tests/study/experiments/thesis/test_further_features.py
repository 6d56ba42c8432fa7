"""Features of users and items as further columns and rows of the matrix that ALS factorizes."""

from dataclasses import replace
from functools import cache
from importlib import metadata
from types import SimpleNamespace

import h5py
import numpy as np
import pandas as pd
import pytest

from gpumf._util.counter_rng import positional_hash
from gpumf.ratings import DataError, Ratings
from gpumf_study import experiments, schema
from gpumf_study.experiments.thesis import further_features as experiment
from gpumf_study.experiments.thesis.further_features import (
    BIASES,
    FEATURES,
    FEW,
    ITEMS,
    OTHERS,
    PLAIN,
    RANDOM,
    USERS,
    Features,
)
from spy import common

SMALL = {"regularizations": [1.0, 1000.0], "with_features": {"regularization": [1.0, 1000.0], "weight": [1.0]},
         "factors": 2, "epochs": 5, "seeds": 2, "device": "cpu"}  # fmt: skip


@cache
def planted():
    """Ratings by users of two kinds, who like items of their own: (Ratings, kind of users, kind of items)."""
    users, items = (positional_hash(n, seed) % 2 for n, seed in ((200, 1), (60, 2)))
    rated = positional_hash(200 * 60, 3) % 3 == 0
    rows, columns = np.divmod(np.flatnonzero(rated), 60)
    values = np.where(users[rows] == items[columns], 4, 2) + (positional_hash(len(rows), 4) % 2)
    ratings = Ratings(rows, columns, values, 200, 60, scale=(1, 5), name="planted", sha256="0" * 64)
    return ratings, users, items


def kinds(ratings, seed):
    """Kinds as features, twelve alike of users and none of items."""
    table = pd.DataFrame(np.repeat(planted()[1][:, None], 12, axis=1))
    return Features.of_table(table), experiment.NONE


@pytest.fixture
def on_planted(monkeypatch):
    monkeypatch.setattr(experiment, "missing", lambda name: None)
    monkeypatch.setattr(experiment, "load_dataset", lambda name: planted()[0])
    monkeypatch.setattr(experiment, "SPLITS", {"planted": [RANDOM, USERS]})
    monkeypatch.setattr(experiment, "FEATURES_OF", {"planted": kinds})
    monkeypatch.setattr(experiment, "_files", lambda name: [])


def test_new_users_gain_by_features_that_say_their_taste_and_not_by_those_of_others(on_planted):
    frame = experiment.run(["planted"], **SMALL)
    errors = experiment._tests(frame)
    new = errors.xs(USERS, level="x_split")
    assert (new[FEATURES] < 0.96 * new[PLAIN]).all() and (new[FEATURES] < 0.96 * new[OTHERS]).all()
    at_random = errors.xs(RANDOM, level="x_split")
    assert (at_random[PLAIN] < 0.9 * at_random[BIASES]).all()
    (facts,) = frame.attrs["datasets"]
    assert facts["name"] == "planted" and len(facts["features_sha256"]) == 64
    fits = schema.validated(frame)[frame.model != BIASES]
    assert set(fits.solver) == {"parallel"} and ((fits.x_features == 12 * 200) == (fits.model != PLAIN)).all()
    assert ((fits.x_weight == 0) == (fits.model == PLAIN)).all() and fits.x_features[fits.model == PLAIN].eq(0).all()
    nnz = planted()[0].nnz
    whole = frame[(frame.x_split == RANDOM) & (frame.x_step == "test")]
    assert (whole.x_nnz + whole.x_judged == nnz).all() and set(whole.x_judged) == {round(0.2 * nnz)}


def test_what_is_judged_is_what_the_held_out_ratings_chose_and_no_test_rating_did(on_planted, monkeypatch):
    frame = experiment.run(["planted"], **SMALL)
    for _, run in frame[frame.model != BIASES].groupby(["x_split", "repeat", "model"]):
        choice, (test,) = run[run.x_step == "choice"], run[run.x_step == "test"].itertuples()
        assert len(choice) == 2, "as many trials for each"
        best = choice.loc[choice.value.idxmin()]
        assert (test.x_regularization, test.x_weight) == (best.x_regularization, best.x_weight)
    plain = experiment.parted

    def mirrored(ratings, split, share, seed):
        train, judged = plain(ratings, split, share, seed)
        if ratings is planted()[0]:
            judged = replace(judged, values=6 - judged.values)
        return train, judged

    monkeypatch.setattr(experiment, "parted", mirrored)
    other = experiment.run(["planted"], **SMALL)
    of_test = frame.x_step == "test"
    pd.testing.assert_frame_equal(frame.drop(columns="value"), other.drop(columns="value"))
    here, there = frame.value, other.value
    assert here[~of_test].equals(there[~of_test]) and not here[of_test].eq(there[of_test]).any()


@pytest.mark.parametrize("split", [RANDOM, USERS, ITEMS])
def test_a_split_leaves_who_is_new_a_few_ratings(split):
    ratings, *_ = planted()
    train, judged = experiment.parted(ratings, split, 0.2, 0)
    assert common(train, judged) == 0 and train.nnz + judged.nnz == ratings.nnz
    if split == RANDOM:
        assert judged.nnz == round(0.2 * ratings.nnz)
        return
    side = "user_counts" if split == USERS else "item_counts"
    left, new = getattr(train, side), getattr(judged, side) > 0
    assert new.sum() == round(0.2 * (getattr(ratings, side) > FEW).sum())
    assert (left[new] == FEW).all() and (left[~new] == getattr(ratings, side)[~new]).all()
    _, others = experiment.parted(ratings, split, 0.2, 1)
    assert not np.array_equal(new, getattr(others, side) > 0)


def test_features_count_from_their_means_in_units_of_their_deviation():
    table = pd.DataFrame({"a": [1, 0, 0, 0], "b": [1, 1, 0, 0]})
    features = Features.of_table(table)
    values = np.array([features.values[features.columns == column] for column in (0, 1)])
    assert values.mean(axis=1) == pytest.approx(0) and features.values.std() == pytest.approx(1)
    assert values[0] / values[0][0] == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3]), "in the order of the rows"
    assert (features.count, experiment.NONE.count) == (2, 0)
    others = features.of_others(4, seed=0)
    assert sorted(others.rows) == sorted(features.rows) and not np.array_equal(others.rows, features.rows)
    of_one = [features.values[features.rows == row].tolist() for row in range(4)]
    assert sorted(of_one) == sorted(others.values[others.rows == row].tolist() for row in range(4))


def test_features_stand_behind_the_ratings_as_items_and_as_users():
    left = Ratings([0, 1], [2, 0], [0.5, -0.5], 2, 3, name="x")
    of_users = Features(np.array([0, 1]), np.array([0, 0]), np.array([1.0, -1.0]))
    of_items = Features(np.array([0, 2, 1]), np.array([1, 1, 0]), np.array([1.0, -1.0, 2.0]))
    whole = experiment.joined(left, of_users, of_items, 0.25)
    assert (whole.n_users, whole.n_items) == (2 + 2, 3 + 1)
    assert list(zip(whole.users, whole.items, whole.values, strict=True)) == [
        (0, 2, 0.5), (1, 0, -0.5), (0, 3, 0.25), (1, 3, -0.25), (3, 0, 0.25), (3, 2, -0.25), (2, 1, 0.5),
    ]  # fmt: skip


def test_a_friend_is_a_column_of_friends_and_of_as_many_others(tmp_path, monkeypatch):
    are = np.zeros((6, 6))
    for a, b in ((0, 1), (0, 2), (3, 4)):
        are[a, b] = are[b, a] = 1
    (tmp_path / "douban-monti").mkdir()
    with h5py.File(tmp_path / "douban-monti/training_test_dataset.mat", "w") as file:
        file["W_users"] = are
    monkeypatch.setenv("GPUMF_DATA", str(tmp_path))
    ratings = Ratings([0], [0], [3], 6, 2, name="douban-monti")
    of_users, of_items = experiment.friends(ratings, 0)
    assert of_items.count == 0 and of_users.count == 5, "the last user has no friend"
    for column, user in enumerate((0, 1, 2, 3, 4)):
        rows, values = (array[of_users.columns == column] for array in (of_users.rows, of_users.values))
        assert set(rows[values > 0]) == set(np.flatnonzero(are[user])) and values == pytest.approx(np.sign(values))
        assert len(set(rows)) == len(rows) == 2 * are[user].sum() and user not in rows
    drawn = [experiment.friends(ratings, seed)[0].rows.tolist() for seed in range(3)]
    assert len(set(map(tuple, drawn))) > 1


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A package with features of three users and two items, which is no package of this machine."""
    folder = tmp_path / "recbole/dataset_example/ml-100k"
    folder.mkdir(parents=True)
    users = ["user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token"]
    users += ["1\t24\tM\ttechnician\t85711", "2\t53\tF\tother\t94043", "3\t25\tM\tother\tE2A4H"]
    items = ["item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq"]
    items += ["1\tToy \"Story\t1995\tAnimation Children's", "2\tHeat\t1995\tAction"]
    (folder / "ml-100k.user").write_text("\n".join([*users, ""]))
    (folder / "ml-100k.item").write_text("\n".join([*items, ""]))
    package = SimpleNamespace(locate_file=tmp_path.joinpath)
    monkeypatch.setattr(experiment.metadata, "distribution", lambda name: package)


def test_features_of_movielens_are_those_of_its_ids(shipped):
    ratings = Ratings([0], [0], [3], 3, 2, user_ids=np.array([3, 1, 2]), item_ids=np.array([2, 1]), name="ml-100k")
    of_users, of_items = experiment.demographics_and_genres(ratings, 0)
    users = of_users.values.reshape(3, -1) > 0
    # F, M; 18-24, 25-34, 50-55; other, technician
    assert users.astype(int).tolist() == [[0, 1, 0, 1, 0, 1, 0], [0, 1, 1, 0, 0, 0, 1], [1, 0, 0, 0, 1, 1, 0]]
    items = of_items.values.reshape(2, -1) > 0
    assert items.astype(int).tolist() == [[1, 0, 0], [0, 1, 1]], "Action, Animation, Children's"


def test_what_is_missing_is_named_and_left_out(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    present = pd.DataFrame({"present": {"ml-100k": True, "douban-monti": False}})
    monkeypatch.setattr(experiments, "dataset_names", lambda: present)
    monkeypatch.setattr(experiment.metadata, "distribution", lambda name: object())
    assert experiment.missing("ml-100k") is None and "douban-monti" in experiment.why_unavailable()
    monkeypatch.setattr(experiment.metadata, "distribution", absent)
    assert "--no-deps recbole" in experiment.missing("ml-100k")
    with pytest.raises(DataError, match="ml-100k"):
        experiment.run(["ml-100k", "douban-monti"], **SMALL)
    present.loc["douban-monti"] = True
    assert experiment.why_unavailable() is None
