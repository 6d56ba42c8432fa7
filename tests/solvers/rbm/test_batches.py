"""Batches: every rating once, by user and by item."""

import numpy as np
import pytest

from cases import rbm_case
from gpumf import RBM
from gpumf.ratings import Ratings
from gpumf.solvers import rbm_batches as batches_module
from gpumf.solvers import rbm_thesis as thesis_module
from gpumf.solvers.rbm_batches import Batches
from gpumf.solvers.rbm_levels import to_levels
from support import rated


@pytest.mark.parametrize("batches", ["device", "transfer"])
def test_batches_that_are_moved_are_made_in_the_epoch(host, monkeypatch, batches):
    made, make = [], thesis_module._matrices
    monkeypatch.setattr(
        thesis_module, "_matrices", lambda batch, *how: made.append(len(batch.users)) or make(batch, *how)
    )
    train = rated(5, n_users=20, n_items=12, longest=9)
    trainer = rbm_case("emulator", "thesis", train, 3, batch=7, batches=batches).make_solver()
    counts = [len(made)]
    for number in range(2):
        trainer.epoch(number)
        counts.append(len(made))
    assert len(trainer.batches) == 3
    assert counts == ([3, 3, 3] if batches == "device" else [0, 3, 6]) and min(made) > 0


@pytest.mark.parametrize(("n_items", "longest"), [(30, 20), (4, 2)])
def test_batches_hold_every_rating_once_by_user_and_by_item(n_items, longest):
    train = rated(5, n_users=50, n_items=n_items, longest=longest)
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
    assert seen == set(zip(train.users, train.items, train.values, strict=True)) and most == batches.max_entries


def test_what_32_bits_cannot_count_gets_one_clear_error(host, monkeypatch):
    wide = Ratings([0], [0], [3], 1, 2**27, scale=(1, 32), item_ids=range(2**27))
    with pytest.raises(ValueError, match="134217728 items of 32 levels"):
        RBM(1, biases=False, solver="sequential").fit(wide, 1)
    train = Ratings(np.arange(8), np.zeros(8), np.arange(8) % 5 + 1, 8, 1, scale=(1, 5))
    monkeypatch.setattr(batches_module, "MAX_POSITIONS", 3)
    with pytest.raises(ValueError, match="4 ratings, more than 3; lower batch"):
        Batches.of(train.by_user, to_levels(train.by_user.values, (1, 5), 5), 1, 4, seed=0)
    monkeypatch.setattr(batches_module, "MAX_POSITIONS", 4)
    monkeypatch.setattr(thesis_module, "MAX_POSITIONS", 119)
    with pytest.raises(ValueError, match="needs 120 numbers for a batch of 4 users"):
        rbm_case("emulator", "thesis", train, 6, batch=4).make_solver()
    rbm_case("emulator", "thesis", train, 5, batch=4).make_solver()
