"""How far rows of factors in eight bits change the test error of ALS, and whether they are taken where it is little.

The CPU trains, and rounds the users' factors as kernels/als/half_rows.cu does before items are updated: on a GPU the
update that may gather so, as there are more users than items. The rule (`bear_bytes`) was chosen on these data sets.
"""

from itertools import product
from typing import ClassVar

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS
from gpumf._util.counter_rng import random_subset
from gpumf.backends import compile
from gpumf.solvers.als_base import ParallelConjugateGradient
from gpumf.solvers.als_tensor_core import bear_bytes, fits_bytes, longest_segment
from gpumf_study.claims import Claim, below
from gpumf_study.experiments import load_ratings

BOUND = 3e-4  # in test RMSE, of what counts as little

SETTINGS = {
    "default": {},
    "a third of the regularization": {"regularization": 0.3},
    "a tenth": {"regularization": 0.1},
    "a hundredth": {"regularization": 0.01},
    "learned biases": {"biases": True},
    "without biases": {"biases": False},
    "without biases, lambda 0.05": {"biases": False, "regularization": 0.05},
}


class _InBytes(ParallelConjugateGradient):
    """Conjugate gradient whose items' update is of users in eight bits."""

    chosen: bool
    """Whether `tensor_core` would have gathered the latest training's users so if there were enough."""

    def __init__(self, problem):
        super().__init__(problem)
        hyper, train, _ = problem
        largest = np.zeros(train.n_users)
        np.maximum.at(largest, train.users, abs(train.values))
        of_users = largest.max(), largest.mean(), train.nnz / train.n_items
        _InBytes.chosen = fits_bytes(hyper, longest_segment(train.nnz)) and bool(bear_bytes(hyper, *of_users))

    def _solve(self, side, fixed, solved):
        super()._solve(side, in_bytes(fixed) if side is self._items else fixed, solved)


class _InBytesALS(ALS):
    _solvers: ClassVar = {"parallel_cg": _InBytes}


VARIANTS = {"FP32": ALS, "eight bits": _InBytesALS}

PROFILES = {
    "full": {"data": ["ml-100k", "ml-latest-small", "jester-1", "douban-monti", "ml-1m"], "shares": [1, 0.5],
             "factors": 100, "epochs": 10, "repeats": 5},
    "quick": {"data": ["ml-100k"], "shares": [1], "factors": 100, "epochs": 10, "repeats": 2},
    "smoke": {"data": ["ml-100k-synthetic"], "shares": [1, 0.5], "factors": 81, "epochs": 2, "repeats": 2},
}  # fmt: skip


def run(data, shares, factors, epochs, repeats):
    """Train every setting in both VARIANTS, from the same factors, and test it on a tenth of the ratings.

    shares : of all ratings of a data set, those that are taken

    In the rows of eight bits x_chosen says whether the library would have taken them
    """
    rows = []
    for name, share, repeat in tqdm(list(product(data, shares, range(repeats))), desc="eight_bit_rows", leave=False):
        ratings = load_ratings(name)
        taken = ratings.select(random_subset(ratings.nnz, round(share * ratings.nnz), seed=repeat))
        train, test = taken.split(0.1, seed=repeat)
        of = {"data": ratings.name, "repeat": repeat, "x_share": share, "x_nnz": train.nnz}
        for (setting, parameters), (variant, model) in product(SETTINGS.items(), VARIANTS.items()):
            fitted = model(factors, solver="parallel_cg", device="cpu", seed=repeat, **parameters).fit(train, epochs)
            what = {"variant": variant, "x_setting": setting, "metric": "rmse", "value": fitted.score(test)["rmse"]}
            rows.append(of | what | {"x_chosen": variant != "FP32" and _InBytes.chosen})
    labels = {"task": "fit", "model": "ALS", "solver": "parallel_cg", "device": "cpu", "factors": factors}
    return pd.DataFrame(rows).assign(**labels)


def in_bytes(factors):
    """Factors rounded to whole units, of which the largest in magnitude has 127."""
    unit = np.float32(abs(factors).max() / 127) or np.float32(1)
    return compile.aligned(np.rint(factors / unit) * unit)


def changes(frame):
    """Return by data set, share and setting the `change` of test RMSE by eight bits, mean over the repeats.

    `size` is its magnitude, and `chosen` whether the library would have taken them in any repeat.
    """
    of = frame.set_index(["data", "x_share", "x_setting"]).groupby("variant")
    exact, rounded = (of.get_group(variant).groupby(level=[0, 1, 2], sort=False) for variant in VARIANTS)
    change = rounded.value.mean() - exact.value.mean()
    table = pd.DataFrame({"change": change, "size": change.abs(), "chosen": rounded.x_chosen.any()})
    return table.reset_index()


CLAIMS = [
    Claim("als-eight-bits", "gpumf", None,
          "Largest change of test RMSE where `tensor_core` would choose to gather users in eight bits: mean of five "
          "splits, five real data sets and halves of them, seven settings, 100 factors.",
          metric="exact", select={"column": "size", "where": {"chosen": True}, "across": "max"},
          criterion=below(BOUND), table=changes),
]  # fmt: skip
