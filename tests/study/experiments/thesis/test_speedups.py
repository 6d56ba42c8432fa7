"""Speed-ups of versions to the same error."""

import numpy as np
import pandas as pd
import pytest

from gpumf import SGD
from gpumf_study.experiments import _published
from gpumf_study.experiments.thesis import speedups
from outcomes import FINDINGS, assert_drawn, word
from support import ragged_ratings


def timed(seconds, last_mae, data="jester-1", repeats=2, prepare=0.0):
    """Repeats of ten epochs of each version, ending at an MAE; SGD on cores has `prepare` seconds before one."""
    rows = []
    for version, of_epoch in seconds.items():
        model, kernel, _ = speedups.VERSIONS[version]
        device = model.solvers()[kernel]
        before = prepare if device == "cpu" and model is SGD else 0.0
        for repeat in range(repeats):
            for epoch in range(11):
                mae = last_mae.get(version, _published.threshold(data) - 0.0105) + (10 - epoch) / 100
                times = epoch * of_epoch, before + epoch * of_epoch
                rows.append((data, version, model.__name__, kernel, device, repeat, epoch, *times, mae))
    return pd.DataFrame(
        rows, columns=["data", "version", "model", "kernel", "device", "repeat", "epoch", "seconds", "wall", "mae"]
    )


SECONDS = {
    "ALS, one core": 100.0,
    "ALS, all cores": 10.0,
    "ALS (32/128)": 1.0,
    "ALS, tensor cores": 0.1,
    "SGD, one core": 100.0,
    "SGD, all cores": 20.0,
    "SGD (32/128)": 2.0,
    "SGD (128/128)": 0.5,
}
EACH_ONCE = SECONDS | {"SGD, one core, each once": 10.0, "SGD, all cores, each once": 1.0}
SLOW_GPU = {"SGD (32/128)": 200.0, "ALS (32/128)": 200.0}


def test_versions_are_compared_at_the_published_error_and_at_one_that_all_reach():
    frame = timed(SECONDS, {"SGD (32/128)": 0.72})
    assert list(speedups.levels(frame).itertuples(index=False, name=None)) == [
        ("jester-1", "published", 0.71),
        ("jester-1", "reached by all", 0.72),
    ]
    table = speedups.summary(frame).set_index(["level", "version"])
    als = table.loc[("published", "ALS (32/128)")]
    assert (als.epochs, als.seconds, als.speedup, als.over_all_cores) == (9, 9, 100, 10)
    assert table.loc[("published", "SGD (32/128)")].isna()[["seconds", "speedup"]].all()
    assert table.loc[("reached by all", "SGD (32/128)")].seconds == 20
    shown = speedups.table(frame).set_index(["level", "column"])
    assert shown.published["published", "ALS"] == 131.3 and shown.speedup["published", "ALS"] == 100
    assert list(speedups.fastest(frame, "ALS").version.unique()) == ["ALS, tensor cores"]
    theirs = speedups.fastest(frame, "ALS", speedups.PUBLISHED_KERNELS)
    assert list(theirs.version.unique()) == ["ALS (32/128)"] and list(theirs.level) == ["published", "reached by all"]


def test_a_version_that_never_reaches_the_error_enters_no_ratio():
    frame = timed(SECONDS, {"SGD (32/128)": np.nan})
    value, _, _ = FINDINGS["thesis-table-6.3-sgd-32-128-jester-1"].value(frame)
    assert np.isnan(value)
    assert word("thesis-table-6.3-als-jester-1", frame) == "reproduced", "the others are compared all the same"


def test_the_gpu_alone_is_drawn_to_the_errors_that_all_versions_are_compared_at():
    frame = timed(SECONDS, {"SGD, one core": 0.72})
    for on_gpu in (False, True):
        (axis,) = speedups.figure(frame, on_gpu=on_gpu).axes
        assert axis.get_xlabel() == "seconds to MAE 0.72"
        names = [label.get_text() for label in axis.get_yticklabels()]
        assert ("SGD, one core" in names) is not on_gpu and len(axis.collections[0].get_offsets()) == len(names)


@pytest.mark.parametrize(
    ("name", "frame", "expected"),
    [
        ("thesis-table-6.3-als-jester-1", timed(SECONDS, {}), "reproduced"),
        ("thesis-table-6.3-sgd-32-128-jester-1", timed(SECONDS | {"SGD (32/128)": 50.0}, {}), "same direction"),
        ("thesis-table-6.3-sgd-32-128-jester-1", timed(SECONDS | SLOW_GPU, {}), "contradicted"),
        ("thesis-fig-6.11-als-one-core", timed(SECONDS, {}), "reproduced"),
        ("thesis-fig-6.11-als-one-core", timed(SECONDS | SLOW_GPU, {}), "contradicted"),
        ("thesis-fig-6.11-sgd-all-cores", timed(SECONDS, {}), "reproduced"),
        ("thesis-fig-6.11-sgd-all-cores", timed(SECONDS | {"SGD (32/128)": 50.0}, {}), "contradicted"),
        ("thesis-fig-6.12-jester-1", timed(SECONDS, {}), "reproduced"),
        ("thesis-fig-6.12-jester-1", timed(SECONDS | {"SGD (32/128)": 0.7}, {}), "contradicted"),
        ("thesis-fig-6.12-jester-1-own", timed(SECONDS, {}), "contradicted"),
        ("thesis-fig-6.12-douban-synthetic-own", timed(SECONDS, {}, "douban-synthetic"), "reproduced"),
    ],
)
def test_a_word_follows_from_the_numbers(name, frame, expected):
    assert word(name, frame) == expected


@pytest.mark.parametrize(
    ("name", "seconds", "prepare", "expected"),
    [
        ("lost-each-once", {}, 0.0, "contradicted"),
        ("lost-each-once", {"SGD, all cores, each once": 4.0}, 0.0, "reproduced"),
        ("sgd-all-cores-each-once", {}, 0.0, "contradicted"),
        ("sgd-all-cores-each-once", {"SGD, all cores, each once": 4.0}, 0.0, "reproduced"),
        ("lost-each-once", {}, 100.0, "contradicted"),
        ("lost-each-once-wall", {}, 100.0, "reproduced"),
        ("sgd-all-cores-each-once-wall", {}, 100.0, "reproduced"),
        ("lost-each-once-wall", {}, 0.0, "contradicted"),
    ],
)
def test_cores_that_take_each_rating_once_have_words_of_their_own(name, seconds, prepare, expected):
    frame = timed(EACH_ONCE | seconds, {}, repeats=3, prepare=prepare)
    assert word("thesis-fig-6.11-lost", frame) == "reproduced", "those that draw are slow"
    assert word(f"thesis-fig-6.11-{name}", frame) == expected


@pytest.mark.parametrize("suffix", ["", "-wall"])
@pytest.mark.parametrize("name", ["lost-each-once", "sgd-all-cores-each-once"])
def test_they_are_judged_where_they_ran_three_times_on_every_set(name, suffix):
    thrice, twice = (timed(EACH_ONCE, {}, repeats=repeats) for repeats in (3, 2))
    of_twin = timed(EACH_ONCE, {}, "jester-synthetic", repeats=3)
    for frame, judged in (
        (thrice, True),
        (pd.concat([thrice, of_twin]), True),
        (twice, False),
        (timed(SECONDS, {}, repeats=3), False),
        (pd.concat([twice, of_twin]), False),
        (pd.concat([thrice, of_twin[~of_twin.version.str.endswith("each once")]]), False),
    ):
        assert (word(f"thesis-fig-6.11-{name}{suffix}", frame) != "missing") == judged


def test_speedups_over_cores_that_take_each_rating_once_are_to_the_same_errors():
    frame = timed(EACH_ONCE, {"SGD, one core, each once": 0.72})
    once = speedups.each_once(frame)
    assert speedups.levels(once).equals(speedups.levels(frame)) and speedups.each_once(once).equals(frame)
    for changed, cores in ((frame, 20.0), (once, 1.0)):
        table = speedups.table(changed).set_index(["level", "column"])
        assert table.over_all_cores["published", "SGD, 32/128"] == pytest.approx(cores / 2)
        assert table.over_all_cores["published", "ALS"] == 10
    assert np.isnan(speedups.table(once).set_index(["level", "column"]).speedup["published", "SGD, 32/128"])


def test_cores_run_as_often_as_is_asked_and_with_the_published_parameters_once(monkeypatch):
    monkeypatch.setattr(speedups, "usable_devices", lambda: {"cpu"})
    monkeypatch.setattr(speedups, "load_ratings", lambda name: ragged_ratings(seed=0, name=name))
    asked = {"data": ["jester-1"], "updates": 5e3, "repeats": 3, "cpu_repeats": 3, "drawing_repeats": 2}
    frame = speedups.run(**speedups.PROFILES["smoke"] | asked)
    runs = frame.groupby(["setting", "version"]).repeat.nunique()
    drawing = ["SGD, one core", "SGD, all cores"]
    others = ["ALS, one core", "ALS, all cores", *(f"{version}, each once" for version in drawing)]
    assert runs["tuned"].to_dict() == dict.fromkeys(others, 3) | dict.fromkeys(drawing, 2)
    assert runs["published"].to_dict() == dict.fromkeys([*others, *drawing], 1)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_the_figure_says_where_it_was_measured_and_what_its_axes_are(store, on_gpu):
    result = store("speedups", timed(SECONDS, {} if on_gpu else {"SGD (32/128)": 0.72}))
    assert_drawn(speedups.figure(result.frame, on_gpu=on_gpu), result, 1)
