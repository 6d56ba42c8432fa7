"""cuMF's get_hermitian: a patch of A_u in every thread's registers, and three ways to load Theta."""

from functools import cache
from itertools import pairwise

import numpy as np

from gpumf import backends
from gpumf.solvers.als_base import segments_of
from gpumf.solvers.base import shape_of
from gpumf_study.drawings.canvas import HUES, Drawing, Panel, tint
from gpumf_study.drawings.probes import traced

FACTORS, BIN, SIDE = 100, 32, 16
LOADS = {"coalesced": 0, "non-coalesced, through L1": 1, "non-coalesced, past L1": 2}
_WIDE = 4  # floats of a copy


@cache
def trace_of(load):
    """(shape, trace) of one launch for a row of BIN ratings, whose vectors lie one after another."""
    shape = shape_of(backends.device("emulator"), "als/cumf/launch_config.cu", FACTORS=FACTORS)
    segments, _ = segments_of(np.array([0, BIN]), 8192)

    def launch(device):
        kernel = device.kernel(
            "als/cumf/hermitian.cu", "get_hermitian", FACTORS=FACTORS, LOAD=load, A_HALF=0, IMPLICIT=0
        )
        kernel(
            1,
            shape.hermitian_threads,
            segments=segments.view(np.uint8),
            indices=np.arange(BIN, dtype=np.int32),
            values=np.ones(BIN, np.float32),
            fixed=np.ones((BIN, FACTORS), np.float32),
            gram=device.empty(1, np.float32),
            matrices=device.empty(shape.matrix, np.float32),
            scales=device.empty(1, np.float32),
            biases=device.empty(FACTORS, np.float32),
            partial=device.empty(1, np.float32),
            arrived=np.zeros(1, np.int32),
            alpha=0.0,
            shared=shape.hermitian_shared,
        )

    return shape, traced(launch)


@cache
def patches():
    """The thread that has each 8 x 8 patch of A on and below the diagonal: a dict (row, column) -> thread."""
    _, trace = trace_of(0)
    written = trace[(trace.array == "matrices") & (trace.access == "write")].drop_duplicates("element")
    tiles = [(i, j) for i in range(-(-FACTORS // SIDE)) for j in range(i + 1)]
    found = {}
    for row in written.itertuples():
        tile, inside = divmod(row.element, SIDE * SIDE)
        i, j = (tiles[tile][0] * SIDE + inside // SIDE) // 8, (tiles[tile][1] * SIDE + inside % SIDE) // 8
        if j <= i and j * 8 < FACTORS and i * 8 < FACTORS:
            found[i, j] = row.thread
    return found


@cache
def copies(load):
    """Which thread copies which four factors: int (BIN, FACTORS // 4) of threads, and each one's first (theta, "
    "four)."""
    _, trace = trace_of(load)
    reads = trace[(trace.array == "fixed") & (trace.access == "read")]
    who = np.full((BIN, FACTORS // _WIDE), -1)
    theta, four = reads.element // FACTORS, reads.element % FACTORS // _WIDE
    who[theta, four] = reads.thread
    first = reads.drop_duplicates("thread").sort_values("thread")
    places = zip(first.element // FACTORS, first.element % FACTORS // _WIDE, strict=True)
    return who, dict(zip(first.thread, places, strict=True))


def _stretches(values, along):
    """Stretches of equal values along an axis, each as (row, column, rows, columns)."""
    for k, line in enumerate(np.moveaxis(values, along, -1)):
        starts = np.flatnonzero(np.diff(line, prepend=-1))
        for start, end in pairwise([*starts, len(line)]):
            yield (k, start, 1, end - start) if along else (start, k, end - start, 1)


def drawing():
    """The patches with their threads; what the warps copy first, coalesced and not; and the ways through the "
    "caches."""
    owner = patches()
    shape, _ = trace_of(0)

    def registers(canvas):
        cell = 24
        for (i, j), thread in owner.items():
            fill = tint(HUES[thread // 32], 0.25 + 0.2 * ((i // 2 + j // 2) % 2))
            canvas.box(10 + j * cell, i * cell, cell, cell, fill, edge="white", text=thread, key=f"patch-{i}-{j}")
        canvas.lines(
            150,
            10,
            (
                "A number: the thread that has",
                "these 8 x 8 entries.",
                f"{len(owner)} threads, a colour a warp.",
                "Shades: tiles of 16 x 16, as A",
                "is stored.",
            ),
        )

    def loads(load):
        who, first = copies(load)
        cell_x, cell_y = 13.2, 8

        def draw(canvas):
            for theta, four, down, across in _stretches(who // 32, along=int(load == 0)):
                fill = tint(HUES[who[theta, four] // 32], 0.25)
                canvas.box(8 + four * cell_x, theta * cell_y, across * cell_x, down * cell_y, fill, edge="none")
            for thread, (theta, four) in first.items():
                if thread < 32:
                    canvas.box(
                        8 + four * cell_x,
                        theta * cell_y,
                        cell_x,
                        cell_y,
                        HUES[0],
                        edge="white",
                        linewidth=0.3,
                        key=f"first-{load}-{thread}",
                    )
            y = BIN * cell_y + 12
            pieces = len({(theta * FACTORS + four * _WIDE) // 8 for t, (theta, four) in first.items() if t < 32})
            canvas.text(8, y, f"{BIN} rows θ of {FACTORS} factors, four a field")
            canvas.legend(
                y + 12,
                [
                    (HUES[0], f"first copies of warp 0: {pieces} sectors of 32 bytes"),
                    (tint(HUES[0], 0.25), "its later ones; other colours: warps 1 and 2"),
                ],
            )

        return draw

    def ways(canvas):
        for k, (name, load) in enumerate(LOADS.items()):
            y = k * 84
            canvas.text(0, y + 8, name, weight="bold")
            canvas.text(340, y + 8, f"LOAD={load}", 11, ha="right", family="monospace")
            past = load == 2
            boxes = (("L2", "grey", 0), ("L1", "white" if past else "sky", 112), ("shared\nmemory", "blue", 224))
            for text, fill, x in boxes:
                look = {"linestyle": "--"} if text == "L1" and past else {}
                canvas.box(x, y + 22, 84, 40, fill, text=text, **look)
            if past:
                canvas.line([84, 98, 98, 210, 210], [y + 42, y + 42, y + 70, y + 70, y + 42], "black", 1.4)
                canvas.arrow((210, y + 42), (224, y + 42))
            else:
                canvas.arrow((84, y + 42), (112, y + 42))
                canvas.arrow((196, y + 42), (224, y + 42))
        canvas.text(0, 3 * 84 + 8, "All copies are asynchronous: a bin of 32 θ arrives", 11.5)
        canvas.text(0, 3 * 84 + 24, "while the one before is multiplied in registers.", 11.5)

    return Drawing(
        (
            Panel(f"Aᵤ for {FACTORS} factors, in registers", 318, registers),
            Panel("The way of a copy", 318, ways),
            Panel("Coalesced: along one θ", 322, loads(0)),
            Panel("Non-coalesced: a θ a thread", 322, loads(1)),
        ),
        f"First the lower triangle of A_u in patches of 8 x 8, each in the registers of one of {len(owner)} "
        "threads of a "
        f"block of {shape.hermitian_threads}. Then three ways of a copy from L2 to shared memory: coalesced and "
        "non-coalesced through L1, and non-coalesced past it. Then what the threads of a warp copy first: coalesced, "
        "neighbours along one vector theta; non-coalesced, each thread from a vector of its own.",
    )
