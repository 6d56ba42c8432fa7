"""GPUs beside CPUs, year by year."""

import pandas as pd
import pytest

from gpumf_study.experiments.thesis import theoretical_flops
from outcomes import word


def test_the_lead_is_that_of_the_fastest_so_far():
    single = pd.DataFrame(
        [(y, kind, "single", g) for y, kind, g in ((1, "GPU", 8), (1, "CPU", 2), (2, "GPU", 6), (2, "CPU", 4))],
        columns=["year", "kind", "precision", "gflops"],
    )
    assert list(theoretical_flops.summary(single).lead) == [4, 2], "the fastest so far, not of the year"


def test_peaks_are_those_of_the_data_sheets():
    """The makers' own numbers in GFLOP/s; a processor without double precision has no row of it."""
    peaks = theoretical_flops.run().set_index(["processor", "precision"]).gflops
    for processor, precision, gflops in (
        ("GeForce GTX 580", "single", 1581),
        ("Tesla P100 SXM2", "double", 4760),
        ("Core i7-2600K", "double", 108.8),
    ):
        assert peaks[processor, precision] == pytest.approx(gflops, rel=0.01)
    assert ("GeForce 8800 GTX", "double") not in peaks and (peaks > 0).all()


def leads(first, last):
    """GPUs that lead CPUs by these factors, in two years."""
    rows = [
        (year, kind, "single", flops)
        for year, gpu in ((2010, first), (2020, last))
        for kind, flops in (("GPU", gpu), ("CPU", 1))
    ]
    return pd.DataFrame(rows, columns=["year", "kind", "precision", "gflops"]).assign(
        gflops=lambda f: f.gflops * (f.year - 2000)
    )


@pytest.mark.parametrize(
    ("name", "frame", "expected"),
    [
        ("thesis-fig-1.2", leads(4, 8), "reproduced"),
        ("thesis-fig-1.2", leads(8, 4), "contradicted"),
        ("thesis-fig-1.2", leads(4, 4), "tie"),
    ],
)
def test_a_word_follows_from_the_numbers(name, frame, expected):
    assert word(name, frame) == expected
