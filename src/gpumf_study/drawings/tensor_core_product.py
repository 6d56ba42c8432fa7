"""A product on a tensor core: what one instruction of a warp multiplies, and which lane holds what of it."""

import numpy as np

from gpumf_study.drawings.canvas import HUES, Drawing, Panel, tint
from gpumf_study.drawings.probes import product

ROWS, COLUMNS, DEPTH = 16, 8, 16
SHOWN = 6
"""The lane whose entries are marked in all three matrices."""


def layouts():
    """Which lane holds which entry, as the kernel's own loads and product distribute them.

    Returns
    -------
    (a, b, d) : int (16, 16), (16, 8) and (16, 8), the lane of each entry of A, B and D = A B
    """
    numbers = np.arange(DEPTH * ROWS).reshape(DEPTH, ROWS)
    a, b, _ = product(numbers, numbers)
    left, right = np.zeros((2, DEPTH, ROWS))
    left[0], left[1], right[0], right[1] = np.arange(ROWS), 1, ROWS, np.arange(ROWS)
    _, _, d = product(left, right)  # D[i, j] = 16 i + j
    lanes = np.arange(32)[:, None]
    of_a, of_b, of_d = np.empty((ROWS, DEPTH), int), np.empty((DEPTH, COLUMNS), int), np.empty((ROWS, COLUMNS), int)
    of_a.T[np.divmod(a.astype(int), ROWS)] = lanes
    of_b[np.divmod(b.astype(int), ROWS)] = lanes
    of_d[np.divmod(d.astype(int), ROWS)] = lanes
    return of_a, of_b, of_d


def drawing():
    """The three matrices with one lane's entries marked, and the lane of every sum."""
    of_a, of_b, of_d = layouts()
    held = [np.count_nonzero(lanes == SHOWN) for lanes in (of_a, of_b, of_d)]

    def matrices(canvas):
        cell = 8
        places = {"A": (0, 150, of_a, "orange"), "B": (186, 0, of_b, "green"), "D": (186, 150, of_d, "blue")}
        for name, (x, y, lanes, colour) in places.items():
            rows, columns = lanes.shape
            canvas.box(x, y, columns * cell, rows * cell, tint(colour, 0.15), edge="0.4")
            for row, column in np.argwhere(lanes == SHOWN):
                canvas.box(
                    x + column * cell,
                    y + row * cell,
                    cell,
                    cell,
                    colour,
                    edge="white",
                    linewidth=0.4,
                    key=f"{name}-{row}-{column}",
                )
        for (x, y), name, (rows, columns) in (
            ((258, 20), "B", of_b.shape),
            ((258, 170), "D", of_d.shape),
            ((0, 106), "A", of_a.shape),
        ):
            canvas.text(x, y, name, 14, weight="bold")
            canvas.text(x, y + 20, f"{rows} x {columns}")
        canvas.text(258, 56, "FP16", 11)
        canvas.text(258, 206, "FP32", 11)
        canvas.text(54, 126, "FP16", 11, ha="left")
        canvas.text(157, 214, "×", 16, ha="center")
        canvas.text(218, 139, "=", 16, ha="center")
        canvas.lines(
            0,
            296,
            (
                f"Marked: what lane {SHOWN} holds, {held[0]} halves of A, {held[1]} of B and",
                f"{held[2]} sums. One instruction of a warp makes",
                f"{ROWS} x {COLUMNS} x {DEPTH} = {ROWS * COLUMNS * DEPTH:,} products and adds them up.",
            ),
        )

    def lanes(canvas):
        width, height = 40, 18
        for row in range(ROWS):
            canvas.text(12, row * height + 9, row, 11, ha="right")
            for column in range(COLUMNS):
                lane = of_d[row, column]
                fill = "blue" if lane == SHOWN else tint(HUES[lane // 4 % 2], 0.18 if lane % 2 else 0.32)
                canvas.box(
                    18 + column * width,
                    row * height,
                    width,
                    height,
                    fill,
                    edge="white",
                    text=lane,
                    key=f"lane-{row}-{column}",
                )
        canvas.text(0, ROWS * height + 16, "Rows and columns of D; in each field its lane.")

    return Drawing(
        (Panel("One instruction: D = A B + D", 340, matrices), Panel("The lane of every sum", 340, lanes)),
        "First the three matrices of a product on a tensor core, A of 16 x 16, B of 16 x 8 and the sums D of 16 "
        "x 8, in "
        f"which the entries of lane {SHOWN} are marked. Then the lane of each sum: lane l holds rows l / 4 and l "
        "/ 4 + 8, "
        f"columns 2 (l mod 4) and the next.",
    )
