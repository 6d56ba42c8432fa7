"""Cubes of a matrix's elements: on cores, on a GPU, with transfers and without."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study.experiments.thesis import elementwise_cube
from outcomes import word


def cubes(gpu=0.1, moved=1.0, pageable=4.0, strided=0.4, strided_moved=2.0):
    """Seconds of cubes at the largest side, a hundredth apart: one core takes ten, all cores two."""
    seconds = {
        ("one core", "coalesced", "resident"): 10.0,
        ("all cores", "coalesced", "resident"): 2.0,
        ("gpu", "coalesced", "resident"): gpu,
        ("gpu", "coalesced", "pinned"): moved,
        ("gpu", "coalesced", "pageable"): pageable,
        ("gpu", "strided", "resident"): strided,
        ("gpu", "strided", "pinned"): strided_moved,
        ("gpu", "strided", "pageable"): 5.0,
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
        ("thesis-fig-3.4-pinned", cubes(moved=1.0), "reproduced"),
        ("thesis-fig-3.4-pinned", cubes(moved=0.15), "contradicted"),
        ("thesis-fig-3.4-pageable", cubes(moved=0.15), "reproduced"),
        ("thesis-fig-3.4-gain-pinned", cubes(moved=1.0), "reproduced"),
        ("thesis-fig-3.4-gain-pinned", cubes(moved=20.0), "contradicted"),
        ("thesis-fig-3.4-gain-pageable", cubes(pageable=20.0), "contradicted"),
        ("thesis-fig-3.11-pinned", cubes(strided_moved=2.0), "reproduced"),
        ("thesis-fig-3.11-pinned", cubes(strided_moved=0.5), "contradicted"),
        ("thesis-fig-3.11-pinned", cubes(strided_moved=1.001), "tie"),
        ("thesis-fig-3.11-pageable", cubes(), "reproduced"),
        ("thesis-fig-3.11-kernel", cubes(strided=0.4), "reproduced"),
        ("thesis-fig-3.11-kernel", cubes(strided=0.05), "contradicted"),
    ],
)
def test_a_word_follows_from_the_numbers(name, frame, expected):
    assert word(name, frame) == expected


def test_both_kinds_of_host_memory_are_timed_there_and_back(launcher, monkeypatch):
    a, log = np.random.default_rng(0).random((40, 40), np.float32), []
    for copy in ("upload", "download"):
        plain = getattr(launcher, copy)

        def noted(*arrays, plain=plain, copy=copy):
            plain(*arrays)
            log.append((copy, arrays))

        monkeypatch.setattr(launcher, copy, noted)
    rows = elementwise_cube._kernel_timings(launcher, a, 1)
    assert [row[1:3] for row in rows] == [
        (access, where) for access in ("coalesced", "strided") for where in ("resident", "pageable", "pinned")
    ]
    assert [copy for copy, _ in log] == ["upload", "download"] * (len(log) // 2)
    for (_, (before, _)), (_, (_, after)) in zip(log[::2], log[1::2], strict=True):
        np.testing.assert_array_equal(before, a)
        np.testing.assert_allclose(after, a.astype(np.float64) ** 3, rtol=1e-6)
    assert len({id(arrays[1]) for copy, arrays in log if copy == "download"}) == 2, "results have two places"


def test_the_two_accesses_take_turns(launcher, monkeypatch):
    log = []
    monkeypatch.setattr(elementwise_cube, "cube", lambda device, access: lambda source, result: log.append(access[0]))
    rows = elementwise_cube._kernel_timings(launcher, np.ones((4, 4), np.float32), 3)
    assert "".join(log) == 3 * ("cccsss" + "cscs"), "of each two that do not count before the first that does"
    assert [(len(seconds), seconds.min() > 0) for *_, seconds in rows] == 6 * [(3, True)]
