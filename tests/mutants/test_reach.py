"""Which tests a fault is shown to, and in which runs."""

import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def reach():
    """The module, which `make mutants` finds beside its script."""
    before = set(sys.modules)
    sys.path.insert(0, str(Path(__file__).parent))
    import reach

    yield reach
    sys.path.remove(str(Path(__file__).parent))
    for name in {"faults", "reach", "runs", "trees"} - before:
        sys.modules.pop(name, None)


@pytest.fixture
def fault(reach):
    return sys.modules["faults"].Fault("src/gpumf/a.py", 1, "f.inner", "", 0, 1, "x", "y")


def taking(seconds, *reached):
    return {"seconds": seconds, "reached": set(reached)}


TESTS = {
    "tests/test_b.py::slow": taking(5.0, "src/gpumf/a.py:f"),
    "tests/test_b.py::wide": taking(1.0, "src/gpumf/a.py:f", *map(str, range(30))),
    "tests/test_a.py::test": taking(2.0, "src/gpumf/a.py:f"),
    "tests/test_b.py::other": taking(0.1, "src/gpumf/a.py:g"),
}


def test_small_tests_of_the_function_come_first_and_those_that_take_too_long_not_at_all(reach, fault):
    mirrored, slow, wide = "tests/test_a.py::test", "tests/test_b.py::slow", "tests/test_b.py::wide"
    assert reach.tests_for(fault, TESTS, 10) == ([mirrored, slow, wide], 8)
    assert reach.tests_for(fault, TESTS, 4) == ([mirrored, wide], 3)
    assert reach.tests_for(fault, TESTS, 0.5) == ([mirrored], 2), "one at least"


def test_what_a_class_declares_is_shown_to_tests_of_its_module_and_of_its_name(reach):
    declared = sys.modules["faults"].Fault("src/gpumf/a.py", 1, "A", "", 0, 1, "x", "y")
    by_name = {"tests/test_c.py::test[a]": taking(1.0, "src/gpumf/c.py:f"), "tests/test_c.py::test[b]": taking(1.0)}
    shown, _ = reach.tests_for(declared, TESTS | by_name, 20)
    assert set(shown) == {*TESTS, "tests/test_c.py::test[a]"}


def test_a_fault_of_a_header_is_shown_to_what_runs_kernels_for_tests(reach):
    assert {"kernels/sgd/hogwild.cu", "tests/kernels/random.cu"} <= reach.included("kernels/common/random.cuh")


def test_early_tests_have_a_run_of_their_own(reach):
    tests = {name: taking(seconds) for name, seconds in (("a", 0.5), ("b", 0.6), ("c", 7), ("d", 9), ("e", 1))}
    assert reach.in_parts(list("abcde"), tests) == [["a", "b"], ["c"], ["d", "e"]]
    assert reach.in_parts([], tests) == []
