"""The ceilings of a machine."""

import pandas as pd

from gpumf.experiments.gpumf import ceilings


def test_ceilings_stand_side_by_side():
    rows = [
        ("cpu", "copy_bytes_per_second", 1.0),
        ("cpu", "fp32_flops", 2.0),
        ("cuda", "copy_bytes_per_second", 30.0),
    ]
    frame = pd.DataFrame(rows, columns=["device", "ceiling", "value"])
    assert ceilings.summary(frame).loc["copy_bytes_per_second"].to_dict() == {"cpu": 1, "cuda": 30}
    left, right = ceilings.figure(frame).axes
    assert list(left.lines[0].get_xdata()) == [1, 30] and list(right.lines[0].get_xdata()) == [2]
