"""Half-warp ALS of the thesis: which lane sums which entries of A, the steps of a row, and where its matrices lie."""

from functools import cache
from types import SimpleNamespace

import numpy as np

from gpumf import ALS
from gpumf_study.drawings.canvas import HUES, Drawing, Panel, tint
from gpumf_study.drawings.probes import traced

FACTORS, RATINGS = 16, 2
VERSIONS = "thesis_shared", "thesis_hybrid", "thesis_global"


@cache
def lanes():
    """The lane that adds to each entry of A's upper triangle, as the kernel does it: a dict (row, column) -> lane."""

    def launch(device):
        words = np.zeros((1, FACTORS * (FACTORS + 1)), np.float32)
        device.kernel("als/thesis.cu", "thesis_global", FACTORS=FACTORS)(
            1,
            16,
            indptr=np.array([0, RATINGS]),
            indices=np.arange(RATINGS, dtype=np.int32),
            values=np.ones(RATINGS, np.float32),
            fixed=np.ones((RATINGS, FACTORS), np.float32),
            solved=device.empty((1, FACTORS), np.float32),
            n_rows=1,
            regularization=1.0,
            weighted=0,
            matrices=words,
            shared=4 * 16,
        )

    trace = traced(launch)
    # From the first vector on, whoever first reads an entry of the sum adds to it.
    words = FACTORS * (FACTORS + 1) // 2
    reads = trace[(trace.array == "matrices") & (trace.access == "read") & (trace.element < words)]
    start = trace.index[trace.array == "fixed"][0]
    summing = reads[reads.index > start].drop_duplicates("element")
    places = [(i, j) for i in range(FACTORS) for j in range(i, FACTORS)]
    return {places[row.element]: row.thread for row in summing.itertuples()}


def memory():
    """By version (bytes of a block's shared memory, how many of a row's two matrices lie there): a dict."""
    model, schemes = SimpleNamespace(columns=FACTORS, device="emulator"), ALS.solver_classes()
    return {name: (schemes[name].shared_bytes(model), schemes[name].shared_matrices) for name in VERSIONS}


def drawing():
    """The triangle with its lanes, four steps, and the three versions."""
    owner = lanes()

    def triangle(canvas):
        cell = 20
        for (row, column), lane in owner.items():
            fill = tint(HUES[lane % 8], 0.85 if lane == 5 else 0.3)
            canvas.box(
                10 + column * cell, row * cell, cell, cell, fill, edge="white", text=lane, key=f"entry-{row}-{column}"
            )
        most = max(list(owner.values()).count(lane) for lane in range(16))
        canvas.lines(
            0,
            196,
            (
                "A number: the lane",
                "that adds to this entry",
                f"of A. Each has {most} at",
                "most, and shares none.",
                "Strong: those of lane 5.",
            ),
        )

    def steps(canvas):
        done = (
            ("1", "read a vector θ", "lane l reads factor l: 64 bytes in one piece", "grey"),
            ("2", "A += θ θᵀ,  b += r θ", "all lanes read θ in shared memory", "blue"),
            ("", "", "1 and 2 again for every rating of the row", "white"),
            ("3", "A + λ n I = L D Lᵀ", "column by column, lane i on row i", "orange"),
            ("4", "x = L⁻ᵀ D⁻¹ L⁻¹ b", "an unknown a step, passed on by a shuffle", "green"),
        )
        y = 0
        for number, what, how, colour in done:
            if number:
                canvas.box(0, y, 26, 44, colour, text=number, size=14)
                canvas.box(26, y, 314, 44, tint(colour, 0.15), edge="0.6")
                canvas.text(36, y + 14, what, weight="bold")
                canvas.text(36, y + 32, how, 11)
                y += 52
            else:
                canvas.text(36, y + 2, f"↻ {how}", 11, style="italic")
                y += 20

    def versions(canvas):
        for k, (name, (shared, inside)) in enumerate(memory().items()):
            y = k * 92
            canvas.text(0, y + 8, name, family="monospace", weight="bold")
            canvas.text(340, y + 8, f"a block: {shared:,} bytes shared", 11, ha="right")
            canvas.place(0, y + 20, 166, 58, "shared memory", "blue")
            canvas.place(174, y + 20, 166, 58, "global memory", "grey")
            for matrix, text in enumerate(("L, D", "A")):
                there = matrix < inside
                x = (0 if there else 174) + 8 + (76 if matrix and inside != 1 else 0)
                canvas.box(x, y + 46, 74, 24, "sky" if matrix else "orange", text=text, key=f"{name}-{matrix}")

    by_version = "; ".join(f"{name} {inside} in shared memory" for name, (_, inside) in memory().items())
    return Drawing(
        (
            Panel(f"A of {FACTORS} x {FACTORS}, summed by a half-warp", 326, triangle),
            Panel("A row, step by step", 236, steps),
            Panel("Three versions: where A and L, D lie", 270, versions),
        ),
        f"First the upper triangle of A, {FACTORS} x {FACTORS} entries, each with the number of the lane of the "
        "half-warp "
        "that adds to it, along diagonals that wrap around. Then the steps of a row: read a vector, add its "
        "products, "
        "for every rating; decompose; substitute. Then where a row's two matrices lie: " + by_version + ".",
    )
