"""How many of the blocks of a partition have no rating: square blocks as of GPUSGD, rectangular ones as of NewGPUSGD.

After Li et al. 2019, section 4.1 and Figure 6. Nothing is timed. Beside the blank blocks, how uneven the others are:
the blocks of a tag are worked on at the same time, and their launch is as slow as the fullest of them.
"""

import numpy as np
import pandas as pd

from gpumf.ratings.synthetic import RECIPES
from gpumf.solvers.sgd_partition import diagonal_blocks
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, above, below
from gpumf_study.experiments import load_ratings

SQUARE, RECTANGULAR = "square, GPUSGD", "rectangular, NewGPUSGD"

PROFILES = {
    "quick": {"data": ["ml-100k", "ml-1m-synthetic"], "sides": [16, 64, 256]},
    "full": {"data": ["ml-100k", "ml-10m-synthetic", "netflix-synthetic"], "sides": [16, 64, 256, 1024]},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "sides": [4, 64]}


def run(data, sides):
    """Return `blank`, the share of blocks without a rating, and `busy`, of partitions with so many blocks of a side.

    `busy` is the mean over the largest number of ratings in blocks of a tag, over all tags, weighted by the latter.
    """
    rows = []
    for name in data:
        ratings = load_ratings(name)
        edge = max(ratings.n_users, ratings.n_items)
        shapes = {SQUARE: (edge, edge), RECTANGULAR: (ratings.n_users, ratings.n_items)}
        for side in sides:
            for partition, shape in shapes.items():
                counts = np.diff(diagonal_blocks(ratings, side, *shape).offsets).reshape(side, side)
                shares = {"blank": (counts == 0).mean(), "busy": counts.sum() / (side * counts.max(axis=1).sum())}
                rows += [(ratings.name, partition, *pair, side, ratings.nnz) for pair in shares.items()]
    frame = pd.DataFrame(rows, columns=["data", "variant", "metric", "value", "x_side", "x_nnz"])
    return frame.assign(task="partition")


def summary(frame):
    """Return the shares by data set and blocks of a side: the columns are (blank or busy, partition)."""
    return frame.pivot(index=["data", "x_side"], columns=["metric", "variant"], values="value")


def saved(frame):
    """Return by data set and blocks of a side how much smaller the share of blank blocks is than with square ones."""
    blank = summary(frame).blank
    return (blank[SQUARE] - blank[RECTANGULAR]).rename("saved").reset_index()


def outside(frame):
    """Return by data set and blocks of a side the share of NewGPUSGD's blocks that have no user or no item."""
    found = frame[["data", "x_side"]].drop_duplicates()
    shapes = [RECIPES[name.removesuffix("-synthetic")] for name in found.data]
    sides = zip(shapes, found.x_side, strict=True)
    inside = [min(of.users / side, 1) * min(of.items / side, 1) for of, side in sides]
    return found.assign(outside=1 - np.array(inside))


def balance(frame):
    """Return by data set and blocks of a side `gain`, busy of NewGPUSGD over that of GPUSGD, and `few`, over its own
    with the fewest blocks."""
    busy = summary(frame).busy
    own = busy[RECTANGULAR]
    fewest = own.groupby("data").transform("first")
    return pd.DataFrame({"gain": own / busy[SQUARE], "few": own / fewest}).reset_index()


def figure(frame):
    """Draw the share of blank blocks against the blocks of a side, a line a partition, a panel a data set."""
    names = frame.data.unique()
    figure, (axes,) = style.panels(columns=len(names), height=3.2, sharey=True)
    blank = summary(frame).blank
    for axis, name in zip(axes, names, strict=True):
        for partition, colour in ((SQUARE, "sky"), (RECTANGULAR, "green")):
            line = blank.loc[name][partition]
            axis.plot(line, "-o", color=style.COLOURS[colour], label=partition, markersize=4)
        last = line.index[-1], line.iloc[-1]
        axis.annotate(f"{last[1]:.1%}", last, (-4, 6), textcoords="offset points", ha="right")
        axis.set(xlabel="blocks of a side", ylabel="share of blank blocks", title=style.data_name(name), ylim=(0, 1))
        style.log_scale(axis.xaxis)
    style.legend(figure, axes[0], 2)
    return figure


CLAIMS = [
    Claim("newgpusgd-no-blank-blocks", "newgpusgd", "Figure 12",
          "Share of the blocks of NewGPUSGD, 1,024 of a side, that have no user or no item; the largest of all data "
          "sets.", metric="exact", select={"column": "outside", "where": {"x_side": 1024}, "across": "max"},
          criterion=below(0.01), evidence="synthetic", table=outside),
    Claim("newgpusgd-fewer-blank-blocks", "newgpusgd", "Figure 12",
          "Share of blocks of GPUSGD without a rating minus that of NewGPUSGD, the least of all data sets and "
          "numbers of blocks.", metric="exact", select={"column": "saved", "across": "min"}, criterion=above(0.0),
          evidence="synthetic", table=saved),
    Claim("newgpusgd-balance", "newgpusgd", "Section 5.2",
          "Mean over largest number of ratings in blocks of a tag, of NewGPUSGD over that of GPUSGD, the least of "
          "all data sets and numbers of blocks.", metric="exact", select={"column": "gain", "across": "min"},
          criterion=above(1.0), evidence="synthetic", table=balance),
    Claim("newgpusgd-balance-more-blocks", "newgpusgd", "Section 5.1",
          "Mean over largest number of ratings in blocks of a tag, of NewGPUSGD with 1,024 blocks of a side over "
          "that with 16, the largest of all data sets.", metric="exact",
          select={"column": "few", "where": {"x_side": 1024}, "across": "max"}, criterion=above(1.0),
          evidence="synthetic", table=balance),
]  # fmt: skip
