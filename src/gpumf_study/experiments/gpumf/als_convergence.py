"""Whether every solver of ALS learns the same: test errors after each epoch on real ratings, without biases.

After the thesis, section 6.2: 16 factors, 80 % of the ratings for training. All solvers start from the same factors.
"""

import pandas as pd
from matplotlib.ticker import MaxNLocator

from gpumf import ALS
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, below
from gpumf_study.experiments import usable_solvers
from gpumf_study.experiments.tuning import PARAMETERS, chosen

EXACT = "sequential"

PROFILES = {name: {"data": ["jester-1", "ml-100k"], "factors": 16, "epochs": 20, "parameters": PARAMETERS}
            for name in ("quick", "full")}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "factors": 8, "epochs": 2}


def run(data, factors, epochs, parameters):
    """Train every solver that this machine has."""
    frames = []
    for name in data:
        arguments = chosen(parameters, name, "ALS")

        def models(train, repeat, arguments=arguments):
            for solver in usable_solvers(ALS):
                if factors <= ALS.solver_classes()[solver].max_factors:
                    yield {}, ALS(factors, solver=solver, biases=False, clip=False, **arguments)

        frames.append(sweep.sweep(models, [name], epochs, repeats=1, held_out=0.2, metrics=("rmse", "mae")))
    return pd.concat(frames, ignore_index=True)


def differences(frame):
    """Return last test errors by data set, metric and solver, with `difference` to the exact CPU solution."""
    last = pd.concat([sweep.last_epoch(frame, name).assign(metric=name) for name in ("rmse", "mae")])
    last = last.set_index(["data", "metric", "solver"]).value.to_frame()
    return last.assign(difference=last.value - last.value.xs(EXACT, level="solver"))


def figure(frame):
    """Draw test RMSE against seconds of training (left), and how far it is from the exact one's (right)."""
    names = frame.data.unique()
    course = sweep.course(frame, "rmse").query("epoch > 0")
    figure, axes = style.panels(columns=2, rows=len(names), height=1.2 + 2.8 * len(names))
    for (by_time, apart), name in zip(axes, names, strict=True):
        runs = dict(list(course[course.data == name].groupby("solver", sort=False)))
        exact = runs[EXACT].set_index("epoch").value
        for solver, run in runs.items():
            if solver in _ALIKE:
                continue
            style.curve(by_time, run.set_index("seconds").value, "ALS", solver)
            if solver != EXACT:  # a logarithmic axis has no place for a difference of nothing
                style.curve(apart, (run.set_index("epoch").value - exact).abs().clip(lower=1e-9), "ALS", solver)
        apart.axhline(1e-3, color="0.4", linewidth=1)
        by_time.set(xlabel="seconds of training", ylabel=f"test RMSE, {style.data_name(name)}")
        apart.set(xlabel="iterations", ylabel="difference to the exact solution")
        apart.xaxis.set_major_locator(MaxNLocator(integer=True))
        style.log_scale(by_time.xaxis)
        style.log_scale(apart.yaxis)
    style.legend(figure, axes[0, 0], 3)
    return figure


_ALIKE = "thesis_global", "thesis_hybrid", "cg", "parallel_cg"
"""Not drawn: the thesis's other memories learn what its fastest does, and CG is there on the GPU."""


def _apart(frame):
    return differences(frame).difference.abs().rename("value").reset_index()


CLAIMS = [
    Claim("als-solvers-agree", "gpumf", None,
          "Largest difference in test error of a solver of ALS to the exact single-threaded one, 20 iterations.",
          metric="exact", select={"column": "value", "across": "max"}, criterion=below(1e-3), table=_apart),
]  # fmt: skip
