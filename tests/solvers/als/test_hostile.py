"""Every kernel of ALS and ImplicitALS on hostile ratings: row by row, within what its precision allows.

A row's bound is that of first-order perturbation: half precision moves each factor by 2^-11 of it, FP32 the sums by
some 2^-24, and the row's own inverse says what that makes of the solution. Where it leaves no digit, the row has to
be finite.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import HALF, HALVES, HU, Case
from gpumf import ALS, ImplicitALS, backends
from gpumf.backends.cpu import reference
from gpumf.ratings import Ratings
from gpumf.solvers import als_tensor_core
from gpumf.solvers.base import shape_of
from hostile import cases, hostile_ratings, ratings_of
from support import kernels_on, ragged_ratings, slow

LAMBDA, ALPHA = 0.05, 1.0


def model_of(estimator, kernel, device, factors=10, regularization=LAMBDA, **options):
    options = ({"alpha": ALPHA, **HU} if estimator is ImplicitALS else {"biases": False}) | options
    many = {"cg_steps": factors + 50, "cg_tolerance": 1e-7}
    return estimator(factors, regularization, solver=kernel, device=device, **many | options)


def solved(model, ratings, *start):
    """The users after half an epoch."""
    return Case(model, ratings, start).run(HALF)[0]


def row_and_bound(model, start, fixed, columns, values):
    """The solution of a row in float64, and how far off the model's kernel may be."""
    fixed, values = fixed.astype(np.float64), values.astype(np.float64)
    f = fixed.shape[1]
    if model.alpha is None:
        rows, weights, targets = fixed[columns], np.ones(len(columns)), values
        ridge = model.regularization * (len(columns) if model.weighted else 1)
    else:  # all columns with weight 1 and target 0, then those that were seen
        columns, values = columns[values != 0], values[values != 0]
        seen = model.alpha * abs(values)
        rows = np.concatenate([fixed, fixed[columns]])
        weights = np.concatenate([np.ones(len(fixed)), seen])
        targets = np.concatenate([np.zeros(len(fixed)), (values > 0) * (1 + seen) / seen])
        ridge = model.regularization
    a = (rows.T * weights) @ rows + ridge * np.eye(f)
    inverse, b = np.linalg.inv(a), rows.T @ (weights * targets)
    x = inverse @ b
    if not b.any():
        return x, 0.0
    # From u on the rows: x is off by inverse (d^T w (targets - rows x) - rows^T w (d x)), d = u |rows|.
    residuals = weights * abs(targets - rows @ x)
    moved = (abs(rows) * residuals[:, None]) @ abs(inverse).T
    moved += abs(rows @ inverse.T) * (weights * (abs(rows) @ abs(x)))[:, None]
    u = 3 * 2.0**-11 if model.solver in HALVES else 0.0
    norms = np.linalg.norm(inverse, 2), np.linalg.norm(a, 2)
    bound = u * np.linalg.norm(moved.sum(axis=0))
    if model.solver == "cumf_cg_fp16":
        bound += 2.0**-11 * norms[0] * np.linalg.norm(a) * np.linalg.norm(x)
    if model.solver in ("cumf_cg", "cumf_cg_fp16"):
        bound += model.cg_tolerance * norms[0]
    else:
        start = 0 * start  # tensor_core starts from zero where that is nearer
    larger = max(np.linalg.norm(x), np.linalg.norm(start))
    bound += 10 * f * 2.0**-24 * norms[0] * (norms[1] * larger + np.linalg.norm(b))
    return x, bound


def shares_within(model, ratings):
    """Holds a half-sweep of users against the bounds; returns these, relative, of the rows that have a solution."""
    start, fixed = model.initial_factors(ratings)
    actual, rows, shares = solved(model, ratings, start, fixed), ratings.by_user, []
    assert np.isfinite(actual).all()
    for row, (begin, end) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True)):
        if begin == end:
            assert not actual[row].any()
            continue
        x, bound = row_and_bound(model, start[row], fixed, rows.indices[begin:end], rows.values[begin:end])
        if not x.any():
            assert np.linalg.norm(actual[row]) <= (0 if model.solver == "tensor_core" else 1e-3), row
            continue
        shares.append(bound / np.linalg.norm(x))
        if shares[-1] < 1:
            assert np.linalg.norm(actual[row] - x) <= bound, (row, ratings.name)
    return shares


@pytest.mark.parametrize("estimator", [ALS, ImplicitALS])
def test_every_row_of_the_named_cases(estimator, device):
    shares = []
    for kernel in kernels_on(estimator, device):
        for ratings in cases().values():
            shares += shares_within(model_of(estimator, kernel, device), ratings)
    assert np.mean(np.array(shares) < 0.1) > 0.3  # the bounds say something


@pytest.fixture
def short(monkeypatch):
    """All rows with up to 128 ratings are solved by kernels/als/short_rows.cu."""
    monkeypatch.setattr(als_tensor_core, "_max_short", lambda factors: 128)
    monkeypatch.setattr(als_tensor_core, "FEWEST_SHORT", 0)


def test_every_short_row_of_the_named_cases(launcher, short):
    for ratings in cases().values():
        shares_within(model_of(ALS, "tensor_core", launcher.name), ratings)


@pytest.mark.parametrize("factors", [65, *slow(100, 112, 113, 128)])
def test_every_row_of_the_named_cases_by_teams_of_one_warpgroup(launcher, factors):
    if "warpgroups" not in kernels_on(ALS, launcher.name):
        pytest.skip("only compute capability 9.0 has its instructions")
    for ratings in cases().values():
        shares_within(model_of(ALS, "warpgroups", launcher.name, factors), ratings)


@pytest.mark.slow
@settings(max_examples=4)
@given(ratings=hostile_ratings(), factors=st.sampled_from([1, 10]), weighted=st.booleans())
@pytest.mark.parametrize("estimator", [ALS, ImplicitALS])
def test_every_row_of_any_hostile_ratings(estimator, device, ratings, factors, weighted):
    options = {"weighted": weighted} if estimator is ALS else {}
    for kernel in kernels_on(estimator, device):
        shares_within(model_of(estimator, kernel, device, factors, **options), ratings)


# What these came from, each on its own


@pytest.mark.parametrize("estimator", [ALS, ImplicitALS])
def test_a_right_side_of_zero_gives_zero(launcher, estimator):
    rng = np.random.default_rng(3)
    users, items = np.nonzero(rng.random((9, 12)) < 0.5)
    values = np.where(users < 6, 0, rng.integers(1, 100, len(users)))
    model = model_of(estimator, "tensor_core", launcher.name, 3, cg_steps=30)
    model.fit(Ratings(users, items, values, 9, 12), 2)
    assert np.isfinite(model.item_factors).all() and np.isfinite(model.user_factors).all()
    assert not model.user_factors[:6].any() and model.user_factors[6:].any(axis=1).all()


@pytest.mark.parametrize("largest", [1e5, 4e5, 1e7, 1e8])
def test_weights_far_apart_leave_other_rows_alone(launcher, largest):
    rng = np.random.default_rng(4)
    users, items = np.nonzero(rng.random((12, 40)) < 0.4)
    values = rng.integers(1, 6, len(users)).astype(np.float32)
    values[np.flatnonzero(users == 5)[0]] = largest
    ratings = Ratings(users, items, values, 12, 40)
    model = model_of(ImplicitALS, "tensor_core", launcher.name, regularization=0.1, alpha=40.0)
    start = model.initial_factors(ratings)
    actual = solved(model, ratings, *start)
    expected = reference.implicit_update(ratings.by_user, start[1], 0.1, 40.0)
    errors = np.linalg.norm(actual - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert np.delete(errors, 5).max() < 0.01


@pytest.mark.parametrize("most", [0, 128])
@pytest.mark.parametrize("exponent", [-20, 14, 90])
def test_ratings_of_another_scale_give_the_same_bits_on_that_scale(launcher, monkeypatch, exponent, most):
    """s r with s lambda from sqrt(s) q is solved by sqrt(s) p: a power of two rounds nothing."""
    monkeypatch.setattr(als_tensor_core, "_max_short", lambda factors: most)
    monkeypatch.setattr(als_tensor_core, "FEWEST_SHORT", 0)
    ratings = ratings_of("ragged", "stars")
    scaled = Ratings(ratings.users, ratings.items, np.ldexp(ratings.values, exponent), 8, 12)
    results = []
    for k, ours in ((0, ratings), (exponent, scaled)):
        model = ALS(10, float(np.ldexp(0.05, k)), device=launcher.name, solver="tensor_core", biases=False)
        start = (np.ldexp(a, k // 2) for a in ALS(10, device=launcher.name, biases=False).initial_factors(ratings))
        results.append(np.ldexp(solved(model, ours, *start), -k // 2))
    assert results[0].any() and np.array_equal(*results)


@pytest.mark.parametrize("kernel", ["cumf_lu", "cumf_cholesky", "thesis_shared", "tensor_core"])
def test_few_ratings_and_little_lambda_stay_finite(launcher, kernel):
    factors, n = (32, 20) if kernel == "thesis_shared" else (64, 40)
    values = np.random.default_rng(0).integers(1, 6, n)
    ratings = Ratings(np.zeros(n, int), np.arange(n), values, 1, n)
    model = ALS(factors, 1e-6, weighted=False, device=launcher.name, solver=kernel, biases=False)
    start = model.initial_factors(ratings)
    actual = solved(model, ratings, *start)
    assert np.isfinite(actual).all() and np.abs(actual @ start[1].T - ratings.values).max() < 1.5


# Shared memory, by the facts of devices that are not here: the most bytes of a block.
SHARED = {75: 64 << 10, 80: 163 << 10, 86: 99 << 10, 89: 99 << 10, 90: 227 << 10, 100: 227 << 10, 120: 99 << 10}


@pytest.fixture(params=SHARED)
def of_architecture(request, host, monkeypatch):
    """The processor with the shared memory of an architecture."""
    monkeypatch.setitem(host.facts, "shared_bytes_per_block", SHARED[request.param])
    return request.param


def test_tensor_core_fits_every_architecture(host, of_architecture):
    for factors in (1, 48, 64, 144, 145, 208, 209, 256):
        defines = als_tensor_core.TensorCore.defines(ALS(factors, device="emulator", biases=False))
        ahead = 1 if of_architecture < 80 else 3  # without asynchronous copies
        taken = als_tensor_core._max_shared_bytes(factors, defines["STAGE_ROWS"], ahead)
        assert taken <= SHARED[of_architecture]
    assert defines["STAGE_ROWS"] == (64 if of_architecture in (90, 100) else 32)


@pytest.mark.parametrize("factors", [100, *slow(192, 193, 209, 256)])
@pytest.mark.parametrize(("rows", "wgmma"), [(64, 0), (32, 0), (64, 1)])
def test_the_shared_memory_of_tensor_core_is_what_the_launcher_takes_it_for(host, factors, rows, wgmma):
    defines = {
        "FACTORS": factors,
        "IMPLICIT": 1 - wgmma,
        "STAGE_ROWS": rows,
        "BATCHED": 0,
        "WGMMA": wgmma,
        "THROUGH_L1": 1,
    }
    if wgmma and not (64 < factors <= 128 or factors > 192):
        pytest.skip("there is no such plan")
    shape, taken = (
        shape_of(host, "als/tensor_core.cu", **defines),
        als_tensor_core._max_shared_bytes(factors, rows, wgmma=wgmma),
    )
    assert shape.teams * shape.team_bytes == taken
    assert shape.persistent == (factors > 192)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 3])
def test_blocks_that_take_several_segments_give_the_same_bits(host, blocks):
    ratings = ragged_ratings(n_users=9, n_items=200, longest=150, seed=1)
    model, bits = ALS(200, solver="tensor_core", device="emulator", biases=False), []
    start = model.initial_factors(ratings)
    for most in (blocks, 1000):
        trainer = model.make_solver(ratings, *start, longest=40)
        trainer._max_blocks = {"tensor_core": most}
        trainer.epoch(0)
        bits.append([array.tobytes() for array in trainer.factors()])
    assert bits[0] == bits[1]


def test_short_stages_give_the_same_bits(host, monkeypatch):
    ratings = ratings_of("ragged", "heavy tails", 4, 100)
    model = ALS(100, device="emulator", solver="tensor_core", biases=False)
    start = model.initial_factors(ratings)
    long = solved(model, ratings, *start)
    monkeypatch.setitem(host.facts, "shared_bytes_per_block", 40 << 10)
    assert als_tensor_core.TensorCore.defines(model.hyperparameters)["STAGE_ROWS"] == 32
    assert np.array_equal(long, solved(model, ratings, *start))


def test_cumf_says_which_factors_fit(host, of_architecture):
    for kernel in ("cumf_lu", "cumf_cholesky", "cumf_cg", "cumf_cg_fp16"):
        if of_architecture == 75:
            with pytest.raises(ValueError, match=r"up to 247 factors.*64 KB"):
                ALS(256, solver=kernel, device="emulator", biases=False)
        assert (
            ALS(247 if of_architecture == 75 else 256, solver=kernel, device="emulator", biases=False).solver
            == kernel
        )


@pytest.mark.parametrize("kernel", ["cumf_lu", "cumf_cholesky"])
def test_systems_in_global_memory_give_the_same_bits(host, monkeypatch, kernel):
    ratings = ratings_of("full", "stars")
    model = ALS(10, solver=kernel, device="emulator", biases=False)
    start = model.initial_factors(ratings)
    shared = solved(model, ratings, *start)
    monkeypatch.setitem(host.facts, "shared_bytes_per_block", 2000)
    assert model.solver_class.solver_defines(model.hyperparameters)["IN_GLOBAL"]
    assert np.array_equal(shared, solved(model, ratings, *start))


def test_a_row_that_does_not_fit_says_how_much_it_takes(host, monkeypatch):
    monkeypatch.setattr(type(host), "free_bytes", staticmethod(lambda: 3_000))
    with pytest.raises(backends.DeviceError, match=r"one row takes 0\.0 MB of device memory.*fewer factors"):
        ALS(10, solver="cumf_cg", device="emulator", biases=False).fit(ratings_of("full", "stars"), 1)
