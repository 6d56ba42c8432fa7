"""The parts of cu2rec."""

import pandas as pd
import pytest

from gpumf_study.experiments.cu2rec import cu2rec_variants as experiment
from outcomes import assert_drawn


def variants(loses=1.135, without=1.025):
    """Seconds of an epoch and errors of the versions over those of cu2rec."""
    times, errors = {experiment.LOSES: loses}, {experiment.NO_STRIDING: without}
    rows = [
        {"data": data, "nnz": 9, "version": version, "factors": 50, "repeat": repeat, "epoch": epoch,
         "seconds": epoch * times.get(version, 1.0), "rmse": 0.9 * errors.get(version, 1.0),
         "diverged": False, "prepare": 0.0, "transfer": 0.0, "train": 0.0, "compile": 1.0,
         "wall": 1 + 10 * times.get(version, 1.0)}
        for data in ("ml-100k", "netflix-synthetic") for version in experiment.VERSIONS
        for repeat in (0, 1) for epoch in range(4)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_versions_are_summed_up_and_drawn(store):
    table = experiment.summary(variants())
    assert table.worse["ml-100k", 50, experiment.NO_STRIDING] == pytest.approx(2.5)
    assert table.seconds["ml-100k", 50, experiment.LOSES] == pytest.approx(1.135)
    result = store("cu2rec_variants", variants())
    assert_drawn(experiment.figure(result.frame), result, 2)
