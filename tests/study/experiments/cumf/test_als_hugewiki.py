"""ALS with the shape of Hugewiki, on the device and streamed from the host."""

from types import SimpleNamespace

from gpumf_study.experiments.cumf import als_hugewiki
from support import ragged_ratings


def test_what_is_held_is_what_is_no_longer_free(monkeypatch):
    free = iter([10**9, 7 * 10**8, *[10**8] * 3])
    device = SimpleNamespace(name="emulator", free_bytes=lambda: next(free), synchronize=lambda: None)
    ratings, held_out = ragged_ratings(seed=0), ragged_ratings(seed=1)
    sizes = {k: getattr(ratings, k) for k in ("n_users", "n_items", "nnz")}
    made = SimpleNamespace(train=ratings, test=held_out, name="h", sha256="0", **sizes)
    monkeypatch.setattr(als_hugewiki.backends, "device", lambda name: device)
    monkeypatch.setattr(als_hugewiki.synthetic_device, "synthetic_ratings", lambda name, device: made)

    def fit(train, test, factors, iterations, record, device, seed):
        assert train is ratings and test is held_out and seed in (0, 1)
        record(0, "prepare", 1.0, 0.9 + seed)
        record(1, "iteration", 2.0 + seed, 0.5)

    monkeypatch.setattr(als_hugewiki._half_sweeps, "fit", fit)
    frame = als_hugewiki.run("hugewiki-small-synthetic", 4, 1, 2)
    rows = frame[["repeat", "x_step", "value"]].fillna(0).itertuples(index=False, name=None)
    assert [*rows] == [(0, "generate", 0), (0, "prepare", 0.9), (0, "iteration", 0.5), (1, "iteration", 0.5)]
    assert frame.x_held_bytes.tolist() == [3 * 10**8, *[9 * 10**8] * 3]
    assert als_hugewiki.to_052(frame).tolist() == [2, 3] and als_hugewiki.seconds_to_052(frame) == 2.5
    assert als_hugewiki.of_trainings(frame).seconds.tolist() == [2, 3]
