"""Grids of the kernels in which groups of lanes take rows or ratings in turns."""

from types import SimpleNamespace

import pytest

from gpumf.solvers.base import launch_shape

DEVICE = SimpleNamespace(facts={"multiprocessors": 4, "threads_per_multiprocessor": 1024})


@pytest.mark.parametrize("lanes", [1, 4, 32])
@pytest.mark.parametrize("groups", [1, 5, 100, 10_000])
def test_a_grid_has_a_group_for_everyone_as_far_as_the_device_holds_them(groups, lanes):
    blocks, threads = launch_shape(None, groups, lanes, DEVICE)
    wanted = min(groups * lanes, 4 * 1024)
    assert threads % lanes == 0 and wanted <= blocks * threads < wanted + threads


def test_a_grid_has_the_threads_that_are_asked_for_in_whole_groups():
    assert launch_shape(100, 5, 32, DEVICE) == (1, 128) and launch_shape(1000, 5, 4, DEVICE) == (8, 128)
