"""Cubes of a matrix's elements: on cores, on a GPU, with transfers and without."""

import numpy as np

from gpumf_study.experiments.thesis import elementwise_cube


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
