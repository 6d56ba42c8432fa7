"""cu2rec: a rating of each user a step, its own loss and patience, and its initial factors."""

from dataclasses import replace

import numpy as np
import pytest

from cases import sgd_case
from gpumf import SGD
from gpumf.backends.cpu import reference
from gpumf.ratings import Ratings
from gpumf.solvers import schedules, sgd_cu2rec
from support import ragged_ratings, to_numpy


@pytest.mark.parametrize(("factors", "biases"), [(5, True), (17, False), (36, "baseline")])
def test_the_loss_is_that_of_the_newest_factors(launcher, factors, biases):
    ratings = ragged_ratings(n_users=25, n_items=12, longest=9, seed=factors)
    case = sgd_case(launcher.name, "cu2rec", ratings, factors, biases, threads=1)
    trainer = case.make_solver()
    for epochs in (1, 2):
        trainer.learning_rate = case.rate(epochs - 1)
        trainer.epoch(epochs - 1)
        absolute, squared = reference.sum_errors(case.train, *case.replay(epochs))
        rmse, mae = trainer.training_errors()
        assert mae == pytest.approx(absolute / ratings.nnz, rel=1e-4)
        assert rmse == pytest.approx(np.sqrt(squared / ratings.nnz), rel=1e-4)


def test_the_patience_of_cu2rec_lowers_the_rate_by_its_own_loss(launcher):
    ratings = ragged_ratings(n_users=25, n_items=12, longest=9, seed=2)
    common = {"biases": True, "solver": "cu2rec", "device": launcher.name, "initial": "normal"}
    model = SGD(5, 0.01, learning_rate=0.4, patience=1, loss_every=2, **common)
    centred = replace(ratings, values=ratings.values - np.float32(ratings.mean))
    trainer = model.make_solver(centred, *model.initial_factors(ratings))
    trainer.take_steps(0, 40)
    losses = trainer._losses
    assert len(losses) == 20 and (np.diff(losses) > 0).any()
    expected = schedules.Patience(1).rate(0.4, losses)
    assert trainer.rate() == expected < 0.4
    (steps,) = to_numpy(launcher.name, trainer.steps())
    assert steps == pytest.approx([expected, *[1 - expected * 0.01] * 4])
    assert np.isfinite(model.fit(ratings, 3).user_factors).all()


@pytest.mark.parametrize("factors", [5, 36])
@pytest.mark.parametrize("options", [*sgd_cu2rec.Cu2rec.cases, {"patience": 1, "loss_every": 4}])
def test_replayed_steps_are_those_that_are_launched_one_by_one(launcher, monkeypatch, factors, options):
    ratings = ragged_ratings(n_users=25, n_items=12, longest=9, seed=3)
    case = sgd_case(launcher.name, "cu2rec", ratings, factors, threads=1, **options)
    monkeypatch.setattr(sgd_cu2rec, "_MOST_RECORDED", 4)

    def trained(replay):
        trainer = case.make_solver()
        for epoch in range(3):
            trainer.learning_rate = case.rate(epoch)
            trainer.take_steps(11 * epoch, 11)
            if replay:
                trainer._kernel = None  # nobody launches a step again
        assert sorted(trainer._recorded) == [1, 2, 4]
        return to_numpy(launcher.name, *trainer.factors())

    replayed = trained(replay=True)
    monkeypatch.setattr(launcher, "recorded", lambda work: work)
    for actual, expected in zip(replayed, trained(replay=False), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_initial_factors_of_cu2rec_are_the_published_ones(launcher):
    ratings = Ratings(np.arange(4000), np.arange(4000) % 3000, np.ones(4000), 4000, 3000)
    common = {"solver": "cu2rec", "device": launcher.name, "initial": "normal"}
    p, q = SGD(8, biases=True, **common).initial_factors(ratings)
    for rows, bias, one in ((p, -2, -1), (q, -1, -2)):
        assert rows[:, :8].std() == pytest.approx(1 / 8, rel=0.02) and abs(rows[:, :8].mean()) < 0.01
        assert rows[:, bias].std() == pytest.approx(1, rel=0.05) and (rows[:, one] == 1).all()
    with pytest.raises(ValueError, match="biases=True"):
        SGD(8, biases=False, **common)


def test_striding_lets_every_user_come_first(launcher):
    ratings = ragged_ratings(n_users=20, n_items=12, longest=9, seed=0)
    trainer = sgd_case(launcher.name, "cu2rec", ratings, 5).make_solver()
    assert {trainer.first_user(step) for step in range(60)} == set(range(20))
    trainer = sgd_case(launcher.name, "cu2rec", ratings, 5, striding=False).make_solver()
    assert {trainer.first_user(step) for step in range(60)} == {0}


@pytest.mark.parametrize("n", [1, 255, 256, 1000])
def test_the_total_loss_is_of_all_threads(launcher, n):
    trainer = sgd_case(
        launcher.name, "cu2rec", ragged_ratings(n_users=5, n_items=12, longest=9, seed=0), 5
    ).make_solver()
    errors = (np.arange(n) - n / 3).astype(np.float32)
    sums = launcher.empty((1, 2), np.float64)
    trainer._total_loss(1, trainer._loss_threads, errors=launcher.array(errors), n=n, sums=sums)
    exact = errors.astype(np.float64)
    np.testing.assert_allclose(launcher.to_numpy(sums)[0], [np.abs(exact).sum(), np.square(exact).sum()], rtol=1e-12)


def test_an_epoch_has_as_many_steps_as_users_with_ratings_have_ratings():
    """A step is an update of each of them; a user without ratings takes no part."""
    rated = Ratings(np.repeat([1, 5], 6), np.tile(np.arange(6), 2), np.ones(12), 20, 6)
    assert sgd_cu2rec.Cu2rec.steps_an_epoch(rated) == 6
    sparse = Ratings([3], [2], [1.0], 20, 6)
    assert sgd_cu2rec.Cu2rec.steps_an_epoch(sparse) == 1
