"""What fewer ratings do to the best lambda and to the error that it reaches.

After the thesis, section 6.3, Figures 6.5 and 6.6: Jester, whose training set is thinned to less and less of the
rating matrix, the test set always the same; 16 factors, new training sets in every repeat. The thesis has ALS, and
its ALS in shared memory runs here too; SGD and the Boltzmann machine, of which lambda is the weight decay, are beyond
it. Of the ratings that are held out one half chooses lambda and the epochs; with these the model is trained again and
judged on the other half once.
"""

import numpy as np
from tqdm import tqdm

from gpumf import ALS, RBM, SGD, backends
from gpumf._util.counter_rng import random_subset
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import load_ratings, trained
from gpumf_study.experiments.thesis import parameter_search
from gpumf_study.experiments.tuning import PARAMETERS, chosen

FACTORS = 16

PROFILES = {
    "quick": {"data": "jester-1", "users": 500, "densities": [0.45, 0.1, 0.02],
              "regularization": {"ALS": [0.05, 0.1, 0.2, 0.4], "SGD": [0.03, 0.1, 0.3], "RBM": [0.0]},
              "epochs": {"ALS": 6, "SGD": 10, "RBM": 3}, "repeats": {"ALS": 2, "SGD": 1, "RBM": 1},
              "parameters": PARAMETERS},
    "full": {"data": "jester-1", "users": None, "densities": [0.45, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01],
             "regularization": {
                 "ALS": [0.03, 0.05, 0.07, 0.09, 0.12, 0.16, 0.21, 0.28, 0.37, 0.5, 0.65, 0.85],
                 "SGD": [0.03, 0.06, 0.09, 0.13, 0.19, 0.28, 0.4], "RBM": [0.0, 1e-3, 1e-2],
             }, "epochs": {"ALS": 50, "SGD": 800, "RBM": 60}, "repeats": {"ALS": 10, "SGD": 3, "RBM": 3},
             "parameters": PARAMETERS},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": "ml-100k-synthetic", "users": 60, "densities": [0.02],
    "regularization": {"ALS": [0.1], "SGD": [0.1], "RBM": [0.0]}, "epochs": {"ALS": 2, "SGD": 2, "RBM": 2},
    "repeats": {"ALS": 1, "SGD": 1, "RBM": 1},
}  # fmt: skip


def run(data, users, densities, regularization, epochs, repeats, parameters):
    """Train with every lambda on every density.

    data : name of a data set, of whose ratings 80 % are for training, and a tenth each to choose and to test
    users : int, the first ones of the set; all by default
    densities : list of float, of the training set: the filled fraction of the rating matrix
    repeats : dict, model -> int, training sets; set k is split off, and thinned, with seed k
    parameters : dict, data set -> model -> arguments of the model, see `tuning`, whose lambda is replaced

    Return a DataFrame: rmse and mae of each run after `epoch`, the best one; x_step ('choice' on the ratings that
    choose, 'test' with what was chosen, on the test set), x_density, x_nnz (of the training set), x_regularization,
    x_epochs (made)
    """
    ratings = load_ratings(data)
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
                    what = {"data": ratings.name, "task": "fit", "model": name, "solver": model.solver}
                    what |= {"device": model.device, "x_step": "choice", "x_density": density, "x_nnz": part.nnz}
                    what |= {"repeat": repeat, "x_regularization": value, "x_epochs": history.epoch.iloc[-1]}
                    tried.append(what | {"epoch": best.epoch, "rmse": best.rmse, "mae": best.mae})
                if tried:
                    best = min(tried, key=lambda row: np.nan_to_num(row["mae"], nan=np.inf))
                    model = _model(name, best["x_regularization"], found[name], repeat)
                    errors = model.fit(part, int(best["epoch"])).score(test)
                    rows += [*tried, best | {"x_step": "test"} | errors]
    return parameter_search.errors_of(rows)


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
    return SGD(FACTORS, solver=kernel, threads=threads, seed=seed, biases=False, clip=False,
               **parameters | {"regularization": regularization})  # fmt: skip


def summary(frame):
    """Return by data, model and density the best lambda and its test MAE: means and standard deviations."""
    best = frame[(frame.x_step == "test") & (frame.metric == "mae")].rename(
        columns={"x_density": "density", "x_regularization": "regularization", "value": "mae"}
    )
    groups = best.groupby(["data", "model", "density"])[["regularization", "mae"]]
    return groups.mean().join(groups.std().add_suffix("_deviation")).reset_index()


def figure(frame):
    """The best lambda (left) and its test MAE (right) against the density of the training set.

    The RBM's weight decay is in other units than lambda and is left out.
    """
    curves = summary(frame)
    figure, (axes,) = style.panels(columns=2, height=3.8)
    for axis, column in zip(axes, ("regularization", "mae"), strict=True):
        for model, (colour, line) in style.MODELS.items():
            curve = curves[curves.model == model].sort_values("density")
            if len(curve) and (model, column) != ("RBM", "regularization"):
                what = {"color": style.COLOURS[colour], "label": model, "markersize": 4, "capsize": 2}
                axis.errorbar(100 * curve.density, curve[column], curve[f"{column}_deviation"], fmt=line, **what)
                for end, up in ((0, 5), (-1, 0)) if model == "ALS" else ():
                    at = 100 * curve.density.iloc[end], curve[column].iloc[end]
                    beside = {"textcoords": "offset points", "va": "bottom" if up else "center"}
                    axis.annotate(f"{at[1]:.2f}", at, (6, up), color=style.COLOURS[colour], **beside)
        axis.set(xlabel="density of the training set (%)")
        style.log_scale(axis.xaxis)
        axis.set_xlim(right=200 * curves.density.max())  # room for the last number
    axes[0].set(ylabel="best λ", ylim=(0, None))
    axes[1].set(ylabel="test MAE")
    style.legend(figure, axes[1], 3)
    return figure


FULLEST, SPARSEST = 0.45, 0.01
CLAIMS = [
    Claim(f"thesis-fig-{figure}", "thesis", f"Figure {figure}",
          f"{what} of ALS with {SPARSEST:.0%} of the rating matrix over {FULLEST:.0%}, Jester part 1.",
          metric="ratio",
          select={"column": column, "where": {"model": "ALS", "x_step": "test", "metric": "mae"},
                  "over": {"x_density": SPARSEST}, "under": {"x_density": FULLEST}}, criterion=above(1))
    for figure, column, what in (("6.5", "x_regularization", "Best regularization"), ("6.6", "value", "Test MAE"))
]  # fmt: skip
