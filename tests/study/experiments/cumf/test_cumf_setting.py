"""The setting of cuMF."""

import pytest

from gpumf_study import schema
from gpumf_study.experiments.cumf import cumf_setting


def test_this_gpu_is_measured_where_it_is_asked_for(ceilings):
    ceilings(fp32_flops=22e12, copy_bytes_per_second=1.48e12)
    frame = schema.validated(cumf_setting.run([50], measure=True))
    assert cumf_setting.over_p100(frame).set_index("metric").value.to_dict() == {
        "fp32_flops": 2, "copy_bytes_per_second": 2
    }  # fmt: skip
    assert set(cumf_setting.run([50], measure=False).task) == {"Table 1", "Table 2"}


def test_counts_are_those_of_netflix():
    frame = cumf_setting.run([100], measure=False)
    table = frame[frame.task == "Table 1"].set_index(["variant", "metric"]).value
    assert table["get_hermitian", "operations"] == pytest.approx(2 * 100_480_507 * 100 * 101)
    # Each rating gathers a row of factors on both sides, which no other step does.
    gathered = 2 * 4 * 100_480_507 * 100
    assert table["get_hermitian", "bytes"] > gathered > table["solve", "bytes"]
    assert cumf_setting.off_published(frame).value.max() < 0.01
