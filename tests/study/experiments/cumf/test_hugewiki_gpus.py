"""Iterations on several GPUs: when the last worker has ended, what more GPUs gain, and what a worker keeps."""

import numpy as np
import pandas as pd
import pytest

from gpumf.ratings import synthetic_device
from gpumf_study.experiments.cumf import hugewiki_gpus, hugewiki_gpus_sgd
from outcomes import word


def iterations_of(workers, seconds, first=2.0, repeat=0):
    """Four iterations of a training, of which the first takes longer by so much; each worker takes as long."""
    rows = [
        (workers, rank, iteration, seconds * (1 + 0.001 * iteration) + first * (iteration == 1))
        for iteration in (1, 2, 3, 4)
        for rank in range(workers)
    ]
    frame = pd.DataFrame(rows, columns=["x_workers", "x_rank", "x_iteration", "seconds"])
    return frame.assign(
        repeat=repeat, x_epoch=frame.x_iteration, x_begin=0.0, value=0.6, factors=100, data="hugewiki-synthetic"
    )


def test_the_first_iteration_is_left_out():
    frame = pd.concat([iterations_of(1, 0.8), iterations_of(4, 0.2, first=50.0)])
    table = hugewiki_gpus.iterations(frame)
    assert table.groupby("x_workers").repeat.apply(list).to_dict() == {1: [2, 3, 4], 4: [2, 3, 4]}
    assert table[table.x_workers == 4].seconds.max() < 0.21


def test_a_training_is_a_repeat_where_there_are_several():
    frame = pd.concat([iterations_of(1, 0.8), *(iterations_of(4, 0.2 + k, repeat=k) for k in range(3))])
    for table in (hugewiki_gpus.iterations(frame), hugewiki_gpus_sgd.epochs(frame)):
        assert table.groupby("x_workers").repeat.apply(list).to_dict() == {1: [2, 3, 4], 4: [0, 1, 2]}
        assert table[table.x_workers == 4].seconds.tolist() == pytest.approx([1.003 * (0.2 + k) for k in range(3)])


def test_time_to_the_error_is_that_of_all_iterations_until_then():
    frame = pd.concat([iterations_of(1, 0.8, first=0.0), iterations_of(4, 0.2)])
    errors = {1: 0.6, 2: 0.55, 3: 0.52, 4: 0.51}
    table = hugewiki_gpus.to_error(frame.assign(value=frame.x_iteration.map(errors))).set_index("x_workers")
    assert table.seconds.to_dict() == pytest.approx({1: 3 * 0.8 * 1.002, 4: 2 + 3 * 0.2 * 1.002})
    assert hugewiki_gpus.to_error(frame).seconds.isna().all()


def test_the_summary_has_medians_the_slowest_worker_and_the_last_error():
    frame = pd.concat([iterations_of(1, 0.8), iterations_of(4, 0.2)]).assign(x_step="users")
    slow = (frame.x_workers == 4) & (frame.x_rank == 2)
    frame = frame.assign(seconds=frame.seconds.where(~slow, 2 * frame.seconds), value=1 / frame.x_iteration)
    table = hugewiki_gpus.summary(frame)
    assert table.seconds.to_dict() == pytest.approx({1: 0.8 * 1.003, 4: 0.4 * 1.003})
    assert table.speed_up[4] == pytest.approx(2) and table.efficiency[4] == pytest.approx(0.5)
    assert table.rmse.to_dict() == {1: 0.25, 4: 0.25} and table.users[4] == pytest.approx(0.4 * 1.0035)


@pytest.mark.parametrize(
    ("model", "received"),
    # Users' factors in half precision, 112 columns of them, of three quarters of the users; or all items' in FP32.
    [("als", 0.75 * (50_082_603 * 112 * 2 + 39_780 * 100 * 4)), ("sgd", 39_780 * 100 * 4)],
)
def test_the_model_of_time_is_that_of_one_gpu_shared_out_and_what_the_links_take(model, received):
    experiment = {"als": hugewiki_gpus, "sgd": hugewiki_gpus_sgd}[model]
    expected = 0.8 / 4 + received / 450e9
    frame = pd.concat([iterations_of(1, 0.8), iterations_of(4, expected)])
    table = experiment._beside_model(frame)
    by_model = table[(table.variant == "model") & (table.x_workers == 4)]
    assert by_model.seconds.min() == pytest.approx(0.8 * 1.002 / 4 + received / 450e9)
    claim = f"{model}-hugewiki-4gpu-model"
    assert word(claim, frame) == "replicated"
    for off in (0.8, 1.25):
        assert word(claim, pd.concat([iterations_of(1, 0.8), iterations_of(4, expected * off)])) == "not replicated"


@pytest.mark.emulator
def test_workers_keep_their_rows_and_their_part_of_the_test(host):
    made = synthetic_device.synthetic_ratings("hugewiki-small-synthetic", device="emulator")
    part = slice(100, 180)
    kept = hugewiki_gpus._rows(made.train.by_user, part, 2.0)
    for k, user in enumerate(range(100, 180)):
        of, whole = (slice(*rows.indptr[n : n + 2]) for rows, n in ((kept, k), (made.train.by_user, user)))
        assert np.array_equal(kept.indices[of], made.train.by_user.indices[whole])
        assert np.array_equal(kept.values[of], made.train.by_user.values[whole] - np.float32(2))
    test = hugewiki_gpus.of_users(made.test, part)
    chosen = (made.test.users >= 100) & (made.test.users < 180)
    assert chosen.any() and np.array_equal(test.values, made.test.values[chosen])


@pytest.mark.slow
@pytest.mark.emulator
def test_two_workers_learn_what_one_does(host):
    if why := hugewiki_gpus.why_unavailable():
        pytest.skip(why)
    frame = hugewiki_gpus.run(**hugewiki_gpus.PROFILES["quick"] | {"factors": 4, "iterations": 2})
    errors = frame.groupby(["x_workers", "repeat", "x_iteration"]).value.agg(["min", "max"])
    assert np.allclose(errors.loc[1], errors.loc[2], rtol=1e-5)
    assert errors.loc[1, 0]["min"].iloc[0] != errors.loc[1, 1]["min"].iloc[0], "from other factors"
    assert frame.groupby("x_workers").x_rank.unique().map(sorted).to_dict() == {1: [0], 2: [0, 1]}
    assert (frame.seconds > 0).all() and frame.attrs["gpus"] == 1
    for _, steps in frame.groupby(["x_workers", "repeat", "x_rank", "x_iteration"]):
        ends = (steps.x_begin + steps.seconds).to_numpy()
        assert steps.x_begin.iloc[0] >= 0, "from where all have begun"
        assert (steps.x_begin.to_numpy()[1:] >= ends[:-1]).all(), "one after another"
