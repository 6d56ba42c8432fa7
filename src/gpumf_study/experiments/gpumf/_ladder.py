"""A decade in seconds: what publications state of their GPUs, the same schemes today, and the soonest of this study.

Seconds of training alone, and of the whole fit where it was measured; a task is one data set and one error, or one
iteration. Speed-ups over a processor of its time, all that the thesis states, are in `thesis.speedups`.
"""

import numpy as np
import pandas as pd

from gpumf_study import figure_style as style
from gpumf_study import results
from gpumf_study.experiments import _published
from gpumf_study.experiments.cumf import als_hugewiki, cumf_convergence, implicit_seconds
from gpumf_study.experiments.esgd import esgd_seconds

COLUMNS = ["task", "kind", "who", "machine", "train", "wall"]
KINDS = {"published": ("published", "s", "white"), "same": ("the same scheme today", "o", None)}
KINDS |= {"ours": ("our soonest today", "D", None)}

# What the publications call their machines (cumf, Table 3; esgd, section 4).
_GPUS = {"Maxwell": "Titan X", "Pascal": "P100"}
_LAPTOP = "GeForce 410M"
_OURS = ("ALS", "tensor_core"), ("SGD", "fast")
_ERRORS = {
    "netflix": "Netflix, to RMSE 0.92",
    "yahoomusic": "Yahoo! Music, to RMSE 22",
    "hugewiki": "Hugewiki, to RMSE 0.52",
}
_IMPLICIT, _ESGD = "Netflix, implicit: an iteration", "MovieLens 10M, ESGD: an iteration"


def table():
    """All of it, of what is recorded.

    Returns
    -------
    DataFrame with a row a rung, task by task: task, kind (of KINDS), who (the scheme), machine, train, wall (seconds;
    missing where it was not stated or not measured)
    """
    rows = [*_to_errors(), *_implicit(), *_esgd()]
    return pd.DataFrame(rows, columns=COLUMNS)


def _to_errors():
    """ALS until the acceptable errors of cumf's Table 4."""
    convergence, hugewiki = results.recorded("cumf_convergence"), results.recorded("als_hugewiki")
    for data, task in _ERRORS.items():
        cards = "4 x " if data == "hugewiki" else ""
        for program in ("GPU-ALS, Maxwell", "cuMF_ALS, Maxwell", "cuMF_ALS, Pascal"):
            who, server = program.split(", ")
            seconds = _published.value("Table 4", "time to the acceptable error", data, program, "cumf")
            yield task, "published", who, cards + _GPUS[server], seconds, np.nan
        if data != "hugewiki" and convergence:
            yield from _converged(task, convergence, f"{data}-synthetic")
    if hugewiki:
        frame = als_hugewiki.summary(hugewiki.frame)
        arrived = frame.rmse <= _published.value("Table 2", "acceptable error", "hugewiki", source="cumf")
        seconds = frame.iteration.cumsum()[arrived].min()
        yield task, "ours", "tensor_core", hugewiki.provenance["gpu"], seconds, np.nan


def _converged(task, result, data):
    times = cumf_convergence.medians(result.frame).loc[data]
    same, ours = times.loc[cumf_convergence.OURS], times.loc[list(_OURS)]
    soonest = ours.train.idxmin()
    machine = result.provenance["gpu"]
    yield task, "same", cumf_convergence.OURS[1], machine, same.train, same.wall
    yield task, "ours", soonest[1], machine, ours.train[soonest], ours.wall[soonest]


def _implicit():
    """Implicit feedback, section 5.6 of cumf, which names no machine."""
    seconds = _published.value("Section 5.6", "time of an iteration", model="cuMF_ALS", source="cumf")
    yield _IMPLICIT, "published", "cuMF_ALS", "not named", seconds, np.nan
    if result := results.recorded("implicit_seconds"):
        of = implicit_seconds.summary(result.frame).seconds
        for kind, solver in (("same", "cumf_cg_fp16"), ("ours", "tensor_core")):
            yield _IMPLICIT, kind, solver, result.provenance["gpu"], of[solver], np.nan


def _esgd():
    """ESGD on MovieLens 10M, section 4 of esgd, where copies to the device and back are part of an iteration."""
    seconds = _published.value("Section 4", "time of an iteration", "ml-10m", source="esgd")
    yield _ESGD, "published", "ESGD", _LAPTOP, seconds, np.nan
    if result := results.recorded("esgd_seconds"):
        seconds = esgd_seconds.summary(result.frame).iteration["ml-10m-synthetic", esgd_seconds.FILE]
        yield _ESGD, "same", "esgd", result.provenance["gpu"], seconds, np.nan


def figure(frame):
    """Seconds of training of every rung, a row a task."""
    tasks = list(dict.fromkeys(frame.task))[::-1]
    figure, ((axis,),) = style.panels(height=1.3 + 0.62 * len(tasks))
    for at, task in enumerate(tasks):
        rungs = frame[frame.task == task]
        axis.hlines(at, rungs.train.min(), rungs.train.max(), color="0.85", zorder=1)
        for row in rungs.itertuples():
            _, marker, face = KINDS[row.kind]
            colour = "0.35" if row.kind == "published" else style.COLOURS["purple" if "SGD" in task else "green"]
            axis.plot(row.train, at, marker, color=colour, markerfacecolor=face or colour, markersize=8)
            text = f"{row.train:.{0 if row.train >= 20 else 2}{'f' if row.train >= 20 else 'g'}}"
            axis.annotate(text, (row.train, at), (0, 9), textcoords="offset points", ha="center", size=9)
    for label, marker, face in KINDS.values():
        axis.plot([], [], marker, color="0.35", markerfacecolor=face or "0.35", label=label)
    axis.set_yticks(range(len(tasks)), tasks)
    axis.set(xlabel="seconds of training", ylim=(-0.5, len(tasks) - 0.4))
    style.log_scale(axis.xaxis)
    axis.grid(axis="y", visible=False)
    style.legend(figure, axis, 3)
    return figure
