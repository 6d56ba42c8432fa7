"""Every kernel of SGD makes the updates of its own order: two epochs, the second at half the rate, as in float64."""

import numpy as np
import pytest

from cases import order_of, sgd_case
from gpumf import SGD
from gpumf.ratings import Ratings
from support import kernels_on, ragged_ratings

WIDTHS = pytest.mark.parametrize(("factors", "biases"), [(5, True), (17, False), (36, "baseline")])
BY_ONE = {"tiles": 4, "parts": 2, "longest": 8, "threads": 1}
# Options with which nothing races, of schemes of which that is not one thread, or that have several versions.
ALONE = {
    "kato_hosino": [{}],
    "gpusgd": [{"side": 3}, {"side": 3, "precision": 64}],
    "newgpusgd": [{"side": 4}, {"side": 4, "precision": 64}],
    "bsgd": [{"batch": 1}],
    "cumf_sgd": [
        {"threads": 1, "run": 7},
        {"threads": 1, "update": "wavefront", "side": 4},
        {"update": "blocked", "side": 4},
    ],
    "fast": [
        BY_ONE | {"precision": 32},
        BY_ONE | {"precision": 16},
        BY_ONE | {"precision": 32, "row_rates": True},
        BY_ONE | {"precision": 32, "row_rates": True, "locked": True, "resident": "users"},
    ],
    "cu2rec": [
        *({"threads": 1, "conflict": how} for how in ("early_bird_gets", "early_bird_loses", "atomic")),
        {"threads": 1, "striding": False},
    ],
}
OF_ITS_OWN = {"esgd"}  # its one block has a set of its own, see below
ORDERED = [
    (kernel, options)
    for kernel in kernels_on(SGD, "emulator")
    if kernel not in OF_ITS_OWN
    for options in ALONE.get(kernel, [{"threads": 1}])
]


def tolerance_of(kernel, options):
    """The error that a precision allows: in half precision a product next to the middle of two halves may be rounded
    to either one, and what follows from it.
    """
    half = {"cumf_sgd": 2e-3, "fast": 4e-3}.get(kernel, 3e-6)
    return {32: 3e-6, 64: 1e-7}.get(options.get("precision"), half)


@pytest.fixture
def ratings(factors):
    return ragged_ratings(n_users=30, n_items=22, longest=20, seed=factors)


@WIDTHS
@pytest.mark.parametrize(("kernel", "options"), ORDERED, ids=str)
def test_a_kernel_matches_its_own_order(launcher, kernel, options, ratings, factors, biases):
    case = sgd_case(launcher.name, kernel, ratings, factors, biases, **options)
    case.assert_close(tolerance_of(kernel, options))


@WIDTHS
@pytest.mark.parametrize(
    ("kernel", "options"),
    [(kernel, {}) for kernel in ("sequential", "ordered", "ordered_parallel")]
    + [(kernel, {"row_rates": True}) for kernel in ("ordered", "ordered_parallel")],
    ids=str,
)
def test_the_processor_matches_its_own_order(kernel, options, ratings, factors, biases):
    sgd_case("cpu", kernel, ratings, factors, biases, **options).assert_close(3e-6)


NARROW_TO_WIDE = [(1, False), (16, False), (33, True), (256, False), (300, "baseline")]


@pytest.mark.parametrize(("factors", "biases"), NARROW_TO_WIDE)
def test_one_group_follows_the_draws(device, ratings, factors, biases):
    for kernel in {"hogwild", "sequential"} & set(kernels_on(SGD, device)):
        sgd_case(device, kernel, ratings, factors, biases, threads=1, learning_rate=0.002).assert_close(3e-6)


@pytest.mark.parametrize("factors", [130])
def test_fast_with_many_factors(launcher, ratings, factors):
    for precision, tolerance in ((32, 3e-6), (16, 4e-3)):
        sgd_case(launcher.name, "fast", ratings, factors, True, precision=precision, **BY_ONE).assert_close(tolerance)


@WIDTHS
@pytest.mark.parametrize("shuffle", [False, True])
def test_one_block_of_esgd_matches_its_own_order(launcher, factors, biases, shuffle):
    # One group of k threads makes one block, which has to have all ratings in its shared memory, and room to spare.
    ratings = ragged_ratings(n_users=12, longest=12, seed=factors)
    one_block = {"th_size": 1, "st": -(-ratings.nnz // factors) + 1}
    sgd_case(launcher.name, "esgd", ratings, factors, biases, **one_block, shuffle=shuffle).assert_close(3e-6)


@WIDTHS
@pytest.mark.parametrize("threads", [20, 96, None])
def test_fast_by_many_groups_in_step_makes_every_update_once(launcher, factors, biases, threads):
    # Users of every length, each with a run of its own, and an item to each rating: no group meets another one.
    ragged = ragged_ratings(n_users=70, longest=20, seed=factors)
    items = np.random.default_rng(factors).permutation(ragged.nnz)
    ratings = Ratings(ragged.users, items, ragged.values, ragged.n_users, ragged.nnz)
    given = {"tiles": 1, "parts": 1, "longest": 7, "threads": threads, "precision": 32}
    sgd_case(launcher.name, "fast", ratings, factors, biases, **given).assert_close(3e-6)


@pytest.mark.parametrize("biases", [True, False, "baseline"])
@pytest.mark.parametrize("resident", ["users", "items"])
def test_either_side_of_fast_may_stay_on_the_chip(launcher, resident, biases):
    ratings = ragged_ratings(n_users=12, n_items=40, longest=30, seed=7)
    given = {"threads": 1, "resident": resident, "precision": 32}
    of = sgd_case(launcher.name, "fast", ratings, 6, biases, **given)
    for epoch in range(4):
        assert sorted(rating for rating, _ in order_of(of.model, ratings, epoch)) == list(range(ratings.nnz))
    of.assert_close(3e-6, epochs=4)


@pytest.mark.parametrize("kernel", ["gpusgd", "newgpusgd"])
def test_double_precision_has_rates_in_double_precision_too(launcher, kernel):
    ratings = ragged_ratings(n_users=30, longest=20, seed=8)
    of = sgd_case(launcher.name, kernel, ratings, 5, True, side=3, precision=64)
    trainer = of.make_solver()
    trainer.epoch(0)
    for name, expected in zip(("_p", "_q"), of.replay(1), strict=True):
        actual = launcher.to_numpy(getattr(trainer, name))
        assert actual.dtype == np.float64 and np.abs(actual - expected).max() < 1e-13


ONE_BY_ONE = {kernel: options for kernel, options in reversed(ORDERED)}


def test_a_second_fit_goes_on_where_the_first_ended(device):
    train = ragged_ratings(n_users=30, n_items=22, longest=20, seed=4)
    for kernel in set(kernels_on(SGD, device)) - {"parallel", "esgd"}:
        case = sgd_case(device, kernel, train, 5, **ONE_BY_ONE.get(kernel, {}))
        case.assert_fits_close(2e-3 if kernel == "cumf_sgd" else 3e-6)
