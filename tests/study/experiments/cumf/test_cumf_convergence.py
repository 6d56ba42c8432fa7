"""Seconds until the acceptable error."""

from gpumf_study import schema
from gpumf_study.experiments.cumf import cumf_convergence as experiment


def test_models_have_no_biases():
    frame = schema.validated(experiment.run(**experiment.PROFILES["smoke"]))
    assert (frame.x_columns == frame.factors).all() and set(frame.model) == {"ALS", "SGD"}


def test_libmf_is_trained_anew_until_it_is_there(monkeypatch):
    def trained(factors, file, mean, judge, epochs, regularization, rate):
        assert (factors, regularization) == (4, 0.05) and file.is_file()
        return {"epoch": epochs, "wall": 2.0 * epochs, "rmse": 1.5 - rate * epochs}

    monkeypatch.setattr(experiment.peers_sgd, "libmf", trained)
    rows = experiment._libmf("ml-100k-synthetic", 4, 0.05, 0.95, 2, [2, 4, 8], [0.1, 0.2])
    found = experiment.reached(schema.validated(rows))
    assert found.epoch.tolist() == [4, 4] and found.wall.tolist() == [8, 8]


def test_libmf_is_trained_no_longer_than_the_first_rate_that_is_there(monkeypatch):
    tried, errors = [], {(2, 0.1): 1.2, (2, 0.2): 1.1, (4, 0.1): 1.0, (4, 0.2): 0.9}

    def trained(factors, file, mean, judge, epochs, regularization, rate):
        tried.append((epochs, rate))
        return {"epoch": epochs, "wall": 1.0, "rmse": errors[epochs, rate]}

    monkeypatch.setattr(experiment.peers_sgd, "libmf", trained)
    rows = experiment._libmf("ml-100k-synthetic", 4, 0.05, 0.95, 2, [2, 4, 8], [0.1, 0.2])
    assert tried == [*errors, (2, 0.2), (4, 0.2)] and rows.value.dropna().tolist() == [1.1, 0.9] * 2
