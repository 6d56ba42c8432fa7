"""The ceilings of a machine."""

import pandas as pd

from gpumf_study.experiments.gpumf import ceilings as experiment


def test_the_processor_and_the_gpu_are_measured(ceilings, monkeypatch):
    monkeypatch.setattr(experiment.machine, "ceilings", lambda repeats: {"fp32_flops": 2.0})
    ceilings(fp32_flops=30.0, copy_bytes_per_second=4.0)
    assert experiment.run(3).to_numpy().tolist() == [
        ["cpu", "fp32_flops", 2], ["cuda", "fp32_flops", 30], ["cuda", "copy_bytes_per_second", 4]
    ]  # fmt: skip


def test_ceilings_stand_side_by_side():
    rows = [
        ("cpu", "copy_bytes_per_second", 1.0),
        ("cpu", "fp32_flops", 2.0),
        ("cuda", "copy_bytes_per_second", 30.0),
    ]
    frame = pd.DataFrame(rows, columns=["device", "ceiling", "value"])
    assert experiment.summary(frame).loc["copy_bytes_per_second"].to_dict() == {"cpu": 1, "cuda": 30}
    left, right = experiment.figure(frame).axes
    assert list(left.lines[0].get_xdata()) == [1, 30] and list(right.lines[0].get_xdata()) == [2]
