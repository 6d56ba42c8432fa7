"""Every scheme at once."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.gpumf import all_schemes as experiment
from outcomes import assert_drawn, word

# (source, device, seconds of an epoch, test RMSE after the second of two): the level is 0.909.
SCHEMES = {
    ("ALS", "parallel"): ("gpumf", "cpu", 10.0, 0.9),
    ("SGD", "ordered_parallel"): ("gpumf", "cpu", 20.0, 0.89),
    ("ALS", "cumf_cg"): ("cumf", "cuda", 3.0, 0.9),
    ("ALS", "tensor_core"): ("gpumf", "cuda", 1.0, 0.9),
    ("SGD", "cu2rec"): ("cu2rec", "cuda", 0.5, 0.95),
    ("SGD", "esgd"): ("esgd", "cuda", 0.5, np.nan),
    ("SGD", "fast"): ("gpumf", "cuda", 1.5, 0.89),
    ("RBM", "thesis"): ("thesis", "cuda", 0.5, 0.95),
}


def courses(seeds=3, **changes):
    """Rows of SCHEMES, of which `changes` replace some by the solver's name; repeats are 1 % apart in seconds."""
    rows = []
    for (model, solver), facts in SCHEMES.items():
        source, device, seconds, rmse = changes.get(solver, facts)
        for repeat in range(seeds if device == "cuda" else 1):
            of_epoch = seconds * (1 + 0.01 * repeat)
            labels = {"data": "ml-20m-synthetic", "task": "fit", "model": model, "solver": solver, "device": device}
            labels |= {"x_source": source, "factors": 4, "repeat": repeat}
            for epoch, error in enumerate((1.5, 1.0, rmse)):
                until = np.nan if np.isnan(error) else epoch * of_epoch
                row = {"epoch": epoch, "phase": "train", "seconds": until, "metric": "rmse", "value": error}
                rows.append(labels | row)
            rows.append(labels | {"phase": "preprocess", "seconds": 1.0})
    return schema.validated(pd.DataFrame(rows))


def test_a_solver_is_timed_to_the_common_error_if_all_its_trainings_reach_it():
    frame = courses()
    table = experiment.summary(frame)
    assert experiment.level(frame) == pytest.approx(1.01 * 0.9)
    assert table.train["ALS", "parallel"] == 20 and table.wall["ALS", "parallel"] == 21
    assert table.train["ALS", "tensor_core"] == pytest.approx(2.02) and table.epochs["ALS", "tensor_core"] == 2
    assert table[["train", "wall"]].isna().all(axis=1).to_list() == [False] * 4 + [True, True, False, True]
    assert np.isnan(table.rmse["SGD", "esgd"]) and table.rmse["SGD", "cu2rec"] == 0.95
    late = (frame.solver == "fast") & (frame.repeat == 2)
    assert np.isnan(experiment.summary(frame.assign(value=frame.value.mask(late, 1.0))).train["SGD", "fast"])
    no_reference = frame[frame.solver != "parallel"]
    assert np.isnan(experiment.level(no_reference)) and experiment.reached(no_reference).empty


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("all-schemes-soonest-train", {}, "replicated"),
        ("all-schemes-soonest-train", {"fast": ("gpumf", "cuda", 0.5, 0.9)}, "not replicated"),
        ("all-schemes-soonest-train", {"fast": ("gpumf", "cuda", 1.0, 0.9)}, "inconclusive"),
        ("all-schemes-soonest-train", {"tensor_core": ("gpumf", "cuda", 1.0, 0.95)}, "missing"),
        ("all-schemes-soonest-wall", {"cumf_cg": ("cumf", "cuda", 0.1, 0.9)}, "not replicated"),
        ("all-schemes-published", {}, "replicated"),
        ("all-schemes-published", {"cumf_cg": ("cumf", "cuda", 3.0, 0.95)}, "not replicated"),
        ("all-schemes-published", {"esgd": ("esgd", "cuda", 0.5, 0.9)}, "not replicated"),
        ("all-schemes-cores-wall", {}, "measured"),
    ],
)
def test_verdicts_follow_from_the_courses(name, changes, expected):
    assert word(name, courses(**changes)) == expected


@pytest.mark.parametrize("name", [claim.id for claim in experiment.CLAIMS])
def test_without_a_gpu_nothing_is_said(name):
    frame = courses()
    assert word(name, frame[frame.device == "cpu"]) == "missing"


def test_all_are_drawn(store):
    result = store("all_schemes", courses())
    assert_drawn(experiment.figure(result.frame), result, 1)
    figure = experiment.figure_seconds(result.frame)
    assert_drawn(figure, result, 1)
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert sum("diverges" in name for name in names) == 1 and sum("ends at 0.950" in name for name in names) == 2
