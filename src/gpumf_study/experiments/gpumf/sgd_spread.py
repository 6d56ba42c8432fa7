"""How far the races of a scheme take its error: MovieLens 100K, five folds, many seeds, against one thread.

A seed is that of the initial factors and of every order. Schemes whose updates race differ from run to run too, which
the spread contains. All have the same rates, but `cu2rec`: a rating of each user a step is another weighting of the
ratings, which asks for rates of its own.
"""

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD
from gpumf.solvers import schedules
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, below
from gpumf_study.experiments import load_ratings
from gpumf_study.experiments.gpumf.sgd_schemes import SCHEMES, columns_of, labels, reference_of, usable

BOUND = 0.005  # in RMSE above the reference, of what counts as no worse
RATES = {"regularization": 0.06, "learning_rate": 0.02, "schedule": schedules.Power(0.1)}
RATES_OF_CU2REC = {
    "regularization": 0.12, "bias_regularization": 0.02, "learning_rate": 0.05, "schedule": schedules.Power(0.02),
}  # fmt: skip

# One thread, and all schemes but those without conflicts, which follow a replay of their order (tests/solvers/sgd).
RACING = ["sequential"] + [
    label
    for label, (kernel, options) in SCHEMES.items()
    if kernel not in ("sequential", "kato_hosino", "gpusgd", "newgpusgd") and options.get("update") != "blocked"
]

_COMMON = {"data": "ml-100k", "factors": 16, "epochs": 40, "epochs_of_cu2rec": 100}
PROFILES = {
    "quick": {"schemes": ["sequential", "parallel", "ordered_parallel"], "folds": 2, "seeds": 2, **_COMMON},
    "full": {"schemes": RACING, "folds": 5, "seeds": 10, **_COMMON},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": "ml-100k-synthetic", "folds": 1, "epochs": 2}


def run(data, schemes, factors, folds, seeds, epochs, epochs_of_cu2rec):
    """Train every scheme that this machine has, with biases, from every seed on every fold.

    schemes : labels of `sgd_schemes.SCHEMES`; all by default
    folds : int, of five, that are used

    Errors are those of the fold's test ratings after the last epoch.
    """
    chosen = usable(schemes)
    ratings = load_ratings(data)
    rows = []
    for fold, (train, test) in enumerate(ratings.kfold(5)):
        if fold == folds:
            break
        for label, (kernel, options) in tqdm(chosen.items(), desc=f"sgd_spread, fold {fold}", leave=False):
            rates, n = (RATES_OF_CU2REC, epochs_of_cu2rec) if kernel == "cu2rec" else (RATES, epochs)
            for seed in range(seeds):
                model = SGD(factors, solver=kernel, seed=seed, biases=True, clip=False, **rates, **options)
                fitted = model.fit(train, n)
                what = columns_of(label) | {"device": fitted.device, "repeat": seed, "x_fold": fold}
                rows += [what | {"metric": name, "value": error} for name, error in fitted.score(test).items()]
    return pd.DataFrame(rows).assign(data=ratings.name, task="fit", model="SGD", factors=factors)


def by_seed(frame):
    """Return by scheme and repeat the mean RMSE over the folds, and its gap to that of the reference.

    The reference is `sgd_schemes.reference_of` the scheme, from the same seed.
    """
    rmse = frame[frame.metric == "rmse"]
    means = rmse.assign(scheme=labels(rmse)).groupby(["scheme", "repeat"], sort=False).value.mean()
    wanted = [(reference_of(scheme), repeat) for scheme, repeat in means.index]
    return means.rename("rmse").reset_index().assign(gap=means.to_numpy() - means.reindex(wanted).to_numpy())


def summary(frame):
    """Return by scheme, over the seeds: rmse (mean), spread (standard deviation), gap (median), largest_gap."""
    seeds = by_seed(frame).groupby("scheme", sort=False)
    return seeds.agg(
        rmse=("rmse", "mean"), spread=("rmse", "std"), gap=("gap", "median"), largest_gap=("gap", "max")
    ).reset_index()


def figure(frame, bound=BOUND):
    """Draw how far the RMSE of every scheme is above that of its reference from the same seed, a point a seed.

    bound : a distance that is marked
    """
    gaps = by_seed(frame)
    order = list(gaps.scheme.unique())[::-1]
    figure, ((axis,),) = style.panels(height=1.2 + 0.24 * len(order))
    axis.axvspan(-bound, bound, color=style.COLOURS["sky"], alpha=0.15, label=f"within {bound:g} of the reference")
    axis.plot(gaps.gap, gaps.scheme.map(order.index), "o", color=style.COLOURS["blue"], alpha=0.4, label="a seed")
    middle = gaps.groupby("scheme").gap.median()
    axis.plot(middle, middle.index.map(order.index), "|", color=style.COLOURS["black"], markersize=14, label="median")
    axis.set_yticks(np.arange(len(order)), [style.LOOKS["SGD", scheme].name for scheme in order])
    axis.set(xlabel="test RMSE above that of the reference, mean of the folds")
    style.legend(figure, axis, 3)
    return figure


CLAIMS = [
    Claim(f"races-rmse-{scheme}", "gpumf", None,
          f"Test RMSE of {style.LOOKS['SGD', scheme].name} above that of its reference, which loses no update, from "
          "the same seed, MovieLens 100K, 16 factors.", metric="median",
          select={"column": "gap", "where": {"scheme": scheme}}, criterion=below(BOUND), table=by_seed)
    for scheme in ("hogwild", "cumf_sgd", "fast")
]  # fmt: skip
