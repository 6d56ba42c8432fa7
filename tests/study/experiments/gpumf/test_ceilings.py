"""The ceilings of a machine, and the work under them."""

import pytest

from gpumf_study.experiments.gpumf import ceilings as experiment


def test_the_cpu_and_the_gpu_are_measured(ceilings, monkeypatch):
    monkeypatch.setattr(experiment.machine, "ceilings", lambda repeats: {"fp32_flops": 2.0})
    ceilings(fp32_flops=30.0, copy_bytes_per_second=4.0)
    frame = experiment.run(repeats=1)
    assert list(zip(frame.device, frame.metric, frame.value, strict=True)) == [
        ("cpu", "fp32_flops", 2.0), ("cuda", "fp32_flops", 30.0), ("cuda", "copy_bytes_per_second", 4.0),
    ]  # fmt: skip
    assert experiment.of(frame).to_dict() == {"fp32_flops": 30.0, "copy_bytes_per_second": 4.0}


def test_the_intensities_are_those_of_the_counted_work():
    found, f = experiment.intensities(), experiment.FACTORS
    assert found["SGD, rows from memory"] == pytest.approx(8 * f / (12 + 16 * f))
    assert found["one CG step, A from memory"] == pytest.approx(2 * f**2 / (2 * f * (f + 1) + 8 * f))
    assert list(found.values()) == sorted(found.values())
