"""Seconds until the acceptable error."""

import pytest

from gpumf_study import schema
from gpumf_study.experiments.cumf import cumf_convergence as experiment


def test_models_have_no_biases():
    frame = schema.validated(experiment.run(**experiment.PROFILES["smoke"]))
    assert (frame.x_columns == frame.factors).all() and set(frame.model) == {"ALS", "SGD"}


def libmf(monkeypatch, errors, epochs, seconds=lambda n: 5.0 + 2.0 * n):
    """The rows of LIBMF with these errors by number of epochs and rate, and the fits that it made."""
    fits = []

    def trained(factors, file, mean, judge, epochs, regularization, rate):
        assert (factors, regularization) == (4, 0.05) and file.is_file()
        fits.append((epochs, rate))
        return {"epoch": epochs, "wall": seconds(epochs), "rmse": errors.get((epochs, rate), 2.0)}

    monkeypatch.setattr(experiment.peers_sgd, "libmf", trained)
    return experiment._libmf("ml-100k-synthetic", 4, 0.05, 0.95, 2, epochs, [0.1, 0.2]), fits


def test_libmf_has_the_rate_that_is_there_in_the_fewest_epochs(monkeypatch):
    rows, fits = libmf(monkeypatch, {(2, 0.2): 0.9, (3, 0.1): 0.8}, [1, 3])
    found = experiment.reached(schema.validated(rows))
    assert fits == [(1, 0.1), (1, 0.2), (2, 0.1), (2, 0.2), (8, 0.2), (2, 0.2), (8, 0.2)]
    assert found.epoch.tolist() == [2, 2] and set(rows.x_learning_rate) == {0.2}
    assert found.train.tolist() == [4, 4], "without the 5 seconds that do not depend on the epochs"
    assert found.wall.tolist() == [9, 9]


@pytest.mark.parametrize("first", [1, 2, 3, 4])
def test_the_fewest_epochs_are_found_from_any_on(monkeypatch, first):
    there = {(n, 0.1): 0.9 for n in (3, 4)} | {(4, 0.2): 0.9}
    rows, fits = libmf(monkeypatch, there, [first, 4])
    assert set(rows.epoch.dropna()) == {3} and set(rows.x_learning_rate) == {0.1}
    assert {(2, 0.1), (2, 0.2)} <= set(fits), "what shows that none is there earlier"


def test_libmf_that_is_never_there_has_no_rows(monkeypatch):
    rows, fits = libmf(monkeypatch, {}, [1, 3])
    assert rows.empty and len(fits) == 6
