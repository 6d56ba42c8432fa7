"""What the whole run of the tests is held to, and what the header of every model's kernel says."""

import re
from types import SimpleNamespace

import pytest

from gpumf.backends import sources
from launched import Launched, wanted
from support import NAMES, own_cores, own_gpu_first


def config_of(**options):
    """A run of all tests, but for its options."""
    return SimpleNamespace(args=["tests"], getini=lambda name: ["tests"], getoption=options.get)


def judged(config, found, status=pytest.ExitCode.OK):
    """The exit status and what is missed where a run's only worker has launched these."""
    plugin, session = Launched(config), SimpleNamespace(exitstatus=status)
    plugin.pytest_testnodedown(SimpleNamespace(workeroutput={"launched": [list(one) for one in found]}))
    plugin.pytest_testnodedown(SimpleNamespace())  # one that crashed
    plugin.pytest_sessionfinish(session)
    return session.exitstatus, plugin.missing


@pytest.fixture
def nothing_here(monkeypatch, host):
    """This process has launched nothing."""
    monkeypatch.setattr(host, "launched", set())


def test_a_kernel_and_a_version_that_no_test_launches_fail_the_whole_run(nothing_here):
    every = wanted()
    assert judged(config_of(), every) == (pytest.ExitCode.OK, [])
    for missed in (("sgd/hogwild.cu", "hogwild"), ("als/cumf/cg.cu", "A_HALF", "1")):
        for status in pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED:
            assert judged(config_of(), every - {missed}, status) == (pytest.ExitCode.TESTS_FAILED, [missed])


def test_part_of_the_tests_and_a_run_that_was_stopped_are_held_to_nothing(nothing_here):
    assert judged(config_of(keyword="als"), set()) == (pytest.ExitCode.OK, [])
    assert judged(config_of(), set(), pytest.ExitCode.INTERRUPTED) == (pytest.ExitCode.INTERRUPTED, [])
    part = config_of()
    part.args = ["tests/backends"]
    assert judged(part, set()) == (pytest.ExitCode.OK, [])


def test_the_slow_tests_are_judged_with_what_the_quick_ones_launched(nothing_here):
    kept, every, missed = {}, wanted(), ("sgd/hogwild.cu", "hogwild")
    cache = SimpleNamespace(get=kept.get, set=kept.__setitem__)
    half = set(sorted(every)[::2])

    def tier(marks, found):
        config = config_of(markexpr=marks)
        config.cache = cache
        return judged(config, found)

    assert tier("slow", set()) == (pytest.ExitCode.OK, []), "without the quick tests there is nothing to judge"
    assert tier("not slow", half) == (pytest.ExitCode.OK, [])
    assert tier("slow", every - half) == (pytest.ExitCode.OK, [])
    tier("not slow", half - {missed})
    assert tier("slow", every - half - {missed}) == (pytest.ExitCode.TESTS_FAILED, [missed])
    assert tier("emulator", set()) == (pytest.ExitCode.OK, [])


def test_a_worker_hands_over_what_it_launched(host, monkeypatch):
    of_tests = NAMES, "shuffles", ()
    monkeypatch.setattr(host, "launched", {("sgd/hogwild.cu", "hogwild", (("FACTORS", 8), ("BIASES", 0))), of_tests})
    config = config_of()
    config.workeroutput = {}
    session = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    Launched(config).pytest_sessionfinish(session)
    expected = [("sgd/hogwild.cu", "BIASES", "0"), ("sgd/hogwild.cu", "hogwild")]
    assert config.workeroutput == {"launched": expected} and session.exitstatus == pytest.ExitCode.OK


SCHEME = re.compile("(als|rbm|sgd)/(?!.*(errors|launch_config|biases|segments|short_rows|half_rows|stored_rows))")
MODELS = list(filter(SCHEME.match, sources.every()))


@pytest.mark.parametrize("source", MODELS)
def test_its_header_says_what_was_measured_and_points_nowhere_else(source):
    text = (sources.kernels_folder() / source).read_text()
    header = re.match(r"(?://.*\n)+", text)[0]
    assert len(re.findall(r"^// Measured \(make gains\)[:,] ", header, re.MULTILINE)) == 1
    assert ".ipynb" not in text


def test_each_process_of_the_tests_has_another_gpu_first(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert own_gpu_first(0, 0) == own_gpu_first(7, 0) == ""
    assert [own_gpu_first(k, 3) for k in range(4)] == ["0,1,2", "1,2,0", "2,0,1", "0,1,2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert [own_gpu_first(k, 2) for k in (0, 1)] == ["5,7", "7,5"]


def test_workers_share_the_cores_and_have_two_at_least():
    assert [own_cores(k, 3, range(10, 17)) for k in range(3)] == [{10, 11}, {12, 13}, {14, 15}]
    assert [own_cores(k, 8, {0, 1}) for k in (0, 7)] == [{0, 1}, {0, 1}]
    assert [own_cores(k, 4, range(6)) for k in range(4)] == [{0, 1}, {2, 3}, {4, 5}, {0, 1}]
    assert own_cores(0, 2, {5}) == {5}
