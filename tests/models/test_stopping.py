"""Training that ends by a metric of lists, and whom it tells of its epochs."""

import logging

import numpy as np
import pytest

from gpumf import ALS, SGD, ImplicitALS
from support import ragged_ratings

TRAIN, TEST = ragged_ratings(n_users=60, n_items=40, longest=30, seed=3).split(0.3, seed=1)


def test_the_best_epoch_by_a_metric_of_lists_is_kept(tmp_path):
    model = ImplicitALS(4, device="cpu").fit(TRAIN, 30, TEST, keep="best", patience=2, stop_metric="ndcg@5")
    column = model.history["ndcg@5"]
    assert model.epoch == column.idxmax() and len(column) - 1 - max(model.epoch, 1) == 2
    assert model.evaluate_ranking(TEST, 5)["ndcg"] == pytest.approx(column.max(), abs=1e-9)
    model.save(tmp_path / "model.npz")
    assert ImplicitALS.load(tmp_path / "model.npz", device="cpu").history["ndcg@5"].tolist() == column.tolist()
    again = model.fit(TRAIN, 1, TEST, warm_start=True, keep="best", stop_metric="ndcg@5")
    assert again.evaluate_ranking(TEST, 5)["ndcg"] >= column.max() - 1e-9


@pytest.mark.parametrize(("metric", "factors"), [("rmse", 4), ("ndcg@5", 8)])
def test_patience_counts_from_the_model_that_a_warm_start_goes_on_from(metric, factors):
    options = {"validation": TEST, "keep": "best", "stop_metric": metric}
    model = ALS(factors, 0.05, biases=False, device="cpu").fit(TRAIN, 3, **options)
    assert model.epoch == 1
    model.fit(TRAIN, 5, warm_start=True, patience=1, **options)  # the epoch after the best is worse
    assert model.epoch == 1 and model.history.epoch.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("metric", ["mae", "precision@3", "recall@3", "map@3"])
def test_each_metric_chooses_its_best_epoch(metric):
    model = SGD(4, 0, learning_rate=0.1, solver="sequential").fit(TRAIN, 6, TEST, keep="best", stop_metric=metric)
    column = model.history[metric]
    assert model.epoch == (column.idxmin() if metric == "mae" else column.idxmax())


@pytest.mark.parametrize("wrong", ["ndcg", "ndcg@0", "auc@10", "RMSE", 3, None])
def test_other_metrics_are_refused(wrong):
    with pytest.raises(ValueError, match="stop_metric must be"):
        ALS(2, device="cpu").fit(TRAIN, 1, TEST, stop_metric=wrong)
    with pytest.raises(ValueError, match="validation set"):
        ALS(2, device="cpu").fit(TRAIN, 1, stop_metric="ndcg@10")


def test_callbacks_get_the_model_of_their_epoch():
    told = []
    model = ALS(3, device="cpu")
    model.fit(TRAIN, 3, TEST, callbacks=[lambda model, row: told.append((model, row))])
    assert [row["epoch"] for _, row in told] == [seen.epoch for seen, _ in told] == [1, 2, 3]
    for seen, row in told:
        assert seen is not model and seen.score(TEST)["rmse"] == pytest.approx(row["rmse"], rel=1e-6)
    assert np.array_equal(told[-1][0].user_factors, model.user_factors)
    assert told[0][0].recommend(1, 3)[0].shape == (3,)


def test_a_callback_that_raises_leaves_the_model_as_it_was():
    model = ALS(3, device="cpu").fit(TRAIN, 1)
    before = model.user_factors
    with pytest.raises(ZeroDivisionError):
        model.fit(TRAIN, 3, callbacks=[lambda model, row: 1 / 0])
    assert model.user_factors is before and len(model.history) == 2


def test_epochs_are_logged(caplog):
    with caplog.at_level(logging.INFO, "gpumf"):
        ALS(2, device="cpu").fit(TRAIN, 2, TEST)
    assert len(caplog.records) == 3 and all(record.name == "gpumf" for record in caplog.records)
    assert "ALS" in caplog.text and "rmse" in caplog.text
