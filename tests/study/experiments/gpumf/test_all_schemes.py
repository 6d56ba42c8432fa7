"""Every scheme at once."""

import numpy as np
import pandas as pd
import pytest

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
    """Rows of SCHEMES, of which `changes` replace some by the scheme's name; repeats are 1 % apart in seconds."""
    rows = []
    for (model, scheme), facts in SCHEMES.items():
        source, device, seconds, rmse = changes.get(scheme, facts)
        for repeat in range(seeds if device == "cuda" else 1):
            of_epoch = seconds * (1 + 0.01 * repeat)
            for epoch, error in enumerate((1.5, 1.0, rmse)):
                diverged = np.isnan(rmse)
                until = np.nan if diverged and epoch == 2 else epoch * of_epoch
                rows.append(
                    {"data": "ml-20m-synthetic", "nnz": 100, "model": model, "scheme": scheme, "source": source,
                     "device": device, "factors": 4, "repeat": repeat, "epoch": epoch,
                     "elapsed": until + 1 if epoch else np.nan, "seconds": until, "rmse": error, "diverged": diverged,
                     "wall": 99.0, "compile": 0.0}
                )  # fmt: skip
    return pd.DataFrame(rows)


def test_a_scheme_is_timed_to_the_common_error_if_all_its_trainings_come_to_it():
    frame = courses()
    table = experiment.summary(frame)
    assert experiment.level(frame) == pytest.approx(1.01 * 0.9)
    assert table.train["ALS", "parallel"] == 20 and table.wall["ALS", "parallel"] == 21
    assert table.train["ALS", "tensor_core"] == pytest.approx(2.02) and table.epochs["ALS", "tensor_core"] == 2
    assert table[["train", "wall"]].isna().all(axis=1).to_list() == [False] * 4 + [True, True, False, True]
    assert np.isnan(table.rmse["SGD", "esgd"]) and table.rmse["SGD", "cu2rec"] == 0.95
    late = (frame.scheme == "fast") & (frame.repeat == 2)
    assert np.isnan(experiment.summary(frame.assign(rmse=frame.rmse.mask(late, 1.0))).train["SGD", "fast"])
    no_reference = frame[frame.scheme != "parallel"]
    assert np.isnan(experiment.level(no_reference)) and experiment.reached(no_reference).empty


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("all-schemes-soonest-train", {}, "reproduced"),
        ("all-schemes-soonest-train", {"fast": ("gpumf", "cuda", 0.5, 0.9)}, "contradicted"),
        ("all-schemes-soonest-train", {"fast": ("gpumf", "cuda", 1.0, 0.9)}, "tie"),
        ("all-schemes-soonest-train", {"tensor_core": ("gpumf", "cuda", 1.0, 0.95)}, "missing"),
        ("all-schemes-soonest-wall", {}, "reproduced"),
        ("all-schemes-soonest-wall", {"cumf_cg": ("cumf", "cuda", 0.1, 0.9)}, "contradicted"),
        ("all-schemes-published", {}, "reproduced"),
        ("all-schemes-published", {"cumf_cg": ("cumf", "cuda", 3.0, 0.95)}, "contradicted"),
        ("all-schemes-published", {"esgd": ("esgd", "cuda", 0.5, 0.9)}, "contradicted"),
        ("all-schemes-ours-train", {}, "target"),
        ("all-schemes-ours-train", {"cumf_cg": ("cumf", "cuda", 5.0, 0.9)}, "stretch"),
        ("all-schemes-ours-train", {"cumf_cg": ("cumf", "cuda", 1.5, 0.9)}, "short"),
        ("all-schemes-ours-train", {"cumf_cg": ("cumf", "cuda", 1.5, 0.95)}, "missing"),
        ("all-schemes-cores-wall", {}, "target"),
        ("all-schemes-cores-wall", {"parallel": ("gpumf", "cpu", 100.0, 0.9)}, "stretch"),
        ("all-schemes-cores-wall", {"parallel": ("gpumf", "cpu", 2.0, 0.9)}, "short"),
    ],
)
def test_words_follow_from_the_courses(name, changes, expected):
    assert word(name, courses(**changes)) == expected


@pytest.mark.parametrize("name", [finding.id for finding in experiment.FINDINGS])
def test_without_a_gpu_nothing_is_said(name):
    frame = courses()
    assert word(name, frame[frame.device == "cpu"]) == "missing"


def test_all_are_drawn(store):
    result = store("all_schemes", courses())
    assert_drawn(experiment.figure(result.frame), result, 2)
    figure = experiment.figure_seconds(result.frame)
    assert_drawn(figure, result, 1)
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert sum("diverges" in name for name in names) == 1 and sum("ends at 0.950" in name for name in names) == 2


@pytest.mark.slow
def test_elapsed_is_what_a_user_waits_for_each_epoch():
    frame = experiment.run(**experiment.PROFILES["smoke"] | {"schemes": ["ALS sequential"], "repeats": 1})
    assert frame.elapsed.isna().to_list() == [True, False, False] and frame.elapsed.diff()[2] > 0
    later = frame[frame.epoch > 0]
    assert (later.elapsed >= later["prepare"] + later.seconds).all()
    assert (later.elapsed <= later.wall - later["compile"]).all()
