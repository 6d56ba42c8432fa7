"""How many of the blocks of a partition have no rating: square blocks as of GPUSGD, rectangular ones as of NewGPUSGD.

After Li et al. 2019, section 4.1 and Figure 6. Nothing is timed. Beside the blank blocks, how uneven the others are:
the blocks of a tag are worked on at the same time, and their launch is as slow as the fullest of them.
"""

import numpy as np
import pandas as pd

from gpumf.solvers.sgd_partition import diagonal_blocks
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings
from gpumf_study.findings import Finding, Holds

SQUARE, RECTANGULAR = "square, GPUSGD", "rectangular, NewGPUSGD"

PROFILES = {
    "quick": {"data": ["ml-100k", "ml-1m-synthetic"], "sides": [16, 64, 256]},
    "full": {"data": ["ml-100k", "ml-10m-synthetic", "netflix-synthetic"], "sides": [16, 64, 256, 1024]},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "sides": [4, 64]}


def run(data, sides):
    """Partition sets of ratings.

    Parameters
    ----------
    data : names of data sets
    sides : list of int, blocks of a side

    Returns
    -------
    DataFrame with a row a partition: data, nnz, side, partition, blank (share of its blocks without a rating), busy
    (the mean over the largest number of ratings of the blocks of a tag, over all tags, weighted by that number)
    """
    rows, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        edge = max(ratings.n_users, ratings.n_items)
        shapes = {SQUARE: (edge, edge), RECTANGULAR: (ratings.n_users, ratings.n_items)}
        for side in sides:
            for partition, shape in shapes.items():
                counts = np.diff(diagonal_blocks(ratings, side, *shape).offsets).reshape(side, side)
                busy = counts.sum() / (side * counts.max(axis=1).sum())
                rows.append((ratings.name, ratings.nnz, side, partition, (counts == 0).mean(), busy))
    frame = pd.DataFrame(rows, columns=["data", "nnz", "side", "partition", "blank", "busy"])
    frame.attrs["datasets"] = identities
    return frame


def summary(frame):
    """The shares side by side: a DataFrame with the index (data, side) and the columns (blank or busy, partition)."""
    return frame.pivot(index=["data", "side"], columns="partition", values=["blank", "busy"])


def figure(frame):
    """The share of blank blocks against the blocks of a side, a line a partition, a data set each."""
    names = frame.data.unique()
    figure, (axes,) = style.panels(columns=len(names), height=3.2, sharey=True)
    for axis, name in zip(axes, names, strict=True):
        for partition, colour in ((SQUARE, "sky"), (RECTANGULAR, "green")):
            rows = frame[(frame.data == name) & (frame.partition == partition)].set_index("side")
            axis.plot(rows.blank, "-o", color=style.COLOURS[colour], label=partition, markersize=4)
        axis.set(xlabel="blocks of a side", ylabel="share of blank blocks", title=name, ylim=(0, 1))
        style.log_scale(axis.xaxis)
    style.legend(figure, axes[0], 2)
    return figure


def _most_blank(frame):
    """The share of blank blocks of NewGPUSGD with 1,024 of a side, where it is largest."""
    rows = frame[(frame.partition == RECTANGULAR) & (frame.side == 1024)]
    return rows.blank.max(), 0.0, "of the blocks"


def _least_saved(frame):
    """By how much the share of blank blocks is smaller than with square ones, where that is least."""
    saved = frame.pivot(index=["data", "side"], columns="partition", values="blank")
    return (saved[SQUARE] - saved[RECTANGULAR]).min(), 0.0, "of the blocks"


FINDINGS = [
    Finding(
        "newgpusgd-no-blank-blocks",
        "newgpusgd",
        "Figure 12",
        "NewGPUSGD does not generate blank blocks, with 1,024 of a side.",
        _most_blank,
        Holds(below=0.01),
    ),
    Finding(
        "newgpusgd-fewer-blank-blocks",
        "newgpusgd",
        "Figure 12",
        "Rectangular blocks are blank less often than square ones, on every set and with every number of blocks.",
        _least_saved,
        Holds(above=0.0),
    ),
]
