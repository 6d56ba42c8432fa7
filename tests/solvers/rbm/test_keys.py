"""Random numbers of the RBM: no two draws of a training share a stream, and the streams stay what they are."""

from itertools import product

import pytest

from cases import rbm_case, rbm_keys
from gpumf.solvers.rbm_divergence import batch_order, draw_streams
from support import rated

SEEDS = [0, 1, 2, 2**32, 2**64 - 1]


def test_keys_are_distinct_over_seeds_epochs_steps_and_kinds_of_units():
    keys = [int(key) for of in product(SEEDS, range(4), range(4)) for key in draw_streams(*of)]
    assert len(set(keys)) == 2 * len(SEEDS) * 4 * 4


def test_keys_and_orders_stay_those_that_earlier_versions_trained_with():
    assert [hex(key) for key in draw_streams(0, 0, 0)] == ["0xa706dd2f4d197e6f", "0x2a98f501af37e97f"]
    assert [hex(key) for key in draw_streams(3, 2, 1)] == ["0x9b45e93dc08e472a", "0x712d30e6a815d2cb"]
    assert batch_order(3, 2, 8).tolist() == [2, 6, 0, 3, 4, 1, 5, 7]


def test_batches_come_in_another_order_in_each_epoch_and_with_each_seed():
    assert len({tuple(batch_order(seed, epoch, 20)) for seed, epoch in product(SEEDS, range(4))}) == len(SEEDS) * 4


@pytest.mark.parametrize("steps", [1, 3])
def test_a_trainer_draws_with_the_keys_of_its_seed_epoch_and_batch(steps):
    train = rated(5, n_users=15, n_items=14, longest=11)
    case = rbm_case("cpu", "sequential", train, 4, seed=7, batch=6, gibbs_steps=steps)
    trainer, seen = case.make_solver(), []
    for epoch, number in product(range(3), range(len(trainer.batches))):
        keys = trainer.keys(epoch, number)
        assert keys == list(rbm_keys(case.model, trainer.batches, epoch, number)) and len(keys) == steps
        seen += [int(visible) for _, visible in keys]
    assert len(set(seen)) == len(seen)
