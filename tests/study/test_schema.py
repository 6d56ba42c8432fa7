"""Columns of stored results."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study import schema


def rows(**columns):
    return pd.DataFrame({"data": "ml-100k", "repeat": [0, 1], "seconds": [1.0, 2.0]} | columns)


def test_columns_are_put_in_order_and_empty_ones_dropped():
    frame = rows(x_nnz=3, device="cpu", solver=None, epoch=[1, np.nan])
    assert schema.validated(frame).columns.tolist() == ["data", "device", "repeat", "epoch", "seconds", "x_nnz"]
    assert schema.run_columns(frame) == ["data", "repeat", "x_nnz", "device", "solver"]


def test_attributes_stay():
    frame = rows()
    frame.attrs["gpus"] = 2
    assert schema.validated(frame).attrs == {"gpus": 2}


@pytest.mark.parametrize(
    ("frame", "why"),
    [(rows().iloc[:0], "no rows"), (rows(rmse=1.0), "begin with 'x_'.*rmse"),
     (rows(factors=1.5), "factors takes int"), (rows(factors=-1), "factors takes int"),
     (rows(factors=True), "factors takes int"), (rows(solver=3), "solver takes str"),
     (rows(seconds="1"), "seconds takes float"), (rows(phase="wall"), "phases are .*wall"),
     (rows(seconds=[1, np.nan]), "neither seconds nor a metric"), (rows(value=1.0), "a value has no metric"),
     (rows(value=1.0, metric=["rmse", None]), "a value has no metric"),
     (rows(repeat=0), "two rows have the same labels")],
)  # fmt: skip
def test_other_frames_are_refused(frame, why):
    with pytest.raises(ValueError, match=why):
        schema.validated(frame)
