"""Two Hogwild updates of one user, one memory access at a time: when one of them is lost, and when both count.

The kernel of the SGD chapters, kernels/sgd/hogwild.cu, with one factor and two groups, on the CPU. Each seed is
another order in which the two groups reach memory; every one of these orders can happen on a GPU.
"""

from functools import partial

import numpy as np
import pandas as pd

from gpumf import backends
from gpumf.ratings import Ratings
from gpumf_study import figure_style as style
from gpumf_study.experiments.gpumf import race_demonstration

PROFILES = {name: {"seeds": 20} for name in ("smoke", "quick", "full")}

RATINGS = Ratings([0, 0], [0, 1], [5, 1], 1, 2)
USER, ITEMS = np.full((1, 1), 1, np.float32), np.full((2, 1), 2, np.float32)
RATE, REGULARIZATION = 0.1, 0.0
KEY = 2  # of a stream whose first two draws are the two ratings

why_unavailable = partial(backends.why_unavailable, "emulator")


def run(seeds):
    """Make the two updates in as many orders as there are seeds.

    A row is a read or write of a factor: x_step, x_group (0 or 1, of an update each), x_access, x_array
    ('user_factors' or 'item_factors'), x_element; and, the same for all steps of a repeat, the metric user_factor
    (the user's only factor in the end) and x_outcome ('both count', 'update 0 is lost', 'update 1 is lost').
    """
    frames = []
    for seed in range(seeds):
        user, _, trace = race_demonstration.updates(RATINGS, USER, ITEMS, RATE, REGULARIZATION, KEY, 2, 2, seed)
        steps = trace[trace.array.str.endswith("factors")].reset_index(drop=True)
        steps.insert(0, "group", steps.pop("thread") // 16)
        steps.insert(0, "step", steps.index)
        outcome = _outcome(steps)
        steps = steps.rename(columns=lambda name: f"x_{name}")
        frames.append(steps.assign(x_outcome=outcome, repeat=seed, metric="user_factor", value=user[0, 0]))
    return pd.concat(frames, ignore_index=True).assign(task="race", solver="hogwild", device="emulator")


def _outcome(steps):
    of_user = steps[steps.array == "user_factors"]
    first, second = of_user.group[of_user.access == "write"]
    read_after = of_user[(of_user.group == second) & (of_user.access == "read")].step.item()
    written = of_user[(of_user.group == first) & (of_user.access == "write")].step.item()
    return "both count" if read_after > written else f"update {first} is lost"


def summary(frame):
    """Return how often each outcome is, of the orders tried: a Series of shares with the index x_outcome."""
    return frame.groupby("repeat").x_outcome.first().value_counts(normalize=True).sort_index()


def figure(frame):
    """Draw the share of the orders that lead to each outcome."""
    return style.dots(summary(frame), "share of the orders tried", log=False)
