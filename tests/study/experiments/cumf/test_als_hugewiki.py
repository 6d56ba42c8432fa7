"""ALS at the twin of Hugewiki."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from gpumf_study.experiments.cumf import als_hugewiki
from outcomes import promise_words
from support import ragged_ratings


def test_iterations_on_hugewiki_are_summed_up_and_drawn_by_their_halves():
    rows = [
        ("h", i, step, s, 1 / i if step == "iteration" else np.nan, 100 + i)
        for i in (1, 2)
        for step, s in (("users", 1.0 * i), ("items", 2.0 * i), ("iteration", 3.0 * i))
    ]
    rows.append(("h", 0, "generate", 9.0, np.nan, 50))
    frame = pd.DataFrame(rows, columns=["data", "iteration", "step", "seconds", "rmse", "held_bytes"])
    table = als_hugewiki.summary(frame)
    assert (
        list(table["iteration"]) == [3, 6] and list(table.rmse) == [1, 0.5] and list(table.held_bytes) == [101, 102]
    )
    left, right = als_hugewiki.figure(frame).axes
    assert [[bar.get_height() for bar in bars] for bars in left.containers] == [[1, 2], [2, 4]]
    assert [bar.get_y() for bar in left.containers[1]] == [1, 2]
    assert list(right.lines[0].get_ydata()) == [1, 0.5]


def test_four_p100_are_compared_until_the_acceptable_error():
    rows = [("iteration", k, s, rmse) for k, s, rmse in ((1, 1.0, 0.6), (2, 2.4, 0.52), (3, 4.0, 0.5))]
    frame = pd.DataFrame(rows, columns=["step", "iteration", "seconds", "rmse"])
    assert als_hugewiki.over_p100(frame).value.to_list() == [20]
    assert als_hugewiki.over_p100(frame.iloc[:1]).value.isna().all()


def test_an_iteration_that_streams_is_that_of_both_sides():
    columns = ["step", "seconds"]
    for seconds, expected in ((1.4, "stretch"), (2.9, "target"), (3.1, "short")):
        rows = [("iteration", seconds), ("users", 0.1), ("prepare", 9.0)]
        assert promise_words("als-streamed-seconds", columns, rows) == expected


def test_what_is_held_is_what_is_no_longer_free(monkeypatch):
    free = iter([10**9, 7 * 10**8, 10**8])
    device = SimpleNamespace(name="emulator", free_bytes=lambda: next(free), synchronize=lambda: None)
    ratings, held_out = ragged_ratings(seed=0), ragged_ratings(seed=1)
    twin = SimpleNamespace(
        train=ratings, test=held_out, **{k: getattr(ratings, k) for k in ("n_users", "n_items", "nnz")}
    )
    twin.name, twin.sha256 = "h", "0"
    monkeypatch.setattr(als_hugewiki.backends, "device", lambda name: device)
    monkeypatch.setattr(als_hugewiki.synthetic_device, "synthetic_ratings", lambda name, device: twin)

    def fit(train, test, factors, iterations, record, device):
        assert train is ratings and test is held_out
        record(1, "iteration", 2.0, 0.5)

    monkeypatch.setattr(als_hugewiki._half_sweeps, "fit", fit)
    frame = als_hugewiki.run("hugewiki-small-synthetic", 4, 1).set_index("step")
    assert frame.held_bytes.to_dict() == {"generate": 3 * 10**8, "iteration": 9 * 10**8}
    assert frame.rmse["iteration"] == 0.5 and np.isnan(frame.rmse["generate"])
