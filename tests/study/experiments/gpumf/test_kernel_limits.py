"""How far kernels are from their limits."""

import pandas as pd

from gpumf_study.experiments.gpumf import kernel_limits


def test_limits_are_medians_over_repeats():
    rows = [("a", "k", "epoch", s, 1.0, 1 / s) for s in (2.0, 4.0, 5.0)]
    frame = pd.DataFrame(rows, columns=["data", "kernel", "step", "seconds", "limit_seconds", "fraction_of_limit"])
    assert kernel_limits.summary(frame).loc[("a", "k", "epoch")].to_list() == [4, 1, 0.25]
