"""The three sparse products of the thesis's RBM: one batch by columns (CSC), by entries (COO) and by rows (CSR)."""

from functools import cache

import numpy as np

from gpumf import gpu
from gpumf.datasets import Ratings
from gpumf.hashing import random_subset
from gpumf.models.rbm.batches import Batches
from gpumf.models.rbm.thesis import _Matrices
from gpumf_study.drawings.canvas import HUES, Drawing, Panel, tint

N_USERS, N_ITEMS, NNZ, LEVELS, SEED = 5, 6, 12, 5, 2

_BATCH = (
    "Down: items.",
    "Across: users of a batch.",
    "A number: the rating.",
    "",
    f"For each level k of {LEVELS}",
    "a matrix v with a 1 where",
    "the rating is k, else 0,",
    "all at the same places.",
)
_COLUMN = (
    "A block: a user's column.",
    "Its entries follow each",
    "other, from indptr to",
    "the next indptr.",
    "",
    "Each thread sums the",
    "weights of items whose",
    "v is 1.",
)
_ENTRY = (
    "A block: one entry.",
    "Its item and its column",
    "say which weights and",
    "which hidden units.",
    "",
    "The threads' products are",
    "summed by a tree in",
    "shared memory.",
)
_ROW = (
    "A block: an item's row.",
    "Its entries are scattered;",
    "mapping says where they",
    "lie among the columns'.",
    "",
    "Each thread sums the",
    "gradient of its weight,",
    "and writes it, alone.",
)


@cache
def batch():
    """One batch of a small matrix, as the kernels get it.

    Returns
    -------
    (users, levels, matrices) : int (users,), uint8 (entries,), and the `_Matrices` that kernels/rbm/thesis.cu reads
    """
    where = np.flatnonzero(random_subset(N_USERS * N_ITEMS, NNZ, SEED))
    values = 1 + np.arange(NNZ) * 3 % LEVELS
    ratings = Ratings(where // N_ITEMS, where % N_ITEMS, values, N_USERS, N_ITEMS)
    levels = (ratings.by_user.values - 1).astype(np.uint8)
    one = Batches.of(ratings.by_user, levels, N_ITEMS, N_USERS, SEED)[0]
    return one.users, one.levels, _Matrices.of(one, N_ITEMS, LEVELS, gpu.device("host"))


def drawing():
    """The batch matrix, and which part of it a block takes in each product."""
    users, levels, of = batch()
    n, cell = len(of.items), 26

    def matrix(canvas, x, y, highlight, colour):
        for item in range(N_ITEMS):
            canvas.text(x - 8, y + item * cell + cell / 2, item, 11, ha="right")
        for place, user in enumerate(users):
            canvas.text(x + place * cell + cell / 2, y - 9, f"u{user}", 11, ha="center")
        entries = {(int(of.items[t]), int(of.columns[t])): t for t in range(n)}
        for item in range(N_ITEMS):
            for place in range(len(users)):
                t = entries.get((item, place))
                fill = "white" if t is None else colour if highlight(t) else tint("grey", 0.2)
                canvas.box(
                    x + place * cell, y + item * cell, cell, cell, fill, edge="0.8", text="" if t is None else t
                )

    def array(canvas, y, form, name, marked, colour):
        values = getattr(of, name)
        canvas.text(0, y + 10, name, 11, family="monospace")
        size = 248 / max(len(values), 8)
        for k, value in enumerate(values):
            canvas.box(
                92 + k * size,
                y,
                size,
                20,
                colour if k in marked else "white",
                edge="0.6",
                text=int(value),
                key=f"{form}-{name}-{k}",
            )

    def overview(canvas):
        cells = {(int(of.items[t]), int(of.columns[t])): int(levels[t]) + 1 for t in range(n)}
        for item in range(N_ITEMS):
            canvas.text(22, 24 + item * cell + cell / 2, item, 11, ha="right")
            for place in range(len(users)):
                level = cells.get((item, place), "")
                canvas.box(
                    30 + place * cell,
                    24 + item * cell,
                    cell,
                    cell,
                    tint("orange", 0.15 * level) if level else "white",
                    edge="0.8",
                    text=level,
                    key=f"level-{item}-{place}",
                )
        for place, user in enumerate(users):
            canvas.text(30 + place * cell + cell / 2, 12, f"u{user}", 11, ha="center")
        canvas.lines(176, 34, _BATCH)
        canvas.text(0, 204, "Weights W: items × hidden units, for every k.")
        canvas.text(0, 220, "One thread a hidden unit in all three.")

    def by_columns(canvas):
        column = 1
        begin, end = int(of.indptr[column]), int(of.indptr[column + 1])
        matrix(canvas, 30, 24, lambda t: begin <= t < end, HUES[0])
        canvas.lines(176, 34, _COLUMN)
        array(canvas, 196, "csc", "indptr", {column, column + 1}, HUES[0])
        array(canvas, 224, "csc", "items", set(range(begin, end)), HUES[0])

    def by_entries(canvas):
        chosen = 5
        matrix(canvas, 30, 24, lambda t: t == chosen, HUES[1])
        canvas.lines(176, 34, _ENTRY)
        array(canvas, 196, "coo", "items", {chosen}, HUES[1])
        array(canvas, 224, "coo", "columns", {chosen}, HUES[1])

    def by_rows(canvas):
        row = int(np.argmax(np.diff(of.row_indptr)))
        begin, end = int(of.row_indptr[row]), int(of.row_indptr[row + 1])
        mine = set(of.mapping[begin:end].tolist())
        matrix(canvas, 30, 24, lambda t: t in mine, HUES[2])
        canvas.lines(176, 34, _ROW)
        array(canvas, 196, "csr", "row_indptr", {row, row + 1}, HUES[2])
        array(canvas, 224, "csr", "mapping", set(range(begin, end)), HUES[2])

    return Drawing(
        (
            Panel("A batch of users", 248, overview),
            Panel("CSC: Wᵀ v, the hidden units", 248, by_columns),
            Panel("COO: W h, where there is a rating", 248, by_entries),
            Panel("CSR: v hᵀ, the change of W", 248, by_rows),
        ),
        f"First a batch as a matrix of {N_ITEMS} items and {N_USERS} users with {n} ratings. Then the three "
        "products that "
        "read it: by columns, a block a user, the entries of which follow each other; by entries, a block each, "
        "with the "
        "item and the column of every entry; by rows, a block an item, whose entries a mapping finds among those "
        "of the "
        "columns.",
    )
