"""The error of SGD with biases on MovieLens 100K: five folds, parameters chosen without looking at the test folds.

Every fold chooses its own parameters on a tenth of its training ratings that is held out, then trains on all of them
for as many epochs as were best there, and is judged on the fold's test ratings once. The grid is wide: what is chosen
at its edge is told. Other programs are beside it in `peers_ml100k`, with a smaller search that they can afford too.
"""

import pandas as pd
from tqdm import tqdm

from gpumf import SGD
from gpumf.solvers import schedules
from gpumf_study import sweep
from gpumf_study.claims import Claim
from gpumf_study.experiments import load_ratings

PROFILES = {
    "quick": {"data": "ml-100k", "kernel": "ordered", "factors": [16], "regularization": [0.06, 0.1],
              "bias_regularization": [0.02], "learning_rate": [0.02], "beta": [0.05], "init_std": [0.1], "epochs": 40,
              "seeds": 1},
    "full": {"data": "ml-100k", "kernel": "ordered", "factors": [128, 256],
             "regularization": [0.04, 0.05, 0.06, 0.07, 0.08], "bias_regularization": [0.02, 0.05],
             "learning_rate": [0.01, 0.02], "beta": [0.01], "init_std": [0.001, 0.003, 0.01, 0.03], "epochs": 150,
             "seeds": 3},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"data": "ml-100k-synthetic", "regularization": [0.1], "epochs": 5}
METRICS = ["rmse", "mae"]
_GRID = "factors", "regularization", "bias_regularization", "learning_rate", "beta", "init_std"


def run(data, kernel, factors, regularization, bias_regularization, learning_rate, beta, init_std, epochs, seeds):
    """Choose and judge, fold by fold.

    kernel : of SGD; the fastest of this machine by default
    factors, regularization, bias_regularization, learning_rate, beta (of `schedules.Power`), init_std : lists, all of
        whose combinations are tried
    seeds : int, of the initial factors when the chosen parameters are judged

    Errors are those after `epoch`, which was best on the held-out ratings: of x_step 'choice' on these, of 'test'
    on the fold's test ratings.
    """
    ratings = load_ratings(data)
    lists = factors, regularization, bias_regularization, learning_rate, beta, init_std
    grid = sweep.combinations(dict(zip(_GRID, lists, strict=True)))
    rows = []
    for fold, (train, test) in enumerate(tqdm(ratings.kfold(5), total=5, desc="sgd_ml100k", leave=False)):
        inner, held_out = train.split(0.1, seed=fold)
        choices = []
        for parameters in grid:
            fitted = _model(kernel, 0, **parameters).fit(inner, epochs, held_out)
            best = fitted.history.loc[fitted.history.rmse.idxmin()]
            choices.append((best.rmse, int(best.epoch), parameters))
            rows.append(_row(fold, "choice", fitted, parameters, int(best.epoch), best))
        _, n_epochs, parameters = min(choices, key=lambda choice: choice[0])
        for seed in range(seeds):
            fitted = _model(kernel, seed, **parameters).fit(train, n_epochs, test)
            rows.append(_row(fold, "test", fitted, parameters, n_epochs, fitted.history.iloc[-1]))
    frame = pd.DataFrame(rows).assign(data=ratings.name, task="fit", model="SGD")
    return frame.melt([name for name in frame if name not in METRICS], METRICS, "metric", "value")


def by_seed(frame):
    """Return by metric and repeat the mean test error over the folds."""
    tests = frame[frame.x_step == "test"]
    return tests.groupby(["metric", "repeat"], as_index=False).value.mean()


def _model(kernel, seed, factors, beta, **parameters):
    return SGD(
        factors, solver=kernel, seed=seed, biases=True, clip=False, schedule=schedules.Power(beta), **parameters
    )


def _row(fold, step, fitted, parameters, epochs, errors):
    row = {"x_fold": fold, "x_step": step, "repeat": fitted.seed, "solver": fitted.solver, "device": fitted.device}
    row |= {name if name == "factors" else f"x_{name}": value for name, value in parameters.items()}
    return row | {"epoch": epochs, "rmse": errors.rmse, "mae": errors.mae}


CLAIMS = [
    Claim(f"sgd-ml100k-{metric}", "gpumf", None,
          f"Test {metric.upper()} of SGD with biases, mean of five folds, parameters chosen on held-out ratings.",
          metric="median", select={"column": "value", "where": {"metric": metric}}, table=by_seed, device="cpu")
    for metric in METRICS
]  # fmt: skip
