"""Ratings that are hostile on purpose: a list of named cases, and a hypothesis strategy that draws more of them.

Every model, kernel and device has to be right on them, or loud: tests hold each row against float64.
"""

import numpy as np
from hypothesis import strategies as st

from gpumf.ratings import Ratings

USERS, ITEMS = 8, 12


def _stars(rng, n):
    return rng.integers(1, 6, n)


def _all_but_one(usual, other):
    def values(rng, n):
        result = np.asarray(usual(rng, n), float)
        result[rng.integers(n)] = other
        return result

    return values


def _constant(value):
    return lambda rng, n: np.full(n, value)


# What n ratings are: functions of a random generator and n.
VALUES = {
    "stars": _stars,
    "all zero": _constant(0.0),
    "one not zero": _all_but_one(_constant(0.0), 5.0),
    "one zero": _all_but_one(_stars, 0.0),
    "constant": _constant(3.0),
    "negative": lambda rng, n: -_stars(rng, n),
    "both signs": lambda rng, n: rng.choice([-1.0, 1.0], n),
    "tiny": lambda rng, n: 1e-6 * _stars(rng, n),
    "large": lambda rng, n: 1e6 * _stars(rng, n),
    "tiny and large": lambda rng, n: rng.choice([1e-6, 1e6], n) * _stars(rng, n),
    "one huge": _all_but_one(_stars, 1e7),
    "one hugely negative": _all_but_one(_stars, -1e7),
    "beyond half precision": _all_but_one(_stars, 65_520.0),
    "heavy tails": lambda rng, n: np.floor(10.0 ** rng.uniform(0, 8, n)),
}


def _ragged(rng, n_users, n_items):
    """Any pairs, with a user and an item of each kind: without a rating, with one, with all that are left."""
    rated = rng.random((n_users, n_items)) < rng.uniform(0.1, 0.9)
    if n_users > 2 and n_items > 2:
        rated[0] = rated[:, 0] = False
        rated[1] = np.arange(n_items) == n_items - 1
        rated[2, 1:] = True
    else:
        rated[-1, -1] = True
    return rated


def _hot_item(rng, n_users, n_items):
    """Every user has rated the last item, and few anything else."""
    rated = rng.random((n_users, n_items)) < 0.1
    rated[:, -1] = True
    return rated


# Which pairs have a rating, bool (users, items): functions of a random generator and the two sizes.
PATTERNS = {
    "ragged": _ragged,
    "full": lambda rng, n_users, n_items: np.ones((n_users, n_items), bool),
    "hot item": _hot_item,
    "hot user": lambda rng, n_users, n_items: _hot_item(rng, n_items, n_users).T,
    "diagonal": lambda rng, n_users, n_items: np.arange(n_users)[:, None] % n_items == np.arange(n_items),
}

SIZES = [(USERS, ITEMS), (1, ITEMS), (USERS, 1), (1, 1)]


def ratings_of(pattern, values, n_users=USERS, n_items=ITEMS, seed=0):
    """A rating set of a pattern and of values, by their names; no pair twice, in random order."""
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(PATTERNS[pattern](rng, n_users, n_items))
    order = rng.permutation(len(users))
    drawn = np.asarray(VALUES[values](rng, len(users)), np.float32)
    return Ratings(users[order], items[order], drawn, n_users, n_items, name=f"{pattern}, {values}")


def cases():
    """The fixed list, a dict name -> Ratings: all values on ragged rows, all patterns and sizes with hard values."""
    found = [ratings_of("ragged", values) for values in VALUES]
    found += [ratings_of(pattern, "heavy tails") for pattern in PATTERNS if pattern != "ragged"]
    found += [ratings_of("full", values, *size) for size in SIZES[1:] for values in ("stars", "tiny and large")]
    return {f"{r.n_users} x {r.n_items}, {r.name}": r for r in found}


@st.composite
def hostile_ratings(draw, max_users=USERS, max_items=ITEMS, values=tuple(VALUES)):
    """Any pattern, any of the named values, any size up to the largest."""
    return ratings_of(
        draw(st.sampled_from(list(PATTERNS))),
        draw(st.sampled_from(values)),
        draw(st.integers(1, max_users)),
        draw(st.integers(1, max_items)),
        draw(st.integers(0, 2**16)),
    )
