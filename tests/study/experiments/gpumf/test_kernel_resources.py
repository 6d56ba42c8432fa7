"""Registers of kernels."""

import pandas as pd

from gpumf_study.experiments.gpumf import kernel_resources


def test_registers_are_those_of_one_architecture():
    rows = [(90, "s.cu", "k", 16, 32, 0, 8), (90, "s.cu", "k", 100, 64, 4, 8), (75, "s.cu", "k", 16, 99, 0, 8)]
    columns = ["architecture", "source", "kernel", "factors", "registers", "spill_store_bytes", "static_shared_bytes"]
    frame = pd.DataFrame(rows, columns=columns)
    assert kernel_resources.summary(frame).loc[(90, "s.cu", "k")].to_list() == [64, 4, 8]
    (axis,) = kernel_resources.figure(frame).axes
    assert list(axis.lines[0].get_xdata()) == [64] and "capability 9" in axis.get_xlabel()
    (axis,) = kernel_resources.figure(frame[frame.architecture == 75]).axes
    assert list(axis.lines[0].get_xdata()) == [99]
