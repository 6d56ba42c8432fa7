"""NewGPUSGD against GPUSGD."""

import pandas as pd
import pytest

from gpumf_study.experiments.newgpusgd import gpusgd_comparison as experiment
from outcomes import assert_drawn, word


def compared(few=2.0, many=2.0, of_factors=3.0):
    """How many times as long GPUSGD takes with few blocks, many blocks, and many blocks with many factors."""
    times = {(64, 16): few, (1024, 16): many, (1024, 256): of_factors}
    rows = [
        {"data": data, "precision": bits, "side": side, "factors": f, "solver": solver, "repeat": 0, "epoch": epoch,
         "seconds": epoch * (slower if solver == "gpusgd" else 1.0), "diverged": False,
         "prepare": 0.0, "transfer": 0.0, "train": 2.0, "compile": 0.25, "wall": 1.25 + (solver == "gpusgd")}
        for data in ("ml-100k", "netflix-synthetic") for bits in (32, 64) for (side, f), slower in times.items()
        for solver in ("gpusgd", "newgpusgd") for epoch in range(3)
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("name", "times", "expected"),
    [
        ("newgpusgd-fig-12-many", {"many": 1.5}, "reproduced"),
        ("newgpusgd-fig-12-many", {"many": 0.5}, "contradicted"),
        ("newgpusgd-fig-12-factors", {"many": 2.0, "of_factors": 3.0}, "reproduced"),
        ("newgpusgd-fig-12-factors", {"many": 3.0, "of_factors": 2.0}, "contradicted"),
        ("newgpusgd-fig-12-few-netflix", {"few": 0.5}, "reproduced"),
        ("newgpusgd-fig-12-few-netflix", {"few": 2.0}, "contradicted"),
        ("newgpusgd-fig-12-few-ml-100k", {"few": 2.0}, "reproduced"),
        ("newgpusgd-fig-12-few-ml-100k", {"few": 0.5}, "contradicted"),
        ("newgpusgd-fig-12-few-ml-10m-synthetic", {}, "missing"),
    ],
)
def test_words_follow_from_the_times(name, times, expected):
    assert word(name, compared(**times)) == expected


def test_times_are_summed_up_and_drawn(store):
    table = experiment.summary(compared(few=4.0))
    assert table.train["ml-100k", 32, 64, 16] == 4 and table.wall["ml-100k", 32, 64, 16] == 2
    result = store("gpusgd_comparison", compared())
    assert_drawn(experiment.figure(result.frame), result, 2)
