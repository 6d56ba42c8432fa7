"""Trainings as rows of results."""

import numpy as np
import pandas as pd
import pytest

from gpumf import SGD
from gpumf_study.experiments import _fits
from support import ragged_ratings


def test_a_corner_has_the_first_users_and_items_and_nothing_else():
    whole = ragged_ratings(seed=1)
    part = _fits.corner(whole, [5, 4])
    inside = (whole.users < 5) & (whole.items < 4)
    assert (part.n_users, part.n_items, part.nnz) == (5, 4, inside.sum()) and 0 < part.nnz < whole.nnz
    np.testing.assert_array_equal(part.values, whole.values[inside])
    assert _fits.corner(whole, None) is whole and _fits.corner(whole, [10**6, 10**6]).nnz == whole.nnz


def test_what_diverged_has_no_seconds():
    train, test = ragged_ratings(seed=0).split(0.2)
    calm = _fits.history(SGD(4, solver="sequential", device="cpu"), train, 3, test).assign(model="calm", repeat=0)
    with np.errstate(all="ignore"):
        wild = _fits.history(
            SGD(4, solver="sequential", device="cpu", learning_rate=1e6, biases=False), train, 3, test
        )
    frame = pd.concat([calm, wild.assign(model="wild", repeat=0)])
    assert wild.diverged.all() and not calm.diverged.any() and len(calm) == 4
    seconds = _fits.epoch_seconds(frame, ["model"])
    assert list(seconds.index) == ["calm"] * 3 and seconds.sum() == pytest.approx(calm.train.iloc[0])
    assert list(_fits.fit_seconds(frame, ["model"]).index) == [("calm", 0)]
