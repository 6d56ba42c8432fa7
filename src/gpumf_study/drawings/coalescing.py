"""Coalesced and strided accesses: which elements the first warp of a launch reads, and what memory sends for them."""

from functools import cache

import numpy as np

from gpumf_study.drawings.canvas import Drawing, Panel, tint
from gpumf_study.drawings.probes import traced

SIDE, WARP = 32, 32
SECTOR = 8  # floats: memory sends 32 bytes at least
_CELL = 10.5


@cache
def reads(entry):
    """What the first warp of `coalesced` or `strided` of microbenchmarks/elementwise_cube.cu reads.

    Returns
    -------
    list of int, the element of each thread in a matrix of SIDE x SIDE
    """

    def launch(device):
        a = np.ones((SIDE, SIDE), np.float32)
        kernel = device.kernel("microbenchmarks/elementwise_cube.cu", entry)
        kernel(1, WARP, a=a, result=device.empty(a.shape, np.float32), dim=SIDE)

    trace = traced(launch)
    first = trace[(trace.array == "a") & (trace.access == "read")].drop_duplicates(["thread", "element"])
    return first.sort_values("thread").element.tolist()


def sectors(elements):
    """The pieces of memory in which these elements lie: a sorted list."""
    return sorted({element // SECTOR for element in elements})


def drawing():
    """Both on a matrix of 32 x 32 floats."""

    def panel(entry):
        elements = reads(entry)
        fetched = set(sectors(elements))

        def draw(canvas):
            for sector in fetched:
                row, column = divmod(sector * SECTOR, SIDE)
                canvas.box(column * _CELL, row * _CELL, SECTOR * _CELL, _CELL, tint("orange", 0.6), edge="none")
            for element in elements:
                row, column = divmod(element, SIDE)
                canvas.box(
                    column * _CELL,
                    row * _CELL,
                    _CELL,
                    _CELL,
                    "blue",
                    edge="white",
                    linewidth=0.4,
                    key=f"{entry}-{element}",
                )
            for k in range(SIDE + 1):
                bold = 0.9 if k % SECTOR == 0 else 0.3
                canvas.line([k * _CELL] * 2, [0, SIDE * _CELL], "0.7", bold)
                canvas.line([0, SIDE * _CELL], [k * _CELL] * 2, "0.7", 0.3)
            y, moved = SIDE * _CELL + 14, len(fetched) * SECTOR * 4
            canvas.legend(
                y - 6,
                [
                    ("blue", f"read by the {WARP} threads of a warp: {4 * len(set(elements))} bytes"),
                    (tint("orange", 0.6), f"sent in vain: {moved - 4 * len(set(elements))} bytes"),
                ],
            )
            canvas.text(
                0, y + 42, f"{len(fetched)} sectors of {4 * SECTOR} bytes, {moved:,} bytes in all", weight="bold"
            )

        return draw

    rows, columns = sectors(reads("coalesced")), sectors(reads("strided"))
    return Drawing(
        (
            Panel("Coalesced: neighbours read neighbours", 400, panel("coalesced")),
            Panel("Strided: neighbours read a row apart", 400, panel("strided")),
        ),
        f"A matrix of {SIDE} x {SIDE} numbers, twice. Coalesced, the {WARP} threads of a warp read one row, "
        f"{len(rows)} sectors of {4 * SECTOR} bytes. Strided, they read one column, and memory sends {len(columns)} "
        f"sectors, of each of which one number in {SECTOR} is used.",
    )
