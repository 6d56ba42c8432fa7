"""The error of SGD with biases on MovieLens 100K: five folds, parameters chosen without looking at the test folds.

Every fold chooses its own parameters on a tenth of its training ratings that is held out, then trains on all of them
for as many epochs as were best there, and is judged on the fold's test ratings once. The grid is wide: what is chosen
at its edge is told. Other programs are beside it in `peers_ml100k`, with a smaller search that they can afford too.
"""

from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator
from tqdm import tqdm

from gpumf import SGD
from gpumf.solvers import schedules
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings
from gpumf_study.findings import Finding, Open

PROFILES = {
    "quick": {
        "data": "ml-100k",
        "kernel": "ordered",
        "factors": [16],
        "regularization": [0.06, 0.1],
        "bias_regularization": [0.02],
        "learning_rate": [0.02],
        "beta": [0.05],
        "init_std": [0.1],
        "epochs": 40,
        "seeds": 1,
    },
    # What is learned does not depend on the machine: one core has the time.
    "full": {
        "data": "ml-100k",
        "kernel": "ordered",
        "factors": [128, 256],
        "regularization": [0.04, 0.05, 0.06, 0.07, 0.08],
        "bias_regularization": [0.02, 0.05],
        "learning_rate": [0.01, 0.02],
        "beta": [0.01],
        "init_std": [0.001, 0.003, 0.01, 0.03],
        "epochs": 150,
        "seeds": 3,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": "ml-100k-synthetic", "regularization": [0.1], "epochs": 5}
_GRID = "factors", "regularization", "bias_regularization", "learning_rate", "beta", "init_std"


def run(data, kernel, factors, regularization, bias_regularization, learning_rate, beta, init_std, epochs, seeds):
    """Choose and judge, fold by fold.

    Parameters
    ----------
    data : name of a data set
    kernel : of SGD; the fastest of this machine by default
    factors, regularization, bias_regularization, learning_rate, beta (of `schedules.Power`), init_std : lists, all of
        whose combinations are tried
    epochs : int, the most
    seeds : int, of the initial factors when the chosen parameters are judged

    Returns
    -------
    DataFrame with a row a training: fold, step ('choice' or 'test'), seed, kernel, device, the parameters, epochs
    (that were best on the held-out ratings), rmse, mae (after these epochs, on the held-out ratings for 'choice', on
    the fold's test ratings for 'test')
    """
    ratings = load_ratings(data)
    grid = [
        dict(zip(_GRID, values, strict=True))
        for values in product(factors, regularization, bias_regularization, learning_rate, beta, init_std)
    ]
    rows = []
    for fold, (train, test) in enumerate(tqdm(ratings.kfold(5), total=5, desc="sgd_ml100k", leave=False)):
        inner, held_out = train.split(0.1, seed=fold)
        choices = []
        for parameters in grid:
            fitted = _model(kernel, 0, **parameters).fit(inner, epochs, held_out)
            best = fitted.history.loc[fitted.history.rmse.idxmin()]
            choices.append((best.rmse, int(best.epoch), parameters))
            rows.append(_row(fold, "choice", 0, fitted, parameters, int(best.epoch), best))
        _, n_epochs, parameters = min(choices, key=lambda choice: choice[0])
        for seed in range(seeds):
            fitted = _model(kernel, seed, **parameters).fit(train, n_epochs, test)
            rows.append(_row(fold, "test", seed, fitted, parameters, n_epochs, fitted.history.iloc[-1]))
    frame = pd.DataFrame(rows)
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def summary(frame):
    """RMSE and MAE over the folds, from the frame of `run`: mean over folds and seeds, and the spread over the seeds.

    Returns
    -------
    DataFrame with a row a measure: measure ('rmse', 'mae'), mean, spread (standard deviation over the seeds of the
    mean over the folds; NaN with one seed)
    """
    tests = frame[frame.step == "test"].groupby("seed")[["rmse", "mae"]].mean()
    return pd.DataFrame(
        {"measure": ["rmse", "mae"], "mean": tests.mean().to_numpy(), "spread": tests.std().to_numpy()}
    )


def at_edges(frame, names=_GRID):
    """Of how many folds the value chosen is the least or the most of its grid, where that has more than two.

    Parameters
    ----------
    frame : of `run`
    names : of the parameters that are chosen

    Returns
    -------
    Series with the index parameter
    """
    tests = frame[(frame.step == "test") & (frame.seed == 0)]
    grids = {name: np.unique(frame[name][frame.step == "choice"]) for name in names}
    return pd.Series(
        {name: int(tests[name].isin(grid[[0, -1]]).sum()) for name, grid in grids.items() if len(grid) > 2}, dtype=int
    )


def _model(kernel, seed, factors, beta, **parameters):
    return SGD(
        factors, solver=kernel, seed=seed, biases=True, clip=False, schedule=schedules.Power(beta), **parameters
    )


def _row(fold, step, seed, fitted, parameters, epochs, errors):
    measured = {"epochs": epochs, "rmse": errors.rmse, "mae": errors.mae}
    return (
        {"fold": fold, "step": step, "seed": seed, "kernel": fitted.solver, "device": fitted.device}
        | parameters
        | measured
    )


def figure(frame):
    """Test RMSE (left) and MAE (right) of each fold, a dot a seed."""
    tests = frame[frame.step == "test"]
    figure, (axes,) = style.panels(columns=2, height=3.0, sharey=True)
    for axis, measure in zip(axes, ("rmse", "mae"), strict=True):
        axis.plot(tests[measure], tests.fold, "o", color=style.COLOURS["blue"], alpha=0.5, label="a seed")
        axis.set(xlabel=f"test {measure.upper()}", ylabel="fold")
        axis.xaxis.set_major_locator(MaxNLocator(5))
    style.legend(figure, axes[0], 1)
    return figure


def _mean(frame, measure):
    row = summary(frame).set_index("measure").loc[measure]
    return row["mean"], row.spread, "rating"


FINDINGS = [
    Finding(
        f"sgd-ml100k-{measure}",
        "gpumf",
        None,
        f"SGD with biases | MovieLens 100K, five folds | factors by search | test {measure.upper()}",
        partial(_mean, measure=measure),
        Open(),
        devices=("cpu",),
    )
    for measure in ("rmse", "mae")
]
