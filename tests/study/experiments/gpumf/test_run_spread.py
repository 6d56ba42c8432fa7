"""The spread of times between runs: which work it is of, and its variance."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study import experiments
from gpumf_study.experiments.gpumf import run_spread


def test_every_run_times_the_same_work():
    frame = run_spread.run(**experiments.parameters("run_spread", "smoke"))
    work = [set(of[["data", "model", "solver"]].itertuples(index=False)) for _, of in frame.groupby("repeat")]
    on_cpus = {
        (kind.__name__, solver) for kind, _, solver, _ in run_spread._SOLVERS if kind.solvers()[solver] == "cpu"
    }
    assert len(work) == 2 and work[0] == work[1] and on_cpus <= {of[1:] for of in work[0]}
    assert frame.seconds.gt(0).all() and len(frame) == 2 * len(work[0])


def test_the_variance_is_that_between_runs_and_not_between_work():
    effects, rows = np.random.default_rng(0).normal(0, 0.1, (2000, 2)), []
    for run, of_run in enumerate(effects):
        for device, effect in zip(("cpu", "cuda"), of_run, strict=True):
            scale = 1 if device == "cpu" else 0.1
            rows += [("a", device, "m", solver, run, second * np.exp(scale * effect))
                     for solver, second in (("x", 1.0), ("y", 50.0))]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["data", "device", "model", "solver", "repeat", "seconds"])
    found = run_spread.variances(frame)
    assert found["cpu"] == pytest.approx(0.01, rel=0.1) and found["cuda"] == pytest.approx(1e-4, rel=0.1)
