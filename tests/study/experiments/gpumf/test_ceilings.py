"""The ceilings of a machine, and the work under them."""

import pandas as pd
import pytest

from gpumf_study import figure_style as style
from gpumf_study.experiments import _limits
from gpumf_study.experiments.gpumf import ceilings as experiment


def test_the_cpu_and_the_gpu_are_measured(ceilings, monkeypatch):
    monkeypatch.setattr(_limits, "cpu_ceilings", lambda repeats: {"fp32_flops": 2.0})
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


def test_a_figure_of_a_live_result_is_not_saved(store, repository):
    values = {"copy_bytes_per_second": 4e12, "fp32_flops": 5e13, "fp16_flops": 7e14}
    frame = pd.DataFrame({"device": "cuda", "metric": list(values), "value": values.values()})
    for live in (True, False):
        style.save(experiment.figure(frame), store("ceilings", frame, live=live))
        assert (repository / "figures/thesis/ceilings.svg").exists() is not live
