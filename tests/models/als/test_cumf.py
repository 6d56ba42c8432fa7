"""kernels/als/cumf: A, b and the solvers of every version against float64, each phase on its own."""

from types import SimpleNamespace

import numpy as np
import pytest

from gpumf import gpu
from gpumf.cpu import reference
from gpumf.datasets import Ratings
from gpumf.models.als import cumf
from support import ragged_ratings, random_factors

EXACT = {"cumf_lu": cumf.CumfLu, "cumf_cholesky": cumf.CumfCholesky}
CG = {"cumf_cg": cumf.CumfCg, "cumf_cg_fp16": cumf.CumfCgHalf}
# Conjugate gradient ends where rounding, amplified by the condition of A, lets it. FP16 changes each entry of A by up
# to 2^-12 of the largest on its diagonal, about n / 3 here, and a solution by that over lambda n = n / 20.
TOLERANCE = dict.fromkeys(EXACT, 1e-4) | {"cumf_cg": 5e-3, "cumf_cg_fp16": 5e-2}
USERS, ITEMS = 6, 150


def ragged(seed, longest=70):
    return ragged_ratings(USERS, ITEMS, longest, seed=seed)


def model_of(device, factors, *, weighted=True, alpha=None, regularization=0.05, cg_steps=None, cg_tolerance=0.0):
    return SimpleNamespace(
        factors=factors,
        regularization=regularization,
        weighted=weighted and alpha is None,
        alpha=alpha,
        cg_steps=cg_steps or factors + 50,
        cg_tolerance=cg_tolerance,
        device=device,
    )


def trainer_of(kernel, ratings, model, *, users=None, longest=25, **options):
    """A trainer with poisoned systems and user factors (random for conjugate gradient), and its item factors."""
    f = model.factors
    if users is None:
        shape = ratings.n_users, f
        users = random_factors(*shape, seed=1) if kernel in CG else np.full(shape, np.nan, np.float32)
    items = random_factors(ratings.n_items, f, seed=2)
    trainer = (EXACT | CG)[kernel](model, ratings, users, items, longest=longest, **options)
    for batch in trainer._users.batches:
        for array in (batch.matrices, batch.scales, batch.biases):
            array[...] = 0xFFFF if array.dtype == np.uint16 else np.nan  # the bits of a NaN of half precision
    return trainer, items


def solved_users(kernel, ratings, model, **options):
    trainer, items = trainer_of(kernel, ratings, model, **options)
    trainer.solve_users()
    return gpu.device(model.device).to_numpy(trainer.factors()[0]), items


def relative_error(actual, expected):
    assert np.isfinite(actual).all()
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


def systems(trainer, device):
    """What get_hermitian left of the first batch of users: A as float64 (rows, f, f), b as float64 (rows, f)."""
    batch, f = trainer._users.batches[0], trainer._factors
    matrices, scales, biases = map(device.to_numpy, (batch.matrices, batch.scales, batch.biases))
    tiles = -(-f // 16)
    if trainer.a_half:
        matrices = matrices.view(np.float16).astype(np.float64) * np.repeat(scales, trainer._shape.matrix)
    matrices = matrices.reshape(-1, tiles * (tiles + 1) // 2, 16, 16).astype(np.float64)
    full = np.empty((len(matrices), 16 * tiles, 16 * tiles))
    for number, (i, j) in enumerate(zip(*np.tril_indices(tiles), strict=True)):
        rows, columns = slice(16 * i, 16 * i + 16), slice(16 * j, 16 * j + 16)
        full[:, columns, rows] = matrices[:, number].transpose(0, 2, 1)
        full[:, rows, columns] = matrices[:, number]
    return full[:, :f, :f], biases.reshape(-1, f).astype(np.float64)


def expected_systems(rows, fixed, alpha=None):
    """A without its ridge and b in float64, (rows, f, f) and (rows, f)."""
    fixed = fixed.astype(np.float64)
    matrices, biases = [], []
    for begin, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        v, r = fixed[rows.indices[begin:end]], rows.values[begin:end].astype(np.float64)
        if alpha is None:
            matrices.append(v.T @ v)
            biases.append(v.T @ r)
        else:
            matrices.append(fixed.T @ fixed + (v.T * (alpha * r * (r > 0))) @ v)
            biases.append(v.T @ ((1 + alpha * r) * (r > 0)))
    return np.array(matrices), np.array(biases)


@pytest.mark.parametrize("factors", [1, 10, 16, 32, 64, 100, 128, 200, 256])
def test_half_sweep_matches_the_reference(launcher, factors):
    ratings = ragged(factors)
    assert ratings.by_user.counts.max() > 2 * 25  # has several segments
    expected = None
    for kernel in EXACT | CG:
        actual, items = solved_users(kernel, ratings, model_of(launcher.name, factors))
        if expected is None:
            expected = reference.als_half_sweep(ratings.by_user, items, 0.05)
        assert relative_error(actual, expected) < TOLERANCE[kernel], kernel
        empty = ratings.by_user.counts == 0
        assert empty.any() and not actual[empty].any()


@pytest.mark.parametrize("factors", [10, 32])
def test_half_sweep_with_plain_lambda(launcher, factors):
    ratings = ragged(factors)
    for kernel in [*EXACT, "cumf_cg"]:
        actual, items = solved_users(kernel, ratings, model_of(launcher.name, factors, weighted=False))
        expected = reference.als_half_sweep(ratings.by_user, items, 0.05, weighted=False)
        assert relative_error(actual, expected) < TOLERANCE[kernel], kernel


@pytest.mark.parametrize("load", ["coalesced", "l1", "no_l1"])
@pytest.mark.parametrize("factors", [1, 10, 64, 100])
def test_get_hermitian_makes_a_and_b(launcher, factors, load):
    """Also with 1, 2 and 4 factors copied at once, and for every load the same bits."""
    ratings = ragged(factors)
    trainer, items = trainer_of("cumf_cholesky", ratings, model_of(launcher.name, factors), load=load)
    trainer.phases("users")["get_hermitian"]()
    rated = ratings.by_user.counts > 0
    for actual, expected in zip(systems(trainer, launcher), expected_systems(ratings.by_user, items), strict=True):
        assert relative_error(actual[rated], expected[rated]) < 1e-6
    usual, _ = trainer_of("cumf_cholesky", ratings, model_of(launcher.name, factors))
    usual.phases("users")["get_hermitian"]()
    for ours, theirs in zip(systems(trainer, launcher), systems(usual, launcher), strict=True):
        assert np.array_equal(ours[rated], theirs[rated])


@pytest.mark.parametrize("alpha", [None, 3.0])
def test_get_bias_on_its_own(launcher, alpha):
    for factors in (10, 64):
        ratings = ragged(factors)
        trainer, items = trainer_of("cumf_cholesky", ratings, model_of(launcher.name, factors, alpha=alpha))
        trainer.phases("users")["get_bias"]()
        rated = ratings.by_user.counts > 0
        expected = expected_systems(ratings.by_user, items, alpha)[1]
        batch = trainer._users.batches[0]
        assert relative_error(launcher.to_numpy(batch.biases).reshape(-1, factors)[rated], expected[rated]) < 1e-6


def test_half_precision_rounds_a_and_nothing_else(launcher):
    """Of a magnitude, too, that FP16 does not hold: the products are up to 70 * 90000."""
    ratings, model = ragged(4), model_of(launcher.name, 32, regularization=0.05 * 300**2)
    trainer, items = trainer_of("cumf_cg_fp16", ratings, model)
    items *= 300
    trainer._q[...] = launcher.array(items)
    trainer.solve_users()
    matrices, biases = systems(trainer, launcher)
    exact, _ = expected_systems(ratings.by_user, items)
    actual = launcher.to_numpy(trainer.factors()[0])
    for row, count in enumerate(ratings.by_user.counts):
        if count:
            largest = exact[row].diagonal().max()
            assert largest > 65504 and abs(matrices[row] - exact[row]).max() <= 2**-11 * largest
            ridge = model.regularization * count * np.eye(32)
            assert np.array_equal(matrices[row], matrices[row].T)
            residual = (matrices[row] + ridge) @ actual[row] - biases[row]
            assert np.linalg.norm(residual) < 1e-3 * np.linalg.norm(biases[row])


def implicit_ratings(seed):
    """Ragged, some ratings zero or negative: seen, but not liked."""
    r = ragged(seed)
    values = np.random.default_rng(seed).integers(-1, 5, r.nnz).astype(np.float32)
    return Ratings(r.users, r.items, values, r.n_users, r.n_items)


@pytest.mark.parametrize("factors", [10, 64])
def test_implicit_half_sweep(launcher, factors):
    ratings = implicit_ratings(factors)
    for kernel in EXACT | CG:
        actual, items = solved_users(kernel, ratings, model_of(launcher.name, factors, alpha=3.0, regularization=5.0))
        expected = reference.implicit_half_sweep(ratings.by_user, items, 5.0, 3.0)
        assert relative_error(actual, expected) < TOLERANCE[kernel], kernel


def test_implicit_reference_is_the_dense_problem():
    """Every column weighs in, at the minimum of the cost that the source states (section 5.6)."""
    ratings, fixed = implicit_ratings(7), random_factors(ITEMS, 5, 3).astype(np.float64)
    preferred, confidence = np.zeros((USERS, ITEMS)), np.ones((USERS, ITEMS))
    liked = ratings.values > 0
    at = ratings.users[liked], ratings.items[liked]
    preferred[at], confidence[at] = 1, 1 + 2.0 * ratings.values[liked]
    solved = reference.implicit_half_sweep(ratings.by_user, fixed, 0.5, 2.0)
    gradient = (confidence * (solved @ fixed.T - preferred)) @ fixed + 0.5 * solved
    np.testing.assert_allclose(gradient, 0, atol=1e-9)


@pytest.mark.parametrize("kernel", EXACT | CG)
def test_batches_give_the_same_bits(launcher, monkeypatch, kernel):
    ratings = ragged(8)
    model = model_of(launcher.name, 10)
    whole, _ = trainer_of(kernel, ratings, model)
    whole.epoch(0)
    monkeypatch.setattr(type(launcher), "free_bytes", staticmethod(lambda: 22_000))
    batched, _ = trainer_of(kernel, ratings, model)
    batched.epoch(0)
    assert len(whole._users.batches) == len(whole._items.batches) == 1
    assert len(batched._users.batches) > 1 and len(batched._items.batches) > 1
    for ours, theirs in zip(batched.factors(), whole.factors(), strict=True):
        assert np.array_equal(launcher.to_numpy(ours), launcher.to_numpy(theirs))


def test_rows_are_cut_where_the_memory_is_full():
    cuts = cumf._cut(np.array([3, 3, 3, 9, 1, 1, 7, 1]), 9)
    assert [(cut.start, cut.stop) for cut in cuts] == [(0, 3), (3, 4), (4, 7), (7, 8)]


@pytest.mark.parametrize("alpha", [None, 3.0])
def test_the_same_bits_in_every_order(host, alpha):
    ratings = ragged(9)
    for kernel in EXACT | CG:
        results = set()
        for seed in range(4):
            trainer, _ = trainer_of(kernel, ratings, model_of("host", 10, alpha=alpha))
            with host.shuffled(seed):
                trainer.solve_users()
            results.add(trainer.factors()[0].tobytes())
        assert len(results) == 1, kernel


def test_conjugate_gradient_takes_its_steps_and_no_more(launcher):
    """Each step as in Algorithm 1, with its slip mended."""
    ratings = ragged(10)
    start = random_factors(USERS, 16, 5)
    for steps in (1, 2, 3):
        actual, items = solved_users("cumf_cg", ratings, model_of(launcher.name, 16, cg_steps=steps), users=start)
        matrices, biases = expected_systems(ratings.by_user, items)
        for row, count in enumerate(ratings.by_user.counts):
            if count == 0:
                continue
            a, x = matrices[row] + 0.05 * count * np.eye(16), start[row].astype(np.float64)
            r = p = biases[row] - a @ x
            for _ in range(steps):
                ap, old = a @ p, r @ r
                x, r = x + old / (p @ ap) * p, r - old / (p @ ap) * ap
                p = r + r @ r / old * p
            assert relative_error(actual[row], x) < 1e-4


def test_conjugate_gradient_ends_early(launcher):
    ratings, start = ragged(11), random_factors(USERS, 16, 5)
    rated = ratings.by_user.counts > 0
    loose, _ = solved_users("cumf_cg", ratings, model_of(launcher.name, 16, cg_tolerance=1e6), users=start)
    assert np.array_equal(loose[rated], start[rated])
    near, items = solved_users("cumf_cg", ratings, model_of(launcher.name, 16, cg_tolerance=1.0), users=start)
    matrices, biases = expected_systems(ratings.by_user, items)
    ridges = 0.05 * ratings.by_user.counts[:, None] * near
    residuals = np.linalg.norm(np.einsum("rij,rj->ri", matrices, near) + ridges - biases, axis=1)
    assert (residuals < 1.1).all() and residuals.max() > 1e-3
