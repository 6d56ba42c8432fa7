"""Seconds until the acceptable error."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study.experiments.cumf import cumf_convergence as experiment
from outcomes import assert_drawn, word


def courses(sgd=2.0, cores=7.0, cg=20.0, ends=0.9):
    """Seconds to the acceptable error: 1 of ours; of SGD on the GPU and on all cores, and of CG on all cores."""
    times = {("ALS", "cumf_cg_fp16"): 1.0, ("SGD", "cumf_sgd"): sgd, ("SGD", "ordered_parallel"): cores,
             ("ALS", "parallel_cg"): cg}  # fmt: skip
    rows = [
        {"data": data, "model": model, "scheme": scheme, "device": "cuda", "target": 0.92, "repeat": 0,
         "epoch": epoch,
         "seconds": epoch * s / 2, "rmse": 1.0 if epoch < 2 else ends, "diverged": False, "prepare": 0.0,
         "transfer": 0.0, "train": s, "compile": 1.0, "wall": 1 + 2 * s}
        for data in ("netflix-synthetic", "yahoomusic-synthetic") for (model, scheme), s in times.items() for epoch in
        range(3)
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("name", "made", "expected"),
    [
        ("cumf-table-4-netflix-train", {}, "reproduced"),
        ("cumf-table-4-netflix-wall", {}, "reproduced"),
        ("cumf-table-4-netflix-train", {"cores": 30.0}, "same direction"),
        ("cumf-table-4-yahoomusic-wall", {"cores": 0.5}, "contradicted"),
        ("cumf-table-4-netflix-train", {"ends": 0.95}, "missing"),
        ("cumf-fig-6", {}, "reproduced"),
        ("cumf-fig-6", {"cg": 0.5}, "contradicted"),
        ("cumf-fig-8-netflix", {}, "reproduced"),
        ("cumf-fig-8-netflix", {"sgd": 0.5}, "contradicted"),
        ("cumf-fig-8-yahoomusic", {"sgd": 0.5}, "reproduced"),
        ("cumf-fig-8-yahoomusic", {"sgd": 2.0}, "contradicted"),
    ],
)
def test_words_follow_from_the_courses(name, made, expected):
    assert word(name, courses(**made)) == expected


def test_what_does_not_arrive_has_no_time_and_all_is_drawn(store):
    table = experiment.summary(courses())
    assert table.train["netflix-synthetic", "ALS", "cumf_cg_fp16"] == 1
    assert table.published["netflix-synthetic", "SGD", "ordered_parallel"] == 23
    assert np.isnan(experiment.summary(courses(ends=0.95)).train).all()
    result = store("cumf_convergence", courses())
    assert_drawn(experiment.figure(result.frame), result, 4)
