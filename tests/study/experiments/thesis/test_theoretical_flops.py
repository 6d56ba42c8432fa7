"""GPUs beside CPUs, year by year."""

import pytest

from gpumf_study.experiments.thesis import theoretical_flops


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
