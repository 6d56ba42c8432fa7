"""Bayesian matrix factorization: each draw against float64, and its intervals on ratings drawn from the model."""

import copy
import pickle
from operator import is_

import numpy as np
import pytest

from gpumf import BayesianMF
from gpumf._util import threads
from gpumf.backends import DeviceError, compile
from gpumf.backends.cpu import gibbs
from gpumf.models import bayesian
from gpumf.ratings import Ratings
from gpumf.ratings.synthetic.numbers import normals
from gpumf.solvers import gibbs as solver_module
from gpumf.solvers import gibbs_cuda
from gpumf.solvers.base import Problem
from gpumf.solvers.gibbs import drawn_prior, gammas
from references import drawn_rows
from support import ragged_ratings, slow

SOLVERS = BayesianMF.solver_classes()
DRAWERS = ["numba"] if compile.why_unavailable() else ["numba", "native"]


def drawer(which, factors):
    return gibbs._numba if which == "numba" else gibbs.row_drawer(factors)


def a_draw(factors, seed=0):
    """Rows, one of them empty and one long, the other side's factors, a prior and noise."""
    rng = np.random.default_rng(seed)
    train = ragged_ratings(n_users=23, n_items=400, longest=390, seed=seed)
    rows, fixed = train.by_user, rng.normal(0, 0.5, (400, factors)).astype(np.float32)
    root = rng.normal(0, 1, (factors, factors + 2))
    prior = np.column_stack([root @ root.T, rng.normal(0, 1, factors)]).astype(np.float32)
    return rows, fixed, prior, rng.standard_normal((23, factors)).astype(np.float32)


def drawn(which, rows, fixed, prior, noise, precision):
    found = np.full(noise.shape, np.nan, np.float32)
    given = rows.indptr, rows.indices, rows.values, fixed, prior, noise, found
    drawer(which, fixed.shape[1])(*given, precision)
    return found


@pytest.mark.parametrize("which", DRAWERS)
@pytest.mark.parametrize("factors", [1, 3, 16, 33])
def test_rows_are_drawn_as_in_float64(which, factors):
    rows, fixed, prior, noise = a_draw(factors)
    assert rows.counts.min() == 0 and rows.counts.max() > 256
    expected = drawn_rows(rows, fixed, prior, noise, 1.7)
    np.testing.assert_allclose(drawn(which, rows, fixed, prior, noise, 1.7), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("which", DRAWERS)
def test_draws_have_the_mean_and_the_covariance_of_the_conditional(which):
    rows, fixed, prior, noise = a_draw(5)
    mean = drawn(which, rows, fixed, prior, 0 * noise, 0.6).astype(np.float64)
    # What each of five unit vectors adds are the columns of a root of the covariance.
    roots = np.stack(
        [
            drawn(which, rows, fixed, prior, np.tile(unit, (23, 1)), 0.6) - mean
            for unit in np.eye(5, dtype=np.float32)
        ],
        axis=2,
    )
    for row in range(23):
        v = fixed[rows.indices[rows.indptr[row] : rows.indptr[row + 1]]].astype(np.float64)
        values = rows.values[rows.indptr[row] : rows.indptr[row + 1]]
        covariance = np.linalg.inv(prior[:, :5] + 0.6 * v.T @ v)
        np.testing.assert_allclose(mean[row], covariance @ (prior[:, 5] + 0.6 * v.T @ values), rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(roots[row] @ roots[row].T, covariance, atol=2e-3 * np.abs(covariance).max())


def rows_on(launcher, solver, train, factors, longest=25):
    """The drawer of a device, whose work is poisoned."""
    made = SOLVERS[solver]
    hyper = BayesianMF(factors, solver=solver, device=launcher.name).hyperparameters
    start = (np.full((n, factors), np.nan, np.float32) for n in (train.n_users, train.n_items))
    rows = made.rows(Problem(gibbs_cuda.least_squares(hyper), train, tuple(start)), longest=longest)
    if solver == "gibbs_cuda":
        for batch in (*rows._users.batches, *rows._items.batches):
            batch.matrices[...] = batch.biases[...] = np.nan
    else:
        rows._half.halves[...] = 0x7E00  # of a half, not a number
        for _, room in (rows._users[0], rows._items[0], *rows._every.values()):
            room["partial"][...] = 0xFF
        rows._found[...] = np.nan
    rows._of_items[...] = np.nan
    return rows


def rounded(factors):
    """As kernels/als/half_rows.cu rounds them."""
    scale = 2.0 ** (6 - np.frexp(np.abs(factors).max())[1])
    return (factors * scale).astype(np.float16) / np.float32(scale)


@pytest.mark.parametrize(
    ("solver", "factors"),
    [
        *(("gibbs_cuda", f) for f in (1, 16, 33)),
        *(("gibbs_tensor_core", f) for f in (1, 7, 16, 33)),
        *slow(
            *(("gibbs_cuda", f) for f in (64, 100, 256)), *(("gibbs_tensor_core", f) for f in (48, 64, 80, 100, 128))
        ),
    ],
)
def test_a_device_draws_rows_as_in_float64(launcher, solver, factors):
    rng, train = np.random.default_rng(factors), ragged_ratings(19, 150, 140, seed=2)
    root = rng.normal(0, 1, (factors, factors + 2))
    prior = np.column_stack([root @ root.T, rng.normal(0, 1, factors)]).astype(np.float32)
    fixed, key = rng.normal(0, 0.5, (19, factors)).astype(np.float32), np.uint64(11)
    made, deviation = rows_on(launcher, solver, train, factors), np.float32(1.7**-0.5)
    as_taken = rounded if solver == "gibbs_tensor_core" else np.array
    if solver == "gibbs_tensor_core":  # of Turing a block has 64 KiB
        assert made._shape.teams * made._shape.team_bytes + 1024 <= 64 << 10
    assert train.by_item.counts.min() == 0 and train.by_user.counts.max() > 25  # which is longer than a segment
    made._p[...] = launcher.array(fixed)
    scaled = launcher.array(prior * deviation**2)
    made.draw(made._items, made._p, made._q, prior=scaled, deviation=float(deviation), key=key)
    taken = as_taken(fixed)
    expected = drawn_rows(train.by_item, taken, prior, normals(key, 150, factors), 1.7)
    found = launcher.to_numpy(made._q)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    errors = train.values - (taken[train.users].astype(np.float64) * found[train.items]).sum(axis=1)
    squares = (train.values.astype(np.float64) ** 2).sum() + made.errors()
    assert squares == pytest.approx((errors**2).sum(), rel=1e-4)
    for array, factors_of in ((made._p, taken), (made._q, as_taken(found))):
        for one, other in zip(made.moments(array), gibbs.moments(factors_of), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * np.abs(other).max())
    made.draw(made._users, made._q, made._p, prior=scaled, deviation=float(deviation), key=key)
    expected = drawn_rows(train.by_user, as_taken(found), prior, normals(key, 19, factors), 1.7)
    np.testing.assert_allclose(launcher.to_numpy(made._p), expected, rtol=1e-3, atol=1e-3)


def test_every_draw_of_an_epoch_has_random_numbers_of_its_own(monkeypatch):
    drawn, solver = [], BayesianMF(3, seed=5).make_solver(ragged_ratings(seed=1))

    def noted(draw):
        return lambda *given: drawn.append(next(one for one in given if isinstance(one, np.uint64))) or draw(*given)

    for name in ("normals", "gammas"):
        monkeypatch.setattr(solver_module, name, noted(getattr(solver_module, name)))
    for epoch in range(2):
        solver.epoch(epoch)
    assert len(drawn) == 2 * 7 and len(set(drawn)) == len(drawn)


@pytest.mark.parametrize(
    ("solver", "free", "parts_of"),
    [
        ("gibbs_cuda", 20_000, lambda made: made._items.batches),  # of systems that do not fit at once
        ("gibbs_tensor_core", 1000, lambda made: made._items[0][0]._chunks.places),  # of ratings that are streamed
    ],
)
def test_rows_are_the_same_in_parts(host, monkeypatch, solver, free, parts_of):
    train, drawn = ragged_ratings(40, 30, 20, seed=1), []
    fixed, prior = np.random.default_rng(0).random((40, 5), np.float32), np.eye(5, 6, dtype=np.float32)
    for in_parts in (False, True):
        if in_parts:
            monkeypatch.setattr(type(host), "free_bytes", staticmethod(lambda: free))
        made = rows_on(host, solver, train, 5)
        assert (len(parts_of(made)) > 1) == in_parts
        made._p[...] = fixed
        made.draw(made._items, made._p, made._q, prior=prior, deviation=0.5, key=np.uint64(3))
        drawn.append((made._q.tobytes(), made.errors()))
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("share", [1.0, 0.0])
@pytest.mark.parametrize(("solver", "digits"), [("gibbs_cuda", 1e-3), ("gibbs_tensor_core", 2e-2)])
def test_a_device_has_the_chain_of_the_cpu(launcher, monkeypatch, solver, digits, share):
    """Samples that stay on the device, and those that do not."""
    monkeypatch.setattr(bayesian, "_SHARE", share)
    monkeypatch.setattr(bayesian, "_AT_A_TIME", 3_000)  # several parts
    train, test = ragged_ratings(60, 90, 70, seed=1).split(0.2)
    ours = BayesianMF(5, samples=6, device=launcher.name, solver=solver).fit(train, 7, test)
    theirs = BayesianMF(5, samples=6, device="cpu").fit(train, 7, test)
    assert BayesianMF(5, device=launcher.name).solver == "gibbs_tensor_core" and theirs.solver == "gibbs"
    for _ in range(2):
        for one, other in zip(ours._learned, theirs._learned, strict=True):
            np.testing.assert_allclose(one, other, rtol=digits, atol=digits)
        np.testing.assert_allclose(ours.history[["rmse", "mae"]], theirs.history[["rmse", "mae"]], rtol=digits / 10)
        np.testing.assert_allclose(
            ours.fold_in(test).user_samples, theirs.fold_in(test).user_samples, atol=5 * digits
        )
        assert ours.score(test)["rmse"] == pytest.approx(ours.history.rmse.iloc[-1], rel=1e-5)
        if solver == "gibbs_cuda":
            assert ours.recommend(3, 5)[0].tolist() == theirs.recommend(3, 5)[0].tolist()
        ours.fit(train, 2, test, warm_start=True), theirs.fit(train, 2, test, warm_start=True)


def test_samples_stay_on_a_device_until_they_are_needed(launcher, monkeypatch, tmp_path):
    train, test = ragged_ratings(60, 90, 70, seed=1).split(0.2)
    model = BayesianMF(5, samples=6, device=launcher.name).fit(train, 7)
    fetched = pickle.loads(pickle.dumps(copy.copy(model)))  # of the copy alone
    assert fetched._on_device is None and "user_samples" in vars(fetched)
    users, items = np.meshgrid(np.arange(4), np.arange(50), indexing="ij")
    monkeypatch.setattr(bayesian, "_AT_A_TIME", 10_000)  # several parts

    def same(atol=1e-5):
        assert repr(model) == repr(fetched) and model._repr_html_() == fetched._repr_html_()
        np.testing.assert_allclose(model.predict(3, 1), fetched.predict(3, 1), atol=atol)
        for one, other in zip(*(of.predict_with_std(users, items) for of in (model, fetched)), strict=True):
            np.testing.assert_allclose(one, other, atol=atol)
        assert model.score(test) == pytest.approx(fetched.score(test), rel=1e-5)

    same()
    assert model._on_device is not None and not vars(model).keys() & {"user_samples", "item_samples"}
    with pytest.raises(IndexError, match=r"item positions must lie in 0\.\.89"):
        model.predict(0, 90)
    with pytest.raises(AttributeError, match="no attribute 'user_factors'"):
        model.user_factors  # noqa: B018
    copied = copy.copy(model)
    copied.factors = 4
    with pytest.raises(ValueError, match="attributes were assigned since fit"):
        copied.predict(0, 0)
    copied = copy.copy(model)
    copied.deviations = np.ones(3, np.float32)
    with pytest.raises(ValueError, match="attributes were assigned since fit"):
        copied.predict(0, 0)
    halved, copied = copy.copy(model), copy.copy(model)
    halved.user_samples = np.float32(0.5) * fetched.user_samples
    assert halved.predict_with_std(3, 1)[0] - model.mean == pytest.approx(
        (model.predict_with_std(3, 1)[0] - model.mean) / 2
    )
    copied.save(tmp_path / "model.npz")
    loaded = BayesianMF.load(tmp_path / "model.npz", device=launcher.name)
    for other in (copied, loaded, model):  # which is asked for its arrays here
        assert all(map(np.array_equal, other._learned, fetched._learned))
    assert model._on_device is None and all(map(is_, model._finite, model._learned))  # they are not looked at again
    same(0)
    model.fit(train, 2, warm_start=True)
    assert model._on_device is not None and model.user_samples.shape == (60, 6, 5)


def test_samples_move_to_the_host_where_training_leaves_them_no_room(launcher, monkeypatch):
    train, test = ragged_ratings(60, 90, 70, seed=1).split(0.2)
    expected = BayesianMF(5, samples=4, device=launcher.name).fit(train, 9, test)

    def taken(row):
        if row["epoch"] == 5:
            monkeypatch.setattr(type(launcher), "free_bytes", staticmethod(lambda: 100))
        return False

    made = BayesianMF(5, samples=4, device=launcher.name).fit(train, 9, test, stop=taken)
    assert expected._on_device is not None and made._on_device is None
    assert all(map(np.array_equal, made._learned, expected._learned))
    np.testing.assert_allclose(made.history[["rmse", "mae"]], expected.history[["rmse", "mae"]], rtol=1e-5)


def test_threads_that_ask_for_samples_at_once_get_them(launcher, monkeypatch):
    model = BayesianMF(2, device=launcher.name).fit(ragged_ratings(60, 90, 70, seed=1), 2)
    fetch, other = BayesianMF._fetch, copy.copy(model)

    def fetched_meanwhile(self):
        vars(self).update(user_samples=other.user_samples, item_samples=other.item_samples, _on_device=None)
        fetch(self)

    assert other.user_samples.shape == (60, 2, 2)
    monkeypatch.setattr(BayesianMF, "_fetch", fetched_meanwhile)
    assert model.user_samples is other.user_samples


def test_an_interrupted_training_on_a_device_leaves_its_samples(launcher):
    train, reference = ragged_ratings(60, 90, 70, seed=1), BayesianMF(5, device=launcher.name)

    def stop(row):
        if row["epoch"] == 4:
            raise KeyboardInterrupt

    model = BayesianMF(5, device=launcher.name)
    with pytest.raises(KeyboardInterrupt):
        model.fit(train, 9, stop=stop)
    assert model.epoch == 4 and np.array_equal(model.user_samples, reference.fit(train, 4).user_samples)
    before = model.user_samples
    with pytest.raises(ZeroDivisionError):
        model.fit(train, 9, stop=lambda row: 1 / 0)
    assert model.user_samples is before and model.epoch == 4


def test_priors_have_the_moments_of_their_distributions():
    n, f = 40, 3
    rows = np.random.default_rng(0).normal([1, 0, -2], [0.5, 1, 2], (n, f)).astype(np.float32)
    total, products = gibbs.moments(rows)
    np.testing.assert_allclose(total, rows.sum(axis=0, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(products, rows.T.astype(np.float64) @ rows, rtol=1e-6)
    made = np.stack(
        [drawn_prior(total, products, n, np.uint64(1000 * k), np.uint64(1000 * k + 500)) for k in range(4000)]
    )
    precisions = made[:, :, :f].astype(np.float64)
    means = np.linalg.solve(precisions, made[:, :, f:])[:, :, 0]
    scale = np.linalg.inv(np.eye(f) + products - np.outer(total, total) / (2 + n))
    expected, degrees = (n + f) * scale, n + f
    np.testing.assert_allclose(precisions, precisions.transpose(0, 2, 1), rtol=1e-5, atol=1e-5)
    variances = degrees * (scale**2 + np.outer(np.diag(scale), np.diag(scale)))  # of a Wishart distribution
    np.testing.assert_allclose(precisions.mean(axis=0), expected, atol=5 * np.sqrt(variances.max() / 4000))
    np.testing.assert_allclose(precisions.var(axis=0), variances, rtol=0.15)
    # A mean has the covariance E[Lambda^-1] / (2 + n), and E[Lambda^-1] is W^-1 / (degrees - f - 1).
    covariance = np.linalg.inv(scale) / (degrees - f - 1) / (2 + n)
    np.testing.assert_allclose(means.mean(axis=0), total / (2 + n), atol=5 * np.sqrt(covariance.max() / 4000))
    np.testing.assert_allclose(np.cov(means.T), covariance, atol=0.1 * covariance.max())


@pytest.mark.parametrize("shape", [0.5, 3.0, 5e7])
def test_gammas_have_their_mean_and_variance(shape):
    found = gammas(np.full(20_000, shape), np.uint64(7))
    assert found.mean() == pytest.approx(shape, abs=5 * np.sqrt(shape / 20_000))
    assert found.var() == pytest.approx(shape, rel=0.08)


def test_products_are_moments_over_samples():
    rng = np.random.default_rng(0)
    p, q = (rng.normal(1, 1, (n, 7, 5)).astype(np.float32) for n in (9, 8))
    users, items = (rng.integers(0, n, 50).astype(np.int32) for n in (9, 8))
    dots = (p[users].astype(np.float64) * q[items]).sum(axis=2)
    means, variances = gibbs.products(users, items, p, q)
    np.testing.assert_allclose(means, dots.mean(axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variances, dots.var(axis=1), rtol=1e-5)


def of_the_model(seed, factors=3, n_users=120, n_items=90, nnz=6000, noise=0.6):
    """Ratings that are drawn from the model: those to train on, others, and what these are without noise."""
    rng = np.random.default_rng(seed)
    p, q = rng.normal(0.3, 0.7, (n_users, factors)), rng.normal(0, 0.6, (n_items, factors))
    users, items = np.divmod(rng.permutation(n_users * n_items), n_items)
    clean = (p[users] * q[items]).sum(axis=1)
    values = 30 + 4 * (clean + rng.normal(0, noise, len(users)))
    every = Ratings(users, items, values, n_users, n_items)
    return every.select(np.arange(every.nnz) < nnz), every.select(np.arange(every.nnz) >= nnz), 30 + 4 * clean[nnz:]


def test_intervals_hold_what_they_say_of_ratings_drawn_from_the_model():
    held, within = {0.6745: [], 1.2816: [], 1.6449: []}, []
    for seed in range(3):
        train, test, clean = of_the_model(seed)
        model = BayesianMF(3, seed=seed).fit(train)
        means, deviations = model.predict_with_std(test.users, test.items)
        for width, found in held.items():
            found.append(np.mean(np.abs(test.values - means) <= width * deviations))
        noise = model.unit**2 * np.mean(model.deviations.astype(np.float64) ** 2)
        assert noise**0.5 == pytest.approx(4 * 0.6, rel=0.05)
        within.append(np.mean(np.abs(clean - means) <= 1.6449 * np.sqrt(deviations.astype(np.float64) ** 2 - noise)))
    assert [np.mean(found) for found in held.values()] == pytest.approx([0.5, 0.8, 0.9], abs=0.02)
    assert np.mean(within) == pytest.approx(0.9, abs=0.04)  # of what is without noise, which the samples alone cover


def test_predictions_are_means_over_samples_and_better_than_one():
    train, test, _ = of_the_model(5)
    model = BayesianMF(6).fit(train, 60, test)
    dots = np.einsum("nsk,nsk->ns", model.user_samples[test.users], model.item_samples[test.items])
    predictions = model.mean + model.unit * dots.mean(axis=1, dtype=np.float64)
    np.testing.assert_allclose(model.predict_with_std(test.users, test.items)[0], predictions, rtol=1e-5)
    clipped = np.clip(predictions, *train.bounds)
    np.testing.assert_allclose(model.predict(test.users, test.items), clipped, rtol=1e-5)
    rmse = np.sqrt(np.mean((clipped - test.values) ** 2))
    assert model.score(test)["rmse"] == pytest.approx(rmse, rel=1e-6)
    assert model.history.rmse.iloc[-1] == pytest.approx(rmse, rel=1e-6)
    newest = np.clip(model.mean + model.unit * dots[:, -1], *train.bounds)
    assert rmse < 0.97 * np.sqrt(np.mean((newest - test.values) ** 2))
    items, ratings = model.recommend(3, 5, seen=())
    every = model.predict_with_std(3, np.arange(train.n_items))[0]
    assert items.tolist() == np.argsort(-every)[:5].tolist()
    np.testing.assert_allclose(ratings, model.predict(3, items))


def test_the_first_fifth_of_the_epochs_and_what_is_too_many_are_not_kept(sets):
    train, test = sets
    whole = BayesianMF(3).fit(train, 20, test)
    assert whole.user_samples.shape == (train.n_users, 16, 3) and whole.deviations.shape == (16,)
    few = BayesianMF(3, samples=5).fit(train, 20, test)
    for one, other in zip(few._learned, whole._learned, strict=True):
        newest = other[:, -5:] if other.ndim == 3 and len(other) > 16 else other[-5:]
        np.testing.assert_array_equal(one, newest)
    for model in (whole, few):
        assert model.history.rmse.iloc[-1] == pytest.approx(model.score(test)["rmse"], rel=1e-6)
    alone = BayesianMF(3).fit(train, 1, test)
    assert alone.history.rmse.to_list() == whole.history.rmse.to_list()[:2]


def test_a_seed_gives_the_same_samples_on_any_number_of_threads(sets):
    train, _ = sets
    made = [BayesianMF(17, threads=n).fit(train, 6)._learned for n in (1, 2, 1)]
    with threads.limited_to(3):
        made.append(BayesianMF(17).fit(train, 6)._learned)
    for other in made[1:]:
        assert all(map(np.array_equal, made[0], other))
    assert not np.array_equal(BayesianMF(17, seed=1).fit(train, 6).user_samples, made[0][0])


def test_going_on_is_as_if_there_had_been_no_pause(sets, tmp_path):
    train, test = sets
    through = BayesianMF(4, samples=9).fit(train, 14, test)
    paused = BayesianMF(4, samples=9).fit(train, 8, test)
    paused.save(tmp_path / "model.npz")
    loaded = BayesianMF.load(tmp_path / "model.npz")
    assert loaded.unit == paused.unit and loaded.predict(0, 1) == paused.predict(0, 1)
    for model in (paused, loaded):
        model.fit(train, 6, test, warm_start=True)
        assert model.history.epoch.to_list() == list(range(15))
        assert model.history.rmse.iloc[-1] == pytest.approx(through.history.rmse.iloc[-1], rel=1e-6)
        for one, other in zip(model._learned, through._learned, strict=True):
            np.testing.assert_array_equal(one[..., -1:], other[..., -1:])


def test_the_best_epoch_is_kept_and_callbacks_see_whole_models(sets):
    train, test = sets
    seen = []
    model = BayesianMF(3).fit(
        train,
        12,
        test,
        keep="best",
        callbacks=[lambda told, row: seen.append((told.score(test)["rmse"], row["rmse"]))],
    )
    assert model.epoch == model.history.rmse.idxmin()
    assert model.score(test)["rmse"] == pytest.approx(model.history.rmse.min(), rel=1e-6)
    assert len(seen) == 12 and all(ours == pytest.approx(told, rel=1e-6) for ours, told in seen)
    stopped = BayesianMF(3).fit(train, 12, test, stop=lambda row: row["epoch"] == 4)
    assert stopped.epoch == 4 and stopped.user_samples.shape[1] == 4


@pytest.mark.parametrize(("a", "b"), [(25.0, -25.0), (1e6, 5e5), (1e-9, 0.0)])
def test_predictions_follow_the_scale_of_ratings(a, b, sets):
    train, test = sets
    mapped = Ratings(train.users, train.items, a * train.values + b, train.n_users, train.n_items)
    plain = Ratings(train.users, train.items, train.values, train.n_users, train.n_items)
    one, other = (BayesianMF(3).fit(ratings, 10).predict(test.users, test.items) for ratings in (plain, mapped))
    np.testing.assert_allclose(other, a * one.astype(np.float64) + b, atol=0.01 * a)


def test_a_new_user_is_predicted_as_one_of_the_training_set():
    train, test, _ = of_the_model(1)
    model = BayesianMF(3).fit(train)
    folded = model.fold_in(train)
    errors = [one.predict(test.users, test.items) - test.values for one in (model, folded)]
    assert np.sqrt(np.mean(errors[1] ** 2)) == pytest.approx(np.sqrt(np.mean(errors[0] ** 2)), rel=0.02)
    of_all = folded.predict_with_std(test.users, test.items)[1]
    np.testing.assert_allclose(of_all, model.predict_with_std(test.users, test.items)[1], rtol=0.3)
    alone = model.fold_in(train.select(train.users == 7))
    np.testing.assert_allclose(alone.user_samples[7], folded.user_samples[7], rtol=1e-3, atol=1e-4)
    nobody = model.fold_in({}).predict_with_std(0, np.arange(90))
    assert np.isfinite(nobody).all() and nobody[1].mean() > 1.2 * of_all.mean()


def test_constant_ratings_are_predicted():
    train = Ratings([0, 0, 1, 2], [0, 1, 1, 0], [4, 4, 4, 4], 4, 3)
    model = BayesianMF(2).fit(train)
    assert model.predict(3, 2) == 4 == model.predict(0, 1)  # clipped


def test_wrong_parameters_are_told(monkeypatch, sets):
    for given, what in (
        ({"factors": 0}, "factors must be an integer from 1 to 300"),
        ({"factors": 301}, "factors must be an integer from 1 to 300"),
        ({"samples": 0}, "samples must be an integer from 1"),
        ({"clip": 2}, "clip must be"),
        ({"solver": "parallel"}, "BayesianMF has no solver 'parallel'"),
        ({"device": "gpu"}, "device must be"),
    ):
        with pytest.raises(ValueError, match=what):
            BayesianMF(**given)
    monkeypatch.setattr(bayesian, "free_bytes", lambda: 1000)
    with pytest.raises(DeviceError, match=r"100 samples of 320 users and items takes 0\.000724 GiB"):
        BayesianMF(3).fit(sets[0])
