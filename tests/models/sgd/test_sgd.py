"""SGD: every kernel against the float64 replay of its own order, what its races may do, and how it converges."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import islice, product

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, SGD, datasets
from gpumf.cpu import reference
from gpumf.datasets import Ratings
from gpumf.experiments.gpumf import sgd_spread
from gpumf.hashing import random_order
from gpumf.models import NotFittedError
from gpumf.models.sgd import baseline_predictors, partition, schedules
from gpumf.models.sgd.chunks import Chunks
from gpumf.models.sgd.esgd import independence_probability, overwriting_probability
from gpumf.models.sgd.hogwild import safe_updates
from gpumf.models.sgd.newgpusgd import rectangular_blocks
from gpumf.models.sgd.updates import draw_key
from support import SCHEMES, kernels_on, ragged_ratings, random_factors, to_numpy

RATES = {
    "learning_rate": 0.02,
    "regularization": 0.03,
    "item_regularization": 0.05,
    "bias_regularization": 0.07,
    "item_bias_regularization": 0.09,
}
STEPS = tuple(RATES.values())
DRAWING = ["sequential", "hogwild"]  # kernels whose updates draw with replacement
WIDTHS = [(5, True), (17, False), (36, "baseline")]
schemes = pytest.mark.parametrize(("kernel", "options"), SCHEMES, ids=lambda x: str(x) if x else "")


def made(device, kernel, ratings, factors, biases=False, **options):
    """A trainer on random factors, these factors, and the ratings as it counts them."""
    model = SGD(factors, **RATES, biases=biases, kernel=kernel, device=device, **options)
    p, q = (random_factors(n, model.columns, n) for n in (ratings.n_users, ratings.n_items))
    if biases:
        p[:, -1] = q[:, -2] = 1
        ratings = replace(ratings, values=ratings.values - np.float32(ratings.mean))
    return model.trainer(ratings, p, q), model, p, q, ratings


def distance(device, trainer, expected):
    return max(np.abs(a - e).max() for a, e in zip(to_numpy(device, *trainer.factors()), expected, strict=True))


def two_epochs_apart(device, made, orders, **how):
    """How far two epochs, the second at half the rate, take a trainer from where the replay of these orders is."""
    trainer, model, p, q, counted = made
    for number, order in enumerate(orders):
        trainer.learning_rate = RATES["learning_rate"] / 2**number
        trainer.epoch(number)
        steps = trainer.learning_rate, *STEPS[1:]
        for part, sides in order if isinstance(order, tuple) else ((order, "both"),):
            p, q = reference.sgd_replay(counted, part, p, q, steps, model.bias_kind, sides=sides, **how)
    return distance(device, trainer, (p, q))


def order_of(model, ratings, epoch=0):
    """The order in which one worker makes the updates, positions of the ratings."""
    return np.array([rating for *_, rating, _ in model.scheme.order(model, ratings, epoch)])


def orders_of(made):
    """`order_of` of the first two epochs."""
    _, model, *_, ratings = made
    return [order_of(model, ratings, epoch) for epoch in range(2)]


def after_updates(device, kernel, ratings, factors, updates, biases=False, **options):
    """How far the first updates of a model take it from where they take the reference."""
    trainer, model, p, q, ratings = made(device, kernel, ratings, factors, biases, **options)
    trainer.updates(0, updates)
    drawn = draw_key(model), 0, updates, model.bias_kind
    return to_numpy(device, *trainer.factors()), reference.hogwild(ratings, p, q, STEPS, *drawn)


@pytest.mark.parametrize(
    ("factors", "biases"), [(1, False), (16, False), (33, True), (256, False), (300, "baseline")]
)
def test_one_group_follows_the_draws(device, factors, biases):
    # One group of lanes, or one core, makes the updates in order: the result is the sequential one.
    ratings = ragged_ratings(seed=factors)
    for kernel in set(kernels_on(SGD, device)) & set(DRAWING):
        actual, expected = after_updates(device, kernel, ratings, factors, 200, biases, threads=1)
        for a, e in zip(actual, expected, strict=True):
            assert np.abs(a - e).max() < 1e-4, kernel


def one_rating_a_row(n, seed=0):
    """n ratings no two of which share a user or an item: no update can collide with another one's vectors."""
    rng = np.random.default_rng(seed)
    return Ratings(rng.permutation(n), rng.permutation(n), rng.integers(1, 6, n), n, n, scale=(1, 5))


@pytest.mark.parametrize("factors", [1, 33])
def test_updates_that_cannot_collide_match_the_reference(device, factors):
    # Each sample is drawn about once among many, so that a lost update would be a wrong kernel, not a race.
    ratings = one_rating_a_row(50_000)
    for kernel in set(kernels_on(SGD, device)) & {*DRAWING, "parallel"}:
        actual, expected = after_updates(device, kernel, ratings, factors, 300)
        for a, e in zip(actual, expected, strict=True):
            wrong = np.abs(a - e).max(axis=1) > 1e-5
            # Of 300 draws from 50,000 ratings, a pair may be the same by chance and race.
            assert wrong.sum() <= 6, kernel


def test_every_draw_is_a_rating_of_the_set(device):
    # Three ratings among empty rows: vectors of other users and items stay as they were.
    ratings = Ratings([1, 5, 8], [2, 0, 2], [1, 3, 5], 10, 4)
    for kernel in set(kernels_on(SGD, device)) & {*DRAWING, "parallel"}:
        p, q = random_factors(10, 16, 1), random_factors(4, 16, 2)
        model = SGD(16, kernel=kernel, device=device)
        trainer = model.trainer(ratings, p, q)
        trainer.updates(0, 500)
        new_p, new_q = to_numpy(device, *trainer.factors())
        assert sorted(np.flatnonzero((new_p != p).any(1))) == [1, 5, 8]
        assert sorted(np.flatnonzero((new_q != q).any(1))) == [0, 2]


@pytest.mark.parametrize(("factors", "biases"), WIDTHS)
def test_schemes_without_conflicts_match_their_own_order(launcher, factors, biases):
    ratings, device = ragged_ratings(n_users=30, longest=20, seed=factors), launcher.name
    for kernel, options, close in (
        ("gpusgd", {"side": 3}, 1e-5),
        ("gpusgd", {"side": 3, "precision": 64}, 2e-7),
        ("newgpusgd", {"side": 4}, 1e-5),
        ("newgpusgd", {"side": 4, "precision": 64}, 2e-7),
    ):
        trained = made(device, kernel, ratings, factors, biases, **options)
        assert two_epochs_apart(device, trained, orders_of(trained)) < close, (kernel, options)


@pytest.mark.parametrize("kernel", ["gpusgd", "newgpusgd"])
def test_double_precision_has_rates_in_double_precision_too(launcher, kernel):
    ratings = ragged_ratings(n_users=30, longest=20, seed=8)
    trainer, model, p, q, counted = made(launcher.name, kernel, ratings, 5, True, side=3, precision=64)
    trainer.epoch(0)
    expected = reference.sgd_replay(counted, order_of(model, ratings), p, q, STEPS, model.bias_kind)
    for actual, e in zip(to_numpy(launcher.name, trainer._p, trainer._q), expected, strict=True):
        assert actual.dtype == np.float64 and np.abs(actual - e).max() < 1e-13


def test_gpusgd_has_a_thread_for_each_factor(launcher):
    for factors in (5, 16, 130):
        trainer, *_ = made(launcher.name, "gpusgd", ragged_ratings(seed=1), factors, side=3)
        assert trainer._block == factors


@pytest.mark.parametrize("precision", [32, 64])
def test_gpusgd_makes_all_updates_of_a_cell_that_is_rated_more_than_once(launcher, precision):
    once = ragged_ratings(n_users=8, n_items=9, longest=6, seed=3)
    cells = np.concatenate([np.arange(once.nnz), np.repeat(np.arange(once.nnz), np.arange(once.nnz) % 3)])
    ratings = Ratings(once.users[cells], once.items[cells], np.arange(len(cells)) % 5, once.n_users, once.n_items)
    trained = made(launcher.name, "gpusgd", ratings, 5, side=2, precision=precision)
    with launcher.shuffled(1) if launcher.name == "host" else nullcontext():
        assert two_epochs_apart(launcher.name, trained, orders_of(trained)) < 1e-5


@pytest.mark.parametrize(
    ("kernel", "options"), [(k, o) for k, o in SCHEMES if k in ("gpusgd", "newgpusgd", "bsgd", "cumf_sgd")]
)
def test_an_epoch_of_many_launches_is_recorded_once(launcher, kernel, options):
    trainer, _, p, *_ = made(launcher.name, kernel, ragged_ratings(n_users=30, longest=20, seed=1), 5, **options)
    trainer._kernel = None  # nobody launches one by one again
    for number in range(2):
        trainer.epoch(number)
        new_p, _ = to_numpy(launcher.name, *trainer.factors())
        assert np.abs(new_p - p).max() > 1e-3
        p = new_p.copy()


@pytest.mark.parametrize(("factors", "biases"), WIDTHS)
def test_kato_and_hosino_move_all_users_then_all_items(launcher, factors, biases):
    ratings, device = ragged_ratings(n_users=30, longest=20, seed=factors), launcher.name
    trained = made(device, "kato_hosino", ratings, factors, biases)
    updates = [*SGD.schemes()["kato_hosino"].order(trained[1], ratings)]
    halves = tuple(
        ([rating for *_, rating, moves in updates if moves == side], f"{side}s") for side in ("user", "item")
    )
    assert two_epochs_apart(device, trained, [halves, halves]) < 1e-5


@pytest.mark.parametrize(("factors", "biases"), WIDTHS)
def test_one_rating_at_a_time_bsgd_and_esgd_match_their_own_order(launcher, factors, biases):
    ratings, device = ragged_ratings(n_users=12, longest=12, seed=factors), launcher.name
    trained = made(device, "bsgd", ratings, factors, biases, batch=1)
    assert two_epochs_apart(device, trained, orders_of(trained)) < 1e-5

    # One group of k threads makes one block, which has to have all ratings in its shared memory, and room to spare.
    one_block = {"th_size": 1, "st": -(-ratings.nnz // factors) + 1}
    for shuffle in (False, True):
        trained = made(device, "esgd", ratings, factors, biases, **one_block, shuffle=shuffle)
        assert two_epochs_apart(device, trained, orders_of(trained)) < 1e-5


@pytest.mark.parametrize("batch", [7, 64])
def test_a_batch_adds_all_its_gradients(launcher, batch):
    # A rating of each user, all of one item, with gradients so small that their order is no matter.
    ratings = Ratings(np.arange(64), np.zeros(64), np.random.default_rng(0).integers(1, 6, 64), 64, 1)
    p, q = random_factors(64, 16, 1), random_factors(1, 16, 2)
    model = SGD(16, 0, learning_rate=1e-5, kernel="bsgd", device=launcher.name, batch=batch)
    trainer = model.trainer(ratings, p, q)
    trainer.epoch(0)
    _, new_q = to_numpy(launcher.name, *trainer.factors())
    gradient = ((p @ q.T).ravel() - ratings.values) @ p
    assert np.allclose((q - new_q) / 1e-5, gradient, rtol=0.01)


@pytest.mark.parametrize(("factors", "biases"), WIDTHS)
def test_cumf_sgd_by_one_group_or_in_blocks_matches_its_own_order_in_half_precision(launcher, factors, biases):
    ratings, device = ragged_ratings(n_users=30, longest=20, seed=factors), launcher.name
    blocks = rectangular_blocks(ratings, 4).order
    for options, order in (
        ({"threads": 1, "run": 7}, random_order(ratings.nnz, 0)),
        ({"update": "wavefront", "side": 4, "threads": 1}, partition.waves(ratings, 4, 8, 0)[0]),
        ({"update": "blocked", "side": 4}, blocks),
    ):
        # A product next to the middle of two halves may be rounded to either one, and what follows from it.
        trained = made(device, "cumf_sgd", ratings, factors, biases, **options)
        assert two_epochs_apart(device, trained, [order, order], stored=np.float16) < 6e-3, options


@pytest.mark.parametrize("seed", range(3))
def test_the_wavefront_update_loses_nothing_where_batch_hogwild_does(launcher, seed):
    # An item's bias takes a step of 1, nearly, with every rating: it counts the updates that were not lost.
    ratings = ragged_ratings(n_users=16, n_items=9, longest=7, seed=seed)
    ratings = replace(ratings, values=np.full(ratings.nnz, 2.0**14))
    wanted, lost = np.bincount(ratings.items, minlength=9), {}
    for update in ("wavefront", "batch_hogwild"):
        options = {"update": update, "threads": 64} | ({"side": 8} if update == "wavefront" else {"run": 4})
        model = SGD(2, 0, learning_rate=2.0**-14, biases=True, kernel="cumf_sgd", device=launcher.name, **options)
        p, q = (np.zeros((rows, 4), np.float32) for rows in (16, 9))
        p[:, -1] = q[:, -2] = 1
        with launcher.shuffled(seed) if launcher.name == "host" else nullcontext():
            trainer = model.trainer(ratings, p, q)
            for epoch in range(2):
                trainer.epoch(epoch)
        _, q = to_numpy(launcher.name, *trainer.factors())
        lost[update] = 2 * wanted - q[:, -1]
    assert np.abs(lost["wavefront"]).max() < 0.3
    assert lost["batch_hogwild"].max() > 0.9 or launcher.name != "host"  # where it depends on timing


@pytest.mark.parametrize(("factors", "biases"), [*WIDTHS, (130, True)])
def test_fast_by_one_group_matches_its_own_order(launcher, factors, biases):
    ratings, device = ragged_ratings(n_users=30, longest=20, seed=factors), launcher.name
    given = {"tiles": 4, "parts": 2, "longest": 8, "threads": 1}
    for precision, close in ((32, 1e-5), (16, 2e-2)):
        trained = made(device, "fast", ratings, factors, biases, precision=precision, **given)
        orders = [order_of(trained[1], ratings, epoch) for epoch in range(2)]
        assert two_epochs_apart(device, trained, orders) < close


@pytest.mark.parametrize("threads", [20, 96, None])
@pytest.mark.parametrize(("factors", "biases"), WIDTHS)
def test_fast_by_many_groups_in_step_makes_every_update_once(launcher, factors, biases, threads):
    # Users of every length, each with a run of its own, and an item to each rating: no group meets another one.
    ragged, device = ragged_ratings(n_users=70, longest=20, seed=factors), launcher.name
    items = np.random.default_rng(factors).permutation(ragged.nnz)
    ratings = Ratings(ragged.users, items, ragged.values, ragged.n_users, ragged.nnz)
    given = {"tiles": 1, "parts": 1, "longest": 7, "threads": threads, "precision": 32}
    trained = made(device, "fast", ratings, factors, biases, **given)
    assert two_epochs_apart(device, trained, orders_of(trained)) < 1e-5


def test_fast_rounds_users_by_chance_so_that_small_steps_count(launcher):
    # Each step is about an eighth of the last digit of a half: rounded to the nearest, none would be taken.
    n = 3000
    ratings = Ratings(np.arange(n), np.zeros(n), np.full(n, 1.0), n, 1)
    p, q = np.full((n, 1), 0.6, np.float32).astype(np.float16).astype(np.float32), np.full((1, 1), 0.5, np.float32)
    step = 2.0**-11 / 8
    rate = step / (0.5 * (1 - 0.5 * p[0, 0]))
    model = SGD(1, 0, learning_rate=rate, kernel="fast", device=launcher.name, threads=64)
    trainer = model.trainer(ratings, p, q)
    trainer.epoch(0)
    moved = (to_numpy(launcher.name, *trainer.factors())[0] - p).ravel()
    assert set(np.unique(moved)) == {0.0, np.float32(2.0**-11)}
    assert moved.mean() == pytest.approx(step, rel=0.2)


@pytest.mark.parametrize(("factors", "biases"), WIDTHS)
@pytest.mark.parametrize("conflict", ["early_bird_gets", "early_bird_loses", "atomic"])
def test_one_group_of_cu2rec_matches_its_own_order(launcher, factors, biases, conflict):
    ratings, device = ragged_ratings(n_users=25, n_items=12, longest=9, seed=factors), launcher.name
    trainer, model, p, q, counted = made(device, "cu2rec", ratings, factors, biases, threads=1, conflict=conflict)
    trainer.take_steps(0, 9)
    for step in range(9):
        where = draw_key(model), step, trainer.first_user(step), conflict
        p, q = reference.cu2rec_step(counted, p, q, STEPS, model.bias_kind, *where)
    assert distance(device, trainer, (p, q)) < 1e-5
    absolute, squared = reference.sum_errors(counted, p, q)
    rmse, mae = trainer.training_errors()
    assert mae == pytest.approx(absolute / ratings.nnz, rel=1e-4)
    assert rmse == pytest.approx(np.sqrt(squared / ratings.nnz), rel=1e-4)


def test_the_patience_of_cu2rec_lowers_the_rate_by_its_own_loss(launcher):
    ratings = ragged_ratings(n_users=25, n_items=12, longest=9, seed=2)
    common = {"biases": True, "kernel": "cu2rec", "device": launcher.name, "initial": "normal"}
    model = SGD(5, 0.01, learning_rate=0.4, patience=1, loss_every=2, **common)
    centred = replace(ratings, values=ratings.values - np.float32(ratings.mean))
    trainer = model.trainer(centred, *model.initial_factors(ratings))
    trainer.take_steps(0, 40)
    losses = trainer._losses
    assert len(losses) == 20 and (np.diff(losses) > 0).any()
    expected = schedules.Patience(1).rate(0.4, losses)
    assert trainer.rate() == expected < 0.4
    (steps,) = to_numpy(launcher.name, trainer.steps())
    assert steps == pytest.approx([expected, *[1 - expected * 0.01] * 4])
    assert np.isfinite(model.fit(ratings, 3).user_factors).all()


def test_initial_factors_of_cu2rec_are_the_published_ones(launcher):
    ratings = Ratings(np.arange(4000), np.arange(4000) % 3000, np.ones(4000), 4000, 3000)
    common = {"kernel": "cu2rec", "device": launcher.name, "initial": "normal"}
    p, q = SGD(8, biases=True, **common).initial_factors(ratings)
    for rows, bias, one in ((p, -2, -1), (q, -1, -2)):
        assert rows[:, :8].std() == pytest.approx(1 / 8, rel=0.02) and abs(rows[:, :8].mean()) < 0.01
        assert rows[:, bias].std() == pytest.approx(1, rel=0.05) and (rows[:, one] == 1).all()
    with pytest.raises(ValueError, match="biases=True"):
        SGD(8, **common)


def test_esgd_factorizes_what_baseline_predictors_leave_in_k_columns(launcher):
    ratings = ragged_ratings(n_users=40, n_items=30, longest=20, seed=5)
    model = SGD(8, biases="baseline", kernel="esgd", device=launcher.name)
    p, q = model.initial_factors(ratings)
    for rows in (p, q):  # uniform on +- sqrt(3) / 10
        assert 0.16 < np.abs(rows[:, :8]).max() <= 0.1 * np.sqrt(3) + 1e-7
        assert rows[:, :8].std() == pytest.approx(0.1, rel=0.1)
    centred = replace(ratings, values=ratings.values - np.float32(ratings.mean))
    trainer = model.trainer(centred, p, q)
    assert trainer._p.shape == (40, 8) and trainer._block % 8 == 0 and trainer.defines(model)["FACTORS"] == 8
    trainer.epoch(0)
    new_p, new_q = to_numpy(launcher.name, *trainer.factors())
    assert np.array_equal(new_p[:, 8:], p[:, 8:]) and np.array_equal(new_q[:, 8:], q[:, 8:])
    assert np.abs(new_p - p).max() > 1e-3


def test_striding_lets_every_user_come_first(launcher):
    ratings = ragged_ratings(n_users=20, n_items=12, longest=9, seed=0)
    trainer, *_ = made(launcher.name, "cu2rec", ratings, 5)
    assert {trainer.first_user(step) for step in range(60)} == set(range(20))
    trainer, *_ = made(launcher.name, "cu2rec", ratings, 5, striding=False)
    assert {trainer.first_user(step) for step in range(60)} == {0}


@schemes
def test_streamed_ratings_give_the_same_result(launcher, kernel, options):
    ratings = ragged_ratings(n_users=40, n_items=30, longest=20, seed=1)
    if kernel in ("hogwild", "cu2rec"):
        with pytest.raises(ValueError, match="takes from all ratings"):
            SGD(5, kernel=kernel, device=launcher.name, chunk=90, **options)
        return
    # One group, or one rating at a time, where more would race; of ESGD's blocks, those that share no row do not.
    if kernel == "esgd":
        ratings = one_rating_a_row(300)
    options = options | {"fast": {"parts": 5}, "bsgd": {"batch": 1}, "esgd": {"th_size": 1, "st": 8}}.get(kernel, {})
    common = {"device": launcher.name, "threads": 1 if kernel in ("cumf_sgd", "fast") else None}
    fits = [SGD(5, kernel=kernel, chunk=chunk, **common, **options).fit(ratings, 2) for chunk in (None, 90)]
    for side in ("user_factors", "item_factors"):
        assert np.array_equal(getattr(fits[0], side), getattr(fits[1], side))


def test_chunks_are_whole_pieces_in_order(launcher):
    values, pieces = np.arange(100, dtype=np.float32), np.array([0, 10, 10, 40, 41, 90, 100])
    for most, expected in ((None, 1), (1000, 1), (50, 3), (1, 6)):
        chunks = Chunks(launcher, (values, values.astype(np.int32)), pieces, most)
        for _ in range(2):
            parts = [(*bounds, launcher.to_numpy(a), launcher.to_numpy(b)) for *bounds, (a, b) in chunks]
            assert len(parts) == expected
            assert np.array_equal(np.concatenate([a for *_, a, _ in parts]), values)
            for first, end, begin, a, b in parts:
                assert begin == pieces[first] and len(a) == pieces[end] - begin and np.array_equal(a, b)


def test_ratings_that_do_not_fit_are_streamed(host, monkeypatch):
    monkeypatch.setattr(type(host), "free_bytes", staticmethod(lambda: 1000))
    values, pieces = np.arange(500, dtype=np.float32), np.arange(501)
    assert len(list(Chunks(host, (values,), pieces))) == 5
    assert len(list(Chunks(host, (values[:150],), pieces[:151]))) == 1


# What all schemes share


def planted(n_users, n_items, noise, seed=0, rank=3):
    """Every rating of a small matrix, of low rank plus noise: as dense, so as contended, as can be; split."""
    rng = np.random.default_rng(seed)
    p, q = rng.random((n_users, rank)), rng.random((n_items, rank)) * 3
    users, items = (a.ravel() for a in np.indices((n_users, n_items)))
    values = (p @ q.T).ravel() + noise * rng.standard_normal(len(users))
    return Ratings(users, items, values, n_users, n_items).split(0.2)


@schemes
def test_every_scheme_converges_like_the_sequential_reference(launcher, kernel, options):
    (train, test), epochs = (planted(60, 50, 0.3), 6) if launcher.name == "host" else (planted(400, 300, 0.3), 20)
    parameters = {"factors": 5, "regularization": 0.01, "learning_rate": 0.02, "biases": True}
    options = {name: value for name, value in options.items() if name not in ("batch", "run")}
    if kernel in ("bsgd", "esgd"):
        options = {"bsgd": {"batch": 32}, "esgd": {"th_size": 70}}[kernel]
    expected = SGD(kernel="sequential", **parameters).fit(train, epochs, test).history.rmse
    fitted = SGD(kernel=kernel, device=launcher.name, **parameters, **options).fit(train, epochs, test)
    assert expected.iloc[-1] < 0.9 * expected.iloc[0]
    slack = {"kato_hosino": 1.1, "cu2rec": 1.35}.get(kernel, 1.06)
    assert fitted.history.rmse.iloc[-1] < slack * expected.iloc[-1], kernel


def best_on_ml_100k(kernel, epochs=40, **parameters):
    """The best test RMSE of a training, the mean over two of five folds."""
    folds = islice(datasets.load("ml-100k").kfold(5), 2)
    fits = (SGD(16, biases=True, kernel=kernel, **parameters).fit(train, epochs, test) for train, test in folds)
    return np.mean([fitted.history.rmse.min() for fitted in fits])


@pytest.fixture(scope="module")
def sequential_on_ml_100k():
    if not datasets.names().present["ml-100k"]:
        pytest.skip("ml-100k is not on this machine")
    return best_on_ml_100k("sequential", **sgd_spread.RATES)


@schemes
def test_on_ml_100k_every_scheme_is_as_good_as_the_sequential_one(cuda, sequential_on_ml_100k, kernel, options):
    parameters = sgd_spread.RATES_OF_CU2REC | {"epochs": 100} if kernel == "cu2rec" else sgd_spread.RATES
    best = best_on_ml_100k(kernel, **parameters, **options)
    assert best < sequential_on_ml_100k + (0.012 if kernel == "cu2rec" else 0.005)


def test_sequential_is_deterministic_and_seeded():
    ratings = ragged_ratings(seed=4)
    fits = [SGD(16, kernel="sequential", seed=s).fit(ratings, 3).user_factors for s in (1, 1, 2)]
    assert np.array_equal(fits[0], fits[1]) and not np.allclose(fits[0], fits[2])


def test_the_default_grid_of_hogwild_loses_little(launcher):
    (train, test), epochs = (planted(100, 80, 0.5), 6) if launcher.name == "host" else (planted(400, 300, 0.5), 20)
    options = {"factors": 5, "regularization": 0.01, "learning_rate": 0.02}
    expected = SGD(kernel="sequential", **options).fit(train, epochs, test).history.rmse.min()
    fitted = SGD(kernel="hogwild", device=launcher.name, **options).fit(train, epochs, test)
    assert fitted.history.rmse.min() < 1.1 * expected


def test_safe_updates_counts_meetings():
    # 50 users and 20 items with equal shares: of n draws at once, n (1/50 + 1/20) meet a given one.
    users, items = (a.ravel() for a in np.meshgrid(np.arange(50), np.arange(20)))
    ratings = Ratings(users, items, np.ones(1000), 50, 20)
    assert safe_updates(ratings, 1) == np.ceil(1 / (1 / 50 + 1 / 20))
    assert safe_updates(ratings, 200) == 5 and safe_updates(ratings, 2000) == 1
    # One item in every rating: whatever else is in flight meets it.
    assert safe_updates(Ratings(np.arange(1000), np.zeros(1000), np.ones(1000), 1000, 9), 1) == 1


# Biases


def test_biases_are_columns_of_the_factors(device):
    train, test = ragged_ratings(n_users=60, longest=30, seed=3).split(0.2)
    for kernel in kernels_on(SGD, device)[:1] if device == "cpu" else ["hogwild", "fast"]:
        fitted = SGD(6, biases=True, kernel=kernel, device=device).fit(train, 3, test)
        p, q = fitted.user_factors, fitted.item_factors
        assert p.shape[1] == q.shape[1] == fitted.columns == 8
        assert (p[:, -1] == 1).all() and (q[:, -2] == 1).all()
        u, i = train.users[:50], train.items[:50]
        rating = train.mean + fitted.user_biases[u] + fitted.item_biases[i] + (p[u, :-2] * q[i, :-2]).sum(1)
        assert np.allclose(fitted.predict(u, i), rating, atol=1e-5)
        error = fitted.predict(test.users, test.items) - test.values
        assert fitted.history.mae.iloc[-1] == pytest.approx(np.abs(error).mean(), rel=1e-5)


def test_learned_biases_find_what_was_planted():
    rng = np.random.default_rng(0)
    of_user, of_item = rng.standard_normal(80), rng.standard_normal(60)
    users, items = (a.ravel() for a in np.indices((80, 60)))
    ratings = Ratings(users, items, 3 + of_user[users] + of_item[items], 80, 60)
    fitted = SGD(1, 0.001, biases=True, kernel="sequential").fit(ratings, 60)
    assert np.corrcoef(fitted.user_biases, of_user)[0, 1] > 0.999
    assert np.corrcoef(fitted.item_biases, of_item)[0, 1] > 0.999


def test_baseline_predictors_are_the_published_means():
    ratings = ragged_ratings(n_users=9, n_items=7, longest=5, seed=2)
    of_user, of_item = baseline_predictors(ratings)
    rest = ratings.values - ratings.mean
    for u in range(9):
        assert of_user[u] == pytest.approx(rest[ratings.users == u].mean() if (ratings.users == u).any() else 0)
    rest = rest - of_user[ratings.users]
    for i in range(7):
        assert of_item[i] == pytest.approx(rest[ratings.items == i].mean() if (ratings.items == i).any() else 0)
    fitted = SGD(3, biases="baseline", kernel="sequential").fit(ratings, 4)
    assert np.allclose(fitted.user_biases, of_user) and np.allclose(fitted.item_biases, of_item)


# Schedules, storage, more ratings


def test_schedules_follow_their_formulas():
    rmses = [2.0, 1.0, 0.9, 0.95, 0.95, 0.94, 0.96]
    assert schedules.Constant().rate(0.1, rmses) == 0.1
    assert schedules.Power(0.3).rate(0.1, rmses) == pytest.approx(0.1 / (1 + 0.3 * 6**1.5))
    # Two epochs without a better one, twice.
    assert [schedules.Patience(2, 0.5).rate(0.1, rmses[:k]) for k in (1, 4, 5, 6, 7)] == [0.1, 0.1, 0.05, 0.05, 0.025]
    for schedule in (schedules.Constant(), schedules.Power(0.3), schedules.Patience(3, 0.9)):
        assert schedules.from_dict(schedules.to_dict(schedule)) == schedule


def test_a_schedule_reaches_the_kernel(device):
    train, test = ragged_ratings(n_users=60, longest=30, seed=3).split(0.2)
    kernel = "sequential" if device == "cpu" else "kato_hosino"
    model = SGD(5, kernel=kernel, device=device, schedule=schedules.Power(1e9))
    model.fit(train, 3, test)
    assert model.history.rmse.diff().abs().iloc[1] > 1e-3 and model.history.rmse.diff().abs().iloc[2:].max() < 1e-6
    with pytest.raises(ValueError, match="validation"):
        SGD(5, kernel=kernel, device=device, schedule=schedules.Patience()).fit(train, 1)


def test_biases_and_schedule_are_saved(tmp_path):
    train, test = ragged_ratings(seed=5).split(0.2)
    through = SGD(5, biases=True, schedule=schedules.Power(0.2), kernel="sequential").fit(train, 4, test)
    half = SGD(5, biases=True, schedule=schedules.Power(0.2), kernel="sequential").fit(train, 2, test)
    half.save(tmp_path / "model.npz")
    loaded = SGD.load(tmp_path / "model.npz", device="cpu")
    assert np.array_equal(loaded.predict(test.users, test.items), half.predict(test.users, test.items))
    resumed = SGD(**loaded._parameters, kernel="sequential")
    for name in ("user_factors", "item_factors", "history", "mean", "_user_known", "_item_counts"):
        setattr(resumed, name, getattr(loaded, name))
    resumed.fit(train, 2, test, warm_start=True)
    columns = ["epoch", "rmse", "mae"]
    pd.testing.assert_frame_equal(resumed.history[columns], through.history[columns])


def test_partial_fit_learns_new_ratings_users_and_items(device):
    kernel = "sequential" if device == "cpu" else "kato_hosino"
    (all_train, _) = planted(60, 50, 0.1)
    old = (all_train.users < 50) & (all_train.items < 45)
    before = all_train.select(old)
    before = replace(before, n_users=50, n_items=45, user_ids=None, item_ids=None)
    model = SGD(4, 0.01, biases=True, kernel=kernel, device=device).fit(before, 8)
    new = all_train.select(~old)
    first, known = model.user_factors.copy(), all_train.select(old)
    error = SGD(4, 0.01, biases=True, kernel=kernel, device=device).fit(new, 8).score(known)["rmse"]
    model.partial_fit(new, 8)
    assert model.user_factors.shape == (60, 6) and model.item_factors.shape == (50, 6)
    assert model.history.epoch.iloc[-1] == 16 and model.mean == before.mean
    assert model.score(new)["rmse"] < 0.6 * new.values.std() and model.score(known)["rmse"] < error
    without_new = np.setdiff1d(np.arange(50), new.users)
    assert np.array_equal(model.user_factors[without_new], first[without_new])
    seen = set(new.items[new.users == 3]) | set(before.items[before.users == 3])
    assert not seen & set(model.recommend(3, k=1000)[0])
    with pytest.raises(ValueError, match="only"):
        model.partial_fit(before)
    with pytest.raises(NotFittedError):
        SGD(4, kernel="sequential").partial_fit(new)


def test_sgd_goes_on_from_als():
    train, test = planted(60, 50, 0.3)
    als = ALS(4, 0.02, kernel="sequential").fit(train, 3, test)
    model = SGD.from_model(als, regularization=0.01, kernel="sequential")
    assert model.score(test) == als.score(test)
    model.partial_fit(train, 3, test)
    assert list(model.history.epoch) == list(range(7)) and model.history.rmse.iloc[-1] < 1.1 * als.history.rmse.min()
    with pytest.raises(ValueError, match="biases"):
        SGD.from_model(als, biases=True, kernel="sequential")


# Probabilities of ESGD


def independent_share(n_users, n_items, draws):
    """The share of all ways to draw entries in which none share a row or column, counted one by one."""
    from itertools import combinations

    ways = list(combinations(product(range(n_users), range(n_items)), draws))
    apart = sum(len({u for u, _ in way}) == len({i for _, i in way}) == draws for way in ways)
    return apart / len(ways)


@pytest.mark.parametrize(("n_users", "n_items", "draws"), [(4, 4, 1), (4, 4, 3), (3, 5, 2), (3, 5, 3), (2, 6, 2)])
def test_the_probability_of_independence_counts_ways(n_users, n_items, draws):
    share = independent_share(n_users, n_items, draws)
    assert independence_probability(n_users, n_items, draws, square=False) == pytest.approx(share)
    published = independence_probability(n_users, n_items, draws)
    assert (published == pytest.approx(share)) == (n_users == n_items or draws == 1)


def test_few_draws_from_a_large_matrix_hardly_meet():
    # Two draws share a row with probability 1/m and a column with 1/n, nearly.
    meet = 1 - independence_probability(480_189, 17_770, 2, square=False)
    assert meet == pytest.approx(1 / 480_189 + 1 / 17_770, rel=1e-3)


def test_more_draws_than_rows_must_meet():
    assert independence_probability(5, 9, 6) == 0 == independence_probability(5, 9, 6, square=False)
    assert overwriting_probability(0.005, 2) == 0.0025  # section 3


def test_parameters_are_checked():
    for wrong in (0, -0.1, float("inf")):
        with pytest.raises(ValueError, match="learning_rate"):
            SGD(16, learning_rate=wrong)
    assert SGD(16, 0.3).item_regularization == 0.3 and SGD(16, 0.3).bias_regularization == 0.3
    assert SGD(16, bias_regularization=0.2).item_bias_regularization == 0.2
    with pytest.raises(ValueError, match="item_bias_regularization"):
        SGD(16, item_bias_regularization=-1)
    saved = SGD(16, item_bias_regularization=0.4)._parameters
    assert SGD(**saved).item_bias_regularization == 0.4 != SGD(**saved).bias_regularization
    with pytest.raises(ValueError, match="biases"):
        SGD(16, biases="both")
    with pytest.raises(ValueError, match="chunk"):
        SGD(16, chunk=0)
    with pytest.raises(TypeError, match="no options"):
        SGD(16, kernel="sequential", batch=3)


WRONG_OPTIONS = {
    "gpusgd": {"side": (0, -1, 50_000, 2.5, True, "64", None), "block": (0, 1025), "precision": (16,)},
    "newgpusgd": {"side": (0, 50_000), "precision": (8, "32", 32.0, None)},
    "bsgd": {"batch": (0, -5, 2**31)},
    "esgd": {"th_size": (0, 1025), "st": (0, 20), "shuffle": (1, None)},
    "cu2rec": {
        "conflict": ("x", None),
        "striding": (2,),
        "initial": ("x", None),
        "patience": (0,),
        "loss_every": (0,),
    },
    "cumf_sgd": {"update": ("x", None), "run": (0, 2**31), "side": (0, 50_000)},
    "fast": {
        "resident": ("rows",),
        "tiles": (0,),
        "parts": (0, -3),
        "longest": (0,),
        "precision": (8, 64),
        "reread": (1,),
        "locked": (1,),
    },
}


@pytest.mark.parametrize("kernel", [name for name, trainer in SGD.schemes().items() if trainer.device == "cuda"])
def test_options_have_bounds_and_say_so(host, kernel):
    options = SGD.options_of(kernel)
    assert set(options) == set(WRONG_OPTIONS.get(kernel, {}))
    chosen = SGD(16, kernel=kernel, device="host").options
    assert chosen == {name: option.default for name, option in options.items()}
    for name, values in WRONG_OPTIONS.get(kernel, {}).items():
        for value in values:
            with pytest.raises(ValueError, match=rf"{name}.*{kernel}.* (an integer from|one of) .*, not {value!r}"):
                SGD(16, kernel=kernel, device="host", **{name: value})


def test_cumf_sgd_refuses_options_of_another_update(host):
    # side=1024 alone once meant blocks; batch-Hogwild has none.
    for options in ({"side": 1024}, {"update": "wavefront", "run": 4}, {"update": "blocked", "run": 4}):
        with pytest.raises(ValueError, match="has no meaning with update="):
            SGD(16, kernel="cumf_sgd", device="host", **options)


def test_esgd_may_load_what_a_block_has_shared_memory_for(host):
    most = (host.facts["shared_bytes_per_multiprocessor"] - 1024 - 4 * (1024 // 16)) // (12 * 992)
    SGD(16, kernel="esgd", device="host", st=most).fit(ragged_ratings(seed=1), 1)
    with pytest.raises(ValueError, match=f"from 1 to {most}, not {most + 1}"):
        SGD(16, kernel="esgd", device="host", st=most + 1)


SHAPES = {
    "one rating": Ratings([0], [0], [3.0], 1, 1),
    "one user": Ratings(np.zeros(40), np.arange(40), np.arange(40) % 5, 1, 40),
    "one item": Ratings(np.arange(40), np.zeros(40), np.arange(40) % 5, 40, 1),
    "empty rows and columns": Ratings([7, 7, 20], [3, 11, 3], [1.0, 2.0, 5.0], 50, 30),
    "cells rated more than once": Ratings([1, 1, 1, 2], [2, 2, 2, 2], [1.0, 5.0, 3.0, 2.0], 4, 3),
    "equal ratings": Ratings(np.arange(30) % 6, np.arange(30) // 6, np.zeros(30), 6, 5),
}


@schemes
@pytest.mark.parametrize("shape", SHAPES)
def test_hostile_shapes_stay_within_bounds_and_finite(launcher, kernel, options, shape):
    ratings = SHAPES[shape]
    for biases in (False, "baseline"):
        model = SGD(5, kernel=kernel, device=launcher.name, biases=biases, learning_rate=0.005, **options)
        fits = [model.fit(ratings, 2, ratings) for _ in range(2)]
        for fitted in fits:
            assert np.isfinite(fitted.user_factors).all() and np.isfinite(fitted.item_factors).all()
            assert fitted.history.rmse.iloc[-1] <= 1.001 * fitted.history.rmse.iloc[0]
        start, _ = model.initial_factors(ratings)
        without = np.setdiff1d(np.arange(ratings.n_users), ratings.users)
        if kernel != "fast" and "update" not in options and kernel != "cumf_sgd":  # these round to halves
            assert np.array_equal(fits[0].user_factors[without], start[without])
