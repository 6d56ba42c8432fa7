"""Half-warps: two rows of the rating matrix in one warp, and what the longer one costs the shorter."""

from functools import cache

import numpy as np

from gpumf import gpu
from gpumf.models.base import shape_of
from gpumf_study.drawings.canvas import HUES, Drawing, Panel, tint
from gpumf_study.drawings.probes import traced

FACTORS = 16
LENGTHS = 3, 9, 7, 6
"""Ratings of the rows that are drawn."""
_CELL = 10


@cache
def steps():
    """What the half-warps of the thesis's ALS read, one rating after another.

    Returns
    -------
    (lanes, reads) : lanes of a group, and for each group a list of (rating, factors): the position of a rating and
        the factors that the lanes 0, 1, .. read of its vector
    """
    indptr = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64)
    n, rows = int(indptr[-1]), len(LENGTHS)
    lanes = shape_of(gpu.device("host"), "als/thesis.cu", FACTORS=FACTORS).lanes

    def launch(device):
        solved = device.empty((rows, FACTORS), np.float32)
        words = np.zeros((rows, FACTORS * (FACTORS + 1)), np.float32)
        device.kernel("als/thesis.cu", "thesis_global", FACTORS=FACTORS)(
            1,
            rows * lanes,
            indptr=indptr,
            indices=np.arange(n, dtype=np.int32),
            values=np.ones(n, np.float32),
            fixed=np.ones((n, FACTORS), np.float32),
            solved=solved,
            n_rows=rows,
            regularization=1.0,
            weighted=0,
            matrices=words,
            shared=4 * lanes * rows,
        )

    trace = traced(launch)
    reads = trace[trace.array == "fixed"]
    groups = []
    for group in range(rows):
        mine = reads[reads.thread // lanes == group]
        ratings = list(dict.fromkeys(mine.element // FACTORS))
        by_rating = {r: mine[mine.element // FACTORS == r].sort_values("thread") for r in ratings}
        groups.append([(int(r), (of.element % FACTORS).tolist()) for r, of in by_rating.items()])
    return lanes, groups


def drawing():
    """A warp's lanes and factors, and the turns of two warps with rows of different lengths."""
    lanes, groups = steps()

    def warp(canvas):
        x0 = 10
        for lane in range(2 * lanes):
            half = lane // lanes
            canvas.box(x0 + lane * _CELL, 24, _CELL, 20, HUES[half], edge="white", key=f"lane-{lane}")
        for half in range(2):
            left = x0 + half * lanes * _CELL
            canvas.text(left + 4, 12, f"half-warp {half}: row {half}", weight="bold")
            canvas.text(left + 1, 54, "lane 0")
            canvas.text(left + lanes * _CELL - 4, 54, f"{lanes - 1}", ha="right")
            canvas.box(left + 2, 84, lanes * _CELL - 4, 22, tint(HUES[half], 0.35), text=f"{FACTORS} factors")
            canvas.arrow((left + lanes * _CELL / 2, 82), (left + lanes * _CELL / 2, 64))
        canvas.lines(
            x0,
            128,
            (
                "Lane l holds factor l of the vector at hand:",
                f"{FACTORS} neighbours of 4 bytes, {4 * FACTORS} bytes in one piece.",
                "Within a half-warp lanes exchange numbers by",
                "shuffles, and wait for each other alone.",
            ),
        )

    def turns(canvas):
        for group, ratings in enumerate(groups):
            warp, half = divmod(group, 2)
            y = 22 + warp * 84 + half * 26
            if half == 0:
                canvas.text(0, y - 12, f"warp {warp}", weight="bold")
            canvas.text(4, y + 10, f"row {group}")
            last = max(len(g) for g in groups[2 * warp : 2 * warp + 2])
            for turn in range(last):
                busy = turn < len(ratings)
                fill = HUES[half] if busy else "white"
                text = ratings[turn][0] if busy else ""
                look = {} if busy else {"linestyle": "--"}
                canvas.box(52 + turn * 30, y, 27, 20, fill, text=text, key=f"turn-{group}-{turn}", **look)
        canvas.text(52, 200, "turns of a warp, one rating each →")
        canvas.lines(0, 224, ("Dashed: lanes that wait. A warp is busy until", "its longer row is done."))

    waits = sum(2 * max(LENGTHS[k], LENGTHS[k + 1]) - LENGTHS[k] - LENGTHS[k + 1] for k in (0, 2))
    return Drawing(
        (Panel("A warp is two half-warps", 190, warp), Panel("Rows of different lengths", 246, turns)),
        f"First the 32 lanes of a warp as two half-warps of {lanes}, each of which reads the {FACTORS} factors of "
        "one "
        f"rating of its own row, a factor a lane. Then two warps with rows of {', '.join(map(str, LENGTHS))} "
        "ratings, "
        f"a rating a turn; in {waits} turns a half-warp waits for the longer row of the other half.",
    )
