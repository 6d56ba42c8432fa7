"""Dense systems of any number of factors: primal and dual against float64, on the CPU and where kernels run."""

import numpy as np
import pytest

from cases import HALF, als_case
from gpumf import ALS, ImplicitALS, backends
from gpumf.models import factorization
from gpumf.solvers import als_dense
from support import kernels_on, mixed, random_factors, slow

GIVEN = {"unobserved_weight": 0.2, "regularization_exponent": 1.0}


def solver_on(device):
    return next(name for name in kernels_on(ALS, device) if name.startswith("dense"))


def case_of(device, ratings, factors, alpha, **options):
    start = random_factors(ratings.n_users, factors, 2), random_factors(ratings.n_items, factors, 1)
    return als_case(device, solver_on(device), ratings, factors, alpha, 0.3, start, **options)


@pytest.mark.parametrize("factors", [7, 40, *slow(300, 1024)])
@pytest.mark.parametrize("options", [{"alpha": None}, {"alpha": None, "weighted": False}, {"alpha": 2.0} | GIVEN])
def test_primal_and_dual_systems_have_the_solution_of_float64(device, factors, options):
    """With 40 factors some rows of either side have more ratings, with 1,024 none."""
    case = case_of(device, mixed(), factors, **options)
    learned = case.run(HALF)
    case.assert_close(2e-4, HALF, learned, floor=1e-3)
    assert not learned[0][0].any()
    if factors < 1024:
        case.assert_close(1e-3, 1, floor=1e-3)


@pytest.mark.parametrize("alpha", [None, 2.0])
def test_a_row_is_solved_by_the_fewer_of_its_ratings_and_factors(alpha, monkeypatch):
    sizes, solve = set(), np.linalg.solve
    monkeypatch.setattr(np.linalg, "solve", lambda a, b: sizes.add(a.shape[-1]) or solve(a, b))
    monkeypatch.setattr(als_dense, "_PADDED", 1)
    ratings = mixed()
    case_of("cpu", ratings, 40, alpha).make_solver().epoch(0)
    counts = np.concatenate([ratings.user_counts, ratings.item_counts])
    assert sizes == set(np.minimum(counts[counts > 0], 40).tolist())


def test_batches_hold_every_row_with_ratings_once_and_few_of_other_lengths():
    counts = np.random.default_rng(0).geometric(0.05, 500) - 1
    found = als_dense.batches(counts, 10, floats=2000)
    assert sorted(np.concatenate([chosen for chosen, _ in found])) == np.flatnonzero(counts).tolist()
    for chosen, width in found:
        assert counts[chosen].max() == width <= counts[chosen].min() * als_dense._PADDED
        assert len(chosen) == 1 or len(chosen) * width * 10 <= 2000


@pytest.mark.parametrize("alpha", [None, 2.0])
def test_the_memory_of_a_batch_changes_nothing_but_rounding(alpha, monkeypatch):
    case = case_of("cpu", mixed(), 40, alpha)
    whole = case.run(HALF)
    monkeypatch.setattr(als_dense.Dense, "floats", 500)
    assert np.allclose(case.run(HALF)[0], whole[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_same_bits_on_any_number_of_threads(threads):
    model = ImplicitALS(30, solver="dense", device="cpu", threads=threads).fit(mixed(), 2)
    again = ImplicitALS(30, solver="dense", device="cpu").fit(mixed(), 2)
    assert np.allclose(model.user_factors, again.user_factors, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("model", [ALS, ImplicitALS])
def test_more_factors_than_kernels_take(device, model, tmp_path):
    train, test = mixed().split(0.2, seed=1)
    test = test.select((train.user_counts[test.users] > 0) & (train.item_counts[test.items] > 0))
    found = model(400, 0.1, device=device).fit(train, 2, validation=test)
    solver = "preconditioned_cg" if model is ImplicitALS and device != "cpu" else solver_on(device)
    assert found.solver == solver and found.user_factors.shape == (24, 400 if model is ImplicitALS else 402)
    assert np.isfinite(found.history.rmse).all()
    wanted = test.values > 0 if model is ImplicitALS else test.values
    errors = found.predict(test.users, test.items) - wanted
    assert found.history.rmse.iloc[-1] == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-4)
    items, _ = found.recommend(1, k=5)
    folded = found.fold_in(train.select(train.users > 0))
    assert len(items) == 5 and np.isfinite(folded.user_factors).all()
    found.save(tmp_path / "model.npz")
    loaded = model.load(tmp_path / "model.npz", device="cpu")
    assert np.array_equal(loaded.recommend(1, k=5, seen=train)[0], items)


def test_biases_of_more_factors_than_kernels_take(device):
    train = mixed()
    model = ALS(310, 0.1, biases=True, device=device).fit(train, 2)
    assert model.user_factors.shape == (24, 312) and (model.user_factors[:, -1] == 1).all()


@pytest.mark.parametrize("model", [ALS, ImplicitALS])
@pytest.mark.parametrize(
    ("factors", "free", "words"),
    [
        (10**9, 2**30, "the factors of 114 users and items takes 425 GiB, and 1 GiB"),
        (10**5, 2**26, r"training with factors=100000 takes \S+ GiB, and 0.0625 GiB"),
    ],
)
def test_factors_above_the_memory_are_refused_with_both_numbers(model, factors, free, words, device, monkeypatch):
    if device == "cpu":
        monkeypatch.setattr(factorization, "free_bytes", lambda: free)
        monkeypatch.setattr(als_dense.Dense, "_free_bytes", staticmethod(lambda: free))
    else:
        monkeypatch.setattr(type(backends.device(device)), "free_bytes", staticmethod(lambda: free))
    fitted, made = model(4, device=device).fit(mixed(), 1), model(factors, device=device)
    with pytest.raises(backends.DeviceError, match=words):
        made.fit(mixed(), 1)
    assert made.history is None
    fitted.factors, before = factors, fitted.user_factors
    with pytest.raises(backends.DeviceError, match=words):
        fitted.fit(mixed(), 1)
    assert fitted.user_factors is before and len(fitted.history) == 2


def test_what_a_device_has_not_the_memory_for_is_refused(host, monkeypatch):
    monkeypatch.setattr(type(host), "free_bytes", staticmethod(lambda: 10**6))
    with pytest.raises(backends.DeviceError, match=r"training with factors=400 takes .* GiB"):
        ImplicitALS(400, solver="dense_cuda", device="emulator").fit(mixed(), 1)
