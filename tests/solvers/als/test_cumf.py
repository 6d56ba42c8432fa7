"""kernels/als/cumf: A, b and the solvers of every version against float64, each phase on its own."""

from types import SimpleNamespace

import numpy as np
import pytest

from cases import HALF, Case, als_case, als_tolerance
from gpumf import ALS, backends
from gpumf.backends.cpu import reference
from gpumf.ratings import Ratings
from gpumf.solvers import als_cumf
from support import ragged_ratings, random_factors, slow, to_numpy

EXACT, CG = ("cumf_lu", "cumf_cholesky"), ("cumf_cg", "cumf_cg_fp16")
USERS, ITEMS = 6, 150


def ragged(seed, longest=70):
    return ragged_ratings(USERS, ITEMS, longest, seed=seed)


class CumfCase(Case):
    """Some rows have several segments, and the systems of the users are poisoned before they are computed."""

    def make_solver(self):
        trainer = super().make_solver()
        for batch in trainer._users.batches:
            for array in (batch.matrices, batch.scales, batch.biases):
                array[...] = 0xFFFF if array.dtype == np.uint16 else np.nan  # the bits of a NaN of half precision
        return trainer


def case_of(device, kernel, ratings, factors, *, users=None, load="coalesced", **options):
    """A `CumfCase`, of ImplicitALS with an alpha, in which conjugate gradient goes on for all of its steps."""
    case = als_case(device, kernel, ratings, factors, **{"cg_tolerance": 0.0} | options)
    if users is None and kernel in CG:
        users = random_factors(USERS, factors, seed=1)
    start = case.start if users is None else (users, case.start[1])
    return CumfCase(case.model, ratings, start, longest=25, load=load)


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
            matrices.append(fixed.T @ fixed + (v.T * (alpha * abs(r))) @ v)
            biases.append(v.T @ ((1 + alpha * r) * (r > 0)))
    return np.array(matrices), np.array(biases)


@pytest.mark.parametrize("factors", [10, 64, *slow(1, 16, 32, 100, 128, 200, 256)])
def test_half_sweep_matches_the_reference(launcher, factors):
    ratings = ragged(factors)
    assert ratings.by_user.counts.max() > 2 * 25  # has several segments
    assert (ratings.by_user.counts == 0).any()  # whose rows are zero
    for kernel in (*EXACT, *CG):
        floor = 1.0 if kernel in CG else 0.0  # rounding of conjugate gradient is of the size of its start
        case_of(launcher.name, kernel, ratings, factors).assert_close(als_tolerance(kernel), HALF, floor=floor)


@pytest.mark.parametrize("kernel", EXACT)
def test_a_pivot_that_only_rounding_leaves_counts_as_infinite(launcher, kernel):
    """A = ((4, 4), (4, a)), b = (8, 9): the second pivot is a - 4, and at 2^-21 a or less says nothing."""
    last, expected = [5.0, 4 + 2.0**-21, 4.0], [[1, 1], [2, 0], [2, 0]]
    ratings = Ratings(np.arange(3), np.zeros(3, int), np.ones(3), 3, 1)
    trainer = case_of(launcher.name, kernel, ratings, 2, regularization=1e-30).make_solver()  # lost beside a 4
    (batch,) = trainer._users.batches
    for array, values in (
        (batch.matrices.reshape(3, 16, 16)[:, :2, :2], [[[4, 4], [4, a]] for a in last]),
        (batch.biases.reshape(3, 2), [[8, 9]] * 3),
    ):
        array[...] = launcher.array(np.array(values, np.float32))
    trainer.phases("users")["solve"]()
    np.testing.assert_allclose(launcher.to_numpy(trainer.factors()[0]), expected, rtol=1e-6)


@pytest.mark.parametrize("load", ["coalesced", "l1", "no_l1"])
@pytest.mark.parametrize("factors", [10, *slow(1, 64, 100)])
def test_get_hermitian_makes_a_and_b(launcher, factors, load):
    """Also with 1, 2 and 4 factors copied at once, and for every load the same bits."""
    ratings = ragged(factors)
    case = case_of(launcher.name, "cumf_cholesky", ratings, factors, load=load)
    trainer, rated = case.make_solver(), ratings.by_user.counts > 0
    trainer.phases("users")["get_hermitian"]()
    made, references = systems(trainer, launcher), expected_systems(ratings.by_user, case.start[1])
    for actual, expected in zip(made, references, strict=True):
        assert relative_error(actual[rated], expected[rated]) < 1e-6
    usual = case_of(launcher.name, "cumf_cholesky", ratings, factors).make_solver()
    usual.phases("users")["get_hermitian"]()
    for ours, theirs in zip(made, systems(usual, launcher), strict=True):
        assert np.array_equal(ours[rated], theirs[rated])


@pytest.mark.parametrize("alpha", [None, 3.0])
def test_get_bias_on_its_own(launcher, alpha):
    for factors in (10, 64):
        ratings = ragged(factors)
        case = case_of(launcher.name, "cumf_cholesky", ratings, factors, alpha=alpha)
        trainer, items = case.make_solver(), case.start[1]
        trainer.phases("users")["get_bias"]()
        rated = ratings.by_user.counts > 0
        expected = expected_systems(ratings.by_user, items, alpha)[1]
        batch = trainer._users.batches[0]
        assert relative_error(launcher.to_numpy(batch.biases).reshape(-1, factors)[rated], expected[rated]) < 1e-6


def test_half_precision_rounds_a_and_nothing_else(launcher):
    """Of a magnitude, too, that FP16 does not hold: the products are up to 70 * 90000."""
    ratings = ragged(4)
    case = case_of(launcher.name, "cumf_cg_fp16", ratings, 32, regularization=0.05 * 300**2)
    items = case.start[1]
    items *= 300
    trainer = case.make_solver()
    trainer.solve_users()
    matrices, biases = systems(trainer, launcher)
    exact, _ = expected_systems(ratings.by_user, items)
    actual = launcher.to_numpy(trainer.factors()[0])
    for row, count in enumerate(ratings.by_user.counts):
        if count:
            largest = exact[row].diagonal().max()
            assert largest > 65504 and abs(matrices[row] - exact[row]).max() <= 2**-11 * largest
            ridge = case.model.regularization * count * np.eye(32)
            assert np.array_equal(matrices[row], matrices[row].T)
            residual = (matrices[row] + ridge) @ actual[row] - biases[row]
            assert np.linalg.norm(residual) < 1e-3 * np.linalg.norm(biases[row])


def implicit_ratings(seed):
    """Ragged, some ratings zero or negative: seen, but not liked, or disliked."""
    r = ragged(seed)
    values = np.random.default_rng(seed).integers(-1, 5, r.nnz).astype(np.float32)
    return Ratings(r.users, r.items, values, r.n_users, r.n_items)


@pytest.mark.parametrize("factors", [10, 64])
def test_implicit_half_sweep(launcher, factors):
    ratings = implicit_ratings(factors)
    for kernel in (*EXACT, *CG):
        case = case_of(launcher.name, kernel, ratings, factors, alpha=3.0, regularization=5.0)
        case.assert_close(als_tolerance(kernel), HALF, floor=0.01)


def test_implicit_reference_is_the_dense_problem():
    """Every column weighs in, at the minimum of the cost that the source states (section 5.6)."""
    ratings, fixed = implicit_ratings(7), random_factors(ITEMS, 5, 3).astype(np.float64)
    preferred, confidence = np.zeros((USERS, ITEMS)), np.ones((USERS, ITEMS))
    liked = ratings.values > 0
    at = ratings.users[liked], ratings.items[liked]
    preferred[at] = 1
    confidence[ratings.users, ratings.items] = 1 + 2.0 * abs(ratings.values)
    solved = reference.implicit_update(ratings.by_user, fixed, 0.5, 2.0)
    gradient = (confidence * (solved @ fixed.T - preferred)) @ fixed + 0.5 * solved
    np.testing.assert_allclose(gradient, 0, atol=1e-9)


@pytest.mark.parametrize("kernel", [*EXACT, *CG])
def test_batches_give_the_same_bits(launcher, monkeypatch, kernel):
    case = case_of(launcher.name, kernel, ragged(8), 10)
    whole = case.make_solver()
    whole.epoch(0)
    monkeypatch.setattr(type(launcher), "free_bytes", staticmethod(lambda: 22_000))
    batched = case.make_solver()
    batched.epoch(0)
    assert len(whole._users.batches) == len(whole._items.batches) == 1
    assert len(batched._users.batches) > 1 and len(batched._items.batches) > 1
    for ours, theirs in zip(batched.factors(), whole.factors(), strict=True):
        assert np.array_equal(launcher.to_numpy(ours), launcher.to_numpy(theirs))


def test_a_row_of_either_side_that_does_not_fit_is_said_to_be_too_large(host, monkeypatch):
    trainer = ALS(4, solver="cumf_cholesky", device="emulator", biases=False).make_solver(ragged_ratings(seed=0))
    short, long = np.array([0, 5]), np.array([0, 50])  # of one segment, and of ten, whose sums take memory too
    room = 4 * (trainer._shape.matrix + 5 * trainer._shape.sums) / als_cumf._SHARE
    trainer._device = SimpleNamespace(empty=host.empty, array=host.array, free_bytes=lambda: room)
    assert [len(batches) for batches in trainer._batches([short, short], longest=5)] == [1, 1]
    monkeypatch.setattr(als_cumf, "_cut", lambda costs, budget: pytest.fail("a row larger than a batch has no end"))
    for sides in ([short, long], [long, short]):
        with pytest.raises(backends.DeviceError, match="the system of one row takes"):
            trainer._batches(sides, longest=5)


def test_a_system_that_just_fits_is_in_shared_memory(host, monkeypatch):
    model = ALS(4, solver="cumf_cholesky", device="emulator", biases=False)
    scheme = ALS.solver_classes()["cumf_cholesky"]
    taken, fits = scheme._system_bytes(model)
    assert fits
    for room, there in ((taken + als_cumf._STATIC, True), (taken + als_cumf._STATIC - 1, False)):
        monkeypatch.setitem(host.facts, "shared_bytes_per_block", room)
        assert scheme._system_bytes(model) == (taken, there)


def test_rows_are_cut_where_the_memory_is_full():
    cuts = als_cumf._cut(np.array([3, 3, 3, 9, 1, 1, 7, 1]), 9)
    assert [(cut.start, cut.stop) for cut in cuts] == [(0, 3), (3, 4), (4, 7), (7, 8)]


def test_conjugate_gradient_takes_its_steps_and_no_more(launcher):
    """Each step as in Algorithm 1, with its slip mended."""
    ratings = ragged(10)
    start = random_factors(USERS, 16, 5)
    for steps in (1, 2, 3):
        actual, items = case_of(launcher.name, "cumf_cg", ratings, 16, users=start, cg_steps=steps).run(HALF)
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
    case = case_of(launcher.name, "cumf_cg", ratings, 16, users=start)

    def solved(tolerance):
        trainer = case.make_solver()
        trainer._limits["cg_tolerance"] = tolerance  # of 1 and more, which no model takes
        trainer.solve_users()
        return to_numpy(launcher.name, *trainer.arrays())

    def norms(x):
        """Of the residuals, which the tolerance bounds."""
        ridges = 0.05 * ratings.by_user.counts[:, None] * x
        return np.linalg.norm(np.einsum("rij,rj->ri", matrices, x) + ridges - biases, axis=1)

    near, items = solved(1.0)
    matrices, biases = expected_systems(ratings.by_user, items)
    assert (norms(near) < 1.1).all() and norms(near).max() > 1e-3
    largest = norms(start)[rated].max()
    assert largest > 2, "or its square would be less"
    assert np.array_equal(solved(1.1 * largest)[0][rated], start[rated])


def test_every_way_of_loading_is_a_variant_of_the_source():
    assert sorted(als_cumf._LOADS.values()) == list(als_cumf.Cumf.variants["LOAD"])


@pytest.mark.parametrize(
    "kernel", [name for name, scheme in ALS.solver_classes().items() if issubclass(scheme, als_cumf.Cumf)]
)
def test_b_is_made_with_a_but_in_the_version_that_makes_it_apart_as_published(kernel, monkeypatch, host):
    made, scheme = [], ALS.solver_classes()[kernel]
    monkeypatch.setattr(scheme, "get_bias", lambda *arguments: made.append("b"))
    trainer = ALS(4, solver=kernel, device="emulator", biases=False).make_solver(ragged_ratings(seed=0))
    monkeypatch.setattr(trainer, "get_hermitian", lambda *arguments: made.append("A"))
    monkeypatch.setattr(trainer, "solve", lambda *arguments: None)
    trainer.solve_users()
    assert made == (["A", "b"] if kernel == "cumf_lu" else ["A"])


def test_only_rows_of_several_segments_take_memory_for_their_sums(host):
    trainer = ALS(4, solver="cumf_cholesky", device="emulator", biases=False).make_solver(ragged_ratings(seed=0))
    lengths = []

    def empty(n, dtype):
        lengths.append(n)
        return host.empty(n, dtype)

    trainer._device = SimpleNamespace(empty=empty, array=host.array, free_bytes=lambda: 10**6)
    for counts in ([5, 5, 5], [5, 5, 6], [5, 11, 6]):
        indptr = np.cumsum([0, *counts])
        trainer._batches([indptr], longest=5)
        several = sum(-(-count // 5) for count in counts if count > 5)
        rows = 3 * (trainer._shape.matrix + 4 + 1)
        assert lengths.pop() == rows + several * trainer._shape.sums + 1, counts


@pytest.mark.parametrize("largest", [0, 11, 23])
def test_halves_are_scaled_by_the_largest_entry_wherever_it_stands(launcher, largest):
    ratings = ragged(3)
    start = [random_factors(USERS, 24, 1), random_factors(ITEMS, 24, 2)]
    start[1][:, largest] *= 50
    trainer = ALS(24, 1e-6, solver="cumf_cg_fp16", device=launcher.name, biases=False).make_solver(ratings, *start)
    (batch,) = trainer._users.batches
    batch.scales[...] = np.nan  # rows without ratings get none
    trainer.solve_users()
    found, rows = launcher.to_numpy(batch.scales), ratings.by_user
    for row in np.flatnonzero(rows.counts):
        chosen = start[1][rows.indices[rows.indptr[row] : rows.indptr[row + 1]]].astype(np.float64)
        diagonal = np.square(chosen).sum(axis=0)
        assert found[row] == pytest.approx(diagonal.max(), rel=1e-3)
        assert rows.counts[row] < 5 or diagonal.argmax() == largest
