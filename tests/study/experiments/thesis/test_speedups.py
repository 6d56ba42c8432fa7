"""Speed-ups of versions to the same error."""

from types import SimpleNamespace

import pandas as pd

from gpumf_study.experiments.thesis import speedups
from support import ragged_ratings


def test_the_rate_is_tuned_for_the_epochs_to_the_error(monkeypatch):
    courses = {0.1: [0.9, 0.7, 0.6, 0.6], 0.01: [0.9, 0.8, 0.65, 0.5], 0.001: [0.9, 0.9, 0.9, 0.9]}

    def trained(model, part, epochs, held_out, stop):
        return SimpleNamespace(history=pd.DataFrame({"epoch": range(4), "mae": courses[model.learning_rate]}))

    monkeypatch.setattr(speedups, "trained", trained)
    train = ragged_ratings(seed=0)
    assert speedups._fastest(train, [*courses], {"regularization": 0.1}, 3, 0.7) == 0.1
    assert speedups._fastest(train, [*courses], {"regularization": 0.1}, 3, None) == 0.01, "no error to reach"
