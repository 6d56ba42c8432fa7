"""GPUs beside CPUs, year by year."""

import pandas as pd
import pytest

from gpumf_study.experiments.thesis import theoretical_flops


def leads(rows):
    """Rows of (year, kind, GFLOP/s) in single precision."""
    columns = ["x_year", "x_kind", "value"]
    return pd.DataFrame(rows, columns=columns).assign(x_precision="single")


def test_the_lead_is_that_of_the_fastest_so_far():
    frame = leads([(1, "GPU", 8), (1, "CPU", 2), (2, "GPU", 6), (2, "CPU", 4)])
    assert list(theoretical_flops.summary(frame).lead) == [4, 2], "the fastest so far, not of the year"


def test_growth_is_by_year():
    of_gpu = {1: 2, 3: 8, 4: 16}
    frame = leads([(year, kind, g if kind == "GPU" else 1) for year, g in of_gpu.items() for kind in ("GPU", "CPU")])
    assert theoretical_flops.growth(frame).x_growth.tolist() == pytest.approx([2, 2])


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
