"""Epochs of ALS on shapes that are published for clusters: many factors, and many users and items, on one GPU.

The shapes of MovieLens 20M and of the Million Song Dataset as Rendle et al. 2022 train on them, with ImplicitALS; and
that of issue 424 of the library `implicit`, 69 million users and 59 million items, with ALS, whose device memory is
predicted and measured. All ratings are synthetic.
"""

import time

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, ImplicitALS, backends
from gpumf.ratings import DeviceRatings
from gpumf.ratings.synthetic.recipes import Recipe
from gpumf.ratings.synthetic_device import generate
from gpumf.solvers.half_rows import padded
from gpumf_study.experiments import kernels_unavailable

_VALUES = {"scale": None, "step": None, "mean": 2.0, "user_bias": 0.3, "item_bias": 0.3, "signal": 0.4, "noise": 0.44}
RECIPES = {
    "ml-20m-shape": Recipe(138_493, 26_744, 20_200_263, (20, 9_254), (3, 67_310), test=200_000, **_VALUES),
    "msd-shape": Recipe(571_355, 41_140, 33_900_000, (20, 4_400), (200, 110_000), test=300_000, **_VALUES),
    "small-shape": Recipe(60, 50, 600, (3, 40), (3, 40), test=60, **_VALUES),
}
_IMPLICIT = {"regularization": 0.003, "unobserved_weight": 0.02, "regularization_exponent": 1.0}

PROFILES = {
    "full": {"many_factors": {"ml-20m-shape": 2048, "msd-shape": 8192},
             "many_rows": {"users": 69_000_000, "items": 59_000_000, "ratings": 477_000_000, "factors": 32},
             "repeats": 5},
    "smoke": {"many_factors": {"small-shape": 40},
              "many_rows": {"users": 60, "items": 50, "ratings": 500, "factors": 4}, "repeats": 2},
}  # fmt: skip
PROFILES["quick"] = PROFILES["smoke"]

why_unavailable = kernels_unavailable


def run(many_factors, many_rows, repeats):
    """Time epochs after a first one, which is not counted.

    many_factors : dict of a name of RECIPES -> factors of ImplicitALS
    many_rows : users, items, ratings and factors of ALS
    repeats : int, epochs of each

    Return a DataFrame with a row an epoch: data, model, solver, device, factors, repeat, seconds, x_nnz; of many rows
    x_predicted_bytes, see `predicted_bytes`, and x_taken_bytes, of the device's memory by the end
    """
    device, rows = backends.device("cuda" if backends.available() else "emulator"), []
    for name, factors in tqdm(many_factors.items(), desc="large_shapes", leave=False):
        train = generate(RECIPES[name], device=device.name).train
        model = ImplicitALS(factors, **_IMPLICIT, solver="preconditioned_cg", device=device.name)
        rows += _epochs(model, train, name, device, repeats)
        del train
        _give_back(device)
    model = ALS(many_rows["factors"], 0.05, biases=False, clip=False, solver="tensor_core", device=device.name)
    before = device.free_bytes()
    train = _random(device, **{name: many_rows[name] for name in ("users", "items", "ratings")})
    _ = train.by_user, train.by_item
    _give_back(device)  # what they were ordered with
    found = _epochs(model, train, "random", device, repeats)
    memory = {"x_predicted_bytes": predicted_bytes(**many_rows), "x_taken_bytes": before - _free_bytes(device)}
    return pd.DataFrame(rows + [row | memory for row in found]).assign(device=device.name)


def predicted_bytes(users, items, ratings, factors):
    """Device memory that `tensor_core` takes to train ALS without biases on so many ratings that are there.

    A rating has 12 bytes as it was given, and 8 in each order; a user or item its factors in FP32, 8 bytes of lambda
    and the largest rating, and 32 of the work list. The larger side's factors are there in FP16, too, and while its
    work list is put in order, 56 bytes a row.
    """
    larger = max(users, items)
    return 28 * ratings + (users + items) * (4 * factors + 40) + larger * (2 * padded(factors) + 56)


def _epochs(model, train, name, device, repeats):
    """Return rows of epochs from initial factors on."""
    model._set_training(train)
    solver = model.make_solver(train)
    rows = []
    for repeat in range(-1, repeats):
        started = time.perf_counter()
        solver.epoch(repeat + 1)
        solver.synchronize()
        row = {"data": name, "model": type(model).__name__, "solver": model.solver, "factors": model.factors}
        rows.append(row | {"repeat": repeat, "seconds": time.perf_counter() - started, "x_nnz": train.nnz})
    if not all(bool(device.xp.isfinite(one[:1000]).all()) for one in solver.factors()):
        raise ArithmeticError(f"factors of {name} are not finite")
    return rows[1:]


def _random(device, users, items, ratings):
    """Ratings at random, more of the first users and items."""
    random = device.xp.random.default_rng(0)

    def drawn(n):
        return (random.random(ratings, dtype=np.float32) ** 2 * np.float32(n)).astype(np.int32) % n

    columns = drawn(users), drawn(items), random.random(ratings, dtype=np.float32)
    ids = {"user_ids": range(users), "item_ids": range(items)}
    return DeviceRatings(*columns, users, items, device=device, **ids)


def _give_back(device):
    if device.name == "cuda":
        device.xp.get_default_memory_pool().free_all_blocks()


def _free_bytes(device):
    """Memory that the driver has free: what CuPy keeps for reuse is taken."""
    return device.xp.cuda.runtime.memGetInfo()[0] if device.name == "cuda" else device.free_bytes()
