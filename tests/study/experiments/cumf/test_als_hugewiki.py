"""ALS with the shape of Hugewiki, on the device and streamed from the host."""

from types import SimpleNamespace

import numpy as np

from gpumf_study import schema
from gpumf_study.experiments.cumf import _half_sweeps, als_hugewiki, als_streamed
from support import ragged_ratings


def frame_of(seconds, errors):
    """A frame of iterations of so many seconds, a third of them the users', with these test errors."""
    rows = [{"x_iteration": 0, "x_step": "generate", "seconds": 9.0, "value": np.nan}]
    for k, (whole, error) in enumerate(zip(seconds, errors, strict=True), 1):
        for step, part in (("users", 1 / 3), ("items", 2 / 3), ("iteration", 1.0)):
            value = error if step == "iteration" else np.nan
            rows.append({"x_iteration": k, "x_step": step, "seconds": whole * part, "value": value})
    return schema.validated(_half_sweeps.frame_of(rows, data="hugewiki-synthetic", device="cuda", factors=4))


def test_iterations_are_drawn_by_their_updates():
    frame = frame_of([3.0, 6.0], [1.0, 0.5])
    left, right = als_hugewiki.figure(frame).axes
    assert [[bar.get_height() for bar in bars] for bars in left.containers] == [[1, 2], [2, 4]]
    assert [bar.get_y() for bar in left.containers[1]] == [1, 2]
    assert list(right.lines[0].get_ydata()) == [1, 0.5]
    (streamed,) = als_streamed.figure(frame).axes
    assert [bars.get_label() for bars in streamed.containers] == ["user update", "item update"]


def test_four_p100_are_compared_until_the_acceptable_error():
    assert als_hugewiki.over_p100(frame_of([1.0, 2.4, 4.0], [0.6, 0.52, 0.5])).value.to_list() == [20]
    assert als_hugewiki.over_p100(frame_of([1.0], [0.6])).value.isna().all()


def test_what_is_held_is_what_is_no_longer_free(monkeypatch):
    free = iter([10**9, 7 * 10**8, 10**8])
    device = SimpleNamespace(name="emulator", free_bytes=lambda: next(free), synchronize=lambda: None)
    ratings, held_out = ragged_ratings(seed=0), ragged_ratings(seed=1)
    sizes = {k: getattr(ratings, k) for k in ("n_users", "n_items", "nnz")}
    made = SimpleNamespace(train=ratings, test=held_out, name="h", sha256="0", **sizes)
    monkeypatch.setattr(als_hugewiki.backends, "device", lambda name: device)
    monkeypatch.setattr(als_hugewiki.synthetic_device, "synthetic_ratings", lambda name, device: made)

    def fit(train, test, factors, iterations, record, device):
        assert train is ratings and test is held_out
        record(1, "iteration", 2.0, 0.5)

    monkeypatch.setattr(als_hugewiki._half_sweeps, "fit", fit)
    frame = als_hugewiki.run("hugewiki-small-synthetic", 4, 1).set_index("x_step")
    assert frame.x_held_bytes.to_dict() == {"generate": 3 * 10**8, "iteration": 9 * 10**8}
    assert frame.value["iteration"] == 0.5 and np.isnan(frame.value["generate"])
