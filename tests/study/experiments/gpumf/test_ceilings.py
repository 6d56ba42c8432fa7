"""The ceilings of a machine."""

from gpumf_study.experiments.gpumf import ceilings as experiment


def test_the_cpu_and_the_gpu_are_measured_and_drawn(ceilings, monkeypatch):
    monkeypatch.setattr(experiment.machine, "ceilings", lambda repeats: {"fp32_flops": 2.0})
    ceilings(fp32_flops=30.0, copy_bytes_per_second=4.0)
    frame = experiment.run(3)
    assert frame[["device", "metric", "value"]].to_numpy().tolist() == [
        ["cpu", "fp32_flops", 2], ["cuda", "fp32_flops", 30], ["cuda", "copy_bytes_per_second", 4]
    ]  # fmt: skip
    assert experiment.of(frame).to_dict() == {"fp32_flops": 30, "copy_bytes_per_second": 4}
