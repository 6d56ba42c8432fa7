"""What is read off the experiments on ESGD."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.esgd import bsgd_comparison, sgd_conflicts


def course(values, seconds=1.0, **labels):
    """A training with these errors after each epoch, an epoch a number of seconds."""
    epochs = np.arange(len(values))
    rows = {"epoch": epochs, "phase": "train", "seconds": epochs * seconds, "metric": "rmse", "value": values}
    return pd.DataFrame(rows | labels)


@pytest.mark.parametrize(("reached", "counts"), [(0.5, True), (0.7, True), (0.76, False), (np.nan, False)])
def test_what_does_not_learn_half_as_much_as_the_best_has_no_speed(reached, counts):
    lots = []
    for solver, least in (("esgd", 0.5), ("bsgd", reached)):
        labels = {"data": "x", "solver": solver, "variant": "1", "repeat": 0, "x_machine": bsgd_comparison.ALL}
        lots += [course([1.0, least, 2.0], **labels)]
        lots += [pd.DataFrame([{"phase": "transfer", "seconds": 6.0} | labels])]
    frame = schema.validated(pd.concat(lots, ignore_index=True))
    found = bsgd_comparison.iterations(frame).set_index("solver").seconds
    assert ("bsgd" in found) == counts
    assert found["esgd"] == 4.0, "2 s of updates and 6 s of transfers, over two iterations"
    assert bsgd_comparison.iterations(frame[frame.phase == "train"]).empty, "without transfers there is no iteration"


def test_popular_rows_conflict_more_often_than_the_formula_says(host):
    frame = sgd_conflicts.run(["ml-100k-synthetic"], [2, 8, 32], draws=2000, seeds=1, traced=600)
    share = frame.pivot_table(index="x_at_once", columns="variant", values="value")
    assert (share["drawn"] > 1.25 * share["true shape"]).all() and share.drawn.is_monotonic_increasing
    # In a matrix of about as many users as items, both counts are about the same.
    assert np.allclose(share["published"], share["true shape"], rtol=0.2)
    assert share.overwritten.between(0, 1).all() and share.overwritten[32] > 0
