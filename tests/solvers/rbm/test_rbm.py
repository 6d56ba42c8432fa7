"""The restricted Boltzmann machine as a model: errors, predictions, histories, parameters, files."""

import numpy as np
import pytest

import references
from gpumf import RBM
from gpumf.models import DivergedError
from gpumf.models.rbm_evaluation import ExpectationKernelRanking, ExpectationRanking, expectation_ranking
from gpumf.ratings import Ratings
from gpumf.ratings.synthetic import Recipe, generate
from support import fewer, kernels_on, rated


def test_errors_and_predictions_are_of_expected_ratings(device):
    train, test = rated(5, n_users=fewer(device, 900), n_items=20, longest=15).split(0.3)
    for kernel in kernels_on(RBM, device):
        model = RBM(20, biases=False, learning_rate=0.3, solver=kernel, device=device).fit(train, 1, test)
        chosen = np.zeros((train.n_users, train.n_items, 5))
        chosen[train.users, train.items, train.values.astype(int) - 1] = 1
        hidden = references.rbm_hidden(chosen, model.item_weights, model.hidden_biases)
        assert np.abs(model.user_hidden - hidden).max() < 1e-5
        expected = references.rbm_expectations(hidden, model.item_weights, model.visible_biases, [1, 2, 3, 4, 5])
        known = np.bincount(train.items, minlength=train.n_items) > 0
        expected = np.where(known, expected, train.mean)
        assert (~known).sum() > 0 and np.abs(model.predict(*np.indices(expected.shape)) - expected).max() < 1e-5
        error = expected[test.users, test.items] - test.values
        assert model.history.mae.iloc[-1] == pytest.approx(np.abs(error).mean(), rel=1e-5)
        assert model.score(test)["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-5)


def test_without_training_ratings_the_biases_or_the_mean_are_predicted():
    train = Ratings([0, 0, 1, 2], [0, 1, 1, 0], [1, 2, 5, 2], 4, 3, scale=(1, 5))
    model = RBM(20, biases=False, solver="sequential").fit(train, 3)
    assert (model.predict(np.arange(4), 2) == np.float32(train.mean)).all()
    assert np.allclose(model.user_hidden[3], 1 / (1 + np.exp(-model.hidden_biases)), atol=1e-6)
    expected = references.rbm_expectations(
        model.user_hidden[3:], model.item_weights, model.visible_biases, model.level_values
    )
    assert model.predict(3, [0, 1]) == pytest.approx(expected[0, :2], rel=1e-6)


def test_what_diverges_says_so(device):
    train = rated(5, seed=1, n_users=20, n_items=12, longest=9)
    for kernel in kernels_on(RBM, device):
        model = RBM(
            20,
            biases=False,
            solver=kernel,
            device=device,
            learning_rate=3e38,
            weight_decay=0.0,
            momentum=0.9,
            batch=4,
        )
        with pytest.raises(DivergedError, match="learning_rate"):
            model.fit(train, 20)
        assert all(np.isfinite(a).all() for a in model._learned) and 0 < len(model.history) <= 20


def test_the_thesis_has_its_parameters_initial_values_and_averages(tmp_path, device):
    train, test = rated(5, seed=3, n_users=fewer(device, 900), n_items=20, longest=15).split(0.3)
    for kernel in kernels_on(RBM, device):
        model = RBM.thesis(solver=kernel, device=device, hidden=20, seed=4)
        assert model._parameters | RBM.THESIS == model._parameters | {"hidden": 128} and model.hidden == 20
        _, *start = model.fit(train, 0, test)._learned[:4]
        for values in start:  # the trainer has not changed them
            assert 0.004 < values.std() < 0.016 and np.abs(values.mean()) < 4 * 0.01 / np.sqrt(values.size)
        assert not np.array_equal(start[0].ravel()[: start[1].size], start[1].ravel())
        machine = {"learning_rate": 0.02, "weight_decay": 0.0, "average": "batch", "initial_biases": "normal"}
        by_hand = RBM(20, biases=False, **machine, seed=4, solver=kernel, device=device)
        trained = model.fit(train, 2, test)
        assert np.array_equal(trained.item_weights, by_hand.fit(train, 2, test).item_weights)
        trained.save(tmp_path / "rbm.npz")
        assert RBM.load(tmp_path / "rbm.npz", device="cpu")._parameters == trained._parameters
    ours = RBM(20, biases=False, seed=4, solver="sequential").fit(train, 0)
    assert np.array_equal(ours.item_weights, start[0]), "the same initial weights"


def test_gibbs_steps_rise_by_their_schedule():
    train = rated(5, n_users=20, n_items=10, longest=8)
    rising = RBM(20, biases=False, gibbs_steps=((0, 1), (2, 3)), solver="sequential")
    assert [rising.steps_in(epoch) for epoch in range(5)] == [1, 1, 3, 3, 3]
    before = RBM(20, biases=False, gibbs_steps=1, solver="sequential").fit(train, 2)
    assert np.array_equal(before.item_weights, rising.fit(train, 2).item_weights)
    before.fit(train, 1, warm_start=True), rising.fit(train, 1, warm_start=True)
    assert not np.array_equal(before.item_weights, rising.item_weights)


@pytest.mark.slow
def test_it_learns_more_than_the_items_means():
    spec = Recipe(1000, 60, 30000, (5, 55), (20, 900), (1, 5), 1, 3.5, 0.2, 0.3, 0.9, 0.3)
    train, test = generate(spec, seed=1).split(0.2)
    means = np.bincount(train.items, train.values, 60) / np.bincount(train.items, minlength=60)
    baseline = np.sqrt(((means[test.items] - test.values) ** 2).mean())
    history = RBM(20, biases=False, learning_rate=0.1, batch=20, solver="sequential").fit(train, 40, test).history
    assert history.rmse[0] == pytest.approx(baseline, rel=0.02)
    assert history.rmse.min() < 0.9 * baseline


def test_every_kernel_has_the_same_history(device):
    train, test = rated(5, n_users=fewer(device, 900), n_items=20, longest=15).split(0.3)
    histories = [
        RBM(20, biases=False, learning_rate=0.3, solver=kernel, device=where).fit(train, 3, test).history
        for kernel, where in [("sequential", "cpu"), *((name, device) for name in kernels_on(RBM, device))]
    ]
    # Where a probability is within rounding of its draw, a unit may differ.
    assert all(np.abs(other.rmse - histories[0].rmse).max() < 1e-3 for other in histories[1:])


def test_kernels_recommend_what_the_cpu_does(launcher, monkeypatch):
    train = rated(5, seed=3, n_users=30, n_items=40, longest=20)
    model = RBM(8, biases=False, learning_rate=0.2, batch=10, solver="fast", device=launcher.name).fit(train, 3)
    seen, users = train.by_user, np.arange(30)
    learned = (*model._learned[:3], *model._learned[4:]), model._item_known
    there, here = (expectation_ranking(*learned, seen, 12, device) for device in (launcher.name, "cpu"))
    assert isinstance(there, ExpectationKernelRanking) and isinstance(here, ExpectationRanking)
    assert isinstance(model._ranking_without(seen, 12, learned[1]), ExpectationKernelRanking)
    assert isinstance(model._ranking_without(seen, 129, learned[1]), ExpectationRanking)
    scored, plain = [], ExpectationKernelRanking._scores
    monkeypatch.setattr(
        ExpectationKernelRanking, "_scores", lambda self, users: scored.append(len(users)) or plain(self, users)
    )
    (items, scores), (expected_items, expected) = (ranking.top_items(users, 12) for ranking in (there, here))
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    assert scored == [30], "so few users at once"
    apart = np.diff(expected, prepend=np.inf, append=-np.inf) < -1e-4  # from the next better one, and the next worse
    certain = apart[:, :-1] & apart[:, 1:]
    assert certain.mean() > 0.5 and (items == expected_items)[certain].all()


def test_recommend_takes_the_highest_expected_ratings():
    train, test = rated(5, n_users=40, n_items=30, longest=20).split(0.3)
    model = RBM(20, biases=False, learning_rate=0.3, solver="sequential").fit(train, 4)
    users = np.flatnonzero(train.by_user.counts)  # the others get popular items
    everything = model.predict(np.arange(train.n_users)[:, None], np.arange(train.n_items))
    everything[:, np.bincount(train.items, minlength=train.n_items) == 0] = np.nan
    everything[train.users, train.items] = np.nan
    items, ratings = model.recommend(users, k=4)
    for row, user in enumerate(users):
        best = np.sort(everything[user][~np.isnan(everything[user])])[::-1][:4]
        assert np.allclose(ratings[row][: len(best)], best, atol=1e-5)
        assert np.allclose(everything[user, items[row][items[row] >= 0]], best, atol=1e-5)
    judged = np.flatnonzero(test.by_user.counts)
    relevant = [test.items[test.users == user] for user in judged]
    found = [
        np.isin(row, there).sum() / len(there)
        for row, there in zip(model.recommend(judged, 4)[0], relevant, strict=True)
    ]
    assert model.evaluate_ranking(test, 4)["recall"] == pytest.approx(np.mean(found)) and np.mean(found) > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"hidden": 0},
        {"hidden": 513},
        {"learning_rate": 0.0},
        {"gibbs_steps": 0},
        {"gibbs_steps": ()},
        {"gibbs_steps": ((1, 2),)},
        {"gibbs_steps": ((0, 1), (5, 0))},
        {"gibbs_steps": 1.5},
        {"batch": 0},
        {"momentum": 1.0},
        {"weight_decay": -1.0},
        {"average": "user"},
        {"weight_decay": 50.0},
        {"initial_biases": "zero"},
        {"batches": "emulator"},
        {"batches": "transfer"},
        {"levels": 1},
        {"levels": 33},
        {"weights": "emulator"},
        {"weights": "transfer"},
    ],
)
def test_a_wrong_parameter_gets_one_clear_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RBM(**{"solver": "sequential"} | wrong)
