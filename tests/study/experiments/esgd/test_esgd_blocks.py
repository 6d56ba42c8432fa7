"""Sizes of ESGD's blocks."""

import pandas as pd
import pytest

from gpumf_study.experiments.esgd import esgd_blocks
from outcomes import assert_drawn, word


def tried(rmse=0.9):
    """Three pairs; the fastest one ends at this RMSE, the others at 0.9."""
    pairs = {(1000, 2): (1.0, 0.9), (256, 2): (0.5, 0.9), (64, 1): (0.25, rmse)}
    times = dict.fromkeys(["prepare", "transfer", "train", "compile", "wall"], 1.0)
    rows = [
        {"th_size": t, "st": st, "repeat": 0, "epoch": epoch, "seconds": epoch * s, "rmse": end, "diverged": False}
        | times
        for (t, st), (s, end) in pairs.items()
        for epoch in range(3)
    ]
    return pd.DataFrame(rows)


def test_the_best_is_the_fastest_of_those_that_learn_as_much(store):
    assert esgd_blocks.best(tried()) == (64, 1) and esgd_blocks.best(tried(rmse=0.95)) == (256, 2)
    (finding,) = esgd_blocks.FINDINGS
    assert finding.value(tried(rmse=0.95))[0] == pytest.approx(2) and word("esgd-best-block", tried()) == "answered"
    assert word("esgd-best-block", tried()[tried().th_size != 1000]) == "missing"
    result = store("esgd_blocks", tried())
    assert_drawn(esgd_blocks.figure(result.frame), result, 2)
