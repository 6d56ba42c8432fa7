"""kernels/als/tensor_core.cu: which warp computes which tiles of A, and how stages of ratings follow each other."""

from gpumf_study.drawings.canvas import HUES, Drawing, Panel, tint
from gpumf_study.drawings.probes import pipeline, plan

SMALL, LARGE = 100, 256
"""Numbers of factors that are drawn: one with a plan tile by tile, one whose warps have rectangles."""
_STEPS = 5


def warps(factors):
    """(warp, number in the warp's order) of each tile (row, column) on and below the diagonal: a dict."""
    tiles, _ = plan(factors)
    counts, found = {}, {}
    for warp, row, column in tiles.tolist():
        # Off the diagonal a warp may have a tile of the upper triangle in its place: A is symmetric.
        found[max(row, column), min(row, column)] = warp, counts.get(warp, 0)
        counts[warp] = counts.get(warp, 0) + 1
    return found


def drawing():
    """Two plans, the pipeline, and the way of a row."""
    stage, ahead, threads, _ = pipeline(SMALL)

    def small(canvas):
        cell = 44
        for (row, column), (warp, order) in warps(SMALL).items():
            x, y = 10 + column * cell, row * cell
            canvas.box(x, y, cell, cell, tint(HUES[warp], 0.45), edge="white", key=f"tile-{row}-{column}")
            canvas.text(x + cell / 2, y + 16, f"w {warp}", weight="bold", ha="center")
            canvas.text(x + cell / 2, y + 32, order + 1, 11, ha="center")
        _, shape = plan(SMALL)
        canvas.lines(
            150,
            12,
            (f"{shape.tiles} tiles of 16 x 16", f"for {shape.warps} warps; below,", "the order in each warp."),
        )

    def large(canvas):
        cell = 20
        for (row, column), (warp, _) in warps(LARGE).items():
            canvas.box(
                10 + column * cell,
                row * cell,
                cell,
                cell,
                tint(HUES[warp], 0.45),
                edge="white",
                text=warp,
                key=f"large-{row}-{column}",
            )
        _, shape = plan(LARGE)
        canvas.lines(
            150,
            12,
            (
                f"{shape.tiles} tiles for {shape.warps} warps: six have",
                "a rectangle, two have two",
                "triangles on the diagonal.",
            ),
        )

    def stages(canvas):
        rows = (("read ratings", ahead + 2, "orange"), ("copy factors", ahead, "sky"), ("multiply", 0, "blue"))
        for s in range(_STEPS):
            canvas.text(118 + 46 * s, 8, s, ha="center", weight="bold")
        canvas.text(0, 8, "step", weight="bold")
        for k, (name, offset, colour) in enumerate(rows):
            y = 24 + 40 * k
            canvas.text(0, y + 14, name)
            for s in range(_STEPS):
                canvas.box(98 + 46 * s, y, 42, 28, colour, text=s + offset, size=12, key=f"stage-{k}-{s}")
        for s in range(ahead, _STEPS):
            start = 98 + 46 * (s - ahead) + 21
            canvas.arrow((start + 4, 24 + 40 + 28), (98 + 46 * s + 16, 24 + 80))
        canvas.lines(
            0,
            156,
            (
                f"In a box: the stage, of {stage} ratings. While one is",
                "multiplied, the next is on its way to shared memory",
                "and the ratings of a later one to registers.",
            ),
        )

    def way(canvas):
        done = (
            ("global memory", "ratings r, factors in FP16", "grey"),
            ("shared memory", f"stages of {stage} vectors, two bytes a factor", "sky"),
            ("tensor cores", "16 ratings at a time, sums in FP32", "orange"),
            (f"registers of {threads} threads", "A and b, from the first rating to x", "green"),
            ("conjugate gradient", "where A is; only x goes back to memory", "blue"),
        )
        for k, (where, what, colour) in enumerate(done):
            canvas.box(0, k * 46, 340, 36, tint(colour, 0.25), edge="0.5")
            canvas.text(8, k * 46 + 11, where, 11.5, weight="bold")
            canvas.text(8, k * 46 + 26, what, 11.5)
            if k:
                canvas.arrow((170, k * 46 - 10), (170, k * 46))

    return Drawing(
        (
            Panel(f"A for {SMALL} factors: the tiles of a team", 312, small),
            Panel(f"A for {LARGE} factors", 324, large),
            Panel("Stages follow each other", 226, stages),
            Panel("A row of one segment stays on the chip", 226, way),
        ),
        f"First the lower triangle of A in tiles of 16 x 16 for {SMALL} factors, with the warp that computes each "
        "and the "
        f"order in that warp; then the same for {LARGE} factors, where eight warps have rectangles and triangles. "
        "Then a "
        f"pipeline: in each step a stage of {stage} ratings is multiplied, the stage {ahead} later is copied to "
        "shared "
        f"memory, and the ratings of that {ahead + 2} later are read. Then the way of a row of one segment: from "
        "global memory "
        "to shared "
        "memory, tensor cores, registers, and conjugate gradient in the same registers.",
    )
