"""Registers of kernels."""

import pandas as pd

from gpumf_study.experiments.gpumf import kernel_resources


def test_registers_are_those_of_one_architecture():
    rows = [
        (architecture, factors, metric, value)
        for architecture, factors, registers, spilled in ((90, 16, 32, 0), (90, 100, 64, 4), (75, 16, 99, 0))
        for metric, value in (("registers", registers), ("spill_store_bytes", spilled), ("static_shared_bytes", 8))
    ]
    frame = pd.DataFrame(rows, columns=["x_architecture", "factors", "metric", "value"])
    frame = frame.assign(x_source="s.cu", x_kernel="k")
    assert kernel_resources.summary(frame).loc[(90, "s.cu", "k")].to_list() == [64, 4, 8]
    (axis,) = kernel_resources.figure(frame).axes
    assert list(axis.lines[0].get_xdata()) == [64] and "capability 9" in axis.get_xlabel()
    (axis,) = kernel_resources.figure(frame[frame.x_architecture == 75]).axes
    assert list(axis.lines[0].get_xdata()) == [99]
