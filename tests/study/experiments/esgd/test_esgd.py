"""What is read off the experiments on ESGD."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.esgd import bsgd_comparison, esgd_blocks, esgd_errors, esgd_seconds, sgd_conflicts


def course(values, seconds=1.0, **labels):
    """A training with these errors after each epoch, an epoch a number of seconds."""
    epochs = np.arange(len(values))
    rows = {"epoch": epochs, "phase": "train", "seconds": epochs * seconds, "metric": "rmse", "value": values}
    return pd.DataFrame(rows | labels)


def test_orders_are_compared_split_by_split_on_the_data_set_where_they_differ_most():
    lots = [
        course([2.0, 1.0 + repeat / 8 + gap, 3.0], data=data, variant=order, repeat=repeat)
        for data, most in (("ml-100k", 0.25), ("ml-1m-synthetic", 0.0))
        for repeat in (0, 1)
        for order, gap in ((esgd_errors.FILE, most), (esgd_errors.SHUFFLED, 0.0))
    ]
    frame = schema.validated(pd.concat(lots))
    assert esgd_errors.gaps(frame).gap.tolist() == [0.25, 0.25]
    frame.loc[frame.epoch == 2, "value"] = np.nan
    assert set(esgd_errors.least(frame).epoch) == {1}, "the least error before it diverged"


def test_data_sets_are_as_far_from_table_1_as_their_farthest_count():
    frame = pd.DataFrame({"data": "ml-100k", "repeat": 0, "x_users": [943], "x_items": 1683, "x_nnz": 80000})
    assert esgd_errors.deviations(frame).deviation.tolist() == [0.125]


def test_the_best_block_is_the_fastest_of_those_that_learn_as_much():
    pairs = {(1000, 2): (1.0, 0.9), (256, 2): (0.5, 0.9), (64, 1): (0.25, 0.95)}
    lots = [
        course([2.0, 1.0, end], seconds, data="ml-10m-synthetic", repeat=0, x_th_size=th_size, x_st=st)
        for (th_size, st), (seconds, end) in pairs.items()
    ]
    frame = pd.concat(lots, ignore_index=True)
    assert esgd_blocks.best(frame) == (256, 2)
    seconds = esgd_blocks.compared(frame).groupby("which").seconds.median()
    assert seconds.to_dict() == {"best": 0.5, "published": 1.0}


def test_parts_of_an_iteration_are_summed_repeat_by_repeat():
    parts = {"t_hd": 2.0, "t_GPU": 1.0, "t_dh": 0.5, "streamed": 4.0}
    rows = [("ml-100k", "file order", repeat, part, s) for part, s in parts.items() for repeat in (0, 1)]
    frame = pd.DataFrame(rows, columns=["data", "variant", "repeat", "x_part", "seconds"])
    found = esgd_seconds.iterations(frame).groupby("what").seconds.agg(["count", "max"])
    assert found["max"].to_dict() == {"iteration": 3.5, "t_hd + t_GPU": 3.0, "streamed": 4.0}
    assert (found["count"] == 2).all()


@pytest.mark.parametrize(("reached", "counts"), [(0.5, True), (0.76, False), (np.nan, False)])
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
