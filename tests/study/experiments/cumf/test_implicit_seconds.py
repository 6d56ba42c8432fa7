"""Seconds of implicit feedback."""

import pandas as pd
import pytest

from gpumf_study.experiments.cumf import implicit_seconds as experiment
from outcomes import assert_drawn, word


def timed(cores):
    rows = [(s, "cuda", k, t, 9.0) for s, t in (("cumf_cg_fp16", 1.0), ("parallel_cg", cores)) for k in (0, 1)]
    return pd.DataFrame(rows, columns=["solver", "device", "repeat", "seconds", "wall"]).assign(data="a")


@pytest.mark.parametrize(
    ("cores", "expected"), [(41.0, "reproduced"), (10.0, "same direction"), (0.5, "contradicted")]
)
def test_words_follow_from_the_seconds(cores, expected):
    assert word("cumf-section-5.6-cores", timed(cores)) == expected
    assert word("cumf-section-5.6-implicit", timed(cores)) == "missing"
    assert word("cumf-section-5.6-implicit", timed(cores).replace("parallel_cg", experiment.PEER)) == expected


def test_solvers_are_summed_up_and_drawn(store):
    assert experiment.summary(timed(2.0)).seconds.to_dict() == {"cumf_cg_fp16": 1, "parallel_cg": 2}
    result = store("implicit_seconds", timed(2.0))
    assert_drawn(experiment.figure(result.frame), result, 1)
