"""Seconds until the acceptable error."""

import pandas as pd

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


def test_each_data_set_has_its_own_error():
    rows = [
        {"data": data, "model": "ALS", "solver": "parallel_cg", "repeat": 0, "epoch": epoch, "seconds": 2.0 * epoch,
         "metric": "rmse", "value": value}
        for data, values in (("netflix-synthetic", (1.0, 0.93, 0.92)), ("yahoomusic-synthetic", (40.0, 22.0, 21.0)))
        for epoch, value in enumerate(values)
    ]  # fmt: skip
    phases = [{"data": row["data"], "model": "ALS", "solver": "parallel_cg", "repeat": 0, "phase": "preprocess",
               "seconds": 5.0} for row in rows[::3]]  # fmt: skip
    found = experiment.medians(schema.validated(pd.DataFrame(rows + phases)))
    assert found.loc["netflix-synthetic"].to_numpy().tolist() == [[2, 4, 9]]
    assert found.loc["yahoomusic-synthetic"].to_numpy().tolist() == [[1, 2, 7]]
