"""ESGD against BSGD."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study.experiments.esgd import bsgd_comparison as experiment
from outcomes import assert_drawn, word


def compared(slower, lie=0.9, small=0.9):
    """Seconds of BSGD's batches over ESGD's, and the errors at which ESGD as they lie and the small batches end."""
    variants = [("esgd", "as they lie", 1.0, lie), ("esgd", "shuffled", 2.0, 0.9)]
    variants += [("bsgd", "64", slower / 2, small), ("bsgd", "256", slower, 0.9)]
    rows = [
        ("netflix", 9, machine, solver, variant, "cuda", epoch, s, end)
        for machine in (experiment.WHOLE, experiment.ONE)
        for solver, variant, s, end in variants
        for epoch in (1, 2)
    ]
    columns = ["data", "nnz", "machine", "solver", "variant", "device", "epoch", "seconds", "rmse"]
    return pd.DataFrame(rows, columns=columns)


@pytest.mark.parametrize("name", ["esgd-fig-5-whole", "esgd-fig-5-one-multiprocessor"])
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ({"slower": 25.0}, "reproduced"),
        ({"slower": 8.0}, "same direction"),
        ({"slower": 1.0}, "contradicted"),
        # Batches that do not converge are not the best, and ESGD is that order of it that converges.
        ({"slower": 12.5, "small": 1.2}, "reproduced"),
        ({"slower": 12.5, "small": np.nan}, "reproduced"),
        ({"slower": 3.0, "lie": np.inf, "small": 1.2}, "same direction"),
        ({"slower": 1.5, "lie": np.inf, "small": 1.2}, "contradicted"),
    ],
)
def test_words_follow_from_what_converges(name, made, expected):
    assert word(name, compared(**made)) == expected


def test_what_has_not_converged_has_no_seconds(store):
    table = experiment.summary(compared(4.0, lie=np.inf))
    assert np.isnan(table.seconds[experiment.WHOLE, "esgd", "as they lie"]) and not table.converged.iloc[0]
    result = store("bsgd_comparison", compared(4.0, lie=np.inf))
    assert_drawn(experiment.figure(result.frame), result, 2)


def test_the_epoch_before_the_first_changes_nothing(host):
    frame = experiment.run(**experiment.PROFILES["smoke"] | {"batches": [8]})
    assert np.isfinite(frame.rmse).all() and (frame.seconds > 0).all() and set(frame.epoch) == {1, 2}
