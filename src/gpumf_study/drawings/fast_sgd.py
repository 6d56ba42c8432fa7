"""kernels/sgd/fast.cu: tiles of items that stay in shared memory, and runs of a user's ratings."""

from functools import cache
from types import SimpleNamespace

import numpy as np

from gpumf._util.counter_rng import random_subset
from gpumf.ratings import Ratings
from gpumf.solvers.sgd_fast import Fast
from gpumf.solvers.sgd_partition import tiled
from gpumf_study.drawings.canvas import HUES, Drawing, Panel, tint

N_USERS, N_ITEMS, NNZ, SEED = 9, 12, 52, 3
TILES, MEMBERS, LONGEST = 3, 2, 4


@cache
def assignment():
    """What the package does with a small matrix.

    Returns
    -------
    (ratings, tiles, updates) : Ratings; partition.Tiles; list of (block, member, turn, rating, moves) of an epoch
    """
    where = np.flatnonzero(random_subset(N_USERS * N_ITEMS, NNZ, SEED))
    ratings = Ratings(where // N_ITEMS, where % N_ITEMS, np.ones(NNZ), N_USERS, N_ITEMS)
    options = {"resident": "items", "tiles": TILES, "parts": 1, "longest": LONGEST}
    model = SimpleNamespace(biases=False, seed=SEED, columns=4, options=options)
    tiles = tiled(ratings, TILES, N_ITEMS, 1, LONGEST, SEED)
    return ratings, tiles, list(Fast.order(model, ratings, blocks=TILES, members=MEMBERS))


def runs(block):
    """The runs of a block: for each member a list of (user, [items]), in the order of its turns."""
    ratings, _, updates = assignment()
    found = [[] for _ in range(MEMBERS)]
    for of, member, _, rating, _ in sorted(updates, key=lambda update: update[2]):
        if of != block:
            continue
        user, item = int(ratings.users[rating]), int(ratings.items[rating])
        mine = found[member]
        if not mine or mine[-1][0] != user:
            mine.append((user, []))
        mine[-1][1].append(item)
    return found


def drawing():
    """The matrix with its items dealt to tiles, the runs of one block, and what moves for a run."""
    ratings, tiles, updates = assignment()

    def matrix(canvas):
        cell, gap, top = 23, 12, 40
        column_of, x = {}, 34
        for tile in range(TILES):
            items = tiles.items[tiles.tile_rows[tile] : tiles.tile_rows[tile + 1]].tolist()
            canvas.text(x, 8, f"tile {tile}", weight="bold")
            for item in items:
                column_of[item] = x
                canvas.text(x + cell / 2, 28, item, 11, ha="center")
                x += cell
            x += gap
        for user in range(N_USERS):
            canvas.text(26, top + user * cell + cell / 2, user, 11, ha="right")
            for item in range(N_ITEMS):
                canvas.box(column_of[item], top + user * cell, cell, cell, "0.95", edge="white")
        for block, member, turn, rating, _ in updates:
            user, item = int(ratings.users[rating]), int(ratings.items[rating])
            fill = HUES[block] if member == 0 else tint(HUES[block], 0.45)
            canvas.box(
                column_of[item],
                top + user * cell,
                cell,
                cell,
                fill,
                edge="white",
                text=turn + 1,
                key=f"rating-{user}-{item}",
            )
        canvas.lines(
            0,
            top + N_USERS * cell + 18,
            (
                "Down: users. Across: items, dealt to tiles. A colour:",
                "a block; light: its second group. A number: the turn.",
            ),
        )

    def of_block(canvas):
        y = 0
        for member, mine in enumerate(runs(0)):
            canvas.text(0, y + 8, f"group {member}", weight="bold")
            x = 0
            for user, items in mine:
                width = 26 + 22 * len(items) + 4
                if x + width > 340:
                    x, y = 0, y + 30
                canvas.box(x, y + 20, 26, 24, "0.85", edge="0.4", text=f"u{user}")
                for k, item in enumerate(items):
                    fill = HUES[0] if member == 0 else tint(HUES[0], 0.45)
                    canvas.box(x + 26 + 22 * k, y + 20, 22, 24, fill, edge="white", text=item)
                x += width + 4
            y += 62
        canvas.lines(
            0,
            y + 8,
            (
                "A run: a user (grey) and items of the tile. The user's",
                "row is read before it and written after it, once.",
            ),
        )

    def memories(canvas):
        canvas.place(0, 0, 340, 130, "multiprocessor: a block, a tile", "blue")
        canvas.place(10, 28, 156, 92, "shared memory", "sky")
        canvas.lines(20, 62, ("rows of the tile's items,", "FP32, for a whole", "launch: nobody else's"), 11.5)
        canvas.place(174, 28, 156, 92, "registers", "green")
        canvas.lines(184, 62, ("a user's row,", "for a run; the next", "one is on its way"), 11.5)
        canvas.place(0, 184, 340, 54, "global memory, L2", "grey")
        canvas.text(12, 222, "items' rows")
        canvas.text(328, 222, "users' rows in FP16, ratings", ha="right")
        canvas.arrow((60, 184), (60, 132), both=True)
        canvas.text(68, 158, "once a launch")
        canvas.arrow((230, 184), (230, 132), both=True)
        canvas.text(238, 158, "once a run")

    n_runs = sum(len(mine) for block in range(TILES) for mine in runs(block))
    return Drawing(
        (
            Panel("Tiles: who owns which items", 292, matrix),
            Panel("The runs of block 0", 292, of_block),
            Panel("What stays and what moves", 242, memories),
        ),
        f"First a matrix of {N_USERS} users and {N_ITEMS} items whose columns are dealt to {TILES} tiles, a block "
        "each, with "
        f"the block, the group and the turn of each of {NNZ} ratings. Then the runs of block 0, each a user with "
        "items of "
        f"the tile; in all there are {n_runs} runs. Then the memories: the tile's items stay in shared memory for a "
        "launch, a user's row in registers for a run.",
    )
