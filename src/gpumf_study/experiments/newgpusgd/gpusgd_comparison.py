"""NewGPUSGD against GPUSGD, with as many thread blocks and threads for both, in FP32 and in FP64.

After Li et al. 2019, section 5.2 and Figure 12: 64 x 64 blocks with 16 factors, 1,024 x 1,024 blocks with 16 and with
256, a thread a factor. Of their four data sets BDMovie has no published shape.
"""

import numpy as np

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, above, below
from gpumf_study.experiments import kernels_unavailable
from gpumf_study.experiments.newgpusgd.block_errors import RATES

OLD, NEW = "gpusgd", "newgpusgd"
SETTINGS = [[64, 16], [1024, 16], [1024, 256]]
_SETTING = ["data", "x_precision", "x_side", "factors"]

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "part": [120, 100],
              "settings": {"32": [[2, 4], [16, 4], [16, 8]], "64": [[2, 4]]}, "fewer": {}, "epochs": 2, "repeats": 1},
    "full": {"data": ["ml-100k", "ml-10m-synthetic", "netflix-synthetic"], "part": None,
             "settings": {"32": SETTINGS, "64": SETTINGS},
             "fewer": {"netflix-synthetic": {"32": SETTINGS, "64": [[1024, 16]]}}, "epochs": 3, "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "settings": {"32": [[2, 4], [8, 4]], "64": [[2, 4]]}}

why_unavailable = kernels_unavailable


def run(data, part, settings, fewer, epochs, repeats):
    """Train some iterations with both solvers.

    settings : dict, bits of a factor ('32', '64') -> list of (blocks of a side, factors)
    fewer : dict, data set -> settings, where others are wanted
    """
    device = "cuda" if backends.available() else "emulator"

    def models(train, repeat):
        name = train.name.split(",")[0]
        for bits, pairs in fewer.get(name, settings).items():
            for side, factors in pairs:
                for solver in (OLD, NEW):
                    options = {"side": side, "precision": int(bits), "seed": repeat, "device": device}
                    model = SGD(factors, solver=solver, **options, **RATES)
                    if not repeat and name == data[0]:  # the smallest, whose settings are all that others have
                        sweep.warm(model, train)
                    yield {"x_side": side, "x_precision": int(bits)}, model

    return sweep.sweep(models, data, epochs, repeats, held_out=0, part=part, metrics=())


def gains(frame):
    """Return by repeat how much the speed-up of NewGPUSGD grows from 16 factors to 256, with 1,024 blocks of a side.

    Of data sets and precisions those where it grows least.
    """
    seconds = sweep.epoch_seconds(frame)
    by = ["data", "x_precision", "repeat"]
    table = seconds[seconds.x_side == 1024].groupby([*by, "factors", "solver"]).seconds.median().unstack()
    speed_ups = (table[OLD] / table[NEW]).unstack()
    found = (speed_ups[256] / speed_ups[16]).dropna().rename("gain").reset_index()
    median = found.groupby(["data", "x_precision"]).gain.transform("median")
    return found[median == median.min()]


def summary(frame):
    """Return by setting the seconds of an iteration of both solvers, and the speed-up of NewGPUSGD (medians)."""
    table = sweep.epoch_seconds(frame).groupby([*_SETTING, "solver"], sort=False).seconds.median().unstack()
    return table.assign(speed_up=table[OLD] / table[NEW])


def figure(frame):
    """Draw milliseconds of an iteration of both solvers, FP32 (left) and FP64 (right), a pair of marks a setting."""
    bits = sorted(frame.x_precision.unique())
    table = 1e3 * summary(frame)[[OLD, NEW]].unstack("x_precision", sort=False)[::-1]
    place = np.arange(len(table))
    figure, (axes,) = style.panels(columns=len(bits), height=1.6 + 0.36 * len(table), sharex=True, sharey=True)
    for axis, precision in zip(axes, bits, strict=True):
        rows = table.xs(precision, axis="columns", level="x_precision")
        axis.hlines(place, rows[OLD], rows[NEW], color="0.8", zorder=1)
        for solver, marker in ((OLD, "s"), (NEW, "o")):
            look = style.LOOKS["SGD", solver]
            style.marks(axis, rows[solver], place, look.colour, look.name, marker)
        for y, (old, new) in enumerate(zip(rows[OLD], rows[NEW], strict=True)):
            if np.isfinite(old):
                label = f"{style.significant(old / new)}x"
                beside = {"textcoords": "offset points", "va": "center", "size": style.SMALL}
                axis.annotate(label, (max(old, new), y), (7, 0), **beside)
            else:
                where = {"xycoords": ("axes fraction", "data"), "va": "center", "size": style.SMALL}
                axis.annotate("not measured", (0.04, y), color="0.35", **where)
        axis.margins(0.2, 0.08)
        axis.set(xlabel="milliseconds an iteration", title=f"FP{precision}")
        style.log_scale(axis.xaxis)
    names = [f"{style.data_name(data)}\n{side:,} x {side:,}, f = {factors}" for data, side, factors in table.index]
    axes[0].set_yticks(place, names, fontsize=style.SMALL)
    style.legend(figure, axes[0], 2)
    return figure


def _speed_up(**where):
    return {"column": "seconds", "where": where, "over": {"solver": OLD}, "under": {"solver": NEW}}


CLAIMS = [
    Claim("newgpusgd-fig-12-many", "newgpusgd", "Figure 12",
          "Speed-up over GPUSGD with 1,024 blocks of a side, 16 factors, the least of all data sets and precisions.",
          metric="ratio",
          select=_speed_up(x_side=1024, factors=16) | {"each": ["data", "x_precision"], "across": "min"},
          criterion=above(1.0), evidence="synthetic", table=sweep.epoch_seconds),
    Claim("newgpusgd-fig-12-factors", "newgpusgd", "Figure 12",
          "Speed-up over GPUSGD with 256 factors over that with 16, the least of data sets and precisions with both.",
          metric="median", select={"column": "gain", "times": 4}, criterion=above(1.0), evidence="synthetic",
          table=gains),
    *(Claim(f"newgpusgd-fig-12-few-{slug}", "newgpusgd", "Figure 12",
            f"Speed-up over GPUSGD with 64 blocks of a side, 16 factors, FP32, {style.data_name(data)}.",
            metric="ratio", select=_speed_up(data=data, x_side=64, factors=16, x_precision=32), criterion=criterion,
            evidence="real" if data == "ml-100k" else "synthetic", table=sweep.epoch_seconds)
      for slug, data, criterion in (
          ("netflix", "netflix-synthetic", below(1.0)), ("ml-100k", "ml-100k", above(1.0)),
          ("ml-10m-synthetic", "ml-10m-synthetic", above(1.0)),
      )),
    Claim("newgpusgd-fig-12-bdmovie", "newgpusgd", "Figure 12", "Speed-up over GPUSGD on BDMovie.",
          missing="the ratings of BDMovie or their shape, which are not published"),
]  # fmt: skip
