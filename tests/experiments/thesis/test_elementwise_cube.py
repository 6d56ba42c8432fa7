"""Cubes of a matrix's elements: on cores, on a GPU, with transfers and without."""

import pandas as pd
import pytest

from outcomes import word


def cubes(gpu=0.1, moved=1.0, strided=0.4, strided_moved=2.0):
    """Seconds of cubes at the largest side, a hundredth apart: one core takes ten, all cores two."""
    seconds = {
        ("one core", "coalesced", False): 10.0,
        ("all cores", "coalesced", False): 2.0,
        ("gpu", "coalesced", False): gpu,
        ("gpu", "coalesced", True): moved,
        ("gpu", "strided", False): strided,
        ("gpu", "strided", True): strided_moved,
    }
    rows = [
        (side, *key, s * side / 8 * (1 + k / 100))
        for side in (4, 8)
        for key, s in seconds.items()
        for k in (-1, 0, 1)
    ]
    return pd.DataFrame(rows, columns=["side", "device", "access", "transfer", "seconds"])


@pytest.mark.parametrize(
    ("name", "frame", "expected"),
    [
        ("thesis-fig-3.3", cubes(gpu=0.1), "reproduced"),
        ("thesis-fig-3.3", cubes(gpu=3.0), "contradicted"),
        ("thesis-fig-3.4", cubes(moved=1.0), "reproduced"),
        ("thesis-fig-3.4", cubes(moved=0.15), "contradicted"),
        ("thesis-fig-3.4-gain", cubes(moved=1.0), "reproduced"),
        ("thesis-fig-3.4-gain", cubes(moved=20.0), "contradicted"),
        ("thesis-fig-3.11", cubes(strided_moved=2.0), "reproduced"),
        ("thesis-fig-3.11", cubes(strided_moved=0.5), "contradicted"),
        ("thesis-fig-3.11", cubes(strided_moved=1.001), "tie"),
        ("thesis-fig-3.11-kernel", cubes(strided=0.4), "reproduced"),
        ("thesis-fig-3.11-kernel", cubes(strided=0.05), "contradicted"),
    ],
)
def test_a_word_follows_from_the_numbers(name, frame, expected):
    assert word(name, frame) == expected
