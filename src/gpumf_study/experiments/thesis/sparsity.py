"""What fewer ratings do to the best lambda and to the error that it reaches.

After the thesis, section 6.3, Figures 6.5 and 6.6: Jester, whose training set is thinned to less and less of the
rating matrix, the test set always the same; 16 factors, new training sets in every repeat. The thesis has ALS, and
its ALS in shared memory runs here too; SGD and the Boltzmann machine, of which lambda is the weight decay, are beyond
it. Of the ratings that are held out one half chooses lambda and the epochs; with these the model is trained again and
judged on the other half once.
"""

from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, RBM, SGD, backends
from gpumf._util.counter_rng import random_subset
from gpumf_study import figure_style as style
from gpumf_study.experiments import _published, identity, load_ratings, trained
from gpumf_study.experiments.thesis import parameter_search
from gpumf_study.experiments.tuning import PARAMETERS, chosen
from gpumf_study.findings import Finding, Holds

FACTORS = 16

PROFILES = {
    "quick": {
        "data": "jester-1",
        "users": 500,
        "densities": [0.45, 0.1, 0.02],
        "regularization": {"ALS": [0.05, 0.1, 0.2, 0.4], "SGD": [0.03, 0.1, 0.3], "RBM": [0.0]},
        "epochs": {"ALS": 6, "SGD": 10, "RBM": 3},
        "repeats": {"ALS": 2, "SGD": 1, "RBM": 1},
        "parameters": PARAMETERS,
    },
    "full": {
        "data": "jester-1",
        "users": None,
        "densities": [0.45, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01],
        "regularization": {
            "ALS": [0.03, 0.05, 0.07, 0.09, 0.12, 0.16, 0.21, 0.28, 0.37, 0.5, 0.65, 0.85],
            "SGD": [0.03, 0.06, 0.09, 0.13, 0.19, 0.28, 0.4],
            "RBM": [0.0, 1e-3, 1e-2],
        },
        "epochs": {"ALS": 50, "SGD": 800, "RBM": 60},
        "repeats": {"ALS": 10, "SGD": 3, "RBM": 3},
        "parameters": PARAMETERS,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": "ml-100k-synthetic",
    "users": 60,
    "densities": [0.02],
    "regularization": {"ALS": [0.1], "SGD": [0.1], "RBM": [0.0]},
    "epochs": {"ALS": 2, "SGD": 2, "RBM": 2},
    "repeats": {"ALS": 1, "SGD": 1, "RBM": 1},
}


def run(data, users, densities, regularization, epochs, repeats, parameters):
    """Train with every lambda on every density.

    Parameters
    ----------
    data : name of a data set, of whose ratings 80 % are for training, and a tenth each to choose and to test
    users : int, the first ones of the set; all by default
    densities : list of float, of the training set: the filled fraction of the rating matrix
    regularization : dict, model -> list of float
    epochs : dict, model -> int, at the most
    repeats : dict, model -> int, training sets; set k is split off, and thinned, with seed k
    parameters : dict, data set -> model -> arguments of the model, see `tuning`, whose lambda is replaced

    Returns
    -------
    DataFrame with a row a run: data, model, kernel, device, step ('choice' or 'test'), density, nnz (of the training
    set), repeat, regularization, epochs (made), best_epoch, rmse, mae (of 'choice' the least on the ratings that
    choose, after the best epoch; of 'test', with what was chosen, on the test set)
    """
    ratings = load_ratings(data)
    identities = [identity(ratings)]
    if users is not None:
        ratings = parameter_search.first_users(ratings, users)
    found = {name: chosen(parameters, data, name) for name in regularization}
    rows = []
    for repeat in tqdm(range(max(repeats.values())), desc="sparsity", leave=False):
        rest, test = ratings.split(0.1, seed=repeat)
        train, validation = rest.split(1 / 9, seed=repeat)
        for density in densities:
            part = thinned(train, density, seed=repeat)
            for name, grid in regularization.items():
                tried = []
                for value in grid if repeat < repeats[name] else []:
                    model = _model(name, value, found[name], repeat)
                    stop = parameter_search.OverfittingStop()
                    history = trained(model, part, epochs[name], validation, stop=stop).history
                    best = parameter_search.best_epoch(history)
                    what = {"data": ratings.name, "model": name, "kernel": model.solver, "device": model.device}
                    what |= {"step": "choice", "density": density, "nnz": part.nnz, "repeat": repeat}
                    what |= {"regularization": value, "epochs": history.epoch.iloc[-1], "best_epoch": best.epoch}
                    tried.append(what | {"rmse": best.rmse, "mae": best.mae})
                if tried:
                    best = min(tried, key=lambda row: np.nan_to_num(row["mae"], nan=np.inf))
                    model = _model(name, best["regularization"], found[name], repeat)
                    errors = model.fit(part, int(best["best_epoch"])).score(test)
                    rows += [*tried, best | {"step": "test"} | errors]
    frame = pd.DataFrame(rows)
    frame.attrs["datasets"] = identities
    return frame


def thinned(ratings, density, seed=0):
    """A random part of the ratings that fills this share of the matrix; all where they fill less."""
    n = min(round(density * ratings.n_users * ratings.n_items), ratings.nnz)
    return ratings.select(random_subset(ratings.nnz, n, seed)) if n < ratings.nnz else ratings


def _model(name, regularization, parameters, seed):
    if name == "ALS":
        return ALS(FACTORS, regularization, solver=parameter_search.als_kernel(), seed=seed, biases=False, clip=False)
    if name == "RBM":
        units = {"batch": parameter_search.RBM_BATCH, **parameter_search.RBM_FIXED, "weight_decay": regularization}
        return RBM(parameter_search.RBM_HIDDEN, seed=seed, **units, **parameters)
    kernel, threads = ("hogwild", parameter_search.SGD_THREADS) if backends.available() else ("parallel", None)
    return SGD(
        FACTORS,
        solver=kernel,
        threads=threads,
        seed=seed,
        biases=False,
        clip=False,
        **parameters | {"regularization": regularization},
    )


def summary(frame):
    """The best lambda and its test error at each density, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a model and density: data, model, density, regularization and mae (means over the repeats of
    each one's best), regularization_deviation, mae_deviation (their standard deviations; missing with one repeat),
    share_of_epochs (after which the error that chooses was least, of those made; the mean), repeats
    """
    best = frame[frame.reindex(columns=["step"]).step == "test"]
    groups = best.assign(share=best.best_epoch / best.epochs).groupby(["data", "model", "density"])
    values = groups[["regularization", "mae"]]
    table = values.mean().join(values.std().add_suffix("_deviation"))
    return table.assign(share_of_epochs=groups.share.mean(), repeats=groups.size()).reset_index()


def steepness(frame, model="ALS"):
    """How the best lambda and the error change from the fullest to the sparsest matrix.

    Returns
    -------
    dict: regularization, mae (sparsest over fullest), monotonous (whether the error never falls with the density by
    more than its deviation)
    """
    curve = summary(frame)
    curve = curve[curve.model == model].sort_values("density", ascending=False)
    ends = curve[["regularization", "mae"]].iloc[[0, -1]]
    slack = curve.mae_deviation.fillna(0).max()
    return {
        **(ends.iloc[1] / ends.iloc[0]).to_dict(),
        "monotonous": bool((np.diff(curve.mae) >= -slack).all()),
    }


def figure(frame):
    """The best lambda (left) and its test MAE (right) against the density of the training set.

    The machine's weight decay is in other units than lambda and is left out.
    """
    curves = summary(frame)
    figure, (axes,) = style.panels(columns=2, height=3.8)
    for axis, column in zip(axes, ("regularization", "mae"), strict=True):
        for model, (colour, line) in style.MODELS.items():
            curve = curves[curves.model == model].sort_values("density")
            if len(curve) and (model, column) != ("RBM", "regularization"):
                what = {"color": style.COLOURS[colour], "label": model, "markersize": 4, "capsize": 2}
                axis.errorbar(100 * curve.density, curve[column], curve[f"{column}_deviation"], fmt=line, **what)
        axis.set(xlabel="density of the training set (%)")
        style.log_scale(axis.xaxis)
    axes[0].set(ylabel="best λ", ylim=(0, None))
    axes[1].set(ylabel="test MAE")
    style.legend(figure, axes[1], 3)
    return figure


def _growth(frame, column):
    """From the fullest to the sparsest training set, of ALS."""
    curve = summary(frame)
    curve = curve[curve.model == "ALS"].sort_values("density", ascending=False)
    if curve.empty:
        return np.nan, np.nan, "x"
    fullest, sparsest = curve.iloc[0], curve.iloc[-1]
    value = sparsest[column] / fullest[column]
    shares = [end[f"{column}_deviation"] / end[column] for end in (fullest, sparsest)]
    return value, value * np.hypot(*shares), "x"


def _deviation(frame, column):
    """The largest standard deviation of ALS along a curve; its spread is the standard error of a deviation."""
    curve = summary(frame)
    curve = curve[curve.model == "ALS"].dropna(subset=f"{column}_deviation")
    if curve.empty:
        return np.nan, np.nan, "λ"
    largest = curve.loc[curve[f"{column}_deviation"].idxmax()]
    value = largest[f"{column}_deviation"]
    return value, value / np.sqrt(2 * (largest.repeats - 1)), "λ" if column == "regularization" else "MAE"


def _published_deviation(figure):
    return _published.value(f"Figure {figure}", "largest standard deviation", "jester")


_CURVES = (
    ("6.5", "regularization", "need a larger best regularization of ALS"),
    ("6.6", "mae", "give ALS a larger test MAE"),
)
FINDINGS = [
    Finding(
        f"thesis-fig-{figure}",
        "thesis",
        f"Figure {figure}",
        f"Sparser ratings {statement}: from the fullest to the sparsest training set of Jester, part 1.",
        partial(_growth, column=column),
        Holds(above=1),
    )
    for figure, column, statement in _CURVES
] + [
    Finding(
        f"thesis-fig-{figure}-deviation",
        "thesis",
        f"Figure {figure}",
        f"Over new training sets the largest standard deviation of what Figure {figure} shows is no larger than the "
        f"published {_published_deviation(figure):g}.",
        partial(_deviation, column=column),
        Holds(below=_published_deviation(figure)),
    )
    for figure, column, _ in _CURVES
]
