"""Test RMSE of NewGPUSGD against iterations, with few blocks and with many, in FP32 and FP64.

After Li et al. 2019, section 5.1 and Figure 9: 64 x 64 and 1,024 x 1,024 blocks, 16 factors, gamma 0.005, lambda
0.03, 100 iterations. Neither the data set nor the share of its validation set is published: here a fifth.
"""

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, below
from gpumf_study.experiments import kernels_unavailable

RATES = {"learning_rate": 0.005, "regularization": 0.03, "biases": False, "clip": False}
OF_BITS = {32: "", 64: "-fp64"}  # the end of a claim's id, by bits of a factor

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "part": [120, 100], "sides": [4, 16], "precisions": [32, 64],
              "factors": 4, "epochs": 10, "repeats": 2},
    "full": {"data": ["ml-100k", "ml-10m-synthetic"], "part": None, "sides": [64, 1024], "precisions": [32, 64],
             "factors": 16, "epochs": 100, "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "epochs": 3}

why_unavailable = kernels_unavailable


def run(data, part, sides, precisions, factors, epochs, repeats):
    """Train with each number of blocks of a side and each precision, from the same factors."""
    device = "cuda" if backends.available() else "emulator"

    def models(train, repeat):
        for bits in precisions:
            for side in sides:
                options = {"side": side, "precision": bits, "seed": repeat, "device": device}
                model = SGD(factors, solver="newgpusgd", **options, **RATES)
                yield {"x_side": side, "x_precision": bits}, model

    return sweep.sweep(models, data, epochs, repeats, held_out=0.2, part=part)


def gaps(frame):
    """Return the largest distance between the courses with most and with fewest blocks, by training and precision.

    Of the data sets the one where it is largest.
    """
    course = sweep.course(frame, "rmse")
    courses = course.pivot(index=["data", "x_precision", "repeat", "epoch"], columns="x_side", values="value")
    apart = (courses[courses.columns.max()] - courses[courses.columns.min()]).abs()
    table = apart.groupby(["data", "x_precision", "repeat"]).max().rename("gap").reset_index()
    median = table.groupby(["x_precision", "data"]).gap.transform("median")
    return table[median == median.groupby(table.x_precision).transform("max")]


def figure(frame):
    """Draw test RMSE against iterations, a line a number of blocks (medians of FP32), a panel a data set."""
    names = frame.data.unique()
    figure, (axes,) = style.panels(columns=len(names), height=3.4)
    look = style.LOOKS["SGD", "newgpusgd"]
    for axis, name in zip(axes, names, strict=True):
        runs = sweep.course(frame[(frame.data == name) & (frame.x_precision == 32)], "rmse")
        for line, (side, of_side) in zip(("-", "--"), runs[runs.epoch > 0].groupby("x_side"), strict=False):
            rmse = of_side.groupby("epoch").value.median()
            axis.plot(rmse, line, color=style.COLOURS[look.colour], label=f"{side:,} x {side:,} blocks")
        axis.set(xlabel="iterations", ylabel="test RMSE", title=style.data_name(name))
    style.legend(figure, axes[0], 2)
    return figure


CLAIMS = [
    Claim(f"newgpusgd-fig-9{end}", "newgpusgd", "Figure 9",
          f"Largest distance in test RMSE of 64 from 1,024 blocks of a side over all iterations, FP{bits}.",
          metric="median", select={"column": "gap", "where": {"x_precision": bits}}, criterion=below(0.01),
          evidence="synthetic", table=gaps)
    for bits, end in OF_BITS.items()
]  # fmt: skip
