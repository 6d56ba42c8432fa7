"""GPUs beside CPUs, year by year."""

import pandas as pd
import pytest

from gpumf_study.experiments.thesis import theoretical_flops


def test_the_lead_is_that_of_the_fastest_desktop_chips_so_far():
    rows = [(1, "GPU", 8), (1, "CPU", 2), (2, "GPU", 6), (2, "CPU", 4), (2, "CPU", 9)]
    frame = pd.DataFrame(rows, columns=["x_year", "x_kind", "value"]).assign(x_precision="single", x_class="desktop")
    frame.loc[4, "x_class"] = "server"
    assert list(theoretical_flops.summary(frame).lead) == [4, 2]


def test_peaks_are_those_of_the_data_sheets():
    """The makers' own numbers in GFLOP/s; a processor without double precision has no row of it."""
    peaks = theoretical_flops.run().set_index(["x_processor", "x_precision"]).value
    for processor, precision, gflops in (
        ("GeForce GTX 580", "single", 1581),
        ("Tesla P100 SXM2", "double", 4760),
        ("Core i7-2600K", "double", 108.8),
    ):
        assert peaks[processor, precision] == pytest.approx(gflops, rel=0.01)
    assert ("GeForce 8800 GTX", "double") not in peaks and (peaks > 0).all()
