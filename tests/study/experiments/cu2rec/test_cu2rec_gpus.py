"""cu2rec on all multiprocessors and on a quarter."""

import pandas as pd
import pytest

from gpumf_study.experiments.cu2rec import cu2rec_gpus as experiment
from outcomes import assert_drawn


def timed(large=3.0, many=3.0):
    """What all multiprocessors gain: 2 on the small set, `large` on the large one, there `many` with many factors."""
    gains = {
        ("ml-100k", 50): 2.0,
        ("ml-100k", 300): 2.0,
        ("ml-20m-synthetic", 50): large,
        ("ml-20m-synthetic", 300): many,
    }
    rows = [
        (data, 9, 9, f, machine, "cuda", repeat, 10, (gain if machine == experiment.QUARTER else 1) + repeat / 100)
        for (data, f), gain in gains.items()
        for machine in (experiment.WHOLE, experiment.QUARTER)
        for repeat in (0, 1)
    ]
    columns = ["data", "nnz", "n_users", "factors", "machine", "device", "repeat", "steps", "seconds"]
    return pd.DataFrame(rows, columns=columns)


def test_gains_are_summed_up_and_drawn(store):
    assert experiment.summary(timed()).gain["ml-20m-synthetic", 50] == pytest.approx(3, rel=0.01)
    result = store("cu2rec_gpus", timed())
    assert_drawn(experiment.figure(result.frame), result, 1)
    assert "gain" not in experiment.summary(timed().query("machine == @experiment.WHOLE"))
