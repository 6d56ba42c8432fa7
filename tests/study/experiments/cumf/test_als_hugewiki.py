"""ALS with the shape of Hugewiki, on the device and streamed from the host."""

from types import SimpleNamespace

import numpy as np

from gpumf_study.experiments.cumf import als_hugewiki
from support import ragged_ratings


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
