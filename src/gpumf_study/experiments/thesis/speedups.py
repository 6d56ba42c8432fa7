"""Speed-ups of ALS and SGD on a GPU over CPUs, in training time and end to end, to the same test MAE.

Source: thesis, section 6.5, Table 6.3 and Figures 6.11 and 6.12. 16 factors, no biases, a test MAE of 0.5732 on
Douban and 0.71 on Jester, or, where a version that is compared does not reach that, the least that all of them reach.
Parameters are the published ones, and for SGD also the learning rate that reaches the error in the fewest epochs on
held-out training ratings, or the least error if none does. The thesis's single-threaded SGD samples ratings with
replacement; shuffled epochs are the better baseline.
"""

from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd

from gpumf import ALS, SGD
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, above, near
from gpumf_study.experiments import _kept, _published, trained, usable_devices
from gpumf_study.experiments.thesis.parameter_search import FIGURES, SGD_THREADS, OverfittingStop

FACTORS, ALS_THREADS = 16, 32 * 128
# CUDA threads by variant; None: as many as the solver takes by itself.
THREADS = {"32 x 128": ALS_THREADS, "128 x 128": SGD_THREADS, "512 x 128": 4 * SGD_THREADS}
THREADS |= {"2048 x 128": 16 * SGD_THREADS, "all threads": None}
VERSIONS = [
    *((ALS, solver, None) for solver in ("sequential", "parallel")),
    *((ALS, "thesis_shared", variant) for variant in ("32 x 128", "all threads")),
    (ALS, "tensor_core", None),
    *((SGD, solver, None) for solver in ("sequential", "parallel", "ordered", "ordered_parallel")),
    *((SGD, "hogwild", variant) for variant in THREADS),
    (SGD, "fast", None),
]
"""(model, solver, variant) of all that is trained."""

BASELINES = {"ALS": ("sequential", "parallel"), "SGD": ("ordered", "ordered_parallel")}
"""Solvers that run single-threaded and multi-threaded on the CPU; those of SGD shuffle their epochs."""

_OF_THESIS = [("sequential", None), ("parallel", None), ("thesis_shared", "32 x 128")]
_OF_THESIS += [("hogwild", "32 x 128"), ("hogwild", "128 x 128")]
_ON_GPU = _OF_THESIS[2:]
_EACH_ONCE = [("ordered_parallel", None), ("hogwild", "32 x 128")]
"""(solver, variant) of versions that are compared with each other."""

UNPUBLISHED = {"ALS": {"regularization": 0.1}, "SGD": {"regularization": 0.1, "learning_rate": 0.01}}
"""Parameters for data sets that the thesis does not use."""

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "als_epochs": 10, "updates": 1e6, "rates": [0.01, 0.03], "repeats": 1,
              "fewer": {}},
    "full": {"data": ["douban-synthetic", "jester-synthetic", "jester-1"], "als_epochs": 20, "updates": 7.6e8,
             "rates": [0.001, 0.002, 0.004, 0.008, 0.016, 0.026, 0.04], "repeats": 5,
             "fewer": {"SGD": {"sequential": 3}}},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"als_epochs": 2, "updates": 1e5}


def run(data, als_epochs, updates, rates, repeats, fewer):
    """Train every version until it reaches the threshold, ALS for at most so many epochs, SGD for so many updates.

    fewer : dict, model -> solver -> repeats, of what takes a minute a training
    x_setting is 'published' or, of learning rates chosen from `rates`, 'tuned'; x_cuda_threads is missing where the
    solver chooses.
    """
    usable = usable_devices()

    def models(train, repeat):
        epochs, threshold = int(np.ceil(updates / train.nnz)), _published.threshold(train.name)
        published = {name: arguments(train.name, name) for name in ("ALS", "SGD")}
        search = partial(_fastest, train, rates, published["SGD"], epochs, threshold)
        tuned = published["SGD"] | {"learning_rate": _kept.once(f"rate-{train.name}-{repeat}", search)}
        settings = {"published": published, "tuned": {"SGD": tuned}}
        for setting, of in settings.items():
            for model, solver, variant in VERSIONS:
                taken, threads = of.get(model.__name__), THREADS.get(variant)
                if taken is None or model.solvers()[solver] not in usable:
                    continue
                if repeat >= fewer.get(model.__name__, {}).get(solver, repeats):
                    continue
                columns = {f"x_{key}": value for key, value in taken.items()}
                columns |= {"variant": variant, "x_setting": setting, "x_cuda_threads": threads or np.nan}
                columns |= {"epochs": als_epochs if model is ALS else epochs, "stop": _Stop(threshold)}
                options = {"biases": False, "init": "unit", "clip": False, "threads": threads, "seed": repeat}
                yield columns, model(FACTORS, solver=solver, **options, **taken)

    return sweep.sweep(models, data, als_epochs, repeats, held_out=0.2, metrics=("rmse", "mae"))


def arguments(data, model):
    """The published parameters of a model on a data set."""
    stated = {varied: place for (name, varied), place in FIGURES.items() if name == model}
    found = {varied: _published.value(*place, data) for varied, place in stated.items()}
    return UNPUBLISHED[model] if None in found.values() else found


def _fastest(train, rates, arguments, epochs, threshold):
    """The learning rate that reaches an error on held-out training ratings in the fewest epochs."""
    part, held_out = train.split(0.1, seed=0)
    costs = {}
    for rate in reversed(rates):  # usually fast ones first, so that the others need few epochs
        options = arguments | {"learning_rate": rate, "biases": False, "init": "unit", "clip": False, "seed": 0}
        model = SGD(FACTORS, solver="ordered_parallel", device="cpu", **options)
        # One that is later than the best so far has lost: its cost is the same after fewer epochs.
        most = int(min(epochs, *(reached for reached, _ in costs.values()))) if costs else epochs
        history = trained(model, part, most, held_out, stop=_Stop(threshold)).history
        there = history.epoch[(history.epoch > 0) & (history.mae <= (threshold or -np.inf))]
        costs[rate] = there.min() if len(there) else np.inf, history.mae.min()
    return min(rates, key=costs.__getitem__)


class _Stop(OverfittingStop):
    def __init__(self, threshold):
        super().__init__()
        self._threshold = threshold or -np.inf

    def __call__(self, row):
        return row["mae"] <= self._threshold or super().__call__(row)


def _of(frame, versions):
    """The rows of some (solver, variant)."""
    variants = frame.variant.astype(object).fillna("") if "variant" in frame else [""] * len(frame)
    wanted = {(solver, variant or "") for solver, variant in versions}
    return frame[[of in wanted for of in zip(frame.solver, variants, strict=True)]]


def level(runs):
    """Return the MAE at which runs on one data set are compared: the threshold, or the least that all reach."""
    (name,) = runs.data.unique()
    reached = sweep.best_epoch(runs[~(runs.epoch == 0)], "mae").value.max()
    return max(_published.threshold(name) or 0, np.ceil(reached * 1e4) / 1e4)


def reached(frame, of=("data", "x_setting", "model"), compared=None):
    """Return when each run reaches the level of its group: `seconds` of training, `end_to_end`, and `level`.

    compared : (solver, variant) of the versions that all reach the level; None for all. Another version may not
    """
    found = []
    for _, runs in frame.groupby(list(of), sort=False):
        error = level(runs if compared is None else _of(runs, compared))
        there = sweep.time_to_error(runs, error, "mae")
        found.append(sweep.end_to_end(there, runs).assign(level=error))
    return pd.concat(found, ignore_index=True)


def reached_by_thesis(frame):
    """Return `reached` of the versions that the thesis has."""
    return reached(_of(frame, _OF_THESIS))


def reached_each_once(frame):
    """Return `reached` of SGD on all CPU threads in shuffled epochs and of SGD on the GPU with 32 x 128 threads."""
    return reached(_of(frame, _EACH_ONCE))


def reached_by_both(frame):
    """Return `reached` of the thesis's versions on the GPU, with one level for both models.

    ALS has its published parameters in each setting.
    """
    frame = _of(frame, _ON_GPU)
    als = frame[(frame.model == "ALS") & (frame.x_setting == "published")]
    of_sgd = (setting for _, setting in frame[frame.model == "SGD"].groupby("x_setting", sort=False))
    both = (pd.concat([als.assign(x_setting=sgd.x_setting.iloc[0]), sgd]) for sgd in of_sgd)
    return reached(pd.concat(both, ignore_index=True), ("data", "x_setting"))


def summary(frame):
    """Return the median times of each version with the published parameters, and its speed-ups over BASELINES.

    The level is what BASELINES and the thesis's versions reach. Versions that do not reach it in each repeat have no
    seconds.

    Return a DataFrame: data, model, level, solver, variant, device, epoch, seconds, end_to_end; single, multi
    (speed-ups in training time over the single-threaded and the multi-threaded CPU), single_end_to_end,
    multi_end_to_end
    """
    frame = frame[frame.x_setting == "published"]
    frame = frame.reindex(columns=frame.columns.union(["variant"], sort=False))  # which no CPU solver has
    compared = [*_OF_THESIS, *((solver, None) for of in BASELINES.values() for solver in of)]
    keys = ["data", "model", "solver", "variant", "device"]
    runs = frame[[*keys, "repeat"]].drop_duplicates()
    runs = runs.merge(reached(frame, compared=compared), "left", [*keys, "repeat"])
    table = runs.groupby(keys, sort=False, dropna=False)[["level", "epoch", "seconds", "end_to_end"]]
    table = table.agg(lambda of: of.median(skipna=False)).reset_index()
    found = []
    for (_, model), rows in table.groupby(["data", "model"], sort=False):
        rows = rows.assign(level=rows.level.max())
        for name, solver in zip(("single", "multi"), BASELINES[model], strict=True):
            baseline = rows[rows.solver == solver].iloc[0]
            rows = rows.assign(**{name: baseline.seconds / rows.seconds})
            rows[f"{name}_end_to_end"] = baseline.end_to_end / rows.end_to_end
        found.append(rows)
    return pd.concat(found, ignore_index=True)


def figure(frame):
    """Draw speed-ups over a single-threaded CPU: published, the same kernel and threads today, and the fastest.

    A tick stands where the multi-threaded CPU is. Hollow diamonds are end to end.
    """
    rows = list(summary(frame).groupby(["data", "model"], sort=False))
    figure, ((axis,),) = style.panels(height=1.3 + 0.6 * len(rows))
    names = []
    for at, ((data, model), versions) in zip(range(len(rows))[::-1], rows, strict=True):
        colour = style.COLOURS[style.MODELS[model][0]]
        column, variant = ("ALS", "32 x 128") if model == "ALS" else ("SGD, 128/128", "128 x 128")
        published = _published.value("Table 6.3", "speed-up", data, column)
        marks = [(published, "o", "0.5", "white")] if published else []
        marks += [(value, "o", colour, colour) for value in versions[versions.variant == variant].single]
        for _, best in versions[versions.device == "cuda"].nsmallest(1, "seconds").iterrows():
            marks += [(best.single, "D", colour, colour), (best.single_end_to_end, "D", colour, "white")]
        multi = versions[versions.solver == BASELINES[model][1]].single.iloc[0]
        axis.plot([multi] * 2, [at - 0.15, at + 0.15], color="0.35", linewidth=2)
        axis.plot([1, max([multi, *(value for value, *_ in marks)])], [at, at], color="0.85", zorder=0)
        above = []
        for value, marker, edge, face in marks:
            axis.plot(value, at, marker, color=edge, markerfacecolor=face, markersize=8)
            below = marker == "D" and face == "white"
            label = axis.annotate(style.significant(value), (value, at), (0, -18 if below else 9), **_LABEL)
            above += [] if below else [(value, label)]
        above.sort(key=lambda one: one[0])
        for (value, left), (other, right) in pairwise(above):
            if other < _CLOSE * value:
                left.set(ha="right", x=-2)
                right.set(ha="left", x=2)
        names.append(f"{model}, {style.data_name(data)},\nto MAE {versions.level.iloc[0]:.4g}")
    for label, marker, face in _LEGEND:
        axis.plot([], [], marker, color="0.35", markerfacecolor=face, label=label)
    axis.set_yticks(np.arange(len(rows))[::-1], names)
    axis.set(xlabel="speed-up over a single-threaded CPU", ylim=(-0.6, len(rows) - 0.4))
    style.log_scale(axis.xaxis)
    axis.set_xlim(left=1)
    axis.grid(axis="y", visible=False)
    style.legend(figure, axis, 2)
    return figure


_CLOSE = 2.2
"""Labels of values closer than this factor would touch."""
_LABEL = {"textcoords": "offset points", "ha": "center", "size": 9}
_LEGEND = [
    ("published, 2015", "o", "white"), ("same kernel and threads today", "o", "0.35"),
    ("fastest solver today, training time", "D", "0.35"), ("fastest solver, end to end", "D", "white"),
    ("multi-threaded CPU", "|", "0.35"),
]  # fmt: skip
_DATA = {"douban-synthetic": "douban", "jester-synthetic": "jester", "jester-1": "jester"}
_COLUMNS = {"als": ("ALS", "thesis_shared", "32 x 128", "ALS")}
_COLUMNS |= {f"sgd-{n}-128": ("SGD", "hogwild", f"{n} x 128", f"SGD, {n}/128") for n in (32, 128)}
_SETTINGS = {
    "": ("published", "published parameters"),
    "-tuned": ("tuned", "learning rate chosen on held-out ratings"),
}


def _evidence(data, of_synthetic="synthetic"):
    return of_synthetic if data.endswith("synthetic") else "real"


def _claims():
    for data, family in _DATA.items():
        for slug, (model, solver, variant, column) in _COLUMNS.items():
            published = _published.value("Table 6.3", "speed-up", family, column)
            for suffix, (setting, words) in _SETTINGS.items() if model == "SGD" else [("", _SETTINGS[""])]:
                yield Claim(f"thesis-table-6.3-{slug}-{data}{suffix}", "thesis", "Table 6.3",
                            f"Speed-up of {model} with {variant} threads over single-threaded {model}"
                            f"{' with replacement' if model == 'SGD' else ''}, {style.data_name(data)}, {words}.",
                            published, "ratio",
                            {"column": "seconds", "where": {"data": data, "model": model, "x_setting": setting},
                             "over": {"solver": "sequential"}, "under": {"solver": solver, "variant": variant}},
                            near(published, 2), _evidence(data), reached_by_thesis)  # fmt: skip
    for model, solver in (("ALS", "thesis_shared"), ("SGD", "hogwild")):
        # Of which the figure compares the first alone; what is asked of the others has no published answer.
        baselines = [
            ("one-core", "sequential", "seconds", "single-threaded", reached_by_thesis),
            ("all-cores", "parallel", "seconds", "multi-threaded", reached_by_thesis),
        ]
        if model == "SGD":
            words, once = "multi-threaded, shuffled epochs", "all-cores-each-once"
            baselines += [
                (once, "ordered_parallel", "seconds", words, reached_each_once),
                (f"{once}-wall", "ordered_parallel", "end_to_end", f"{words}, end to end", reached_each_once),
            ]
        for slug, baseline, column, words, table in baselines:
            yield Claim(f"thesis-fig-6.11-{model.lower()}-{slug}", "thesis", "Figure 6.11",
                        f"Speed-up of {model} with 32 x 128 threads over the CPU, {words}; the least of all data "
                        "sets.", metric="ratio",
                        select={"column": column, "where": {"model": model, "x_setting": "published"},
                                "each": ["data"], "across": "min", "over": {"solver": baseline},
                                "under": {"solver": solver, "variant": "32 x 128"}},
                        criterion=above(1) if slug == "one-core" else None,
                        evidence="synthetic", table=table)  # fmt: skip
    for data, family in _DATA.items():
        own = ("ALS", "SGD") if family == "jester" else ("SGD", "ALS")
        for slug, threads, (fast, slow) in (("", "32 x 128", ("ALS", "SGD")), ("-own", "128 x 128", own)):
            for suffix, (setting, words) in _SETTINGS.items():
                lots = {"ALS": {"model": "ALS", "variant": "32 x 128"}, "SGD": {"model": "SGD", "variant": threads}}
                # The level that both reach here is SGD's own least error, and it decides which of them is faster.
                beyond = slug and data == "douban-synthetic"
                yield Claim(f"thesis-fig-6.12-{data}{slug}{suffix}", "thesis", "Figure 6.12",
                            f"Speed-up of {fast} over {slow} on the GPU, SGD with {threads} threads, "
                            f"{style.data_name(data)}, {words}.", metric="ratio",
                            select={"column": "seconds", "where": {"data": data, "x_setting": setting},
                                    "over": lots[slow], "under": lots[fast]}, criterion=above(1),
                            evidence=_evidence(data, "built in"), table=reached_by_both,
                            missing="ratings on which SGD reaches the MAE of 0.5732" if beyond else None)  # fmt: skip


CLAIMS = [
    *_claims(),
    Claim("thesis-kato-hosino", "thesis", "Section 2.3.3",
          "Speed-up of Kato and Hosino's SGD over a sequential CPU, random data.", 20.0, "ratio",
          missing="the size of their data and their baseline; ours is another program on another GPU"),
    Claim("thesis-gpu-clusters", "thesis", "Section 7.1",
          "GPU clusters relieve the limit of memory for larger data sets.", missing="GPUs of several hosts"),
]  # fmt: skip
