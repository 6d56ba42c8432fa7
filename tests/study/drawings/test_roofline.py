"""The roofline has the recorded ceilings and the counted work."""

import pytest

from gpumf_study import results
from gpumf_study.drawings import roofline


def test_the_roofline_has_the_recorded_ceilings_and_the_counted_work(drawn):
    roofs, where = roofline.roofs()
    assert where == results.load("ceilings").where
    assert roofs["fp16_flops"] > roofs["fp32_flops"] > roofs["copy_bytes_per_second"]
    found = roofline.intensities()
    f = roofline.FACTORS
    assert found["SGD, rows from memory"] == pytest.approx(8 * f / (12 + 16 * f))
    assert found["one CG step, A from memory"] == pytest.approx(2 * f**2 / (2 * f * (f + 1) + 8 * f))
    assert list(found.values()) == sorted(found.values())
    assert {key for key in drawn(roofline.drawing())} == {f"work-{k}" for k in range(4)}
