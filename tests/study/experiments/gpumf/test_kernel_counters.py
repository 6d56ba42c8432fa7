"""Counters of kernels."""

import pandas as pd

from gpumf_study.experiments.gpumf import kernel_counters
from outcomes import lines, word


def test_counters_stand_side_by_side():
    rows = [
        ("k", side, m, u, v) for side in ("users", "items") for m, u, v in (("L2", "%", 40.0), ("duration", "ns", 7))
    ]
    frame = pd.DataFrame(rows, columns=["kernel", "side", "metric", "unit", "value"])
    assert kernel_counters.summary(frame)["k", "items"].to_dict() == {"L2": 40, "duration": 7}
    (axis,) = kernel_counters.figure(frame).axes
    assert lines(axis)["k, users"] == ([40], ["L2"]) and axis.get_xlim() == (0, 100)


def test_the_solvers_bandwidth_is_held_against_a_copy():
    def counted(moved):
        metrics = {"DRAM bytes read": moved - 1, "DRAM bytes written": 1, "duration": 1e9}
        rows = [
            ("netflix-synthetic", 100, k, "users", m, v)
            for k in ("solve_cg", "get_hermitian")
            for m, v in metrics.items()
        ]
        return pd.DataFrame(rows, columns=["data", "factors", "kernel", "side", "metric", "value"])

    copies = [counted(moved).assign(copy_bytes_per_second=2.0) for moved in (3, 1)]
    assert [word("cumf-fig-7-bandwidth", frame) for frame in copies] == ["reproduced", "contradicted"]
    assert word("cumf-fig-7-bandwidth", counted(3)) == "missing"
    assert word("cumf-table-1-dram", counted(3)) == "answered"
