"""Rules that can say no, and the findings that the recorded results are judged by."""

import inspect

import numpy as np
import pandas as pd
import pytest

from gpumf_study import experiments, findings, results
from gpumf_study.claims import Claim
from gpumf_study.findings import ByConstruction, Finding, Holds, Near, Open, Target
from outcomes import FINDINGS


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


def seconds(frame):
    return *findings.median(frame.seconds), "s"


def finding(rule=None, value=seconds, **more):
    return Finding("a-finding", "thesis", "Figure 1.2", "It takes so long.", value, rule or Target(2.0, 1.0), **more)


def only_row(of, experiment="measured"):
    (row,) = findings.table([(experiment, of)]).to_dict("records")
    return row


def test_a_row_says_what_was_found_where_and_by_which_rule(store):
    of = finding()
    store("measured", pd.DataFrame({"seconds": [1.2, 1.5, 1.6]}))
    row = only_row(of)
    assert list(row) == findings.COLUMNS
    assert (row["value"], row["low"], row["high"], row["unit"]) == (1.5, pytest.approx(1.3), pytest.approx(1.7), "s")
    assert (row["target"], row["stretch"], row["word"]) == (2, 1, "target")
    assert row["source_file"] == f"data/results/{results.REFERENCES[0]}/thesis/measured.csv"
    assert row["commit"] == "c0ffee"


@pytest.mark.parametrize("stored", ["nothing", "a quick run", "no such row", "not on the other device"])
def test_without_a_full_measurement_a_finding_is_missing(store, stored):
    if stored != "nothing":
        frame = pd.DataFrame({"seconds": [] if stored == "no such row" else [1.5]})
        store("measured", frame, "quick" if stored == "a quick run" else "full")
    more = {"devices": (results.REFERENCES[0], "cpu")} if stored == "not on the other device" else {}
    row = only_row(finding(value=lambda frame, *_: (frame.seconds.median(), np.nan, "s"), **more))
    assert row["word"] == findings.MISSING and pd.isna([row["value"], row["source_file"], row["commit"]]).all()


def test_a_finding_on_several_devices_gets_a_frame_of_each(store):
    store("measured", pd.DataFrame({"seconds": [1.0]}))
    store("measured", pd.DataFrame({"seconds": [4.0]}), device="cpu")
    of = finding(
        Holds(above=2),
        lambda on_gpu, on_cpu: (on_cpu.seconds[0] / on_gpu.seconds[0], 0.0, "x"),
        devices=(results.REFERENCES[0], "cpu"),
    )
    assert (only_row(of)["value"], only_row(of)["word"]) == (4, "reproduced")


def test_what_nothing_measures_is_missing_and_what_cannot_be_asked_says_what_is_missing(store):
    assert only_row(Finding("a", "esgd", "Table 2", "So."), None)["word"] == "missing"
    row = only_row(Finding("a", "esgd", "Table 2", "So.", rule=Open("the set")), None)
    assert row["word"] == "not testable" and row["statement"] == "So. Missing: the set."


def test_a_same_direction_says_how_far_it_is():
    row = pd.Series({"word": "same direction", "value": 50.0, "published": 200.0})
    assert findings.how_far(row) == "same direction, 0.25 times the published"
    assert findings.how_far(pd.Series({"word": "tie"})) == "tie"


def test_every_finding_is_one_sentence_with_a_rule_and_a_known_source():
    known = set(experiments.artefacts()[["source", "artefact"]].itertuples(index=False, name=None))
    assert len(known) == 44
    assert len(FINDINGS) == len(experiments.findings()), "ids are told apart"
    for experiment, of in experiments.findings():
        assert of.publication in experiments.SOURCES and of.statement, of.id
        if of.publication == "gpumf":
            assert of.figure_or_table is None and (isinstance(of, Claim) or of.statement.count(" | ") == 3), of.id
        else:
            assert (of.publication, of.figure_or_table) in known or of.figure_or_table.startswith("Section"), of.id
        if isinstance(of, Claim):
            continue
        if experiment is None:
            assert of.rule is None and of.value is None
        else:
            assert isinstance(of.rule, Near | Holds | Target | ByConstruction | Open), of.id
    thesis = {of.figure_or_table for _, of in experiments.findings() if of.publication == "thesis"}
    assert {artefact for source, artefact in known if source == "thesis"} <= thesis


def test_promises_have_a_stretch_beyond_their_target():
    for of in FINDINGS.values():
        if isinstance(of, Finding) and isinstance(of.rule, Target):
            assert of.publication == "gpumf" and of.rule.better in ("lower", "higher")
            assert of.rule.stretch is None or (of.rule.stretch < of.rule.target) == (of.rule.better == "lower")


def test_values_of_findings_take_as_many_frames_as_they_have_devices():
    for _, of in experiments.findings():
        if isinstance(of, Finding) and of.value is not None:
            signature = inspect.signature(of.value)
            signature.bind(*[None] * max(len(of.devices), 1))


def test_the_numbers_of_a_table_are_numbers_whether_there_are_any_or_not():
    for rules in ([Target(2, 1)], [Near(3, 1)], [Open("the set")], [Target(2), Near(3, 1)]):
        table = findings.table([(None, finding(rule)) for rule in rules])
        for name in ("value", "low", "high", "published", "target", "stretch"):
            assert table[name].dtype == float, name
