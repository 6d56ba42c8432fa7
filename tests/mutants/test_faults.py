"""The faults that `make mutants` plants."""

import ast
from pathlib import Path

import pytest

from mutants import faults
from support import ROOT


def found(tmp_path, text):
    (tmp_path / "a.py").write_text(text)
    return {(fault.kind, fault.old, fault.new) for fault in faults.of_module("a.py", tmp_path)}


@pytest.mark.slow
def test_a_seed_draws_the_same_faults_and_each_changes_what_a_module_does():
    drawn = faults.drawn(3)
    assert drawn == faults.drawn(3)
    assert len(drawn) == sum(faults.GROUPS.values()) == len({fault.id for fault in drawn})
    for fault in drawn:
        before = (ROOT / fault.path).read_bytes()
        assert ast.dump(ast.parse(before)) != ast.dump(ast.parse(fault.applied(before))), fault


def test_planted_faults_are_of_all_families_and_stand_where_they_should():
    planted = faults.planted()
    families = {Path(fault.path).parts[1] for fault in planted if fault.path.startswith("kernels")}
    assert {"als", "common", "ratings", "metrics", "models", "rbm", "sgd"} <= families
    assert len(planted) >= 40 and len(planted) + sum(faults.GROUPS.values()) >= 300
    for fault in planted:
        assert fault.new.encode() in fault.applied((ROOT / fault.path).read_bytes())


def test_single_faults_of_each_kind_are_found(tmp_path):
    text = "def f(train, test, k):\n    if train < k + 1:\n        g(train, test, seed=k)\n    return max(test)\n"
    expected = {
        ("comparison", "train < k + 1", "train <= k + 1"),
        ("arithmetic", "k + 1", "k - 1"),
        ("off by one", "1", "2"),
        ("negated condition", "train < k + 1", "not (train < k + 1)"),
        ("dropped keyword", "g(train, test, seed=k)", "g(train, test)"),
        ("swapped arguments", "g(train, test, seed=k)", "g(test, train, seed=k)"),
        ("dropped statement", "g(train, test, seed=k)", "pass"),
        ("wrong name", "train", "test"),
        ("wrong reduction", "max(test)", "min(test)"),
    }
    assert expected <= found(tmp_path, text)


def test_words_and_looks_are_left_alone(tmp_path):
    text = '"""Less < 1."""\n\n\ndef f(a):\n    """More."""\n'
    text += '    if a:\n        raise ValueError(f"{a + 1}", 2 * a)\n    print(a, 3)\n'
    assert {kind for kind, *_ in found(tmp_path, text)} == {"negated condition"}
