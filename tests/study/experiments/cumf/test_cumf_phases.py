"""The kernels of cuMF beside cuBLAS."""

import pytest

from gpumf_study import schema
from gpumf_study.experiments.cumf import cumf_phases as experiment


@pytest.mark.emulator
def test_every_step_is_timed_on_both_sides_without_biases(host):
    frame = schema.validated(experiment.run(**experiment.PROFILES["smoke"] | {"repeats": 1}))
    assert (frame.x_columns == frame.factors).all() and (frame.seconds > 0).all()
    assert frame.groupby("solver").size().to_dict() == {"cuBLAS": 4, "cumf_cg": 4}
    total = experiment.both_sides(frame).set_index(["solver", "x_step"]).seconds
    of_step = frame[(frame.solver == "cuBLAS") & (frame.x_step == "solve")]
    assert total["cuBLAS", "solve"] == pytest.approx(of_step.seconds.sum())
