"""ALS, SGD and the RBM by the error that they take away in a second.

Source: thesis, section 6.6, Figure 6.13. The RBM does not reach the threshold of section 6.5, so each model trains
until it converges, and what its test MAE has fallen since the initial model is divided by the seconds. The thesis
does not say when a model has converged; here it has at the first epoch after which less than 1 % of its gain is still
to come. The published versions have the published parameters; those of the fastest are tuned for the reduction an
epoch, on held-out training ratings.
"""

import numpy as np
import pandas as pd

from gpumf import ALS, RBM, SGD
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import trained, usable_devices
from gpumf_study.experiments.thesis import parameter_search, speedups

SHARE = 0.01  # of the whole gain, which is still to come when a model has converged

_SIZES = {
    ALS: {"factors": parameter_search.FACTORS, "biases": False, "init": "unit", "clip": False},
    SGD: {"factors": parameter_search.FACTORS, "biases": False, "init": "unit", "clip": False},
    RBM: {"hidden": parameter_search.RBM_HIDDEN, "batch": parameter_search.RBM_BATCH, **parameter_search.RBM_FIXED},
}
PUBLISHED = {
    ALS: ("thesis_shared", {"threads": speedups.ALS_THREADS}),
    SGD: ("hogwild", {"threads": speedups.SGD_THREADS}),
    RBM: ("thesis", RBM.THESIS),
}

PROFILES = {
    "quick": {"data": ["jester-1"], "part": [500, 100], "epochs": {"ALS": 8, "SGD": 10, "RBM": 4},
              "rates": {"SGD": [0.004, 0.016], "RBM": [0.2]}, "repeats": 1},
    "full": {"data": ["jester-1", "jester-synthetic"], "part": None, "epochs": {"ALS": 20, "SGD": 800, "RBM": 80},
             "rates": {"SGD": [0.001, 0.002, 0.004, 0.008, 0.016, 0.03], "RBM": [0.05, 0.1, 0.2, 0.4]}, "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": ["ml-100k-synthetic"], "part": [60, 50], "epochs": {"ALS": 2, "SGD": 2, "RBM": 2},
}  # fmt: skip


def run(data, part, epochs, rates, repeats):
    """Train the published and the fastest version of each model on 80 % of the ratings.

    variant is 'published' or 'fastest', x_setting where the parameters come from: 'published' or 'tuned'.
    """
    usable = usable_devices()

    def models(train, repeat):
        for model, (solver, options) in PUBLISHED.items():
            if model.solvers()[solver] in usable:
                arguments = speedups.arguments(train.name, model.__name__) if model is not RBM else {}
                yield _run("published", model, arguments | options | {"solver": solver}, epochs, repeat)
        for model in PUBLISHED:
            found = [_arguments(model, train.name, rate) for rate in rates.get(model.__name__, [None])]
            if len(found) > 1:
                inner, held_out = train.split(0.1, seed=repeat)
                found.sort(key=lambda given, model=model: -_gain(model, given, inner, held_out, epochs))
            yield _run("fastest", model, found[0], epochs, repeat)

    return sweep.sweep(models, data, 0, repeats, held_out=0.2, part=part, metrics=("rmse", "mae"))


def _arguments(model, data, rate):
    given = speedups.arguments(data, model.__name__) if model is not RBM else {}
    return given if rate is None else given | {"learning_rate": rate}


def _run(variant, model, given, epochs, repeat):
    fitted = model(seed=repeat, **_SIZES[model] | given)
    columns = {"variant": variant, "x_setting": "published" if variant == "published" else "tuned"}
    columns |= {f"x_{key}": given[key] for key in ("regularization", "learning_rate") if key in given}
    columns |= {"epochs": epochs[model.__name__], "stop": parameter_search.OverfittingStop()}
    return columns, fitted


def _gain(model, given, inner, held_out, epochs):
    """The reduction of the MAE on held-out ratings an epoch, until convergence."""
    fitted = model(seed=0, **_SIZES[model] | given)
    stop = parameter_search.OverfittingStop()
    history = trained(fitted, inner, epochs[model.__name__], held_out, stop=stop).history
    there = _converged(history.mae, history.epoch)
    return (history.mae.iloc[0] - there.mae) / there.epoch


def _converged(mae, epoch):
    """The first epoch after which less than SHARE of the whole gain is to come: its epoch and MAE."""
    after = mae[epoch > 0]
    level = after.min() + SHARE * abs(mae.iloc[0] - after.min())
    first = after.index[after <= level][0]
    return pd.Series({"epoch": epoch[first], "mae": mae[first]}, name=first)


def gains(frame):
    """Return until convergence, for each run: epoch, seconds, value (MAE), x_reduction (MAE a second), x_certain.

    It is certain where the run went on for as many epochs again.
    """
    course = sweep.course(sweep.converged(frame), "mae")
    keys = ["data", "variant", "x_setting", "model", "solver", "repeat"]
    rows = []
    for key, run in course.sort_values("epoch", kind="stable").groupby(keys, sort=False):
        there = _converged(run.value, run.epoch)
        seconds = run.seconds[there.name]
        what = dict(zip(keys, key, strict=True)) | {"epoch": there.epoch, "seconds": seconds, "value": there.mae}
        what |= {column: run[column].iloc[0] for column in ("x_regularization", "x_learning_rate") if column in run}
        what |= {"x_reduction": (run.value.iloc[0] - there.mae) / seconds, "x_initial": run.value.iloc[0]}
        rows.append(what | {"x_certain": run.epoch.iloc[-1] >= 2 * there.epoch})
    return pd.DataFrame(rows)


def summary(frame):
    """Return medians by data set and version: epoch, seconds, value, x_reduction, whether all runs are certain."""
    groups = gains(frame).groupby(["data", "variant", "x_setting", "model", "solver"], sort=False)
    table = groups[["x_initial", "value", "epoch", "seconds", "x_reduction"]].median()
    return table.assign(x_certain=groups.x_certain.all()).reset_index()


def figure(frame):
    """Draw what each model takes off the test MAE in a second until it converges, an axis a data set.

    Hollow: the run may have ended before it had converged.
    """
    table = summary(frame)
    table["label"] = table.model + ", " + table.variant
    names = table.data.unique()
    figure, (axes,) = style.panels(columns=len(names), height=3.4, sharey=True)
    order = list(table.label.unique())[::-1]
    for axis, name in zip(axes, names, strict=True):
        rows = table[table.data == name].set_index("label").reindex(order)
        colours = [style.MODELS[label[:3]][0] for label in order]
        place = np.arange(len(rows))
        style.marks(axis, rows.x_reduction, place, colours, sure=rows.x_certain.eq(True))
        for value, at in zip(rows.x_reduction, place, strict=True):
            if value > 0:
                beside = {"textcoords": "offset points", "size": style.SMALL}
                axis.annotate(style.significant(value), (value, at), (7, 4), **beside)
        axis.set_yticks(place, order)
        axis.set(xlabel="reduction in MAE a second", title=style.data_name(name))
        axis.set_xscale("log")
        axis.margins(x=0.15)
    return figure


CLAIMS = [
    Claim(f"thesis-fig-6.13-{model.lower()}{suffix}", "thesis", "Figure 6.13",
          f"Reduction of the test MAE a second of {model} over the RBM, {words}, Jester part 1.",
          metric="ratio",
          select={"column": "x_reduction", "where": {"x_setting": setting, "data": "jester-1"},
                  "over": {"model": model}, "under": {"model": "RBM"}}, criterion=criterion, table=gains)
    for suffix, setting, words, criterion in (
        ("", "published", "published versions and parameters", above(1)),
        ("-fastest", "tuned", "fastest versions, learning rates tuned for the reduction an epoch", None),
    ) for model in ("ALS", "SGD")
]  # fmt: skip
