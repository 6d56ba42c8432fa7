"""Counters of kernels."""

import pandas as pd

from gpumf.experiments.gpumf import kernel_counters
from outcomes import lines


def test_counters_stand_side_by_side():
    rows = [
        ("k", side, m, u, v) for side in ("users", "items") for m, u, v in (("L2", "%", 40.0), ("duration", "ns", 7))
    ]
    frame = pd.DataFrame(rows, columns=["kernel", "side", "metric", "unit", "value"])
    assert kernel_counters.summary(frame)["k", "items"].to_dict() == {"L2": 40, "duration": 7}
    assert lines(kernel_counters.figure(frame).axes[0])["k, users"] == ([40], ["L2"])
