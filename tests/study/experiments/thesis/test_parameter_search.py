"""The search for lambda and the learning rate."""

import numpy as np
import pandas as pd

from gpumf_study.experiments.thesis import parameter_search


def test_a_run_ends_when_it_has_gone_on_for_twice_as_long_as_to_its_best():
    stop = parameter_search.OverfittingStop()
    maes = [0.1, 0.9, 0.8, 0.7, *[0.75] * 60]
    ended = next(epoch for epoch, mae in enumerate(maes) if stop({"epoch": epoch, "mae": mae}))
    assert ended == 2 * 3 + 30 + 1, "the initial model counts for nothing"


def test_the_best_epoch_is_one_that_was_trained():
    history = pd.DataFrame({"epoch": [0, 1, 2], "mae": [0.1, 0.9, 0.8]})
    assert parameter_search.best_epoch(history).epoch == 2
    assert parameter_search.best_epoch(history.assign(mae=np.nan)).epoch == 2
