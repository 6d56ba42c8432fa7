"""Which work the spread of times between runs is of."""

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
