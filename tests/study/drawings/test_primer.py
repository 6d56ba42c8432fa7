"""What the drawings of the primer show is what the kernels do."""

import numpy as np
import pytest

from gpumf.gpu.occupancy import KEPLER
from gpumf_study import results
from gpumf_study.drawings import (
    banks,
    coalescing,
    half_warps,
    occupancy,
    probes,
    races,
    roofline,
    tensor_core_product,
    threads,
)


def test_threads_of_the_grid_have_an_element_each_and_the_last_ones_none(host, drawn):
    blocks, owners = threads.launch()
    assert owners.tolist() == [list(divmod(k, threads.THREADS)) for k in range(threads.ELEMENTS)]
    shown = drawn(threads.drawing())
    assert len(shown) == blocks * threads.THREADS
    empty = {key for key, (colour, _) in shown.items() if colour == (1, 1, 1, 1)}
    assert empty == {f"thread-2-{k}" for k in range(threads.ELEMENTS - 128, 64)}


def test_a_half_warp_reads_the_ratings_of_its_row_and_a_lane_its_factor(host, drawn):
    lanes, groups = half_warps.steps()
    assert lanes == 16 and [len(ratings) for ratings in groups] == list(half_warps.LENGTHS)
    everything = [rating for ratings in groups for rating, _ in ratings]
    assert everything == list(range(sum(half_warps.LENGTHS)))
    assert all(factors == list(range(16)) for ratings in groups for _, factors in ratings)
    shown = drawn(half_warps.drawing())
    waits = [key for key, (_, text) in shown.items() if key.startswith("turn") and text is None]
    assert len(waits) == 7 and all(key.startswith(("turn-0", "turn-3")) for key in waits)
    assert shown["turn-1-0"][1] == "3"


def test_a_coalesced_warp_reads_a_row_and_a_strided_one_a_column(host, drawn):
    assert coalescing.reads("coalesced") == list(range(32))
    assert coalescing.reads("strided") == list(range(0, 32 * 32, 32))
    assert coalescing.sectors(range(32)) == [0, 1, 2, 3]
    shown = drawn(coalescing.drawing())
    assert set(shown) == {f"coalesced-{k}" for k in range(32)} | {f"strided-{32 * k}" for k in range(32)}
    assert "32 sectors" in coalescing.drawing().alt


def test_padding_takes_threads_to_banks_of_their_own(host):
    assert banks.banks(16) == [0, 16] * 4 and banks.turns(16) == 4
    assert banks.padded() == 20 and banks.turns(20) == 1 and len(set(banks.banks(20))) == 8


def test_blocks_of_the_thesis_fit_as_often_as_their_shared_memory(host, drawn):
    assert occupancy.blocks() == {
        "thesis_shared": (128, 8 * (2 * 136 + 16) * 4, 5),
        "thesis_hybrid": (128, 8 * (136 + 16) * 4, 10),
        "thesis_global": (128, 8 * 16 * 4, KEPLER["blocks_per_multiprocessor"]),
    }
    shown = drawn(occupancy.drawing())
    assert sum(key.startswith("threads-thesis_hybrid") for key in shown) == 10


def test_a_tensor_cores_product_is_one_and_its_lanes_are_those_drawn(host, drawn):
    left, right = np.random.default_rng(1).integers(-4, 5, (2, 16, 16)).astype(np.float32)
    a, b, d = probes.product(left, right)
    of_a, of_b, of_d = tensor_core_product.layouts()
    exact = left.T @ right[:, :8]
    for lane in range(32):
        assert sorted(a[lane]) == sorted(left.T[of_a == lane])
        assert sorted(b[lane]) == sorted(right[:, :8][of_b == lane])
        assert sorted(d[lane]) == sorted(exact[of_d == lane])
    row, column = np.indices(of_d.shape)
    assert np.array_equal(of_d, row % 8 * 4 + column // 2), "as kernels/common/tensor.cuh says"
    shown = drawn(tensor_core_product.drawing())
    assert all(shown[f"lane-{i}-{j}"][1] == str(of_d[i, j]) for i in range(16) for j in range(8))
    assert sum(key.startswith("A-") for key in shown) == 8


def test_the_roofline_has_the_recorded_ceilings_and_the_counted_work(host, drawn):
    roofs, where = roofline.roofs()
    assert where == results.load("ceilings").where
    assert roofs["fp16_flops"] > roofs["fp32_flops"] > roofs["copy_bytes_per_second"]
    found = roofline.intensities()
    f = roofline.FACTORS
    assert found["SGD, rows from memory"] == pytest.approx(8 * f / (12 + 16 * f))
    assert found["one CG step, A from memory"] == pytest.approx(2 * f**2 / (2 * f * (f + 1) + 8 * f))
    assert list(found.values()) == sorted(found.values())
    assert {key for key in drawn(roofline.drawing())} == {f"work-{k}" for k in range(4)}


def test_a_race_is_drawn_in_orders_that_happened(host, drawn):
    found = races.orders()
    assert list(found) == [2, 1]
    for total, order in found.items():
        assert races.told(order)[-1][0] == total and sorted(order) == [
            (thread, access) for thread in range(2) for access in ("read", "write")
        ]
    assert [access for _, access in found[1]] == ["read", "read", "write", "write"]
    shown = drawn(races.drawing())
    assert [shown[f"1-{k}"][1] for k in range(4)] == ["reads 0", "reads 0", "writes 1", "writes 1"]
    assert shown["2-3"][1] == "writes 2"
