"""Parameters compared by training on several splits: cross-validation, and search over a grid or random draws."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from gpumf._util.validation import MOST_SEED, flag, integer
from gpumf.models.estimator import Model

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TypeAlias

    import pandas as pd

    from gpumf.ratings import Ratings

    Splits: TypeAlias = Ratings | Iterable[tuple[Ratings, Ratings]]

_MINIMISED = "rmse", "mae"


def cross_validate(
    model: Model, splits: Splits, epochs: int = 20, *, k: int = 10, ranking: bool = False, **fitting: Any
) -> pd.DataFrame:
    """Train copies of a model, one a split, and judge each on what was held out.

    Parameters
    ----------
    model : of gpumf; it stays as it is
    splits : pairs (train, test) of Ratings: `ratings.kfold(5)`, [`ratings.split_by_time()`],
        [`ratings.leave_one_out()`], or one set of Ratings, split five-fold
    epochs : int
    k : int, length of the lists that are judged
    ranking : bool, judge lists too
    **fitting : of `fit`, such as callbacks; the test set is never its validation set

    Returns
    -------
    DataFrame, a row a split: split, rmse, mae, where asked for precision, recall, map, ndcg, and seconds of `fit`

    Raises
    ------
    TypeError : no model of gpumf, splits that are no pairs
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
    rows = []
    for number, (train, test) in enumerate(_pairs(splits)):
        fitted = type(model)(**model.get_params()).fit(train, epochs, **fitting)
        row = {"split": number} | fitted.score(test)
        if ranking:
            row |= fitted.rank(test, k)
        rows.append(row | {"seconds": fitted.times.wall})
    if not rows:
        raise ValueError("there are no splits to train on")
    return pd.DataFrame(rows)


def search(
    model: Model,
    parameters: dict[str, Sequence],
    splits: Splits,
    epochs: int = 20,
    *,
    metric: str = "rmse",
    draws: int | None = None,
    seed: int = 0,
    **judging: Any,
) -> pd.DataFrame:
    """Cross-validate a model with each combination of parameters, or with random ones.

    >>> import numpy as np
    >>> from gpumf import ALS, cross_validate, search
    >>> from gpumf.ratings import Ratings
    >>> k = np.arange(100)
    >>> ratings = Ratings(k // 5, k * 3 % 10, k % 5 + 1, n_users=20, n_items=10)
    >>> grid = {"factors": [1, 2], "regularization": [0.1, 1.0]}
    >>> found = search(ALS(device="cpu"), grid, ratings.kfold(2), epochs=2)
    >>> list(found), len(found)
    (['factors', 'regularization', 'rmse', 'mae', 'seconds', 'rmse_std'], 4)
    >>> best = ALS(**found.attrs["best"], device="cpu").fit(ratings, epochs=2)

    With Optuna the same, one trial at a time:

    >>> def objective(trial):
    ...     model = ALS(2, trial.suggest_float("regularization", 1e-3, 1, log=True), device="cpu")
    ...     return cross_validate(model, ratings.kfold(2), epochs=2).rmse.mean()
    >>> import optuna
    >>> study = optuna.create_study()
    >>> study.optimize(objective, n_trials=3)
    >>> list(study.best_params)
    ['regularization']

    Parameters
    ----------
    model : of gpumf, whose other parameters stay as they are
    parameters : dict name -> list of values; all combinations, or of `draws` the values are drawn
    splits, epochs, **judging : of `cross_validate`; the same splits for all
    metric : a column of `cross_validate`, to be small for 'rmse' and 'mae', else large
    draws : int, how many combinations to draw, each once; all by default
    seed : int, of the draws

    Returns
    -------
    DataFrame, a row a combination, best first: the parameters, the mean of each metric over the splits, and as
    `<metric>_std` the spread of the one asked for; `attrs["best"]` has the best parameters as a dict

    Raises
    ------
    ValueError : no parameters, a metric that is not judged; otherwise as of `cross_validate` and the constructor
    """
    import pandas as pd

    _check_judged(model, epochs, **judging)
    if not (isinstance(parameters, dict) and parameters and all(map(_several, parameters.values()))):
        raise ValueError("parameters must name values to try, as {'factors': [8, 16]}")
    grid = [dict(zip(parameters, values, strict=True)) for values in itertools.product(*parameters.values())]
    if draws is not None:
        chosen = np.random.default_rng(integer("seed", seed, 0, MOST_SEED)).permutation(len(grid))[
            : integer("draws", draws, 1)
        ]
        grid = [grid[k] for k in chosen]
    splits = list(_pairs(splits))
    candidates = [type(model)(**model.get_params() | tried) for tried in grid]  # wrong ones raise before training
    rows = []
    for tried, candidate in zip(grid, candidates, strict=True):
        found = cross_validate(candidate, splits, epochs, **judging).drop(columns="split")
        if metric not in found:
            raise ValueError(f"metric must be one of {list(found)}, not {metric!r}; ranking=True judges lists too")
        rows.append(tried | found.mean().to_dict() | {f"{metric}_std": found[metric].std(ddof=0)})
    order = np.argsort([row[metric] if metric in _MINIMISED else -row[metric] for row in rows], kind="stable")
    frame = pd.DataFrame([rows[place] for place in order])
    frame.attrs["best"] = grid[order[0]]
    return frame


def _check_judged(model, epochs, k=10, ranking=False, **_):
    """Raise before anything is trained where `cross_validate` would after it."""
    if not isinstance(model, Model):
        raise TypeError(f"model must be one of gpumf, as ALS(16), not {type(model).__name__}")
    integer("epochs", epochs, 0), integer("k", k, 1), flag("ranking", ranking)


def _pairs(splits):
    """The splits, one at a time: of Ratings five-fold."""
    splits = splits.kfold() if hasattr(splits, "kfold") else splits
    for split in splits if hasattr(splits, "__iter__") else [splits]:
        if not isinstance(split, tuple | list) or len(split) != 2:
            raise TypeError(f"splits must be pairs (train, test), or Ratings to split, not {type(split).__name__}")
        yield split


def _several(values):
    return hasattr(values, "__len__") and not isinstance(values, str) and len(values)
