"""Rules that can say no, and the findings that the recorded results are judged by."""

import inspect
import json
import subprocess

import numpy as np
import pandas as pd
import pytest

from gpumf import dependencies, experiments, findings, reports, results
from gpumf.findings import ByConstruction, Finding, Holds, Near, Open, Target
from support import ROOT

FINDINGS = {finding.id: finding for _, finding in experiments.findings()}


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Stores a frame as the recorded result of an experiment."""
    monkeypatch.setattr(results, "repository", lambda: tmp_path)

    def store(name, frame, profile="full", device=results.REFERENCE, **facts):
        to = results.folder(live=False, device=device) / "thesis"
        to.mkdir(parents=True, exist_ok=True)
        frame.to_csv(to / f"{name}.csv", index=False)
        facts = {"commit": "c0ffee", "parameters": {"profile": profile}} | facts
        (to / f"{name}.json").write_text(json.dumps(facts))

    return store


# Rules


@pytest.mark.parametrize(
    ("rule", "value", "spread", "word"),
    [
        (Near(100, within=2), 51, 0, "reproduced"),
        (Near(100, within=2), 199, 0, "reproduced"),
        (Near(100, within=2), 49, 0, "same direction"),
        (Near(100, within=2), 201, 0, "same direction"),
        (Near(100, within=2), 1.2, 0.3, "contradicted"),
        (Near(100, within=2), 0.9, 0, "contradicted"),
        (Near(0.5, within=1.1), 0.8, 0.1, "same direction"),
        (Near(0.5, within=1.1), 1.2, 0.1, "contradicted"),
        (Holds(above=1), 1.2, 0.1, "reproduced"),
        (Holds(above=1), 1.1, 0.2, "tie"),
        (Holds(above=1), 0.9, 0.2, "tie"),
        (Holds(above=1), 0.7, 0.2, "contradicted"),
        (Holds(above=1, margin=0.3), 1.2, 0.1, "tie"),
        (Holds(below=1), 0.7, 0.2, "reproduced"),
        (Holds(below=1), 1.0, 0, "tie"),
        (Holds(below=1), 1.3, 0.2, "contradicted"),
        (Target(2, 1), 0.9, 0, "stretch"),
        (Target(2, 1), 0.9, 0.2, "target"),
        (Target(2, 1), 1.9, 0.2, "short"),
        (Target(2, 1), 2.1, 0, "short"),
        (Target(2), 0.1, 0, "target"),
        (Target(10, 30, "higher"), 31, 0.5, "stretch"),
        (Target(10, 30, "higher"), 30.2, 0.5, "target"),
        (Target(10, 30, "higher"), 9, 0, "short"),
        (ByConstruction(), 0, 0, "by construction"),
        (Open(), 5, 0, "answered"),
        (Open("a data set that is not published"), 5, 0, "not testable"),
    ],
)
def test_a_rule_says_of_a_value_and_its_spread_one_word(rule, value, spread, word):
    assert rule.word(value, spread) == word and word in findings.WORDS


def test_a_bound_is_one_of_two():
    for bounds in ({}, {"above": 1, "below": 2}):
        with pytest.raises(ValueError, match="one of above and below"):
            Holds(**bounds)


def test_spreads_are_half_of_what_repeats_cover_and_add_up_in_ratios():
    assert findings.median([1, 2, 5]) == (2, 2)
    assert findings.median([3])[0] == 3 and np.isnan(findings.median([3])[1])
    value, spread = findings.ratio([9, 10, 11], [2, 2, 2])
    assert value == 5 and spread == pytest.approx(0.5)
    value, spread = findings.ratio([9, 10, 11], [4, 5, 6])
    assert value == 2 and spread == pytest.approx(2 * np.hypot(0.1, 0.2))
    assert np.isnan(findings.median([])).all()
    seconds_ = pd.Series([9.0, 10, 11, 2], index=["a", "a", "a", "b"])
    assert findings.times(seconds_, "a", "b") == (5, pytest.approx(0.5), "x")
    assert np.isnan(findings.times(seconds_, "a", "c")[0])
    assert findings.ratio([10], [4, 5, 6]) == (2, pytest.approx(0.4)) and np.isnan(findings.ratio([10], [5])[1])


# Judging


def seconds(frame):
    return *findings.median(frame.seconds), "s"


def finding(rule=None, value=seconds, **more):
    return Finding("a-finding", "thesis", "Figure 1.2", "It takes so long.", value, rule or Target(2.0, 1.0), **more)


def only_row(of, experiment="measured"):
    (row,) = findings.table([(experiment, of)]).to_dict("records")
    return row


def test_a_row_says_what_was_found_where_and_by_which_rule(recorded):
    of = finding()
    recorded("measured", pd.DataFrame({"seconds": [1.2, 1.5, 1.6]}), rules_sha256={"a-finding": of.sha256})
    row = only_row(of)
    assert list(row) == findings.COLUMNS
    assert (row["value"], row["low"], row["high"], row["unit"]) == (1.5, pytest.approx(1.3), pytest.approx(1.7), "s")
    assert (row["target"], row["stretch"], row["word"], row["rule_older"]) == (2, 1, "target", True)
    assert row["source_file"] == f"data/results/{results.REFERENCE}/thesis/measured.csv" and row["commit"] == "c0ffee"


def test_a_rule_that_was_changed_since_is_younger_than_the_measurement(recorded):
    recorded("measured", pd.DataFrame({"seconds": [1.5]}), rules_sha256={"a-finding": finding().sha256})
    assert not only_row(finding(Target(3.0)))["rule_older"]
    assert not only_row(finding(value=lambda frame: (frame.seconds.max(), np.nan, "s")))["rule_older"]
    recorded("measured", pd.DataFrame({"seconds": [1.5]}))
    assert not only_row(finding())["rule_older"], "a record without the hash of a rule had none"


@pytest.mark.parametrize("stored", ["nothing", "a quick run", "no such row", "not on the other device"])
def test_without_a_full_measurement_a_finding_is_missing(recorded, stored):
    if stored != "nothing":
        frame = pd.DataFrame({"seconds": [] if stored == "no such row" else [1.5]})
        recorded("measured", frame, "quick" if stored == "a quick run" else "full")
    more = {"devices": (results.REFERENCE, "cpu")} if stored == "not on the other device" else {}
    row = only_row(finding(value=lambda frame, *_: (frame.seconds.median(), np.nan, "s"), **more))
    assert row["word"] == findings.MISSING and pd.isna([row["value"], row["source_file"], row["commit"]]).all()


def test_a_finding_on_several_devices_gets_a_frame_of_each(recorded):
    recorded("measured", pd.DataFrame({"seconds": [1.0]}))
    recorded("measured", pd.DataFrame({"seconds": [4.0]}), device="cpu")
    of = finding(
        Holds(above=2),
        lambda on_gpu, on_cpu: (on_cpu.seconds[0] / on_gpu.seconds[0], 0.0, "x"),
        devices=(results.REFERENCE, "cpu"),
    )
    assert (only_row(of)["value"], only_row(of)["word"]) == (4, "reproduced")


def test_what_nothing_measures_is_missing_and_what_cannot_be_asked_says_what_is_missing(recorded):
    assert only_row(Finding("a", "esgd", "Table 2", "So."), None)["word"] == "missing"
    row = only_row(Finding("a", "esgd", "Table 2", "So.", rule=Open("the set")), None)
    assert row["word"] == "not testable" and row["statement"] == "So. Missing: the set."


def test_a_same_direction_says_how_far_it_is():
    row = pd.Series({"word": "same direction", "value": 50.0, "published": 200.0})
    assert findings.how_far(row) == "same direction, 0.25 times the published"
    assert findings.how_far(pd.Series({"word": "tie"})) == "tie"


# What a result depends on


def test_code_is_what_run_reaches_and_not_how_it_is_drawn_or_judged(tmp_path):
    package, kernels = tmp_path / "src/gpumf", tmp_path / "kernels/als"
    files = {
        "__init__.py": "from gpumf.models import ALS, SGD\n",
        "models/__init__.py": "from gpumf.models.als import ALS\nfrom gpumf.models.sgd import SGD\n",
        "models/als.py": 'from gpumf import hashing\n\n\nclass ALS:\n    source = "als/a.cu"\n',
        "models/sgd.py": 'class SGD:\n    source = "als/b.cu"\n',
        "hashing.py": "",
        "figure_style.py": "",
        "experiments/__init__.py": "def load():\n    return 1\n",
        "experiments/thesis/other.py": "FACTORS = 3\n\ndef stop():\n    return FACTORS\n\ndef unused():\n    pass\n",
        "experiments/thesis/one.py": (
            "from gpumf import ALS\nfrom gpumf import figure_style as style\nfrom gpumf.experiments import load\n"
            "from gpumf.experiments.thesis import other\n\nSIZE = 2\n\n\ndef run():\n"
            '    """What."""\n    return _inner()\n\n\n'
            "def _inner():\n    return ALS, load(), other.stop(), SIZE\n\n\ndef figure():\n    return style\n"
        ),
    }
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    kernels.mkdir(parents=True)
    (kernels / "a.cu").write_text('#include "a.cuh"\n')
    (kernels / "a.cuh").write_text("// shared\n")
    (kernels / "b.cu").write_text("")
    before = dependencies.code("one", tmp_path)
    below = {"src/gpumf/models/als.py", "src/gpumf/hashing.py", "kernels/als/a.cu", "kernels/als/a.cuh"}
    assert set(before) == {"run"} | below

    def after(name, old, new):
        path = package / name
        text = path.read_text()
        path.write_text(text.replace(old, new))
        changed = {key for key, value in dependencies.code("one", tmp_path).items() if value != before.get(key)}
        path.write_text(text)
        return changed

    one, other = "experiments/thesis/one.py", "experiments/thesis/other.py"
    assert after(one, "return style", "return None") == set() and after(one, "What.", "What it is.") == set()
    assert after(one, "SIZE = 2", "SIZE = 3") == {"run"} and after(
        one, "_inner():\n    return", "_inner():\n    yield"
    )
    assert after(other, "FACTORS = 3", "FACTORS = 4") == {"run"} and after(other, "pass", "return 1") == set()
    assert after("experiments/__init__.py", "return 1", "return 2") == {"run"}
    assert after("hashing.py", "", "x = 1\n") == {"src/gpumf/hashing.py"}
    assert dependencies.code("two", tmp_path) is None


@pytest.mark.parametrize(("name", "folder"), [("als_versions", "als"), ("sgd_schemes", "sgd"), ("rbm_speed", "rbm")])
def test_all_kernels_of_a_family_are_reached_by_the_experiment_that_times_them(name, folder):
    kernels = {path.relative_to(ROOT).as_posix() for path in (ROOT / "kernels" / folder).rglob("*.cu")}
    assert kernels and kernels <= set(dependencies.code(name))


def test_a_result_is_held_to_its_own_hashes_or_else_to_its_commit(monkeypatch):
    name, now = "theoretical_flops", dependencies.code("theoretical_flops")
    result = results.load(name)

    def changed(**facts):
        facts = {"commit": result.provenance["commit"]} | facts
        return dependencies.changed(results.Result(result.path, result.frame, facts, False))

    assert changed() == [], "that it was moved to another folder since changes nothing"
    assert changed(code=now) == []
    assert changed(code=now | {"run": "other", "kernels/gone.cu": "1"}) == ["kernels/gone.cu", "run"]
    assert changed(commit="0" * 40) is None


def test_a_new_result_carries_the_hashes_of_its_code_and_of_its_rules(tmp_path, monkeypatch):
    code = dependencies.code("theoretical_flops")
    monkeypatch.setattr(dependencies, "code", lambda name: code)
    monkeypatch.setattr(results, "repository", lambda: tmp_path)
    monkeypatch.delenv("GPUMF_RECORD", raising=False)
    facts = experiments.run("theoretical_flops").provenance
    assert facts["code"] == code and facts["rules_sha256"] == {
        "thesis-fig-1.2": FINDINGS["thesis-fig-1.2"].sha256,
    }


# The findings


def test_every_finding_is_one_sentence_with_a_rule_and_a_known_source():
    known = set(experiments.artefacts()[["source", "artefact"]].itertuples(index=False, name=None))
    assert len(known) == 44
    assert len(FINDINGS) == len(experiments.findings()), "ids are told apart"
    for experiment, of in experiments.findings():
        assert of.source in experiments.SOURCES and of.statement, of.id
        if of.source == "gpumf":
            assert of.artefact is None and of.statement.count(" | ") == 3, of.id
        else:
            assert (of.source, of.artefact) in known or of.artefact.startswith("Section"), of.id
        if experiment is None:
            assert of.rule is None and of.value is None
        else:
            assert isinstance(of.rule, Near | Holds | Target | ByConstruction | Open), of.id
            assert len(of.sha256) == 64
    assert len({of.sha256 for of in FINDINGS.values() if of.rule}) > 50, "rules are told apart"
    thesis = {of.artefact for _, of in experiments.findings() if of.source == "thesis"}
    assert {artefact for source, artefact in known if source == "thesis"} <= thesis


def test_promises_have_a_stretch_beyond_their_target():
    for of in FINDINGS.values():
        if isinstance(of.rule, Target):
            assert of.source == "gpumf" and of.rule.better in ("lower", "higher")
            assert of.rule.stretch is None or (of.rule.stretch < of.rule.target) == (of.rule.better == "lower")


def word(name, *frames):
    of = FINDINGS[name]
    value, spread, unit = of.value(*frames)
    assert isinstance(unit, str)
    return findings.MISSING if pd.isna(value) else of.rule.word(value, 0.0 if pd.isna(spread) else spread)


def promise_words(name, columns, rows, *others):
    return word(name, *(pd.DataFrame(r, columns=columns) for r in (rows, *others)))


VERSIONS = ["data", "model", "kernel", "factors", "cg_steps", "step", "seconds"]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("als-fp32-exact-seconds", ("netflix-twin", "ALS", "cumf_cholesky", 100, None, "iteration")),
        ("als-implicit64-seconds", ("netflix-twin", "ImplicitALS", "tensor_core", 64, 4, "iteration")),
        ("als-implicit128-seconds", ("netflix-twin", "ImplicitALS", "tensor_core", 128, 4, "iteration")),
    ],
)
def test_the_times_of_versions_are_those_of_the_row_that_the_promise_names(name, row):
    others = [(*row[:k], other, *row[k + 1 :]) for k, other in ((0, "b"), (1, "c"), (2, "d"), (3, 7), (5, "users"))]
    rule = FINDINGS[name].rule
    for seconds_, expected in ((rule.target * 0.9, "target"), (rule.target * 1.1, "short")):
        rows = [(*row, seconds_), *((*other, 1e-9) for other in others)]
        assert promise_words(name, VERSIONS, rows) == expected
    assert promise_words(name, VERSIONS, [(*other, 1e-9) for other in others]) == "missing"


def test_the_time_of_an_iteration_and_the_gap_of_errors_are_of_the_tensor_cores():
    def frame(fast, gap, exact="cumf_cholesky"):
        kernels = {exact: (4.0, 0.88), "tensor_core": (fast, 0.88 + gap)}
        return pd.DataFrame(
            [(k, r, e, e * s, rmse, 1) for k, (s, rmse) in kernels.items() for r in (0, 1) for e in range(11)],
            columns=["kernel", "repeat", "epoch", "seconds", "rmse", "mae"],
        )

    times = {0.019: "stretch", 0.025: "target", 0.04: "short"}
    assert {s: word("als-explicit-seconds", frame(s, 0)) for s in times} == times
    gaps = {-0.0001: "stretch", 0.0005: "target", -0.0005: "target", 0.002: "short"}
    assert {gap: word("als-explicit-rmse-gap", frame(1, gap)) for gap in gaps} == gaps
    assert word("als-explicit-rmse-gap", frame(1, 0, exact="parallel")) == "missing"


def test_the_updates_of_sgd_and_its_errors_are_those_that_the_promises_name():
    columns = ["scheme", "repeat", "nnz", "epoch", "seconds", "rmse"]

    def rows(**schemes):
        return [
            (scheme, 0, 1e9, e, e * seconds_, rmse) for scheme, (seconds_, rmse) in schemes.items() for e in range(21)
        ]

    cpu = rows(sequential=(10, 0.92))
    for seconds_, expected in ((0.1, "stretch"), (0.15, "target"), (0.25, "short")):
        assert promise_words("sgd-fast-updates", columns, rows(fast=(seconds_, 1), cumf_sgd=(9, 1))) == expected
    assert promise_words("sgd-cumf-updates", columns, rows(fast=(0.01, 1), cumf_sgd=(0.5, 1))) == "short"
    for rmse, expected in ((0.919, "stretch"), (0.922, "target"), (0.924, "short")):
        assert promise_words("sgd-fast-rmse-gap", columns, rows(fast=(1, rmse)), cpu) == expected
    assert promise_words("sgd-fast-rmse-gap", columns, rows(fast=(1, 0.9)), rows(parallel=(1, 0.9))) == "missing"


def test_the_steps_of_cu2rec_are_of_its_own_size():
    columns = ["data", "factors", "steps", "seconds"]
    for factors, times in ((50, (0.09, 0.2, 0.4)), (300, (0.4, 1.0, 1.3))):
        for seconds_, expected in zip(times, ("stretch", "target", "short"), strict=True):
            rows = [("ml-10m-twin", factors, 3000, seconds_), ("ml-10m-twin", factors, 30, 1e-9)]
            assert promise_words(f"sgd-cu2rec{factors}-seconds", columns, rows) == expected


def test_the_speedups_on_douban_are_to_the_same_error():
    columns = ["data", "model", "kernel", "device", "repeat", "epoch", "seconds", "rmse", "mae"]

    def rows(model, fast, last=0.57):
        kernels = (("sequential", "cpu", 10, 0.57), ("tensor_core", "cuda", fast, last), ("fast", "cuda", fast, last))
        return [
            ("douban-twin", model, kernel, device, 0, epoch, epoch * seconds_, 1, mae)
            for kernel, device, seconds_, end in kernels
            for epoch, mae in enumerate((0.9, 0.6, end))
        ]

    for name, model, times in (
        ("als-douban-speedup", "ALS", (0.003, 0.005, 0.02)),
        ("sgd-douban-speedup", "SGD", (0.004, 0.01, 0.03)),
    ):
        for fast, expected in zip(times, ("stretch", "target", "short"), strict=True):
            assert promise_words(name, columns, rows(model, fast)) == expected, (name, fast)
        assert promise_words(name, columns, rows(model, 0.001, last=0.58)) == "missing", "it never got there"


def test_the_errors_on_movielens_are_means_of_folds_with_the_spread_of_the_seeds():
    columns = ["fold", "step", "seed", "rmse", "mae"]

    def rows(rmse, between_seeds=0.0):
        tests = [(f, "test", s, rmse + f / 10 - 0.05 + s * between_seeds, 0.7) for f in (0, 1) for s in (0, 1)]
        return [*tests, (0, "choice", 0, 0.1, 0.1)]

    for rmse, expected in ((0.91, "stretch"), (0.93, "target"), (0.94, "short")):
        assert promise_words("sgd-ml100k-rmse", columns, rows(rmse)) == expected
    assert promise_words("sgd-ml100k-rmse", columns, rows(0.925, between_seeds=0.01)) == "short", "seeds are apart"
    assert promise_words("sgd-ml100k-mae", columns, rows(0.91)) == "stretch"


def test_an_iteration_on_hugewiki_is_that_of_both_sides():
    columns = ["step", "seconds"]
    assert promise_words("als-hugewiki-seconds", columns, [("iteration", 1.5), ("users", 9.0)]) == "target"
    assert promise_words("als-hugewiki-seconds", columns, [("iteration", 2.5), ("users", 0.1)]) == "short"


def test_reading_is_held_to_its_seconds_and_to_the_file_that_takes_most_memory():
    columns = ["format", "ids", "seconds", "peak", "arrays"]

    def rows(seconds_, most):
        files = [(format, ids) for format in ("parquet", "csv") for ids in ("integers", "strings")]
        return [
            (*file, seconds_ if file[1] == "integers" else 99, most if file == ("csv", "strings") else 1, 1)
            for file in files
        ]

    for name, times in (("read-parquet-seconds", (1.4, 2.9, 3.1)), ("read-csv-seconds", (3.9, 7.9, 8.1))):
        for seconds_, expected in zip(times, ("stretch", "target", "short"), strict=True):
            assert promise_words(name, columns, rows(seconds_, 1)) == expected
    for most, expected in ((1.9, "stretch"), (2.9, "target"), (3.1, "short")):
        assert promise_words("read-memory", columns, rows(1, most)) == expected


# What the repository holds


def test_the_recorded_table_is_current():
    stored = pd.read_csv(ROOT / "data/results/findings.csv")
    computed = findings.table(experiments.findings())
    assert list(stored) == findings.COLUMNS
    # Whether a result's code has changed depends on the tree, not on the results.
    text = reports.as_csv(computed.drop(columns="current"))
    assert reports.as_csv(stored.drop(columns="current")) == text, "run `make findings`"
    assert set(stored.word) <= set(findings.WORDS)
    words = stored.set_index("id").word
    for experiment, of in experiments.findings():
        found = experiment and all(results.recorded(experiment, device) for device in of.devices)
        assert (words[of.id] != findings.MISSING) == bool(found), of.id


def test_coverage_counts_artefacts_and_not_findings():
    frame = pd.DataFrame(
        [("thesis", "Figure 6.7", "tie"), ("thesis", "Figure 6.7", "short"), ("esgd", "Table 2", "missing")],
        columns=["source", "artefact", "word"],
    )
    counts = reports.coverage(frame)
    assert counts.measured.to_dict() == {"thesis": 1, "cu2rec": 0, "cumf": 0, "newgpusgd": 0, "esgd": 0}
    assert counts.artefacts.to_dict() == {"thesis": 21, "cu2rec": 4, "cumf": 10, "newgpusgd": 5, "esgd": 4}


def test_published_values_are_told_apart_and_of_all_five_sources():
    table = experiments._published.table()
    assert set(table.source) == set(experiments.SOURCES) - {"gpumf"}
    assert not table.duplicated(["source", "artefact", "data", "model", "quantity"]).any()
    assert table[["source", "artefact", "section", "value"]].notna().all(axis=None)
    value = experiments._published.value
    assert value("Table 2", "least error", "ml-1m", source="esgd") == 0.8991
    assert value("Table 4", "time to the acceptable error", "hugewiki", "cuMF_ALS, Pascal", "cumf") == 68


def test_a_row_is_shown_with_its_spread_its_unit_and_what_was_promised(recorded):
    recorded(
        "sgd_cu2rec", pd.DataFrame({"data": "ml-10m-twin", "factors": 50, "steps": 3000, "seconds": [0.1, 0.2, 0.3]})
    )
    row = reports.overview("sgd-cu2rec50").loc["sgd-cu2rec50-seconds"]
    assert row.measured == "0.2 ± 0.1 s" and row.promised == "target 0.3, stretch 0.1" and row.word == "target"
    assert reports.overview(source="esgd", artefact="Table 2").word.to_list() == ["missing"]
    with pytest.raises(ValueError, match="no findings whose ids begin with 'nothing'"):
        reports.overview("nothing")


def test_what_is_stale_is_listed_with_what_has_changed(recorded, monkeypatch, capsys):
    recorded("theoretical_flops", pd.DataFrame({"a": [1]}), code={"run": "of another day"})
    reports._changed.cache_clear()
    monkeypatch.setattr(dependencies, "code", lambda name: {"run": "today"})
    assert reports.main(["stale"]) == 0
    assert capsys.readouterr().out == f"data/results/{results.REFERENCE}/thesis/theoretical_flops.csv: run\n"
    reports._changed.cache_clear()
    assert reports.main([]) == 2 and "usage" in capsys.readouterr().err


def test_make_records_one_experiment_or_all():
    def commands(*arguments):
        make = ["make", "--dry-run", "PYTHON=python3", *arguments]
        return subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "-m gpumf.experiments als_netflix --profile full --record" in commands("record", "NAME=als_netflix")
    assert "book/build.py --record" in commands("record")


def test_values_of_findings_take_as_many_frames_as_they_have_devices():
    for _, of in experiments.findings():
        if of.value is not None:
            signature = inspect.signature(of.value)
            signature.bind(*[None] * len(of.devices))
