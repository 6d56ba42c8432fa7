"""Which thread takes which rating, and when: every scheme of SGD on a matrix small enough to be drawn.

Nothing is timed. Partitions, orders and draws are those of the package; the pace, which a device decides, is replaced
by turns in which each worker makes one update. Four work at a time: members 0 and 1 of the thread blocks 0 and 1, a
member being a thread of GPUSGD, the whole block of NewGPUSGD, and a group of lanes elsewhere.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from matplotlib.patches import Patch, Rectangle

from gpumf import SGD
from gpumf._util.counter_rng import random_subset
from gpumf.ratings import Ratings
from gpumf_study import figure_style as style

BLOCKS = MEMBERS = 2
WORKERS = BLOCKS * MEMBERS
# Of all schemes: so small that each has something to do for every worker.
OPTIONS = {"side": BLOCKS, "th_size": 4 * MEMBERS, "st": 2, "shuffle": False, "striding": True, "run": 4}
OPTIONS |= {"resident": "items", "tiles": BLOCKS, "parts": 1, "longest": 2, "update": "batch_hogwild"}
PROFILES = {name: {"n_users": 8, "n_items": 6, "nnz": 30, "seed": 4} for name in ("smoke", "quick", "full")}


def run(n_users, n_items, nnz, seed):
    """Let every scheme take an epoch of a random matrix.

    n_users, n_items, nnz : int, the shape of the matrix and its ratings
    seed : int, of the ratings and of every scheme

    A row is an update: x_block, x_member (who), the metric turn (when, from 0), x_user, x_item, x_moves ('both'
    vectors, or the 'user' alone: of `kato_hosino` the first half of an epoch is here; of `cu2rec` who comes too
    late for the item). x_number counts the updates of a solver: ratings that it draws twice have two rows.
    """
    where = np.flatnonzero(random_subset(n_users * n_items, nnz, seed))
    ratings = Ratings(where // n_items, where % n_items, np.ones(nnz), n_users, n_items)
    model = SimpleNamespace(biases=False, seed=seed, columns=4, options=OPTIONS)
    frames = []
    for name, scheme in SGD.solver_classes().items():
        if scheme.device != "cuda":
            continue
        updates = scheme.order(model, ratings, blocks=BLOCKS, members=MEMBERS)
        frame = pd.DataFrame(updates, columns=["x_block", "x_member", "value", "rating", "x_moves"])
        frame = frame[frame.x_moves != "item"]
        rating = frame.pop("rating")
        frame = frame.assign(x_user=ratings.users[rating], x_item=ratings.items[rating], x_number=range(len(frame)))
        frames.append(frame.assign(task="assignment", model="SGD", solver=name, metric="turn"))
    return pd.concat(frames, ignore_index=True)


def summary(frame):
    """Return by scheme: turns (until the last one is done), busy (the share of them in which one of the four has
    something to do), meets (the share of updates that move a vector that another one moves in the same turn).
    """
    rows = []
    for scheme, updates in frame.groupby("solver", sort=False):
        turns = updates.value.max() + 1
        of_item = updates[updates.x_moves == "both"]
        meets = updates.duplicated(["value", "x_user"], keep=False)
        meets |= of_item.duplicated(["value", "x_item"], keep=False).reindex(updates.index, fill_value=False)
        rows.append((scheme, turns, len(updates) / (turns * WORKERS), meets.mean()))
    return pd.DataFrame(rows, columns=["scheme", "turns", "busy", "meets"])


# Of members 0 and 1 of both thread blocks, and of the numbers on them.
_WORKERS = {
    (0, 0): ("blue", "white"), (0, 1): ("sky", "black"), (1, 0): ("red", "white"), (1, 1): ("orange", "black"),
}  # fmt: skip


def figure(frame):
    """Draw a small matrix for each scheme: the colour says who takes a rating, the number in which turn.

    A frame instead of a filled square: the update moves the user's vector alone. A plus: the rating is drawn again. A
    grey square: it is not drawn at all.
    """
    rows = -(-frame.solver.nunique() // 3)
    figure, axes = style.panels(columns=3, rows=rows, width=5.2, height=2.9 * rows)
    ratings = frame[["x_user", "x_item"]].drop_duplicates()

    def square(axis, user, item, **look):
        axis.add_patch(Rectangle((item + 0.06, user + 0.06), 0.88, 0.88, linewidth=2, **look))

    for axis in axes.ravel()[frame.solver.nunique() :]:
        axis.remove()
    for axis, (scheme, updates) in zip(figure.axes, frame.groupby("solver", sort=False), strict=True):
        for user, item in ratings.itertuples(index=False):
            square(axis, user, item, color="0.9")
        for (user, item), here in updates.groupby(["x_user", "x_item"]):
            first = here.iloc[0]
            colour, number = _WORKERS[first.x_block, first.x_member]
            both = first.x_moves == "both"
            edge = style.COLOURS[colour]
            square(axis, user, item, facecolor=edge if both else "white", edgecolor=edge)
            turn = f"{first.value + 1}{'+' if len(here) > 1 else ''}"
            colour = number if both else "black"
            axis.text(item + 0.5, user + 0.54, turn, ha="center", va="center", fontsize=style.SMALL, color=colour)
        axis.set(xlim=(0, frame.x_item.max() + 1), ylim=(frame.x_user.max() + 1, 0), aspect="equal")
        axis.set(xlabel="items", ylabel="users", xticks=[], yticks=[])
        axis.set_title(style.LOOKS["SGD", scheme].name, fontsize=10)
        axis.spines[:].set_visible(False)
        axis.grid(False)
    handles = [
        Patch(color=style.COLOURS[colour], label=f"thread block {block}, member {member}")
        for (block, member), (colour, _) in _WORKERS.items()
    ]
    handles.append(Patch(facecolor="white", edgecolor="0.3", label="moves the user alone"))
    handles.append(Patch(color="0.9", label="not drawn"))
    figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    figure.supxlabel("Computed from the package's partitions and orders, not measured.", fontsize=style.SMALL)
    return figure
