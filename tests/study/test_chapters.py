"""What chapters share: lines of kernels as they are, numbers for prose, and which of them shows an experiment."""

import json

import pandas as pd
import pytest

from gpumf.backends import sources
from gpumf_study import claims, experiments
from support import ROOT

# A machine that only runs the GPU tests may lack it.
pytest.importorskip("IPython")
from gpumf_study import chapters


def lines_of(path):
    return (sources.kernels_folder() / path).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("path", "name", "first", "last"),
    [
        ("als/thesis.cu", "decompose", "// Equations 5.6 to 5.9", "}"),
        ("als/cumf/cg.cu", "solve_cg", "// Grid: a block a row.", "}"),  # declared over several lines
        ("als/gather.cuh", "copy", "", "    }"),  # a member
    ],
)
def test_a_kernel_is_shown_as_it_stands_in_its_file(path, name, first, last):
    caption, code = chapters.kernel(path, name).data.split("\n\n```cuda\n")
    begin, end = (int(word) for word in caption.strip("*").split() if word.isdigit())
    shown, there = code.removesuffix("\n```").split("\n"), lines_of(path)[begin - 1 : end]
    assert caption.startswith(f"*kernels/{path}, lines ")
    assert [line.strip() for line in shown] == [line.strip() for line in there]
    assert there[0].lstrip().startswith(first) and there[-1] == last and f"{name}(" in code
    assert shown[-1] == "}"


def test_a_part_of_a_kernel_keeps_its_indentation():
    code = chapters.kernel("als/cumf/cg.cu", "solve_cg", "for (int step", "p = residual +").data.split("```cuda\n")[1]
    shown = code.split("\n")
    assert shown[0].startswith("for (int step") and shown[1].startswith("    const float ap")
    assert "p = residual + square / before * p;" in shown[-2] and shown[-1] == "```"


WRONG = [("multiply_all",), ("decompose", "no such line"), ("substitute", "return", "int")]


@pytest.mark.parametrize("arguments", WRONG)
def test_what_is_not_there_is_an_error(arguments):
    with pytest.raises(ValueError, match=r"defines no function|no line with"):
        chapters.kernel("als/thesis.cu", *arguments)


def test_numbers_are_kept_under_their_names(monkeypatch):
    myst_nb = pytest.importorskip("myst_nb")
    kept = {}
    monkeypatch.setattr(myst_nb, "glue", lambda name, value, display: kept.update({name: value}))
    chapters.numbers(speed=pd.Series([2.5]).iloc[0], count=3)
    assert kept == {"speed": 2.5, "count": 3.0}
    for wrong in (float("nan"), float("inf"), None):
        with pytest.raises(ValueError, match="gap is"):
            chapters.numbers(gap=wrong)


def test_an_experiment_is_shown_by_a_page_of_results_or_by_the_first_other():
    found = chapters.pages()
    assert found["speedups"] == "results/speedups"
    assert found["rating_counts"] == "method"
    assert found["several_gpus"] == "learn/scale", "the drawing of this name on another page is none of it"
    assert "als_convergence" in chapters.named(ROOT / "book/learn/als.ipynb")


def test_an_experiment_is_named_by_code_alone(tmp_path):
    cells = [
        ("markdown", ['"speedups"']),
        ("code", ['show("sparsity")\n', 'drawing("crossover")']),
        ("code", ['"data"']),
    ]
    book = {"cells": [{"cell_type": kind, "source": source} for kind, source in cells]}
    (tmp_path / "a.ipynb").write_text(json.dumps(book), encoding="utf-8")
    assert chapters.named(tmp_path / "a.ipynb") == ["sparsity"]


def test_every_experiment_with_claims_on_publications_has_a_page():
    asked = {name for name, claim in experiments.claims() if claim.publication != "gpumf"}
    apart = {name for path in (ROOT / "book/notebooks").glob("*.ipynb") for name in chapters.named(path)}
    assert asked <= set(chapters.pages()) | apart


def test_verdicts_are_shown_with_their_intervals(monkeypatch):
    columns = ["statement", "published", "at_least", "at_most", "value", "low", "high", "n", "unit", "verdict"]
    columns += ["publication"]
    rows = [
        ("A", 2.0, 1.0, 4.0, 2.5, 2.25, 2.75, 5, "x", "replicated", "esgd"),
        ("B", None, 0.0, None, 1.0, None, None, 1, "", "inconclusive", "esgd"),
        ("C", None, None, 0.15, None, None, None, 0, "", claims.MISSING, "gpumf"),
        ("D", None, 0.85, 1.15, 1.0, 0.9, 1.1, 5, "", "replicated", "gpumf"),
        ("E", None, None, None, 1.0, 0.9, 1.1, 5, "", "measured", "gpumf"),
    ]
    monkeypatch.setattr(claims, "table", lambda pairs: pd.DataFrame(rows, columns=columns))
    assert chapters.verdicts("cu2rec").data.to_numpy().tolist() == [
        ["A", "replicated", "2 x", "1 to 4", "2.5 x", "2.25 to 2.75", "5"],
        ["B", "inconclusive", "–", "above 0", "1", "–", "1"],
        ["C", "not measured yet", "–", "below 0.15", "–", "–", "–"],
        ["D", "holds", "–", "0.85 to 1.15", "1", "0.9 to 1.1", "5"],
        ["E", "measured", "–", "–", "1", "0.9 to 1.1", "5"],
    ]


def test_numbers_of_tables_have_three_digits_or_all_before_the_point():
    shown = {0.012345: "0.0123", 2.0: "2", 999.4: "999", 1000.0: "1,000", 1234.5: "1,234", -1500.0: "-1,500"}
    assert {value: chapters.digits(value) for value in shown} == shown
    assert chapters.digits(float("nan")) == chapters.digits(None) == "–"


def test_bounds_that_round_to_a_whole_number_have_more_digits():
    nothing = float("nan")
    assert [chapters.between(1.0014, 1.4369), chapters.between(5, 20)] == ["1.0014 to 1.44", "5 to 20"]
    assert [chapters.between(0.99984, nothing), chapters.between(nothing, 12.03)] == ["above 0.99984", "below 12"]
