"""What the races of Hogwild do to its result: the same updates in many orders, by few and by many groups.

kernels/sgd/hogwild.cu on the CPU, where the order of all memory accesses is drawn from a seed. All groups are
threads of one block. A GPU may take any of these orders, but takes them with other frequencies: what is shown here is
what can happen, and why it happens more with more groups, not how often it happens on a GPU.
"""

from functools import partial

import numpy as np
import pandas as pd

from gpumf import backends
from gpumf.backends.cpu import reference
from gpumf.ratings import Ratings
from gpumf.solvers.sgd_base import kernel_steps

RATE, REGULARIZATION, KEY = 0.05, 0.02, 0

_SMALL = {"n_users": 30, "n_items": 20, "factors": 8, "n_updates": 600}
PROFILES = {
    "quick": {"groups": [1, 2, 4, 8, 16, 32], "seeds": 8, **_SMALL},
    "full": {"groups": [1, 2, 4, 8, 16, 32, 64], "seeds": 20, **_SMALL},
}
PROFILES["smoke"] = PROFILES["quick"] | {"groups": [1, 4], "seeds": 3}

why_unavailable = partial(backends.why_unavailable, "emulator")


def run(groups, seeds, n_users, n_items, factors, n_updates):
    """Make the same updates of random factors, on every rating of a small matrix, in as many orders as seeds.

    Metrics are lost_share (of the writes of a factor, those over something that another group wrote there since this
    one read it), distance (of all factors from those of the same updates one after another, relative to how far these
    went), and rmse (of the ratings in the end).

    groups : list of int, 1 to 64: how many update at a time
    factors : up to 16
    """
    rng = np.random.default_rng(0)
    users, items = (a.ravel() for a in np.indices((n_users, n_items)))
    ratings = Ratings(users, items, rng.integers(1, 6, n_users * n_items), n_users, n_items)
    start = [rng.random((rows, factors), np.float32) for rows in (n_users, n_items)]
    steps = RATE, REGULARIZATION, REGULARIZATION
    one_by_one = np.concatenate(reference.hogwild(ratings, *start, steps, KEY, 0, n_updates))
    way = np.linalg.norm(one_by_one - np.concatenate(start))
    rows = []
    for n_groups in groups:
        for seed in range(seeds):
            p, q, trace = updates(ratings, *start, RATE, REGULARIZATION, KEY, n_updates, n_groups, seed)
            _, squared = reference.sum_errors(ratings, p, q)
            distance = np.linalg.norm(np.concatenate([p, q]) - one_by_one) / way
            rows.append((n_groups, seed, lost_share(trace), distance, np.sqrt(squared / ratings.nnz)))
    frame = pd.DataFrame(rows, columns=["x_groups", "repeat", "lost_share", "distance", "rmse"])
    frame = frame.melt(["x_groups", "repeat"], var_name="metric")
    return frame.assign(task="race", model="SGD", solver="hogwild", device="emulator", factors=factors)


def updates(ratings, user_factors, item_factors, rate, regularization, key, n_updates, n_groups, seed):
    """Launch Hogwild's updates for n_groups groups of one block, in the order of a seed.

    Return (user_factors, item_factors, trace) : after the updates, and a DataFrame of the reads and writes in their
    order
    """
    device, factors, trace = backends.device("emulator"), user_factors.shape[1], []
    p, q = device.array(user_factors), device.array(item_factors)
    with device.shuffled(seed, trace):
        device.kernel("sgd/hogwild.cu", "hogwild", FACTORS=factors, BIASES=0)(
            1, 16 * n_groups, users=ratings.users, items=ratings.items, values=ratings.values, nnz=ratings.nnz,
            user_factors=p, item_factors=q, steps_now=device.array(kernel_steps(rate, [regularization] * 4)), key=key,
            first_update=0, n_updates=n_updates,
        )  # fmt: skip
    return p, q, trace[0]


def lost_share(trace):
    """A thread reads a factor, then writes it; if others wrote it in between, their update is lost."""
    trace = trace[trace.array.str.endswith("factors")]
    wrote = trace.access == "write"
    writes_so_far = wrote.groupby([trace.array, trace.element]).cumsum() - wrote
    own = writes_so_far.groupby([trace.array, trace.element, trace.thread])
    return float((own.diff()[wrote] > 0).mean())


def summary(frame):
    """Return the medians over the orders: the index is x_groups, the columns are the metrics."""
    return frame.groupby(["x_groups", "metric"]).value.median().unstack()
