"""Parameters compared by training on several splits: cross-validation, and search by grid, draws or halving."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpumf._util import interrupts
from gpumf._util.progress import counted
from gpumf._util.validation import MAX_SEED, choice, flag, integer, is_integer
from gpumf.models.early_stopping import ERRORS, Ending, of_lists
from gpumf.models.estimator import Model, check_model
from gpumf.models.trials import Trial, Trials, fresh
from gpumf.ratings.convert import ratings_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike
    from typing import Any, Literal, TypeAlias

    import pandas as pd

    from gpumf.models.early_stopping import Keep
    from gpumf.ratings import Ratings
    from gpumf.ratings.convert import RatingsLike

    Splits: TypeAlias = Ratings | Iterable[tuple[Ratings, Ratings]]


def cross_validate(
    model: Model,
    splits: RatingsLike | Splits,
    epochs: int | None = None,
    *,
    k: int = 10,
    ranking: bool = False,
    **fitting: Any,
) -> pd.DataFrame:
    """Train copies of a model, one a split, and judge each on what was held out.

    Parameters
    ----------
    model : of gpumf; it stays as it is
    splits : pairs (train, test) of Ratings: `ratings.kfold(5)`, [`ratings.split_by_time()`],
        [`ratings.leave_one_out()`]; or one pair. Or one set of ratings, split five-fold: Ratings, a data frame or a
        sparse matrix as `fit` takes them
    epochs : int, by default that of the model's `fit`
    k : int, length of the lists that are judged
    ranking : bool, judge lists too
    **fitting : of `fit`, such as callbacks; the test set is never its validation set

    Returns
    -------
    DataFrame, a row a split: split, rmse, mae, where asked for precision, recall, map, ndcg, and seconds of `fit`

    Raises
    ------
    TypeError : no model of gpumf; neither Ratings nor pairs
    ValueError : no split; otherwise as of `fit`

    >>> import numpy as np
    >>> from gpumf import ALS, cross_validate
    >>> from gpumf.ratings import Ratings
    >>> k = np.arange(100)
    >>> ratings = Ratings(k // 5, k * 3 % 10, k % 5 + 1, n_users=20, n_items=10)
    >>> found = cross_validate(ALS(2, device="cpu"), ratings.kfold(2), epochs=1)
    >>> list(found), len(found)
    (['split', 'rmse', 'mae', 'seconds'], 2)
    """
    import pandas as pd

    _check_judged(model, epochs, k, ranking)
    epochs = model._epochs_or_default(epochs)
    rows = []
    for number, (train, test) in enumerate(_pairs(ratings_of(splits)[0] if _are_data(splits) else splits)):
        fitted = type(model)(**model.get_params()).fit(train, epochs, **fitting)
        row = {"split": number} | fitted.score(test)
        if ranking:
            row |= fitted.evaluate_ranking(test, k)
        rows.append(row | {"seconds": fitted.times.end_to_end})
    if not rows:
        raise ValueError("there are no splits to train on")
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class SearchResult:
    """What `search` found.

    Attributes
    ----------
    results : DataFrame, a row a setting, best first: its parameters, the mean of each metric over the folds, NaN
        where training diverged on one, `<metric>_std`, the standard deviation of the metric searched by, of the rung
        that the setting reached its number, from 0, epochs (with keep='best' the best) and folds, and the seconds of
        all its trainings. Settings of later rungs come before others, unless they diverged
    trials : DataFrame, a row a training, with keep='best' a row an epoch: number of the setting, its parameters,
        rung, epochs, fold, metrics, seconds
    metric : what the search is by
    best_parameters : dict of the first row of `results`; None where no setting has a score
    best_score : float, its metric
    best_model : of these parameters, fitted to all ratings; None with refit=False, or after an interrupt
    n_candidates, n_resources : of each rung, how many settings it has, and the epochs or folds that it gives each
    complete : bool, False after an interrupt
    best_params_, best_score_, best_estimator_, cv_results_, n_candidates_, n_resources_ : the same as scikit-learn's
        searches have it, where larger scores are better: those of errors are negative

    >>> from gpumf import ALS, search
    >>> from gpumf.ratings import Ratings
    >>> ratings = Ratings([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1], [4, 3, 5, 4, 2, 1], n_users=3, n_items=2)
    >>> found = search(ALS(1, device="cpu"), {"regularization": [0.1, 100]}, ratings, epochs=2, folds=2)
    >>> found.best_parameters, len(found.trials)
    ({'regularization': 0.1}, 4)
    >>> found.cv_results_["params"][0] == found.best_params_, found.best_score_ == -found.best_score
    (True, True)
    """

    results: pd.DataFrame = field(repr=False)
    trials: pd.DataFrame = field(repr=False)
    metric: str
    best_parameters: dict[str, Any] | None
    best_score: float
    best_model: Model | None
    n_candidates: tuple[int, ...]
    n_resources: tuple[int, ...]
    complete: bool

    best_params_ = property(lambda self: self.best_parameters)
    best_score_ = property(lambda self: self._sign * self.best_score)
    best_estimator_ = property(lambda self: self.best_model)
    n_candidates_ = property(lambda self: list(self.n_candidates))
    n_resources_ = property(lambda self: list(self.n_resources))

    @property
    def _sign(self):
        return -1 if self.metric in ERRORS else 1

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Return arrays of a number a setting, best first, and the settings in 'params'."""
        table, trials = self.results, list(self.trials)
        if table.empty:
            return {"params": []}
        names = trials[1 : trials.index("rung")]
        found = {f"param_{name}": table[name].to_numpy() for name in names}
        found["mean_test_score"] = self._sign * table[self.metric].to_numpy()
        found["std_test_score"] = table[f"{self.metric}_std"].to_numpy()
        found |= {"rank_test_score": np.arange(1, len(table) + 1), "iter": table["rung"].to_numpy()}
        return found | {"params": table[names].to_dict("records")}


def search(
    model: Model,
    parameters: dict[str, Any],
    ratings: RatingsLike,
    epochs: int | None = None,
    *,
    folds: int | Iterable[tuple[Ratings, Ratings]] = 5,
    metric: str | None = None,
    strategy: Literal["grid", "random", "halving"] = "grid",
    budget: int | None = None,
    factor: int = 3,
    resource: Literal["epochs", "folds"] = "epochs",
    min_resources: int = 1,
    keep: Keep = "last",
    n_jobs: int | None = None,
    memory: int | None = None,
    seed: int = 0,
    refit: bool = True,
    progress: bool = False,
    resume: str | PathLike | None = None,
) -> SearchResult:
    """Train a model with many settings of its parameters, on several folds each, and refit it with the best ones.

    Orders, centered ratings and copies on a device are made once a fold, and shared by all settings. On the CPU
    settings train at the same time, each on its share of the threads; those of `parallel_cg` with up to 64 columns
    that differ in regularization and weights alone train together, in the lanes of vectors, if they fill enough of
    them. On a GPU those of `ALS`, `ImplicitALS` and `SGD` (`tensor_core`, `fast`) that differ in regularization,
    weights and learning rate alone train together, by the launches of one, where one does not fill the device; `RBM`
    and all other solvers train one at a time. Folds follow one another, as a few settings of one have more rows than
    a GPU works on at a time. Errors and lists are computed there, too, but of one setting after another: the items of
    one are shared out until its lists fill the GPU, and a dimension more of these launches would save their overhead
    alone. A setting has
    the scores of `fit` and `score` with its parameters on that fold, however many train at a time; in lanes, and on
    another device, but for rounding. This is not so for solvers that give other factors in every run, as `parallel`
    of SGD. BLAS has one thread: scores of `dense` may differ from those of a fit by rounding.

    `halving` gives all settings few epochs or folds, and in each further rung the best 1 / factor of them about
    `factor` times as many (Jamieson and Talwalkar 2016), so that each rung takes about as long. The settings of the
    last rung have the scores that `grid` gives them. The winner is that of `grid` if no rung dropped it, otherwise
    the best setting that was left. A setting that starts slowly may be dropped: where the order changes late, raise
    `min_resources`.
    With `resource="epochs"` settings go on training where that equals a longer training bit for bit, and start again
    where it does not (`RBM` with momentum, SGD's solvers in float64) or where their models exceed `memory`.

    An interrupt (KeyboardInterrupt) ends the search after the epochs at work, with a RuntimeWarning, and gives what
    there is. With `resume` it can be continued by the same call.

    Parameters
    ----------
    model : of gpumf, whose other parameters stay as they are; it is not fitted
    parameters : dict name -> values to try, or a distribution to draw them from, with a method
        rvs(random_state=numpy.random.Generator), as of scipy.stats
    ratings : Ratings, or what `fit` takes
    epochs : int from 1, of a training; with halving, of the last rung. By default that of the model's `fit`
    folds : int from 2, or pairs (train, test) of Ratings, such as [`ratings.split_by_time()`]
    metric : 'rmse', 'mae', or of lists 'ndcg@10', 'map@10', 'precision@10', 'recall@10', with any length; by default
        'rmse', and of `ImplicitALS`, which predicts no ratings, 'ndcg@10'
    strategy : 'grid', all combinations; 'random', `budget` settings; 'halving', of all combinations or, with a
        budget, of as many settings
    budget : int, how many settings are drawn, each combination of lists once
    factor : int from 2, of halving: the share of settings, 1 / factor, that reach the next rung
    resource : of halving: what rungs have more of
    min_resources : int, of halving: the least epochs or folds of a rung
    keep : 'last', a setting has the scores of its last epoch; 'best', those of the epoch from 1 on whose mean of
        `metric` over the folds is the best, `best_model` is fitted for so many, and settings train each by itself
    n_jobs : int, the most settings at a time on the CPU that train each by itself; by default, or with -1, as many as
        `gpumf._util.threads.count()`
    memory : int, bytes that trainings, and models that wait to be continued, take at most beside the ratings, on a
        GPU of its memory: fewer train at a time, and models are made again. By default half of what is free
    seed : int, of folds and draws. With the same one the same settings get the same folds and epochs on any device.
        Predictions agree within rounding, that of half precision on a GPU, and so do scores, those of lists as far as
        items are farther apart than that: settings closer than these scores may come in another order, and with
        halving another one of them may be dropped
    refit : bool, fit `best_model`
    progress : bool, show a bar with the time that is left
    resume : path of a file that scores are kept in, and read from if it exists

    Returns
    -------
    SearchResult

    Raises
    ------
    TypeError : no model of gpumf, folds that are no pairs of Ratings, parameters that the model does not have
    ValueError : an argument out of range, no values to try, a test set of other users or items than its training set,
        a file of something else, which stays as it is, at the beginning or later, when a new file beside it gets the
        scores; all settings diverged

    >>> import numpy as np
    >>> from gpumf import ALS, cross_validate, search
    >>> from gpumf.ratings import Ratings
    >>> k = np.arange(100)
    >>> ratings = Ratings(k // 5, k * 3 % 10, k % 5 + 1, n_users=20, n_items=10)
    >>> grid = {"factors": [1, 2], "regularization": [0.1, 1.0]}
    >>> found = search(ALS(device="cpu"), grid, ratings, epochs=2, folds=2)
    >>> list(found.results)[:5], len(found.results)
    (['factors', 'regularization', 'rmse', 'mae', 'rmse_std'], 4)
    >>> found.best_model.factors == found.best_parameters["factors"]
    True

    Halving, of settings drawn from distributions:

    >>> from scipy.stats import loguniform
    >>> drawn = {"factors": [1, 2], "regularization": loguniform(0.01, 10)}
    >>> found = search(ALS(device="cpu"), drawn, ratings, epochs=9, folds=2, strategy="halving", budget=9)
    >>> found.n_candidates, found.n_resources
    ((9, 3, 1), (1, 3, 9))

    With Optuna, one trial at a time:

    >>> def objective(trial):
    ...     model = ALS(2, trial.suggest_float("regularization", 1e-3, 1, log=True), device="cpu")
    ...     return cross_validate(model, ratings.kfold(2), epochs=2).rmse.mean()
    >>> import optuna
    >>> study = optuna.create_study()
    >>> study.optimize(objective, n_trials=3)
    >>> list(study.best_params)
    ['regularization']
    """
    _check_judged(model, epochs)
    epochs, seed = integer("epochs", model._epochs_or_default(epochs), 1), integer("seed", seed, 0, MAX_SEED)
    metric = model._judged_by if metric is None else metric
    choice("strategy", strategy, "grid", "random", "halving"), choice("resource", resource, "epochs", "folds")
    of_lists("metric", metric)
    refit, progress, every = flag("refit", refit), flag("progress", progress), Ending(keep=keep).keep == "best"
    factor, least = integer("factor", factor, 2), integer("min_resources", min_resources, 1)
    n_jobs, memory = (
        None if value is None else integer(name, value, 1, 2**63 - 1)
        for name, value in (("n_jobs", None if n_jobs == -1 else n_jobs), ("memory", memory))
    )
    settings = _settings(parameters, strategy, budget, np.random.default_rng(seed))
    candidates = [fresh(model, tried) for tried in settings]  # wrong ones raise before training
    known, named = ratings_of(ratings)
    pairs = list(known.kfold(folds, seed) if is_integer(folds) else _pairs(folds, "folds"))
    if not pairs:
        raise ValueError("there are no splits to train on")
    of_epochs = resource == "epochs"
    most = epochs if of_epochs else len(pairs)
    if least > most:
        raise ValueError(f"min_resources must be at most {most}, the {resource} of the last rung, not {least}")
    plan = _plan(len(settings), most, least, factor if strategy == "halving" else None)
    rungs = [
        _Rung(size, now, len(pairs), last, 0) if of_epochs else _Rung(size, epochs, now, 0, last)
        for size, now, last in plan
    ]
    again = of_epochs and len(rungs) > 1
    trials = Trials(candidates, pairs, metric, n_jobs=n_jobs, memory=memory, again=again, every=every, path=resume)
    with counted(sum(rung.steps for rung in rungs), progress, desc="search", unit="epoch") as step:
        complete, begun, reached = _climb(trials, rungs, metric, every, step)
    rows, spent = [], defaultdict[int, float](float)
    for number, trial in begun:
        labels = {"rung": number, "epochs": trial.epochs, "fold": trial.fold}
        rows.append({"setting": trial.setting} | settings[trial.setting] | labels | trials.scores[trial])
        spent[trial.setting] += trials.scores[trial]["seconds"]
    order = _ranked(reached, metric)
    best = next((one for one in order if np.isfinite(reached[one][metric])), None)
    if complete and best is None:
        raise ValueError(f"training diverged with every setting; {model._remedy}")
    fitted = None
    if best is not None and complete and refit:
        try:
            fitted = candidates[best].fit(known, reached[best]["epochs"] if every else epochs, ids=named)
        except KeyboardInterrupt:
            complete = False
    if not complete:
        warnings.warn("the search was interrupted; its result is of what was done", RuntimeWarning, stacklevel=2)
    return SearchResult(
        _table([settings[one] | reached[one] | {"seconds": spent[one]} for one in order], parameters),
        _table(rows, parameters),
        metric,
        None if best is None else settings[best],
        np.nan if best is None else reached[best][metric],
        fitted,
        tuple(size for size, _, _ in plan),
        tuple(now for _, now, _ in plan),
        complete,
    )


class _Rung(NamedTuple):
    """So many settings get so many epochs and folds, in the rung before so many of what rungs have more of, or 0."""

    size: int
    epochs: int
    folds: int
    epochs_before: int
    folds_before: int

    @property
    def steps(self):
        """Epochs that are new in it."""
        return self.size * (self.folds - self.folds_before) * (self.epochs - self.epochs_before)


def _plan(n, most, least, factor):
    """(settings, epochs or folds, those before) of each rung: `most` in the last, `least` or more in the first."""
    rungs = 1
    while factor and factor**rungs <= n and most // factor**rungs >= least:
        rungs += 1
    parts = [(factor or 1) ** k for k in range(rungs)]
    given = [0, *(most // part for part in reversed(parts))]
    return [(-(-n // part), now, last) for part, now, last in zip(parts, given[1:], given[:-1], strict=True)]


def _climb(trials, rungs, metric, every, step):
    """Train rung after rung; a setting is judged by its last epoch, or by the best of all that have scores.

    Returns
    -------
    (complete, begun, reached) : False after an interrupt; pairs (number of the rung, Trial) of all that has scores;
        and of each setting what `results` says of the last rung that it has ended
    """
    survivors, begun, reached = range(len(trials.candidates)), [], {}
    for number, (size, epochs, folds, epochs_before, folds_before) in enumerate(rungs):
        survivors, complete = survivors[:size], True
        new = [Trial(one, fold, epochs) for one in survivors for fold in range(folds_before, folds)]
        try:
            with interrupts.translated():
                trials.run(new, lambda _, more=epochs - epochs_before: step(more))
        except KeyboardInterrupt:
            complete = False
        judged = range(1 if every else epochs, epochs + 1)
        new = [trial._replace(epochs=epoch) for trial in new for epoch in judged if epoch > epochs_before]
        begun += [(number, trial) for trial in new if trial in trials.scores]
        ended = {}
        for one in survivors:
            found = {epoch: [trials.scores.get(Trial(one, fold, epoch)) for fold in range(folds)] for epoch in judged}
            if None not in found[epochs]:
                means = {epoch: _summary(scores, metric) for epoch, scores in found.items() if None not in scores}
                best = min(means, key=lambda epoch, means=means: _badness(means[epoch][metric], metric))
                ended[one] = means[best] | {"rung": number, "epochs": best, "folds": folds}
        reached |= ended
        survivors = [one for one in _ranked(ended, metric) if np.isfinite(ended[one][metric])]
        if not (complete and survivors):
            break
    return complete, begun, reached


def _summary(found, metric):
    """The mean of each metric over the folds, and the standard deviation of one."""
    columns = {name: [one[name] for one in found] for name in found[0] if name != "seconds"}
    means = {name: float(np.mean(column)) for name, column in columns.items()}
    return means | {f"{metric}_std": float(np.std(columns[metric]))}


def _settings(parameters, strategy, budget, rng):
    """The settings to try, each a dict of Python's values."""
    if not (isinstance(parameters, dict) and parameters and all(map(_several, parameters.values()))):
        raise ValueError("parameters must name values to try, as {'factors': [8, 16]}")
    drawn = any(hasattr(values, "rvs") for values in parameters.values())
    if strategy == "grid" and (drawn or budget is not None):
        raise ValueError("strategy='grid' tries all values, without a budget; 'random' and 'halving' draw settings")
    if budget is None and (drawn or strategy == "random"):
        raise ValueError("settings that are drawn need a budget: how many")
    budget = None if budget is None else integer("budget", budget, 1)
    # A set and a Series have no places to count by.
    parameters = {name: values if hasattr(values, "rvs") else list(values) for name, values in parameters.items()}
    if drawn:
        return [
            {
                name: _plain(values.rvs(random_state=rng) if hasattr(values, "rvs") else _one(values, rng))
                for name, values in parameters.items()
            }
            for _ in range(budget)
        ]
    lengths = [len(values) for values in parameters.values()]
    n = math.prod(lengths)
    places = range(n) if budget is None or budget >= n else rng.choice(n, budget, replace=False)
    return [
        {
            name: _plain(values[k])
            for (name, values), k in zip(parameters.items(), np.unravel_index(place, lengths), strict=True)
        }
        for place in places
    ]


def _one(values, rng):
    return values[rng.integers(len(values))]


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


def _table(rows, parameters):
    """Rows as a DataFrame, with parameters as given: pandas makes NaN of None, and float64 of its column."""
    import pandas as pd

    frame = pd.DataFrame(rows)
    for name in frame.columns.intersection([*parameters]):
        column = [row[name] for row in rows]
        if any(value is None for value in column):
            frame[name] = pd.Series(column, dtype=object)
    return frame


def _ranked(found, metric):
    """Settings, best first: those that reached a later rung before others, those that diverged behind all."""

    def place(one):
        diverged, badness = _badness(found[one][metric], metric)
        return diverged, -found[one]["rung"], badness, one

    return sorted(found, key=place)


def _badness(value, metric):
    return np.isnan(value), value if metric in ERRORS else -value


def _check_judged(model, epochs, k=10, ranking=False, **_):
    """Raise before anything is trained where `cross_validate` would after it."""
    check_model(model, "ALS(16)")
    integer("epochs", model._epochs_or_default(epochs), 0), integer("k", k, 1), flag("ranking", ranking)


def _pairs(splits, name="splits"):
    """The splits, one at a time: of Ratings five-fold. Messages call them `name`."""
    splits = splits.kfold() if hasattr(splits, "kfold") else splits
    if isinstance(splits, tuple) and len(splits) == 2 and all(hasattr(part, "kfold") for part in splits):
        splits = [splits]
    for split in [splits] if _are_data(splits) or not hasattr(splits, "__iter__") else splits:
        if not isinstance(split, tuple | list) or len(split) != 2:
            kind = type(splits).__name__ + ("" if split is splits else f" of {type(split).__name__}")
            raise TypeError(
                f"{name} must be Ratings, or a list of pairs (train, test) of Ratings, not {kind}; make Ratings with "
                "Ratings.from_pandas, Ratings.from_scipy, Ratings.from_arrays or gpumf.read_ratings"
            )
        yield split


def _are_data(splits):
    """Whether they are a data frame or a matrix, whose items are no splits."""
    return hasattr(splits, "columns") or hasattr(splits, "tocoo")


def _several(values):
    drawn = callable(getattr(values, "rvs", None))
    return drawn or (hasattr(values, "__len__") and not isinstance(values, str | dict) and len(values) > 0)
