"""How often updates conflict: ESGD's formulas, sampled ratings, and the share of updates lost in runs of Hogwild.

For a number of updates at a time, four shares of those that share their user or item with another one at that time:
by the probability that ESGD publishes (section 3: independent entries of a matrix that is taken to be square), by the
same count for the true shape, among sampled ratings of a data set (whose popular users and items both forget), and
the share of writes of Hogwild's kernel that are lost, in random orders of its memory accesses on the emulator (see
`race_demonstration`). And of a data set that is sorted by user: the share of ratings that share their user or item
with another one that a block of ESGD works on at a time, when its permutation has mixed the block.
"""

from functools import partial

import numpy as np
import pandas as pd

from gpumf import backends
from gpumf.ratings.synthetic import RECIPES
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, below
from gpumf_study.experiments import load_ratings
from gpumf_study.experiments.gpumf import race_demonstration

ESGD = "ESGD"

PROFILES = {
    "quick": {"data": ["ml-100k", "jester-1"], "at_once": [2, 4, 8, 16, 32], "draws": 2000, "seeds": 3,
              "traced": 400, "sorted_by_user": "ml-1m-synthetic", "th_size": 1000, "st": 2, "factors": 16},
    "full": {"data": ["ml-100k", "jester-1", "netflix-synthetic"], "at_once": [2, 4, 8, 16, 32], "draws": 20_000,
             "seeds": 10, "traced": 600, "sorted_by_user": "ml-1m", "th_size": 1000, "st": 2, "factors": 16},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": ["ml-100k-synthetic"], "at_once": [2, 8], "draws": 100, "seeds": 1, "traced": 50,
    "sorted_by_user": "ml-100k-synthetic",
}  # fmt: skip


def independence_probability(n_users, n_items, draws, *, square=True):
    """How likely random entries of the rating matrix share neither row nor column (esgd, section 3: P_u = U / A).

    n_users, n_items, draws : m, n and l
    square : bool. The publication counts what is left after each draw as J_k = (sqrt(J_{k-1}) - 1)^2, J_0 = m n,
        which holds in a square matrix; with False it is (m - k) (n - k), which holds in any.
    Returns float: U / A, A the ways to draw l of m n entries; 0 where draws exceed m or n: then entries must meet
    """
    if draws > min(n_users, n_items):
        return 0.0
    cells, k = n_users * n_items, np.arange(draws)
    left = (np.sqrt(cells) - k) ** 2 if square else (n_users - k) * np.float64(n_items - k)
    # U / A factor by factor, as both are products: their logarithms as wholes lose the digits that differ.
    return float(np.prod(left / (cells - k)))


why_unavailable = partial(backends.why_unavailable, "emulator")


def run(data, at_once, draws, seeds, traced, sorted_by_user, th_size, st, factors):
    """Count the share of samples in which any two updates conflict; of the variant 'overwritten', of writes lost.

    at_once : list of int, 2 to 64: updates at a time
    draws : samples of so many ratings, with replacement
    seeds, traced : runs of the kernel with so many groups, and updates of each
    sorted_by_user : name of the data set for the blocks of ESGD, the variant 'ESGD'; th_size, st, factors: its
        parameters, by which a block has th_size * st ratings and works on th_size / factors of them at a time
    """
    rows = []
    for name in data:
        ratings = load_ratings(name)
        shape = ratings.n_users, ratings.n_items
        for n in at_once:
            rows.append((ratings.name, "published", 0, 1 - independence_probability(*shape, n), n))
            rows.append((ratings.name, "true shape", 0, 1 - independence_probability(*shape, n, square=False), n))
            rows.append((ratings.name, "drawn", 0, _share_that_conflicts(ratings, n, draws), n))
            for seed in range(seeds):
                rows.append((ratings.name, "overwritten", seed, _overwritten(ratings, n, traced, seed), n))
    ratings, n = load_ratings(sorted_by_user), th_size // factors
    rows += [(ratings.name, ESGD, k, _in_blocks_that_conflict(ratings, th_size * st, n, k), n) for k in range(seeds)]
    frame = pd.DataFrame(rows, columns=["data", "variant", "repeat", "value", "x_at_once"])
    return frame.assign(task="count conflicts", metric="share")


def _share_that_conflicts(ratings, n, draws):
    """The share of samples of n ratings in which two share a user or an item."""
    drawn = np.random.default_rng(n).integers(0, ratings.nnz, (draws, n))
    repeated = (np.diff(np.sort(rows[drawn], axis=1), axis=1) == 0 for rows in (ratings.users, ratings.items))
    return float(np.logical_or(*(r.any(axis=1) for r in repeated)).mean())


def _in_blocks_that_conflict(ratings, block, at_once, seed):
    """The share of ratings that share their user or item with another one of so many in a block, mixed by a seed."""
    permutation = np.random.default_rng(seed).permutation(block)[: block // at_once * at_once]
    order = np.argsort(ratings.users, kind="stable")[: ratings.nnz // block * block].reshape(-1, block)
    conflicts = False
    for rows in (ratings.users, ratings.items):
        together = rows[order[:, permutation]].reshape(-1, at_once)
        place = np.argsort(together, axis=1)
        same = np.diff(np.take_along_axis(together, place, axis=1), axis=1) == 0  # as the next one
        shared = np.pad(same, ((0, 0), (0, 1))) | np.pad(same, ((0, 0), (1, 0)))
        found = np.empty_like(shared)
        np.put_along_axis(found, place, shared, axis=1)
        conflicts = conflicts | found
    return float(conflicts.mean())


def _overwritten(ratings, groups, n_updates, seed):
    """The share of writes lost when so many groups update at a time, in the order of a seed."""
    start = [np.full((rows, 1), 0.1, np.float32) for rows in (ratings.n_users, ratings.n_items)]
    settings = race_demonstration.RATE, race_demonstration.REGULARIZATION, seed, n_updates, groups, seed
    _, _, trace = race_demonstration.updates(ratings, *start, *settings)
    return race_demonstration.lost_share(trace)


_WAYS = {
    "published": ("formula as published", "black", "--"), "true shape": ("formula, true shape", "sky", "-"),
    "drawn": ("sampled ratings", "blue", "-o"), "overwritten": ("lost writes", "red", "-s"),
}  # fmt: skip


def figure(frame):
    """Draw how often updates conflict, against how many are made at a time: by formula, as sampled, and lost."""
    frame = frame[frame.variant != ESGD]
    names = frame.data.unique()
    figure, (axes,) = style.panels(columns=len(names), height=3.8, sharey=True)
    for axis, name in zip(axes, names, strict=True):
        shares = frame[frame.data == name].groupby(["variant", "x_at_once"]).value.mean()
        for how, (label, colour, line) in _WAYS.items():
            # A logarithmic axis has no place for a share of nothing.
            positive = shares[how].where(shares[how] > 0)
            axis.plot(positive, line, color=style.COLOURS[colour], label=label, markersize=4)
        axis.set(xlabel="updates at a time", ylabel="share", title=style.data_name(name))
        axis.set_xscale("log", base=2)
        style.log_scale(axis.yaxis)
    style.legend(figure, axes[0], 4)
    return figure


def summary(frame):
    """Return the shares, means over the seeds: the index is (data, updates at a time), a column a way to count."""
    shares = frame[frame.variant != ESGD].groupby(["data", "x_at_once", "variant"]).value.mean()
    return shares.unstack().rename_axis(index={"x_at_once": "at_once"})


_ST = PROFILES["full"]["st"]
_PUBLISHED = RECIPES["ml-1m"].ratings / (RECIPES["ml-1m"].users * RECIPES["ml-1m"].items) / _ST
"""The probability of overwriting by its formula: the density of the rating matrix over st."""
CLAIMS = [
    Claim("esgd-conflicts", "esgd", "Section 3",
          "Share of the ratings in use at a time in a block that share their user or item with another one, "
          "MovieLens 1M, sorted by user.", _PUBLISHED, "median", {"column": "value", "where": {"variant": ESGD}},
          below(2 * _PUBLISHED)),
]  # fmt: skip
