"""Models as they come: on ratings of any scale, no worse than damped biases, and with units that fit the ratings."""

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD
from gpumf.ratings import DataError, Ratings, load_dataset
from gpumf.ratings.damped import STRENGTH, Table
from support import ragged_ratings

AFFINE = [(25.0, -25.0), (2.0, 0.0), (0.1, 3.0), (-1.0, 6.0), (1e6, 5e5), (1e-9, 0.0)]


def mapped(ratings, a, b):
    return Ratings(ratings.users, ratings.items, a * ratings.values + b, ratings.n_users, ratings.n_items)


def of_biases(train, test):
    """RMSE of damped biases, clipped as models are."""
    of_user, of_item = train.damped[:2]
    predicted = train.mean + of_user[test.users] + of_item[test.items]
    return np.sqrt(np.mean((np.clip(predicted, *train.bounds) - test.values) ** 2))


def structured(seed=0, n_users=300, n_items=200, nnz=9000, noise=0.9):
    """Ratings 1..5 with biases, a signal of rank 2 and noise."""
    rng = np.random.default_rng(seed)
    cells = rng.permutation(n_users * n_items)[:nnz]
    users, items = np.divmod(cells, n_items)
    of_user, of_item = rng.normal(0, 0.4, n_users), rng.normal(0, 0.5, n_items)
    p, q = rng.normal(0, 0.6, (n_users, 2)), rng.normal(0, 0.6, (n_items, 2))
    values = 3.5 + of_user[users] + of_item[items] + (p[users] * q[items]).sum(axis=1) + rng.normal(0, noise, nnz)
    return Ratings(users, items, np.clip(np.rint(values), 1, 5), n_users, n_items, scale=(1, 5))


@pytest.mark.parametrize("model", [ALS, SGD])
@pytest.mark.parametrize(("a", "b"), AFFINE)
def test_predictions_follow_the_scale_of_ratings(model, a, b):
    train, test = structured().split(0.1)
    plain, other = (model(4, clip=False, device="cpu").fit(mapped(train, *by), 5) for by in ((1, 0), (a, b)))
    if a < 0 and model is SGD:
        pytest.skip("its initial factors have signs")
    expected = a * plain.predict(test.users, test.items).astype(np.float64) + b
    slack = 1e-4 * abs(a) + 3e-7 * abs(b)
    np.testing.assert_allclose(other.predict(test.users, test.items), expected, rtol=2e-5, atol=slack)


@pytest.mark.parametrize("factors", [64, 300])
def test_many_factors_do_not_overshoot(factors):
    train, test = structured(nnz=40_000).split(0.1)
    model = SGD(factors, device="cpu").fit(train, 5, test)
    assert model.history.rmse.max() < 1.01 * of_biases(train, test)


@pytest.mark.parametrize("model", [ALS, SGD])
def test_a_device_learns_what_the_cpu_does(model, host):
    train, test = structured(n_users=60, n_items=40, nnz=900).split(0.1)
    of_cpu = model(4, device="cpu").fit(train, 10).score(test)["rmse"]
    assert model(4, device="emulator").fit(train, 10).score(test)["rmse"] == pytest.approx(of_cpu, rel=0.01)


@pytest.mark.parametrize("solver", [name for name, device in SGD.solvers().items() if device == "cuda"])
def test_every_kernel_of_sgd_goes_with_damped_biases(solver, host):
    train = structured(n_users=60, n_items=40, nnz=900)
    model = SGD(5, solver=solver, device="emulator", **SGD.solver_classes()[solver].cases[0]).fit(train, 3, train)
    assert model.history.rmse.iloc[-1] < model.history.rmse.iloc[0]


@pytest.mark.parametrize(("a", "b"), AFFINE)
def test_the_levels_of_an_rbm_follow_the_scale(a, b):
    train, test = structured(n_users=100, n_items=50, nnz=2000).split(0.1)
    plain, other = (RBM(device="cpu").fit(mapped(train, *by), 2) for by in ((1, 0), (abs(a), b)))
    expected = abs(a) * plain.predict(test.users, test.items).astype(np.float64) + b
    # Rounding moves a rating or two to the next level.
    np.testing.assert_allclose(other.predict(test.users, test.items), expected, atol=0.02 * abs(a) + 3e-7 * abs(b))


def test_errors_of_an_rbm_are_those_of_its_predictions(launcher):
    train, test = structured(n_users=60, n_items=40, nnz=900).split(0.1)
    model = RBM(5, solver="fast" if launcher.name != "cpu" else None, device=launcher.name).fit(train, 4, test)
    errors = model.predict(test.users, test.items).astype(np.float64) - test.values
    assert model.history.rmse.iloc[-1] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-5)
    items, ratings = model.recommend(3, k=5)
    np.testing.assert_allclose(ratings, model.predict(3, items), rtol=1e-5)


@pytest.mark.parametrize("model", [ALS, SGD, RBM])
@pytest.mark.parametrize("noise", [0.3, 3.0])
def test_on_any_noise_a_model_is_no_worse_than_biases(model, noise):
    over = []
    for seed in range(4):
        train, test = structured(seed, noise=noise).split(0.1)
        over.append(model(device="cpu").fit(train).score(test)["rmse"] / of_biases(train, test))
    assert np.mean(over) < 1.002


@pytest.mark.parametrize(("model", "most"), [(ALS, 0.985), (SGD, 0.985), (RBM, 1.002)])
@pytest.mark.parametrize("name", ["ml-100k", "ml-latest-small"])
def test_on_real_ratings_a_model_is_better_than_biases(model, most, name):
    try:
        train, test = load_dataset(name).split(0.1)
    except DataError as error:
        pytest.skip(str(error))
    assert model(device="cpu").fit(train).score(test)["rmse"] < most * of_biases(train, test)


@pytest.mark.parametrize("model", [ALS, SGD, RBM])
@pytest.mark.parametrize(
    "ratings",
    [
        Ratings(np.arange(50) // 5, np.arange(50) % 5, np.full(50, 3.3), 10, 5),
        Ratings([0], [0], [4.0], 1, 1),
        Ratings(np.zeros(9), np.arange(9), np.arange(9) % 5 + 1, 1, 9),
        Ratings(np.arange(9), np.zeros(9), np.arange(9) % 5 + 1, 9, 1),
        Ratings([0, 1, 2], [0, 1, 2], [1, 100, 50], 4, 5),
    ],
    ids=["constant", "one rating", "one user", "one item", "one a user"],
)
def test_few_ratings_are_predicted_within_their_range(model, ratings):
    predicted = model(device="cpu").fit(ratings).predict(*np.indices((ratings.n_users, ratings.n_items)))
    low, high = ratings.bounds
    assert (predicted >= low - 1e-5).all() and (predicted <= high + 1e-5).all()
    if low == high:
        assert np.allclose(predicted, low)


@pytest.mark.parametrize("model", [SGD, RBM])
def test_no_model_diverges_on_a_hundred_levels(model):
    rng = np.random.default_rng(0)
    cells, values = rng.permutation(2000)[:1500], rng.integers(1, 101, 1500)
    train = Ratings(*np.divmod(cells, 40), values, 50, 40)
    assert all(np.isfinite(array).all() for array in model(device="cpu").fit(train)._learned)


def test_damped_biases_are_those_of_least_squares():
    train = ragged_ratings(seed=1)
    n, (of_user, of_item, unit, _) = train.n_users, train.damped
    system = np.zeros((n + train.n_items,) * 2)
    for u, i in zip(train.users, train.items, strict=True):
        system[np.ix_([u, n + i], [u, n + i])] += 1
    system += np.diag([5.0] * n + [3.0] * train.n_items)
    rest = train.values - train.mean
    right = np.concatenate([np.bincount(train.users, rest, n), np.bincount(train.items, rest, train.n_items)])
    wanted = np.linalg.solve(system, right)
    np.testing.assert_allclose(np.concatenate([of_user, of_item]), wanted, atol=0.02)
    left = rest - of_user[train.users] - of_item[train.items]
    assert unit == pytest.approx(np.sqrt(np.mean(left**2)), rel=1e-5)


def test_the_penalty_is_by_singular_values():
    train = structured(noise=0.3)
    table = Table(train)
    unit = table.subtract(*train.damped[:2])
    left = np.zeros((train.n_users, train.n_items))
    left[train.users, train.items] = train.standardized(train.mean, *train.damped[:2], unit).values
    table.width = 1.0
    rng, width = np.random.default_rng(0), 4.0
    x, y = (rng.standard_normal((n, 2)).astype(np.float32) for n in (train.n_items, train.n_users))
    product = table.products(0, x) * width / unit
    np.testing.assert_allclose(product[:, 0], left @ x[:, 0], rtol=1e-4, atol=1e-4)
    columns = [
        np.stack([np.zeros_like(column), column], axis=1) for column in np.eye(train.n_items, dtype=np.float32)
    ]
    flipped = np.stack([table.products(0, column)[:, 1] for column in columns], axis=1) * width / unit
    assert np.allclose(abs(flipped), abs(left), atol=1e-5) and 0.4 < (flipped * left > 0)[left != 0].mean() < 0.6
    of_items = table.products(1, y) * width / unit
    np.testing.assert_allclose(of_items[:, 0], left.T @ y[:, 0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(of_items[:, 1], flipped.T @ y[:, 1], rtol=1e-4, atol=1e-4)
    signal, noise = np.linalg.norm(left, 2), np.linalg.norm(flipped, 2)
    roots = sum((n**1.5).sum() / n.sum() for n in (train.user_counts, train.item_counts))
    assert noise < 0.9 * signal and train.damped.penalty == pytest.approx(STRENGTH * roots * noise / signal, rel=0.05)


def test_a_device_finds_the_same_damped_biases(host):
    from gpumf import backends
    from gpumf.ratings import DeviceRatings

    train = structured(n_users=50, n_items=40, nnz=700)
    there = DeviceRatings.of(train, backends.device("emulator")).damped
    for ours, theirs in zip(train.damped, there, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [ALS, SGD])
def test_where_nothing_stands_out_of_the_noise_the_biases_alone_predict(kind):
    """Ratings of biases and noise, whose logarithm is normal: a few of them are far from all others."""
    rng, train = np.random.default_rng(0), structured(noise=0.3)
    of_user, of_item = rng.normal(0, 0.5, train.n_users), rng.normal(0, 0.5, train.n_items)
    values = np.exp(of_user[train.users] + of_item[train.items] + rng.normal(0, 1.5, train.nnz))
    noise = Ratings(train.users, train.items, values, train.n_users, train.n_items)
    model = kind(4, device="cpu").fit(noise, 200)
    user_biases, item_biases, unit, penalty = noise.damped
    assert penalty > 2 * train.damped.penalty
    expected = noise.mean + user_biases[noise.users] + item_biases[noise.items]
    np.testing.assert_allclose(
        model.predict(noise.users, noise.items), np.clip(expected, *noise.bounds), atol=1e-3 * unit
    )
    assert np.isfinite(model.similar_items(0, 3)[1]).all() and len(model.recommend(0, 3)[0]) == 3


def test_a_new_user_of_sgd_minimizes_its_objective(tmp_path):
    """Of a model from a file too: lambda grows with the root of the number of ratings."""
    train = structured(n_users=80, n_items=60, nnz=1500)
    model = SGD(4, 0.7, device="cpu").fit(train, 5)
    model.save(tmp_path / "model.npz")
    counts = train.user_counts, train.item_counts
    typical = np.square(counts[0]).sum() / train.nnz
    penalty = max(train.damped.penalty, 0.8 * sum((of**1.5).sum() for of in counts) / train.nnz + 2)
    for used in (model, SGD.load(tmp_path / "model.npz", device="cpu")):
        for n in (1, 30):
            items, values = np.arange(n) * 2, np.arange(n) % 5 + 1.0
            folded = used.fold_in(Ratings(np.zeros(n), items, values, 1, 60)).user_factors[0].astype(float)
            q = model.item_factors[items].astype(float)
            rest = values - model.mean - folded[-2] - q[:, -1]
            ridge = 0.7 * penalty * np.sqrt(n / typical)
            wanted = np.linalg.solve(q[:, :4].T @ q[:, :4] + ridge * train.damped.unit * np.eye(4), q[:, :4].T @ rest)
            np.testing.assert_allclose(folded[:4], wanted, rtol=1e-3, atol=1e-5)


def test_more_ratings_leave_the_biases_of_those_who_were_known():
    predicted = []
    for value in (1, 5):
        model = SGD(3, solver="sequential").fit(structured(n_users=40, n_items=30, nnz=600), 2)
        before = model.user_factors.copy(), model.item_factors.copy()
        model.partial_fit(Ratings([0, 40], [1, 2], [5, value], 41, 30), epochs=0)
        assert np.array_equal(model.user_factors[:40], before[0]) and np.array_equal(model.item_factors, before[1])
        predicted.append(model.predict(40, 2))
    assert predicted[0] < predicted[1]


@pytest.mark.parametrize("kind", [ALS, SGD])
def test_more_ratings_come_after_lists(kind, device):
    ratings = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)
    newcomer = int(ratings.user_counts.argmax())
    known, new = (ratings.select(mask) for mask in (ratings.users != newcomer, ratings.users == newcomer))
    model = kind(3, device=device).fit(known, 2)
    before = model.user_biases[newcomer]
    for more in (known.select(slice(0, 5)), new):
        model.recommend([0, 1])  # from now on a device has copies of the factors, which are read-only
        if device == "cpu":
            for array in model._learned:
                array.flags.writeable = False
        model.partial_fit(more)
    assert model.user_biases[newcomer] != before and all(np.isfinite(array).all() for array in model._learned)
