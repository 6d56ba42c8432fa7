"""The restricted Boltzmann machine: every kernel against the float64 reference on the same draws, and the model."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, RBM
from gpumf.cpu import reference
from gpumf.datasets import Ratings
from gpumf.datasets.twins import Twin, generate
from gpumf.hashing import random_order, splitmix64
from gpumf.models import DivergedError, NotFittedError
from gpumf.models.rbm import batches as batches_module
from gpumf.models.rbm import level_logarithms
from gpumf.models.rbm import thesis as thesis_module
from gpumf.models.rbm.batches import Batches
from gpumf.models.rbm.divergence import batch_order
from gpumf.models.rbm.levels import level_values, to_levels
from gpumf.models.rbm.thesis import _Matrices
from support import fewer, kernels_on, ragged_ratings, to_numpy


def rated(n_levels, seed=0, **shape):
    """Ragged ratings 1..n_levels: a user without one, one with one, two items without any."""
    ratings = ragged_ratings(seed=seed, **shape)
    values = np.random.default_rng(seed).integers(1, n_levels + 1, ratings.nnz)
    return Ratings(ratings.users, ratings.items, values, ratings.n_users, ratings.n_items, scale=(1, n_levels))


def trainer_of(device, kernel, train, hidden, seed=0, **options):
    """A trainer with weights that are not small."""
    model = RBM(hidden, kernel=kernel, device=device, seed=seed, **options)
    model._set_training(train)
    user_hidden, weights, visible_biases, hidden_biases = model._initial(train)
    rng = np.random.default_rng(seed)
    weights = (weights * 50).astype(np.float32)
    hidden_biases = rng.standard_normal(hidden).astype(np.float32)
    arrays = user_hidden, weights, visible_biases, hidden_biases
    parts = {"longest": 4} if kernel == "fast" else {}  # some users have several segments, some one
    return model, arrays, model.trainer(train, *arrays, **parts)


def uniform(key, draws):
    with np.errstate(over="ignore"):
        return (splitmix64(key + np.asarray(draws, np.uint64)) >> np.uint64(40)) * 2.0**-24


MARGIN = 1e-5  # from a boundary of a draw, beyond which rounding cannot change what is drawn


def unit_draws(model, batch, key):
    units = np.arange(model.hidden, dtype=np.uint64)
    return uniform(key, batch.users[:, None].astype(np.uint64) * np.uint64(model.hidden) + units)


def as_binary(batch, shape):
    """The batch's ratings as zeros and ones, (users, *shape), and which of its users each entry is of."""
    columns = np.repeat(np.arange(len(batch.users)), np.diff(batch.indptr))
    chosen = np.zeros((len(batch.users), *shape))
    chosen[columns, batch.items, batch.levels] = 1
    return chosen, columns


def reference_batch(model, batch, keys, weights, visible_biases, hidden_biases):
    """`reference.contrastive_divergence` on a batch and its draws; the reconstruction as levels of its entries."""
    chosen, columns = as_binary(batch, weights.shape[:2])
    draws = []
    for hidden_key, visible_key in keys:
        visible = np.zeros(chosen.shape[:2])
        visible[columns, batch.items] = uniform(visible_key, np.arange(len(batch.items)))
        draws.append((unit_draws(model, batch, hidden_key), visible))
    (*hidden, reconstruction), gradients = reference.contrastive_divergence(
        chosen, weights, visible_biases, hidden_biases, draws
    )
    for shift in (-MARGIN, MARGIN):
        shifted = [(units + shift, visible + shift) for units, visible in draws]
        (*_, same), _ = reference.contrastive_divergence(chosen, weights, visible_biases, hidden_biases, shifted)
        assert np.array_equal(same, reconstruction), "another seed: a draw is within rounding of a boundary"
    return (*hidden, reconstruction[columns, batch.items].argmax(axis=-1)), gradients


def reference_update(model, batch, keys, learned, changes):
    """Change what is learned, and the last changes, in float64; returns the statistics of `reference_batch`."""
    statistics, gradients = reference_batch(model, batch, keys, *learned)
    n_items = len(learned[0])
    counts = np.bincount(batch.items, minlength=n_items)
    over = np.maximum(counts, 1) if model.average == "item" else np.full(n_items, len(batch.users))
    over = over[:, None, None], over[:, None], len(batch.users)
    for k, touched in enumerate((counts > 0, counts > 0, slice(None))):
        decay = model.weight_decay if k == 0 else 0.0
        step = model.learning_rate * (gradients[k] / over[k] - decay * learned[k])
        changes[k][touched] = model.momentum * changes[k][touched] + step[touched]
        learned[k][touched] += changes[k][touched]
    return statistics


def test_epochs_after_the_first_and_second_calls_follow_the_reference(device):
    train = rated(5, seed=8, n_users=15, n_items=14, longest=11)
    options = {"learning_rate": 0.3, "batch": 6, "gibbs_steps": 2, "momentum": 0.5, "weight_decay": 0.1}
    for kernel in kernels_on(RBM, device) if device != "cpu" else ["sequential"]:
        model, arrays, trainer = trainer_of(device, kernel, train, 20, **options)
        learned = [a.astype(np.float64) for a in arrays[1:]]
        changes = [np.zeros_like(a) for a in learned]
        for epoch in range(3):
            for number in batch_order(model.seed, epoch, len(trainer.batches)):
                reference_update(model, trainer.batches[number], trainer.keys(epoch, number), learned, changes)
            trainer.epoch(epoch)
            for _ in range(2):  # what a call leaves behind is no matter to the next one
                user_hidden, *after = to_numpy(device, *trainer.arrays())
                for actual, expected in zip(after, learned, strict=True):
                    assert np.abs(actual - expected).max() < 3e-4, (kernel, epoch)
                chosen = np.zeros((train.n_users, train.n_items, 5))
                chosen[train.users, train.items, train.values.astype(int) - 1] = 1
                right = reference.rbm_hidden(chosen, learned[0], learned[2])
                assert np.abs(user_hidden - right).max() < 3e-4, (kernel, epoch)
        _, _, another = trainer_of(device, kernel, train, 20, **options)
        for epoch in range(3):
            another.epoch(epoch)
        for first, second in zip(*(to_numpy(device, *t.arrays()) for t in (trainer, another)), strict=True):
            assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("hidden", "n_levels", "options"),
    [
        (1, 32, {}),
        (7, 2, {}),
        (20, 5, {"gibbs_steps": 3, "momentum": 0.5, "weight_decay": 0.1, "average": "batch"}),
        (64, 3, {"momentum": 0.9}),
        (131, 10, {"weight_decay": 0.05}),
    ],
)
def test_every_kernel_follows_the_reference(device, hidden, n_levels, options):
    train = rated(n_levels, seed=hidden, n_users=15, n_items=14, longest=11)
    # What all cores do differs by rounding alone, which another test sees.
    for kernel in kernels_on(RBM, device) if device != "cpu" else ["sequential"]:
        model, arrays, trainer = trainer_of(device, kernel, train, hidden, learning_rate=0.3, batch=6, **options)
        learned = [a.astype(np.float64) for a in arrays[1:]]
        changes = [np.zeros_like(a) for a in learned]
        for number in (1, 0, 1):
            keys = trainer.keys(2, number)
            statistics = reference_update(model, trainer.batches[number], keys, learned, changes)
            trainer.train_batch(number, keys)
            for actual, expected in zip(to_numpy(device, *trainer.statistics()), statistics, strict=True):
                assert np.abs(actual - expected).max() < 1e-4
        chosen = np.zeros((train.n_users, train.n_items, n_levels))
        chosen[train.users, train.items, train.values.astype(int) - 1] = 1
        user_hidden, *after = to_numpy(device, *trainer.arrays())
        for actual, expected, before in zip(after, learned, arrays[1:], strict=True):
            assert actual.shape == before.shape and np.abs(actual - expected).max() < 1e-4
            assert np.abs(actual - before).max() > 0.01
        assert np.abs(user_hidden - reference.rbm_hidden(chosen, learned[0], learned[2])).max() < 1e-4


def test_levels_are_drawn_with_the_probabilities_of_the_reference(device):
    train = rated(5, seed=1, n_users=15, n_items=14, longest=11)
    for kernel in kernels_on(RBM, device):
        model, (_, *learned), trainer = trainer_of(device, kernel, train, 20, batch=15)
        trainer.learning_rate = 0.0  # the same probabilities at every draw
        batch, rng = trainer.batches[0], np.random.default_rng(0)
        chosen, columns = as_binary(batch, learned[0].shape[:2])
        weights, visible_biases, hidden_biases = (a.astype(np.float64) for a in learned)
        hidden_key, known = np.uint64(3), reference.rbm_hidden(chosen, weights, hidden_biases)
        units = unit_draws(model, batch, hidden_key)
        assert np.abs(units - known).min() > MARGIN
        probabilities = reference.rbm_visible(units < known, weights, visible_biases)[columns, batch.items]
        boundaries = np.cumsum(probabilities, axis=-1)[:, :-1]
        keys = rng.integers(1 << 63, size=400_000, dtype=np.uint64)
        for entry in rng.choice(len(columns), 10, replace=False):
            # Streams whose draw for this entry lies just below one of its boundaries, and just above.
            distance = uniform(keys, entry) - rng.choice(boundaries[entry])
            for side in (-distance, distance):
                key = keys[np.flatnonzero((side > MARGIN) & (side < 1e-4))[0]]
                trainer.train_batch(0, [(hidden_key, key)])
                *_, levels = to_numpy(device, *trainer.statistics())
                draws = uniform(key, np.arange(len(columns)))[:, None]
                sure = (np.abs(draws - boundaries) > MARGIN).all(axis=-1)
                assert sure[entry] and np.array_equal(levels[sure], (boundaries <= draws).sum(axis=-1)[sure])


def test_errors_and_predictions_are_of_expected_ratings(device):
    train, test = rated(5, n_users=fewer(device, 900), n_items=20, longest=15).split(0.3)
    for kernel in kernels_on(RBM, device):
        model = RBM(20, learning_rate=0.3, kernel=kernel, device=device).fit(train, 1, test)
        chosen = np.zeros((train.n_users, train.n_items, 5))
        chosen[train.users, train.items, train.values.astype(int) - 1] = 1
        hidden = reference.rbm_hidden(chosen, model.item_weights, model.hidden_biases)
        assert np.abs(model.user_hidden - hidden).max() < 1e-5
        expected = reference.rbm_expectations(hidden, model.item_weights, model.visible_biases, [1, 2, 3, 4, 5])
        known = np.bincount(train.items, minlength=train.n_items) > 0
        expected = np.where(known, expected, train.mean)
        assert (~known).sum() > 0 and np.abs(model.predict(*np.indices(expected.shape)) - expected).max() < 1e-5
        error = expected[test.users, test.items] - test.values
        assert model.history.mae.iloc[-1] == pytest.approx(np.abs(error).mean(), rel=1e-5)
        assert model.score(test)["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-5)


def test_without_training_ratings_the_biases_or_the_mean_are_predicted():
    train = Ratings([0, 0, 1, 2], [0, 1, 1, 0], [1, 2, 5, 2], 4, 3, scale=(1, 5))
    model = RBM(20, kernel="sequential").fit(train, 3)
    assert (model.predict(np.arange(4), 2) == np.float32(train.mean)).all()
    assert np.allclose(model.user_hidden[3], 1 / (1 + np.exp(-model.hidden_biases)), atol=1e-6)
    expected = reference.rbm_expectations(
        model.user_hidden[3:], model.item_weights, model.visible_biases, model.level_values
    )
    assert model.predict(3, [0, 1]) == pytest.approx(expected[0, :2], rel=1e-6)


def test_the_same_seed_gives_the_same_bits(device):
    train = rated(5, n_users=30, n_items=12, longest=9)
    for kernel in kernels_on(RBM, device):
        models = [
            RBM(20, kernel=kernel, device=device, seed=seed, batch=8, learning_rate=0.5, momentum=0.5).fit(train, 2)
            for seed in (5, 5, 6)
        ]
        for name in RBM._arrays:
            first, again, other = (getattr(model, name) for model in models)
            assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.parametrize("seed", [2**32, 2**64 - 1])
def test_large_seeds_are_alike_everywhere(device, seed):
    train, test = rated(5, n_users=30, n_items=12, longest=9).split(0.2)
    options = {"seed": seed, "batch": 4, "learning_rate": 0.3}
    expected = RBM(20, kernel="sequential", **options).fit(train, 2, test)
    for kernel in kernels_on(RBM, device):
        other = RBM(20, kernel=kernel, device=device, **options).fit(train, 2, test)
        assert np.abs(other.item_weights - expected.item_weights).max() < 1e-4


def test_every_seed_and_epoch_has_its_order_of_batches():
    seeds = 0, 1, 2**31, 2**32, 2**32 + 1, 2**64 - 1
    orders = {tuple(batch_order(seed, epoch, 40)) for seed in seeds for epoch in range(3)}
    assert len(orders) == 18
    published = random_order(40, splitmix64(np.uint64((7 << 32) + 5)))
    assert np.array_equal(batch_order(7, 5, 40), published), "recorded results stay what they are"


def test_what_diverges_says_so(device):
    train = rated(5, seed=1, n_users=20, n_items=12, longest=9)
    for kernel in kernels_on(RBM, device):
        model = RBM(20, kernel=kernel, device=device, learning_rate=3e38, momentum=0.9, batch=4)
        with pytest.raises(DivergedError, match="learning_rate"):
            model.fit(train, 20)
        assert all(np.isfinite(a).all() for a in model._learned) and 0 < len(model.history) <= 20


def test_the_parts_of_a_long_user_meet_in_any_order(host):
    train = rated(5, seed=2, n_users=6, n_items=14, longest=11)
    options = {"learning_rate": 0.3, "batch": 3, "gibbs_steps": 2}
    results = set()
    for seed in range(4):
        *_, trainer = trainer_of("host", "fast", train, 7, **options)
        with host.shuffled(seed):
            trainer.epoch(0)
        results.add(b"".join(a.tobytes() for a in trainer.arrays()))
    assert len(results) == 1


def test_moving_weights_or_batches_changes_nothing(launcher):
    train = rated(5, n_users=20, n_items=12, longest=9)
    learned = []
    for weights, batches in product(("device", "transfer"), repeat=2):
        options = {"gibbs_steps": 2, "momentum": 0.5, "weight_decay": 0.1, "batch": 7}
        options |= {"weights": weights, "batches": batches}
        learned.append(RBM(9, kernel="thesis", device=launcher.name, **options).fit(train, 2)._learned)
    assert all(
        np.array_equal(first, a) for others in learned[1:] for first, a in zip(learned[0], others, strict=True)
    )
    for moved in ("weights", "batches"):
        with pytest.raises(ValueError, match="transfer"):
            RBM(9, kernel="fast", device=launcher.name, **{moved: "transfer"})


@pytest.mark.parametrize("batches", ["device", "transfer"])
def test_batches_that_are_moved_are_made_in_the_epoch(host, monkeypatch, batches):
    made, make = [], _Matrices.of
    monkeypatch.setattr(_Matrices, "of", lambda batch, *how: made.append(len(batch.users)) or make(batch, *how))
    train = rated(5, n_users=20, n_items=12, longest=9)
    *_, trainer = trainer_of("host", "thesis", train, 3, batch=7, batches=batches)
    counts = [len(made)]
    for number in range(2):
        trainer.epoch(number)
        counts.append(len(made))
    assert len(trainer.batches) == 3
    assert counts == ([3, 3, 3] if batches == "device" else [0, 3, 6]) and min(made) > 0


def test_the_thesis_has_its_parameters_initial_values_and_averages(tmp_path, device):
    train, test = rated(5, seed=3, n_users=fewer(device, 900), n_items=20, longest=15).split(0.3)
    for kernel in kernels_on(RBM, device):
        model = RBM.thesis(kernel=kernel, device=device, hidden=20, seed=4)
        assert model._parameters | RBM.THESIS == model._parameters | {"hidden": 128} and model.hidden == 20
        _, *start = model.fit(train, 0, test)._learned
        for values in start:  # the trainer has not changed them
            assert 0.004 < values.std() < 0.016 and np.abs(values.mean()) < 4 * 0.01 / np.sqrt(values.size)
        assert not np.array_equal(start[0].ravel()[: start[1].size], start[1].ravel())
        by_hand = RBM(20, average="batch", initial_biases="normal", seed=4, kernel=kernel, device=device)
        trained = model.fit(train, 2, test)
        assert np.array_equal(trained.item_weights, by_hand.fit(train, 2, test).item_weights)
        trained.save(tmp_path / "rbm.npz")
        assert RBM.load(tmp_path / "rbm.npz", device="cpu")._parameters == trained._parameters
    ours = RBM(20, seed=4, kernel="sequential").fit(train, 0)
    assert np.array_equal(ours.item_weights, start[0]), "the same initial weights"


def test_batches_hold_every_rating_once_by_user_and_by_item():
    train = rated(5, n_users=50, n_items=30, longest=20)
    levels = to_levels(train.by_user.values, (1, 5), 5)
    batches = Batches.of(train.by_user, levels, train.n_items, 8, seed=3)
    rated_users = np.unique(train.users)
    assert len(batches) == -(-len(rated_users) // 8)
    assert np.array_equal(np.sort(batches.users), np.arange(50))
    assert set(batches.users[: len(rated_users)]) == set(rated_users)
    seen, most = set(), 0
    for number in range(len(batches)):
        batch = batches[number]
        most = max(most, len(batch.items))
        assert np.array_equal(batch.entry_users, np.repeat(batch.users, np.diff(batch.indptr)))
        seen |= set(zip(batch.entry_users, batch.items, batch.levels + 1, strict=True))
        assert np.array_equal(np.sort(batch.mapping), np.arange(len(batch.items)))
        assert np.array_equal(batch.items[batch.mapping], np.repeat(batch.row_items, np.diff(batch.rows)))
        assert len(np.unique(batch.row_items)) == len(batch.row_items) and (np.diff(np.diff(batch.rows)) <= 0).all()
    assert seen == set(zip(train.users, train.items, train.values, strict=True)) and most == batches.most_entries


@pytest.mark.parametrize(
    ("values", "scale", "levels", "back"),
    [
        ([1, 2, 5], (1, 5), None, [1, 2, 5]),
        ([0.5, 3.5, 5], (0.5, 5), None, [0.5, 3.5, 5]),
        ([-1, 1], None, None, [-1, 1]),
        ([-10, -4.9, 2.6, 9.8], (-10, 10), 5, [-10, -5, 5, 10]),
        ([0, 50, 74], (0, 100), 3, [0, 50, 50]),
    ],
)
def test_ratings_become_levels_and_return(values, scale, levels, back):
    n = len(values)
    train = Ratings(np.arange(n), np.zeros(n), values, n, 1, scale=scale)
    model = RBM(2, levels=levels, kernel="sequential").fit(train, 1)
    chosen = to_levels(train.values, model.scale, model.n_levels)
    assert np.allclose(model.level_values[chosen], back)
    assert model.item_weights.shape[1] == len(model.level_values)
    assert (model.level_values.min() <= model.predict(np.arange(n), 0)).all()
    assert (model.level_values.max() >= model.predict(np.arange(n), 0)).all()


def test_jester_is_rounded_as_when_it_is_loaded():
    raw = np.linspace(-10, 10, 1001).astype(np.float32)
    loaded = np.rint((raw + 10) / 20 * 4 + 1)  # gpumf.datasets.load, rescale
    assert np.array_equal(to_levels(raw, (-10, 10), 5) + 1, loaded)
    assert np.array_equal(level_values((-10, 10), 5), [-10, -5, 0, 5, 10])


def test_initial_biases_are_the_shares_of_the_levels():
    items, levels = np.array([0, 0, 0, 0, 1]), np.array([0, 2, 2, 2, 1])
    shares = np.exp(level_logarithms(items, levels, (3, 3)).astype(np.float64))
    overall = np.array([2, 2, 4]) / 8
    assert np.allclose(shares.sum(axis=1), 1)
    assert np.allclose(shares[0], (np.array([1, 0, 3]) + overall) / 5, rtol=1e-5)
    assert np.allclose(shares[2], overall, rtol=1e-5)


def test_gibbs_steps_rise_by_their_schedule():
    train = rated(5, n_users=20, n_items=10, longest=8)
    rising = RBM(20, gibbs_steps=((0, 1), (2, 3)), kernel="sequential")
    assert [rising.steps_in(epoch) for epoch in range(5)] == [1, 1, 3, 3, 3]
    before = RBM(20, gibbs_steps=1, kernel="sequential").fit(train, 2)
    assert np.array_equal(before.item_weights, rising.fit(train, 2).item_weights)
    before.fit(train, 1, warm_start=True), rising.fit(train, 1, warm_start=True)
    assert not np.array_equal(before.item_weights, rising.item_weights)


def test_it_learns_more_than_the_items_means():
    spec = Twin(1000, 60, 30000, (5, 55), (20, 900), (1, 5), 1, 3.5, 0.2, 0.3, 0.9, 0.3)
    train, test = generate(spec, seed=1).split(0.2)
    means = np.bincount(train.items, train.values, 60) / np.bincount(train.items, minlength=60)
    baseline = np.sqrt(((means[test.items] - test.values) ** 2).mean())
    history = RBM(20, learning_rate=0.1, batch=20, kernel="sequential").fit(train, 40, test).history
    assert history.rmse[0] == pytest.approx(baseline, rel=0.02)
    assert history.rmse.min() < 0.9 * baseline


def test_every_kernel_has_the_same_history(device):
    train, test = rated(5, n_users=fewer(device, 900), n_items=20, longest=15).split(0.3)
    histories = [
        RBM(20, learning_rate=0.3, kernel=kernel, device=where).fit(train, 3, test).history
        for kernel, where in [("sequential", "cpu"), *((name, device) for name in kernels_on(RBM, device))]
    ]
    # Where a probability is within rounding of its draw, a unit may differ.
    assert all(np.abs(other.rmse - histories[0].rmse).max() < 1e-3 for other in histories[1:])


def test_stop_warm_start_save_and_load(tmp_path):
    train, test = rated(5, n_users=60, n_items=30, longest=20).split(0.2)
    options = {"learning_rate": 0.3, "gibbs_steps": ((0, 1), (3, 2)), "batch": 10, "kernel": "sequential"}
    through = RBM(20, **options).fit(train, 5, test)
    stopped = RBM(20, **options).fit(train, 5, test, stop=lambda row: row["epoch"] == 2)
    stopped.save(tmp_path / "rbm.npz")
    loaded = RBM.load(tmp_path / "rbm.npz", device="cpu")
    pd.testing.assert_frame_equal(loaded.history, stopped.history)
    assert loaded._parameters == stopped._parameters and loaded.n_levels == 5
    assert np.array_equal(loaded.predict(test.users, test.items), stopped.predict(test.users, test.items))
    assert loaded.score(test) == stopped.score(test)
    assert np.array_equal(loaded.recommend(4, seen=train)[0], stopped.recommend(4)[0])
    resumed = stopped.fit(train, 3, test, warm_start=True)
    assert np.array_equal(resumed.item_weights, through.item_weights)
    with pytest.raises(ValueError, match="holds a RBM"):
        ALS.load(tmp_path / "rbm.npz")


def test_recommend_takes_the_highest_expected_ratings():
    train, test = rated(5, n_users=40, n_items=30, longest=20).split(0.3)
    model = RBM(20, learning_rate=0.3, kernel="sequential").fit(train, 4)
    users = np.flatnonzero(train.by_user.counts)  # the others get popular items
    everything = model.predict(np.arange(train.n_users)[:, None], np.arange(train.n_items))
    everything[:, np.bincount(train.items, minlength=train.n_items) == 0] = np.nan
    everything[train.users, train.items] = np.nan
    items, ratings = model.recommend(users, k=4)
    for row, user in enumerate(users):
        best = np.sort(everything[user][~np.isnan(everything[user])])[::-1][:4]
        assert np.allclose(ratings[row][: len(best)], best, atol=1e-5)
        assert np.allclose(everything[user, items[row][items[row] >= 0]], best, atol=1e-5)
    assert 0 < model.rank(test, 4)["recall"] <= 1


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
        {"batches": "host"},
        {"batches": "transfer"},
        {"levels": 1},
        {"levels": 33},
        {"weights": "host"},
        {"weights": "transfer"},
    ],
)
def test_a_wrong_parameter_gets_one_clear_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RBM(**{"kernel": "sequential"} | wrong)


def test_what_32_bits_cannot_count_gets_one_clear_error(host, monkeypatch):
    wide = Ratings([0], [0], [3], 1, 2**27, scale=(1, 32), item_ids=range(2**27))
    with pytest.raises(ValueError, match="134217728 items of 32 levels"):
        RBM(1, kernel="sequential").fit(wide, 1)
    train = Ratings(np.arange(8), np.zeros(8), np.arange(8) % 5 + 1, 8, 1, scale=(1, 5))
    monkeypatch.setattr(batches_module, "MOST_POSITIONS", 3)
    with pytest.raises(ValueError, match="4 ratings, more than 3; lower batch"):
        Batches.of(train.by_user, to_levels(train.by_user.values, (1, 5), 5), 1, 4, seed=0)
    monkeypatch.setattr(batches_module, "MOST_POSITIONS", 4)
    monkeypatch.setattr(thesis_module, "MOST_POSITIONS", 119)
    with pytest.raises(ValueError, match="needs 120 numbers for a batch of 4 users"):
        trainer_of("host", "thesis", train, 6, batch=4)
    trainer_of("host", "thesis", train, 5, batch=4)


def test_scales_of_64_bits_have_the_ratings_of_32():
    values = np.array([0.1, 0.7, 0.9], np.float32)
    assert list(to_levels(values, (np.float64(0.1), np.float64(0.9)), 5)) == [0, 3, 4]


def test_ratings_that_are_no_levels_get_one_clear_error():
    def fitted(values, scale=None, **options):
        n = len(values)
        return RBM(2, kernel="sequential", **options).fit(Ratings(range(n), [0] * n, values, n, 1, scale=scale), 1)

    with pytest.raises(ValueError, match="levels="):
        fitted([1, 2.3, 5], (1, 5))
    with pytest.raises(ValueError, match="levels="):
        fitted([0, 50, 100], (0, 100))
    with pytest.raises(ValueError, match="rating 1 is 6"):
        fitted([1, 6], (1, 5), levels=5)
    with pytest.raises(ValueError, match="two different"):
        fitted([3, 3])
    model = fitted([1, 5], (1, 5))
    for scale, described in (((1, 2), "2 levels from 1 to 2"), ((0, 4), "5 levels from 0 to 4")):
        before = model.predict([0, 1], 0), model.scale
        with pytest.raises(ValueError, match=f"5 levels from 1 to 5 of before, not {described}"):
            model.fit(Ratings([0, 1], [0, 0], [1, 2], 2, 1, scale=scale), 1, warm_start=True)
        assert np.array_equal(model.predict([0, 1], 0), before[0]) and model.scale == before[1]
    with pytest.raises(NotFittedError):
        RBM(2).predict(0, 0)
