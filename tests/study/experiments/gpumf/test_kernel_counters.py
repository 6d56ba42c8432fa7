"""Counters of kernels."""

import pandas as pd
import pytest

from gpumf_study.experiments.gpumf import kernel_counters
from outcomes import word


def counted(moved, **more):
    """A frame in which both kernels of both sides moved so many bytes in a second."""
    metrics = {"DRAM bytes read": moved - 1, "DRAM bytes written": 1, "duration": 1e9}
    rows = [
        (k, s, m, v) for k in ("solve_cg", "get_hermitian") for s in ("users", "items") for m, v in metrics.items()
    ]
    frame = pd.DataFrame(rows, columns=["x_kernel", "x_side", "metric", "value"])
    return frame.assign(data="netflix-synthetic", factors=100, **more)


def test_counters_stand_side_by_side():
    frame = pd.DataFrame(
        {"x_kernel": "k", "x_side": ["users", "items"], "metric": "L2", "x_unit": "%", "value": 40.0}
    )
    assert kernel_counters.summary(frame)["k", "items"].to_dict() == {"L2": 40}


def test_what_dram_moves_is_compared_with_a_copy_and_with_what_ratings_name():
    copies = [counted(moved, x_copy_bytes_per_second=2.0) for moved in (3, 1)]
    assert [word("cumf-fig-7-bandwidth", frame) for frame in copies] == ["inconclusive"] * 2
    assert word("cumf-fig-7-bandwidth", counted(3)) == "missing"
    assert word("cumf-table-1-dram", counted(3)) == "measured"
    found = kernel_counters.of_dram(copies[0]).set_index("x_kernel")
    assert found.of_copy["solve_cg"] == 1.5
    assert found.of_named["solve_cg"] == pytest.approx(3 / (4 * 99_072_112 * 100 + 2 * 480_189 * 100**2))
