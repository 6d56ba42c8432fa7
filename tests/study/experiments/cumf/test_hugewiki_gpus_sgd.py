"""Epochs of SGD in blocks on several GPUs: when the last worker has ended, what GPUs gain, and the blocks."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpumf.ratings import synthetic_device
from gpumf_study.experiments.cumf import hugewiki_gpus_sgd
from outcomes import CLAIMS, word

COLUMNS = ["x_workers", "repeat", "x_rank", "x_epoch", "seconds", "value"]


def rows(workers, seconds, rmse=(0.7, 0.6), repeat=0):
    """Epochs of each worker in a training, of which the last rank ends an eighth later than the others."""
    late = [1.0] * (workers - 1) + [1.125]
    return [(workers, repeat, rank, epoch, seconds * late[rank], after)
            for epoch, after in enumerate(rmse, 1) for rank in range(workers)]  # fmt: skip


def test_an_epoch_ends_with_its_last_worker():
    frame = pd.DataFrame([*rows(1, 8.0), *rows(2, 4.0, (0.7, 0.5))], columns=COLUMNS)
    table = hugewiki_gpus_sgd.summary(frame)
    assert table.seconds.to_dict() == {1: 9.0, 2: 4.5} and table.speed_up.to_dict() == {1: 1.0, 2: 2.0}
    assert table.rmse.to_dict() == {1: 0.6, 2: 0.5}
    assert np.isnan(hugewiki_gpus_sgd.summary(frame[frame.x_workers == 2]).speed_up.item())


def test_time_to_the_error_is_that_of_the_epochs_to_it(monkeypatch):
    """ALS gets there in the second iteration on one GPU, in the third on four; SGD on four in its third epoch."""
    columns = ["x_workers", "repeat", "x_rank", "x_iteration", "x_begin", "seconds", "value"]
    als = [(n, repeat, 0, k, 0.0, 1.0 / n, value) for repeat in range(2)
           for n, values in {1: (0.6, 0.52, 0.5), 4: (0.6, 0.53, 0.51)}.items()
           for k, value in enumerate(values, 1)]  # fmt: skip
    recorded = SimpleNamespace(frame=pd.DataFrame(als, columns=columns))
    monkeypatch.setattr(hugewiki_gpus_sgd.results, "recorded", lambda *of: recorded)
    errors = (0.6, 0.53, 0.52, 0.51)
    one = [*rows(1, 8.0, (0.7, 0.6)), *rows(4, 2.0, errors)]
    frame = pd.DataFrame([*one, *rows(1, 8.0, repeat=1), *rows(4, 2.0625, errors[:3], repeat=1)], columns=COLUMNS)
    table = hugewiki_gpus_sgd.to_error(frame)
    found = table.groupby(["model", "x_workers"]).seconds.apply(list).to_dict()
    assert found == {("ALS", 1): [2.0, 2.0], ("ALS", 4): [0.75, 0.75], ("SGD", 4): [3 * 2.25, 3 * 2.3203125]}
    assert table.groupby(["model", "x_workers"]).epochs.median().to_list() == [2, 3, 3]
    four = CLAIMS["cumf-fig-8-four"]
    assert word(four.id, frame) == "not evidence"
    assert four.estimate(frame).value == np.median([3 * 2.25, 3 * 2.3203125]) / 0.75
    assert np.isnan(four.estimate(frame[frame.value > 0.52]).value)
    assert np.isinf(four.estimate(pd.DataFrame(one, columns=COLUMNS)).high), "one training"


@pytest.mark.emulator
def test_blocks_have_every_rating_of_some_users_once(host):
    train = synthetic_device.synthetic_ratings("hugewiki-small-synthetic", device="emulator").train
    cuts, bounds = np.array([100, 180, 400]), np.array([0, 30, 30, 80])
    found = []
    for users, items, ratings in hugewiki_gpus_sgd._blocks(train.by_user, cuts, bounds, host):
        assert (ratings.n_users, ratings.n_items) == (users.stop - users.start, items.stop - items.start)
        assert (users.start, users.stop) in [(100, 180), (180, 400)] and ratings.device is host
        found += zip(ratings.users + users.start, ratings.items + items.start, ratings.values, strict=True)
    chosen = train.users >= 100
    assert sorted(found) == list(zip(train.users[chosen], train.items[chosen], train.values[chosen], strict=True))


@pytest.mark.slow
@pytest.mark.emulator
def test_any_number_of_workers_learns_from_the_same_blocks(host):
    if why := hugewiki_gpus_sgd.why_unavailable():
        pytest.skip(why)
    frame = hugewiki_gpus_sgd.run(
        **hugewiki_gpus_sgd.PROFILES["quick"] | {"factors": 4, "parts": 4, "epochs": [2, 2]}
    )
    rmse = frame.groupby(["x_workers", "repeat", "x_epoch"]).value.agg(["min", "max"])
    assert (rmse["min"] == rmse["max"]).all(), "all workers of a training know the error of all"
    assert abs(rmse.loc[1] - rmse.loc[2]).max().max() < 0.02
    assert rmse.loc[1, 0]["min"].iloc[0] != rmse.loc[1, 1]["min"].iloc[0], "from other factors"
    assert (rmse["min"].groupby(["x_workers", "repeat"]).diff().dropna() < 0).all() and (frame.seconds > 0).all()
    assert frame.groupby("x_workers").x_rank.unique().map(sorted).to_dict() == {1: [0], 2: [0, 1]}
