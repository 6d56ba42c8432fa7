"""What the hidden units of an RBM stand for."""

import numpy as np
import pandas as pd
import pytest

from gpumf import RBM
from gpumf.ratings import Ratings, load_dataset
from gpumf_study.experiments.gpumf import rbm_features
from outcomes import lines


def test_features_are_the_items_with_the_largest_and_the_smallest_weights(monkeypatch):
    monkeypatch.setattr(rbm_features, "item_titles", lambda name: pd.Series({k: f"Film {k}" for k in range(1682)}))
    frame = rbm_features.run(["ml-100k-synthetic"], 8, 2, units=2, shown=3, max_rated=30, kernel="sequential")
    ratings = load_dataset("ml-100k-synthetic")
    counts = np.bincount(ratings.items, minlength=ratings.n_items)
    assert len(frame) == 2 * 2 * 3 and (frame.title == frame["item"].map("Film {}".format)).all()
    assert (frame["count"] == counts[frame["item"]]).all() and frame["count"].min() >= np.sort(counts)[-30]
    for _, unit in frame.groupby("unit"):
        most, least = (unit[unit.end == end].weight for end in ("most", "least"))
        assert most.is_monotonic_decreasing and least.is_monotonic_increasing and most.min() > least.max()
    model = RBM(8, solver="sequential", **rbm_features._MODEL).fit(ratings, 2)
    best_over_worst = model.item_weights[:, -1] - model.item_weights[:, 0]
    np.testing.assert_array_equal(frame.weight, best_over_worst[frame["item"], frame.unit])
    assert frame.spread.iloc[0] >= frame.spread.iloc[-1] and frame.correlation.between(-1, 1).all()


def test_correlations_are_those_of_the_users_who_rated_both():
    rng = np.random.default_rng(0)
    n_users = 60
    values = rng.integers(1, 6, (n_users, 4)).astype(np.float32)
    values[:, 1] = values[:, 0]
    given = rng.random(values.shape) < 0.7
    users, items = np.nonzero(given)
    ratings = Ratings(users, items, values[users, items], n_users, 4)
    table = rbm_features._correlations(ratings, np.array([2, 0, 1]))
    centred = np.where(given[:, :3], values[:, :3], np.nan)
    centred -= np.nanmean(centred, axis=1, keepdims=True)
    both = given[:, 0] & given[:, 2]
    assert table[0, 1] == pytest.approx(np.corrcoef(centred[both][:, [0, 2]].T)[0, 1], rel=1e-5)
    assert np.isnan(np.diag(table)).all() and table[1, 2] > table[0, 1]


def test_features_are_summed_up_and_drawn_a_list_each():
    rows = [("a", unit, end, c, 0.2) for unit, end, c in ((0, "most", 0.5), (0, "least", 0.1), (1, "most", 0.3))]
    features = pd.DataFrame(rows, columns=["data", "unit", "end", "correlation", "correlation_of_all"])
    row = rbm_features.summary(features).loc["a"]
    assert row.share == pytest.approx(2 / 3) and row.correlation == pytest.approx(0.3)
    drawn = lines(rbm_features.figure(features).axes[0])
    assert drawn["a list"] == ([0.5, 0.1, 0.3], ["unit 0", "unit 0", "unit 1"]) and drawn["all items"][0] == [
        0.2,
        0.2,
    ]
