"""Three models, until they have converged."""

import pandas as pd
import pytest

from gpumf import ALS, SGD
from gpumf_study.experiments.thesis import als_sgd_rbm
from outcomes import assert_drawn, word
from support import ragged_ratings


def raced(sgd=0.5, data="jester-1"):
    """Published and fastest versions of three models that take a half off the MAE, in tenths an epoch."""
    rows = []
    for version, seconds in {"ALS": 1.0, "SGD": sgd, "RBM": 100.0}.items():
        for suffix, faster in (("", 1), (", fastest", 10)):
            for epoch in range(21):
                mae = 1 - 0.05 * min(epoch, 10)
                rows.append((data, version + suffix, version, "k", 0, epoch, epoch * seconds / faster, mae))
    return pd.DataFrame(rows, columns=["data", "version", "model", "kernel", "repeat", "epoch", "seconds", "mae"])


def test_a_model_has_converged_when_a_hundredth_of_its_gain_is_to_come():
    table = als_sgd_rbm.summary(raced()).set_index("version")
    assert table.loc["ALS"].epochs == 10 and table.loc["ALS"].reduction_per_second == pytest.approx(0.5 / 10)
    factors = als_sgd_rbm.factors(raced()).iloc[0]
    assert dict(factors[["ALS", "SGD"]]) == pytest.approx({"ALS": 100, "SGD": 200})


def test_a_run_of_one_epoch_has_converged_with_it():
    frame = raced()
    assert set(als_sgd_rbm.summary(frame[frame.epoch <= 1]).epochs) == {1}


def test_convergence_is_certain_where_a_run_went_on_for_as_long_again():
    frame = raced()
    assert als_sgd_rbm.summary(frame).certain.all()
    short = als_sgd_rbm.summary(frame[(frame.version != "SGD") | (frame.epoch < 20)])
    assert list(short.version[~short.certain]) == ["SGD"]


@pytest.mark.parametrize(
    ("name", "frame", "expected"),
    [
        ("thesis-fig-6.13", raced(), "reproduced"),
        ("thesis-fig-6.13", raced(sgd=200.0), "contradicted"),
    ],
)
def test_a_word_follows_from_the_numbers(name, frame, expected):
    assert word(name, frame) == expected


def test_the_figure_says_where_it_was_measured_and_what_its_axes_are(store):
    result = store("als_sgd_rbm", raced())
    assert_drawn(als_sgd_rbm.figure(result.frame), result, 1)


def test_a_row_is_an_epoch_of_a_version_and_says_with_what_it_was_trained(monkeypatch):
    versions = {
        "als": (ALS, "sequential", {"biases": False}),
        "sgd": (SGD, "sequential", {"biases": False, "learning_rate": 0.01}),
    }
    monkeypatch.setattr(als_sgd_rbm, "VERSIONS", versions)
    monkeypatch.setattr(als_sgd_rbm, "_usable", lambda model, kernel: True)
    monkeypatch.setattr(als_sgd_rbm, "load_ratings", lambda name: ragged_ratings(seed=0))
    parameters = {"ragged": {"ALS": {"regularization": 0.2}, "SGD": {"regularization": 0.3, "learning_rate": 0.04}}}
    epochs = {"ALS": 1, "SGD": 2}
    monkeypatch.setattr(als_sgd_rbm, "chosen", lambda given, data, model: given["ragged"][model])
    frame = als_sgd_rbm.run(["ragged"], None, epochs, 2, parameters)
    assert list(frame) == [
        "data", "version", "model", "kernel", "device", "repeat", "regularization", "learning_rate", "epoch",
        "seconds", "rmse", "mae",
    ]  # fmt: skip
    for (version, repeat), rows in frame.groupby(["version", "repeat"]):
        model = version.upper()
        assert rows.epoch.to_list() == list(range(epochs[model] + 1)) and set(rows.model) == {model}
        assert set(rows.regularization) == {parameters["ragged"][model]["regularization"]} and repeat in (0, 1)
        assert rows.learning_rate.isna().all() if model == "ALS" else set(rows.learning_rate) == {0.01}
        assert rows.seconds.iloc[0] == 0 and rows.seconds.is_monotonic_increasing and (rows.rmse > rows.mae).all()
    first = frame[frame.epoch == 0].set_index(["version", "repeat"]).rmse
    assert first["als", 0] != first["als", 1], "each repeat has its own split and start"
