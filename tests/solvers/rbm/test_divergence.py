"""Contrastive divergence: every kernel against the float64 reference on the same draws."""

from itertools import product

import numpy as np
import pytest

import references
from cases import MARGIN, Machine, as_binary, rbm_case, uniform, unit_draws
from gpumf import RBM
from support import kernels_on, rated, to_numpy


@pytest.mark.parametrize("seed", [0, 2**33 + 1])
def test_three_epochs_follow_the_reference(device, seed):
    train = rated(5, seed=8, n_users=15, n_items=14, longest=11)
    options = {
        "learning_rate": 0.3,
        "batch": 6,
        "gibbs_steps": ((0, 1), (1, 2)),
        "momentum": 0.5,
        "weight_decay": 0.1,
    }
    for kernel in kernels_on(RBM, device) if device != "cpu" else ["sequential"]:
        case = rbm_case(device, kernel, train, 20, seed, **options)
        trainer = case.make_solver()
        for epochs in (1, 2, 3):
            trainer.epoch(epochs - 1)
            for _ in range(2):  # what a call leaves behind is no matter to the next one
                case.assert_close(3e-4, epochs, to_numpy(device, *trainer.arrays()))
        for first, second in zip(to_numpy(device, *trainer.arrays()), case.run(3), strict=True):
            assert np.array_equal(first, second)


def test_second_fits_go_on_from_the_first(device):
    train = rated(5, seed=8, n_users=15, n_items=14, longest=11)
    for kernel in kernels_on(RBM, device) if device != "cpu" else ["sequential"]:
        rbm_case(device, kernel, train, 20, learning_rate=0.3, batch=6).assert_fits_close(1e-4)


@pytest.mark.parametrize(
    ("hidden", "n_levels", "options"),
    [
        (1, 32, {}),
        (7, 2, {}),
        (20, 5, {"gibbs_steps": 3, "momentum": 0.5, "weight_decay": 0.1, "average": "item"}),
        (64, 3, {"momentum": 0.9}),
        (131, 10, {"weight_decay": 0.05}),
    ],
)
def test_every_kernel_follows_the_reference(device, hidden, n_levels, options):
    train = rated(n_levels, seed=hidden, n_users=15, n_items=14, longest=11)
    # What all cores do differs by rounding alone, which another test sees.
    for kernel in kernels_on(RBM, device) if device != "cpu" else ["sequential"]:
        case = rbm_case(device, kernel, train, hidden, learning_rate=0.3, batch=6, **options)
        trainer, machine = case.make_solver(), Machine(case.model, case.start)
        for number in (1, 0, 1):
            keys = trainer.keys(2, number)
            statistics = machine.update(trainer.batches[number], keys)
            trainer.train_batch(number, keys)
            for actual, expected in zip(to_numpy(device, *trainer.statistics()), statistics, strict=True):
                assert np.abs(actual - expected).max() < 1e-4
        user_hidden, *after = to_numpy(device, *trainer.arrays())
        for actual, expected, before in zip(after, machine.learned, case.start[1:4], strict=True):
            assert actual.shape == before.shape and np.abs(actual - expected).max() < 1e-4
            assert np.abs(actual - before).max() > 0.01
        assert np.abs(user_hidden - machine.hidden(train)).max() < 1e-4


@pytest.mark.slow
def test_levels_are_drawn_with_the_probabilities_of_the_reference(device):
    train = rated(5, seed=1, n_users=15, n_items=14, longest=11)
    for kernel in kernels_on(RBM, device):
        case = rbm_case(device, kernel, train, 20, batch=15)
        model, (_, *learned), trainer = case.model, case.start[:4], case.make_solver()
        trainer.learning_rate = 0.0  # the same probabilities at every draw
        batch, rng = trainer.batches[0], np.random.default_rng(0)
        chosen, columns = as_binary(batch, learned[0].shape[:2])
        weights, visible_biases, hidden_biases = (a.astype(np.float64) for a in learned)
        hidden_key, known = np.uint64(3), references.rbm_hidden(chosen, weights, hidden_biases)
        units = unit_draws(model, batch, hidden_key)
        assert np.abs(units - known).min() > MARGIN
        probabilities = references.rbm_visible(units < known, weights, visible_biases)[columns, batch.items]
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


def test_the_same_seed_gives_the_same_bits(device):
    train = rated(5, n_users=30, n_items=12, longest=9)
    for kernel in kernels_on(RBM, device):
        models = [
            RBM(
                20, biases=False, solver=kernel, device=device, seed=seed, batch=8, learning_rate=0.5, momentum=0.5
            ).fit(train, 2)
            for seed in (5, 5, 6)
        ]
        for name in RBM._arrays[:4]:
            first, again, other = (getattr(model, name) for model in models)
            assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_moving_weights_or_batches_changes_nothing(launcher):
    train = rated(5, n_users=20, n_items=12, longest=9)
    learned = []
    for weights, batches in product(("device", "transfer"), repeat=2):
        options = {"gibbs_steps": 2, "momentum": 0.5, "weight_decay": 0.1, "batch": 7}
        options |= {"weights": weights, "batches": batches}
        learned.append(RBM(9, biases=False, solver="thesis", device=launcher.name, **options).fit(train, 2)._learned)
    assert all(
        np.array_equal(first, a) for others in learned[1:] for first, a in zip(learned[0], others, strict=True)
    )
    for moved in ("weights", "batches"):
        with pytest.raises(ValueError, match="transfer"):
            RBM(9, biases=False, solver="fast", device=launcher.name, **{moved: "transfer"})
