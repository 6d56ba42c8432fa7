"""Other programs beside ours, at the same task, on the same data and hardware: the rows of the table in the book.

A row takes both numbers from one stored result.
"""

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from gpumf_study import benchmarks, results
from gpumf_study.benchmarks import ML100K, NETFLIX, Stored


@dataclass(frozen=True)
class Comparison:
    """A row of the table.

    program : name of the other program
    task : what both do, by our model
    data : the data set as it is shown
    theirs, ours : seconds, or what they are scaled to, in one result
    cpu : measured on the CPU of the machine, whatever GPU it has
    unit : of both
    """

    program: str
    task: str
    data: str
    theirs: Stored
    ours: Stored
    cpu: bool = False
    unit: str = "s"

    def row(self) -> dict[str, Any]:
        """Return program, task, data, theirs, ours, ratio, low, high (of the ratio, 95 %), n, on, experiment.

        Numbers are medians of the repeats; they and `on` are missing where nothing is recorded yet.
        """
        row: dict[str, Any] = {"program": self.program, "task": self.task, "data": self.data, "unit": self.unit}
        row["experiment"] = self.ours.experiment
        try:
            theirs, ours = self.theirs.repeats(), self.ours.repeats()
        except results.NoResult:
            return row
        result = self.ours.result()
        device = benchmarks.timed_on(self.ours, result, self.cpu)
        ratio, low, high, n = benchmarks.ratio_interval(theirs, ours, device)
        row |= {"theirs": theirs.value.median(), "ours": ours.value.median()}
        row |= {"ratio": ratio, "low": low, "high": high, "n": n}
        return row | {"on": benchmarks.machine(result, self.cpu)}


Pair = tuple[Stored, Stored]  # theirs and ours


def _both(experiment, theirs, ours, **options) -> Pair:
    """(theirs, ours) of one result, each chosen by a dict of columns."""
    of = Stored(experiment, "seconds", **options)
    return replace(of, where=theirs), replace(of, where=ours)


def _original(theirs, ours, table, scale=1.0) -> Pair:
    return _both("original_programs", *({"model": model, "solver": solver} for model, solver in (theirs, ours)),
                 table=table, scale=scale)  # fmt: skip


def _implicit(device, solver, factors) -> Pair:
    where = {"device": device, "factors": factors}
    theirs, ours = where | {"model": "implicit"}, where | {"model": "ImplicitALS", "solver": solver}
    return _both("peers_als", theirs, ours, table="of_equal_steps", scale=1e3)


def _fits(model, solver, factors, theirs) -> Pair:
    """Whole fits after the first of a process; `variant` is where ours puts the ratings in order, here the GPU."""
    where = {"repeat": [1, 2, 3, 4, 5], "task": "fit", "phase": "end_to_end", "factors": factors}
    return _both("fit_seconds", where | {"model": "implicit", "solver": theirs},
                 where | {"model": model, "solver": solver, "variant": "device"})  # fmt: skip


def _surprise(phase) -> Pair:
    where = {"x_step": "timed", "phase": phase}
    return _both("peers_ml100k", where | {"model": "Surprise, SVD"}, where | {"model": "gpumf, SGD"})


def _searched(model, theirs) -> Pair:
    return _both("search_peers", {"model": model, "variant": theirs}, {"model": model, "variant": "gpumf, search"})


_ALS, _SGD = ("ALS", "tensor_core"), ("SGD", "fast")
ROWS = [
    Comparison("cuMF_ALS, its fastest", "ALS, 100 factors: training to RMSE 0.92, ours on tensor cores", NETFLIX,
               *_original(("cuMF_ALS", "fastest"), _ALS, "fastest")),
    *(Comparison(f"cuMF_ALS, {what}", "ALS, 100 factors: an iteration, ours of its algorithm", NETFLIX,
                 *_original(("cuMF_ALS", solver), ("ALS", f"cumf_{solver}"), "iterations", 1e3), unit="ms")
      for solver, what in (("cg", "CG in FP32"), ("cg_fp16", "CG in FP16"), ("lu", "LU"))),
    Comparison("CuMF_SGD", "SGD, 128 factors: training to RMSE 0.92", NETFLIX,
               *_original(("CuMF_SGD", "fastest"), _SGD, "fastest")),
    Comparison("CuMF_SGD", "SGD, 128 factors: an epoch", NETFLIX,
               *_original(("CuMF_SGD", "batch_hogwild"), _SGD, "iterations", 1e3), unit="ms"),
    Comparison("cu2rec", "its SGD, 50 factors: a step", benchmarks.ML20M,
               *_original(("cu2rec", "early_bird"), ("SGD", "cu2rec"), "iterations", 1e3), unit="ms"),
    *(Comparison("implicit, GPU", f"ImplicitALS, {factors} factors: an iteration, {how}", NETFLIX,
                 *_implicit("cuda", solver, factors), unit="ms") for factors in (64, 128)
      for solver, how in (("cumf_cg", "both in FP32"), ("tensor_core", "ours on tensor cores"))),
    Comparison("implicit, GPU", "ImplicitALS, 64 factors: ten iterations, end to end", NETFLIX,
               *_fits("ImplicitALS", "tensor_core", 64, "gpu")),
    *(Comparison("implicit, CPU", f"ImplicitALS, {factors} factors: an iteration", NETFLIX,
                 *_implicit("cpu", "parallel_cg", factors), True, "ms") for factors in (64, 128)),
    Comparison("implicit, CPU", "ImplicitALS, 100 factors: an iteration", NETFLIX,
               *_both("implicit_seconds", {"model": "implicit", "phase": "train"},
                      {"solver": "parallel_cg", "phase": "train"}, scale=1e3), True, "ms"),
    Comparison("LIBMF", "SGD, 128 factors: end to end to the RMSE that both reach", NETFLIX,
               *_both("peers_sgd", {"model": "LIBMF"}, {"model": "gpumf, CPU"}, table="reached"), True),
    Comparison("Surprise, SVD", "SGD, 128 factors, parameters by search: training", ML100K,
               *_surprise("train"), True),
    Comparison("Surprise, GridSearchCV", "SGD, 32 factors: a search of 20 settings", ML100K,
               *_searched("SGD", "Surprise, GridSearchCV"), True),
    Comparison("implicit, scikit-learn's GridSearchCV", "ImplicitALS, 32 factors: a search of 20 settings", ML100K,
               *_searched("ImplicitALS", "implicit, scikit-learn's GridSearchCV"), True),
]  # fmt: skip


def table() -> pd.DataFrame:
    """All rows as numbers: a DataFrame with the columns of `Comparison.row`."""
    return pd.DataFrame([row.row() for row in ROWS])


def shown(frame: pd.DataFrame):
    """Return the rows of `table` as they are shown, 'not measured' where they are not: a Styler of pandas."""
    columns = {"program": frame.program, "task, and our model": frame.task, "data": frame.data}
    for side in ("theirs", "ours"):
        numbers = zip(frame[side], frame.unit, strict=True)
        columns[side] = ["" if pd.isna(value) else benchmarks.shown(value, unit) for value, unit in numbers]
    ratios = zip(frame.ratio, frame.low, frame.high, strict=True)
    columns["theirs / ours"] = [_with_interval(*ratio) for ratio in ratios]
    return pd.DataFrame(columns | {"on": frame.on.fillna(""), "experiment": frame.experiment}).style.hide()


def _with_interval(ratio, low, high):
    """A ratio with its interval, which one repeat has not."""
    if pd.isna(ratio):
        return "not measured"
    return f"{ratio:.3g}" + ("" if pd.isna(low) else f" ({low:.3g} to {high:.3g})")
