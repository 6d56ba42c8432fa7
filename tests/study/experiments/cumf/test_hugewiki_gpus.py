"""Iterations on several cards: when the last worker has ended, what more cards gain, and what a worker keeps."""

import numpy as np
import pandas as pd
import pytest

from gpumf.ratings import synthetic_device
from gpumf_study.experiments.cumf import hugewiki_gpus
from outcomes import promise_words

COLUMNS = ["workers", "rank", "iteration", "step", "begin", "seconds", "rmse"]


def rows(workers, seconds, rmse, iteration=1):
    """Two steps of each worker, of which the last rank ends an eighth later than the others."""
    late = [1.0] * (workers - 1) + [1.125]
    return [
        (workers, rank, iteration, step, begin * seconds * late[rank], part * seconds * late[rank], rmse)
        for rank in range(workers)
        for step, begin, part in (("solve users", 0.0, 0.75), ("gather users", 0.75, 0.25))
    ]


def test_an_iteration_ends_with_its_last_worker():
    frame = pd.DataFrame([*rows(1, 8.0, 0.6), *rows(4, 2.0, 0.6), *rows(4, 2.0, 0.5, iteration=2)], columns=COLUMNS)
    table = hugewiki_gpus.summary(frame)
    assert table.seconds.to_dict() == {1: 9.0, 4: 2.25}
    assert table.speedup.to_dict() == {1: 1.0, 4: 4.0} and table.efficiency.to_dict() == {1: 1.0, 4: 1.0}
    assert table.rmse.to_dict() == {1: 0.6, 4: 0.5}
    assert table["solve users"].to_dict() == {1: 6.75, 4: 1.6875}
    left, right = hugewiki_gpus.figure(frame).axes
    bars = {
        bars.get_label(): [(bar.get_y() + 0.4, bar.get_x(), bar.get_width()) for bar in bars]
        for bars in left.containers
    }
    assert bars["gather users"] == [(0, 1.5, 0.5), (1, 1.5, 0.5), (2, 1.5, 0.5), (3, 1.6875, 0.5625)]
    measured, shared = right.lines
    assert list(measured.get_ydata()) == [9.0, 2.25] == list(shared.get_ydata())


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.2, ["stretch", "stretch", "stretch"]),
        (0.3, ["target", "target", "stretch"]),
        (1.0, ["short", "short", "short"]),
    ],
)
def test_four_cards_are_held_to_what_was_promised(seconds, expected):
    frame = [*rows(1, 1.06, 0.6), *(row for k in (1, 2, 3) for row in rows(4, seconds, 0.52 if k > 1 else 0.6, k))]
    ids = "als-hugewiki-4gpu-seconds", "als-hugewiki-4gpu-efficiency", "hugewiki-4gpu-to-052"
    assert [promise_words(of, COLUMNS, frame) for of in ids] == expected
    never = [row for row in frame if row[-1] > 0.52]
    assert promise_words(ids[-1], COLUMNS, never) == "missing"


@pytest.mark.emulator
def test_workers_keep_their_rows_and_their_part_of_the_test(host):
    twin = synthetic_device.synthetic_ratings("hugewiki-small-synthetic", device="emulator")
    part = slice(100, 180)
    kept = hugewiki_gpus._rows(twin.train.by_user, part, 2.0)
    for k, user in enumerate(range(100, 180)):
        of, whole = (slice(*rows.indptr[n : n + 2]) for rows, n in ((kept, k), (twin.train.by_user, user)))
        assert np.array_equal(kept.indices[of], twin.train.by_user.indices[whole])
        assert np.array_equal(kept.values[of], twin.train.by_user.values[whole] - np.float32(2))
    test = hugewiki_gpus.of_users(twin.test, part)
    chosen = (twin.test.users >= 100) & (twin.test.users < 180)
    assert chosen.any() and np.array_equal(test.values, twin.test.values[chosen])


@pytest.mark.slow
@pytest.mark.emulator
def test_two_workers_learn_what_one_does(host):
    if why := hugewiki_gpus.why_unavailable():
        pytest.skip(why)
    frame = hugewiki_gpus.run(**hugewiki_gpus.PROFILES["quick"] | {"factors": 4, "iterations": 2})
    errors = frame.groupby(["workers", "iteration"]).rmse.agg(["min", "max"])
    assert np.allclose(errors.loc[1], errors.loc[2], rtol=1e-5)
    assert frame.groupby("workers")["rank"].unique().map(sorted).to_dict() == {1: [0], 2: [0, 1]}
    assert (frame.seconds > 0).all() and frame.attrs["cards"] == 1
    for _, steps in frame.groupby(["workers", "rank", "iteration"]):
        ends = (steps.begin + steps.seconds).to_numpy()
        assert 0 <= steps.begin.iloc[0] < ends[-1] / 2, "from where all have begun"
        assert (steps.begin.to_numpy()[1:] >= ends[:-1]).all(), "one after another"


def test_two_cards_alone_have_a_summary_a_figure_and_a_model():
    made = pd.DataFrame([row for n in (1, 2) for row in modelled(n)], columns=COLUMNS)
    made = made.assign(data="hugewiki-small-synthetic", factors=100)
    table = hugewiki_gpus.summary(made)
    assert table.speedup[1] == 1 < table.speedup[2] <= 2
    assert list(hugewiki_gpus.figure(made).axes[1].lines[0].get_xdata()) == [1, 2]
    assert hugewiki_gpus.predicted(made, 2)["total"] == pytest.approx(table.seconds[2])


def modelled(workers, of_two=1.0):
    """Steps of workers as the model has them: a second of products a side, a row in 1 us, sent in 20 ns."""
    users, items = 400, 80
    times = {
        "solve users": (1 + users * 1e-6) / workers,
        "gather users": users * 2e-8 * (workers - 1) / workers,
        "solve items": (1 + items * 1e-6) / workers,
        "gather items": items * 400 * (2e-8 / 224) * (workers - 1) / workers,
    }
    begin, found = 0.0, []
    for step, seconds in times.items():
        seconds *= of_two if workers == 2 else 1
        found += [(workers, rank, 1, step, begin, seconds, 0.5) for rank in range(workers)]
        begin += seconds
    return found


@pytest.mark.parametrize(("of_two", "expected"), [(1.0, "target"), (1.1, "target"), (1.3, "short"), (0.7, "short")])
def test_the_model_of_time_is_held_to_workers_that_it_was_not_fitted_to(of_two, expected):
    rows = [row for n in (1, 2, 4) for row in modelled(n, of_two)]
    frame = pd.DataFrame(rows, columns=COLUMNS).assign(data="hugewiki-small-synthetic", factors=100)
    found = hugewiki_gpus.machine(frame[frame.workers != 2])
    assert found.product_rate == pytest.approx(7200 * (100 * 101 + 200))
    assert found.solve_rate == pytest.approx(2 * 100**2 * 4 / 1e-6)
    assert found.bandwidth == pytest.approx(224 / 2e-8) and hugewiki_gpus.row_bytes(100) == 224
    assert hugewiki_gpus.predicted(frame, 4)["total"] == pytest.approx(sum(row[5] for row in modelled(4)[::4]))
    assert promise_words("als-hugewiki-model", [*frame], frame.to_numpy().tolist()) == expected


@pytest.mark.parametrize(("of_two", "expected"), [(1.0, "target"), (1.1, "target"), (1.3, "short"), (0.7, "short")])
def test_two_cards_are_predicted_by_the_rates_of_one_and_the_bandwidth_of_both(of_two, expected):
    """Of four, where there are some, nothing is used. The first iteration, when NCCL begins, is not the median."""
    rows = [row for n in (1, 2) for row in modelled(n, of_two)] + [(*row[:5], 9.0, 0.5) for row in modelled(4)]
    rows += [(2, 0, 0, "gather users", 0.0, 30.0, 0.5), *((*row[:2], 2, *row[3:]) for row in modelled(2, of_two))]
    frame = pd.DataFrame(rows, columns=COLUMNS).assign(data="hugewiki-small-synthetic", factors=100)
    # What two send is measured, so that its part of an iteration is never off.
    assert promise_words("als-hugewiki-2gpu-model", [*frame], frame.to_numpy().tolist()) == expected
