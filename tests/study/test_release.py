"""What `make record` takes, in which order, and what a time limit leaves out."""

import os
import signal
import subprocess
from functools import partial
from select import select
from threading import Barrier, Lock, Thread, get_ident
from time import sleep
from types import SimpleNamespace

import pandas as pd
import pytest

from gpumf import __version__
from gpumf_study import experiments, release, results
from gpumf_study.experiments import _kept


@pytest.fixture
def recorded(monkeypatch):
    """Results of an older release ('short', 'long') and of this one ('done'); 'never' has none."""
    facts = {"short": ("0.0.1", 20.0), "long": ("0.0.1", 50.0), "done": (__version__, 1.0)}
    kept = {
        name: SimpleNamespace(provenance={"packages": {"gpumf": version}, "duration_seconds": seconds})
        for name, (version, seconds) in facts.items()
    }
    monkeypatch.setattr(experiments, "names", lambda: dict.fromkeys(["never", "done", "short", "long"], "gpumf"))
    monkeypatch.setattr(experiments, "why_unavailable", lambda name: None)
    monkeypatch.setattr(results, "recorded", lambda name, device=None: kept.get(name) if device != "there" else None)
    monkeypatch.setattr(results, "device_name", lambda gpus=1: "here" if gpus == 1 else f"here-x{gpus}")
    monkeypatch.setattr(experiments, "takes_all_gpus", lambda name: False)
    monkeypatch.setattr(experiments, "in_pieces", lambda name: False)
    monkeypatch.setattr(results, "provenance", lambda: {"clean": True})
    return kept


def test_what_is_not_of_this_release_is_left_the_longest_first(recorded, monkeypatch):
    assert list(release.remaining().items()) == [("long", 50.0), ("short", 20.0), ("never", None)]
    assert list(release.remaining(["short", "done"])) == ["short"]
    assert release.remaining(["done", "short"], again=True) == {"short": 20.0, "done": 1.0}
    recorded["short"].provenance["pieces"] = {"runs": 2, "seconds": 100.0}
    assert list(release.remaining().items()) == [("short", 120.0), ("long", 50.0), ("never", None)]
    del recorded["short"].provenance["pieces"]["seconds"]  # which older ones do not tell
    # Elsewhere all is left, and how long it takes is known from the reference alone.
    assert release.remaining(device="there") == {"long": 50.0, "short": 20.0, "done": 1.0, "never": None}


def test_only_what_fits_is_begun(recorded, monkeypatch, capsys):
    now, ran = [0.0], []

    def run(command, timeout, **_):
        name = command[command.index("gpumf_study.experiments") + 1]
        assert command[-3:] == ["--profile", "full", "--record"]
        ran.append((name, timeout))
        if name == "never":
            now[0] += timeout
            raise subprocess.TimeoutExpired(command, timeout)
        now[0] += 45
        return SimpleNamespace(returncode=0 if name == "long" else 3)

    outcome = release.record(release.remaining(), 1.0, clock=lambda: now[0], run=run)
    assert ran == [("long", 60.0), ("never", 15.0)] and outcome == (1, 0, ["short", "never"])
    assert capsys.readouterr().out.splitlines() == ["long: recorded", "never: stopped, out of time"]
    ran.clear()
    assert release.record({"short": 20.0}, 1.0, clock=lambda: now[0], run=run) == (0, 1, [])
    assert "short: failed (3)" in capsys.readouterr().out
    monkeypatch.setattr(experiments, "why_unavailable", lambda name: "no GPU")
    assert release.record({"short": 20.0}, 1.0, run=run) == (0, 0, []) and "short: no GPU" in capsys.readouterr().out


def test_what_is_recorded_in_pieces_gets_the_time_that_remains(recorded, monkeypatch):
    now, ran = [0.0], []

    def run(command, timeout, **_):
        ran.append((command[command.index("gpumf_study.experiments") + 1], timeout))
        now[0] += min(timeout, 50)
        if timeout < 50:
            raise subprocess.TimeoutExpired(command, timeout)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(experiments, "in_pieces", lambda name: name != "whole")
    todo = {"whole": 300.0, "longer": 200.0, "long": 100.0, "short": 20.0}
    outcome = release.record(todo, 1.0, clock=lambda: now[0], run=run)
    assert ran == [("short", 60.0), ("longer", 10.0)] and outcome == (1, 0, ["whole", "long", "longer"])


def test_one_of_several_runs_is_no_failure(recorded, capsys):
    def run(command, timeout, **_):
        return SimpleNamespace(returncode=_kept.UNFINISHED)

    assert release.record({"short": 20.0}, 1.0, run=run) == (0, 0, ["short"])
    assert "failed" not in capsys.readouterr().out


def test_experiments_are_known_to_keep_their_pieces():
    assert all(map(experiments.in_pieces, ("speedups", "peers_sgd", "hugewiki_gpus_sgd", "run_spread")))
    assert not experiments.in_pieces("theoretical_flops")


def test_each_gpu_has_one_experiment_at_a_time(recorded, monkeypatch):
    """And a share of the cores; what takes all GPUs comes last, with all."""
    everything, met, ran = dict.fromkeys(("every", *"abcdef"), 1.0), Barrier(2), []
    monkeypatch.setattr(experiments, "takes_all_gpus", lambda name: name == "every")
    monkeypatch.setattr(release, "times_cpus", lambda name: False)
    monkeypatch.setattr(release.os, "sched_getaffinity", lambda _: set(range(4, 10)), raising=False)
    own = {}

    def set_cores(_, cores):
        own[get_ident()] = cores

    monkeypatch.setattr(release.os, "sched_setaffinity", set_cores, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")

    def run(command, timeout, env=None, **_):
        name = command[command.index("gpumf_study.experiments") + 1]
        if env:
            met.wait(10)  # two are under way, or this ends with an error
        assert not env or env["GPUMF_EXPERIMENTS_AT_A_TIME"] == "2"
        ran.append((name, env and env["CUDA_VISIBLE_DEVICES"], own.get(get_ident())))
        return SimpleNamespace(returncode=0)

    assert release.record(everything, 1.0, gpus=2, run=run) == (7, 0, [])
    assert ran[-1] == ("every", None, None) and sorted(name for name, *_ in ran[:-1]) == [*"abcdef"]
    assert {(gpu, *cores) for _, gpu, cores in ran[:-1]} == {("3", 4, 5, 6), ("5", 7, 8, 9)}


def test_nothing_runs_beside_what_times_cpus(recorded, monkeypatch):
    frames = {
        "a": pd.DataFrame({"device": ["cuda", "cpu"], "seconds": [1.0, 2.0]}),
        "b": pd.DataFrame({"threads": [2], "seconds": [1.0]}),
        "c": pd.DataFrame({"device": ["cuda", "cpu"], "seconds": [1.0, None]}),  # an error of the CPU's
        "d": pd.DataFrame({"device": ["cuda"], "seconds": [1.0]}),
        "e": pd.DataFrame({"metric": ["rmse"], "value": [1.0]}),
    }
    kept = {name: SimpleNamespace(frame=frame) for name, frame in frames.items()}
    monkeypatch.setattr(results, "recorded", kept.get)
    assert [name for name in "abcdef" if release.times_cpus(name)] == ["a", "b", "f"], "f was never recorded"
    for name in ("sched_getaffinity", "sched_setaffinity"):
        monkeypatch.delattr(release.os, name, raising=False)
    lock, under_way, beside, said = Lock(), set(), {}, {}

    def run(command, timeout, env, **_):
        name = command[command.index("gpumf_study.experiments") + 1]
        with lock:
            under_way.add(name)
            for one in under_way:
                beside[one] = max(beside.get(one, 0), len(under_way) - 1)
        sleep(0.05)
        with lock:
            under_way.remove(name)
        said[name] = env["GPUMF_EXPERIMENTS_AT_A_TIME"], env["CUDA_VISIBLE_DEVICES"]
        return SimpleNamespace(returncode=0)

    assert release.record(dict.fromkeys("abcdef", 1.0), 1.0, gpus=4, run=run) == (6, 0, [])
    assert {name: beside[name] for name in "abf"} == dict.fromkeys("abf", 0) and max(beside.values()) > 0
    assert {said[name] for name in "abf"} == {("1", "0")} and {said[name][0] for name in "cde"} == {"4"}


def test_what_takes_all_gpus_is_recorded_under_their_number(recorded, monkeypatch):
    monkeypatch.setattr(release.backends, "gpus", lambda: 4)
    monkeypatch.setattr(experiments, "takes_all_gpus", lambda name: name == "long")
    asked = []
    monkeypatch.setattr(results, "recorded", lambda name, device=None: asked.append((name, device)))
    release.remaining(["short", "long"])
    assert ("short", "here") in asked and ("long", "here-x4") in asked


def test_the_command_lists_records_and_refuses(recorded, monkeypatch, capsys):
    assert release.main(["--list"]) == 0
    assert capsys.readouterr().out.splitlines() == ["long: 50 s", "short: 20 s", "never: never recorded"]
    for arguments, why in ((["nonsense"], "no experiment 'nonsense'"), (["--gpus", "2"], "--gpus must be 1 to 1")):
        with pytest.raises(SystemExit, match="2"):
            release.main(arguments)
        assert why in capsys.readouterr().err
    given = []
    monkeypatch.setattr(
        release, "record", lambda todo, minutes, gpus: given.append((todo, minutes)) or (1, 0, ["short"])
    )
    assert release.main(["long", "--minutes", "2"]) == 0 and given.pop() == ({"long": 50.0}, 2.0)
    assert capsys.readouterr().out == f"1 recorded for {__version__}, 0 failed; no time was left for short.\n"
    assert release.main(["done"]) == 0 and given.pop()[0] == {}
    assert release.main(["done", "--again"]) == 0 and given.pop()[0] == {"done": 1.0}
    monkeypatch.setattr(release, "record", lambda todo, minutes, gpus: (0, 1, []))
    assert release.main([]) == 1


needs_sessions = pytest.mark.skipif(not hasattr(os, "killpg"), reason="processes have no sessions here")


@pytest.fixture
def held():
    """The end of a pipe that a process and all that it starts hold; then whether none of them is left."""
    reading, writing = os.pipe()

    def are_gone():
        os.close(writing)
        return bool(select([reading], [], [], 120)[0]) and not os.read(reading, 1)

    yield writing, are_gone
    os.close(reading)


@needs_sessions
@pytest.mark.parametrize("then", ["exit 3", "wait"])
def test_what_an_experiment_has_started_ends_with_it(held, then):
    writing, are_gone = held
    program = ["sh", "-c", f"sleep 600 & {then}"]
    run = partial(release._Processes().run, program, pass_fds=[writing])
    if then == "wait":
        with pytest.raises(subprocess.TimeoutExpired):
            run(timeout=0.5)
    else:
        assert run(timeout=120).returncode == 3
    assert are_gone()


@needs_sessions
@pytest.mark.parametrize(
    ("on_all", "number"), [(False, "SIGINT"), (True, "SIGINT"), (False, "SIGTERM"), (True, "SIGHUP")]
)
def test_an_interrupt_reaches_the_experiments(recorded, monkeypatch, tmp_path, held, on_all, number):
    writing, are_gone = held
    script = tmp_path / "python"
    script.write_text(
        f"#!/bin/sh\nsleep 600 &\ntrap 'touch {tmp_path}/told; exit 130' INT\ntouch {tmp_path}/begun\nwait\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(release.sys, "executable", str(script))
    monkeypatch.setattr(release.subprocess, "Popen", partial(subprocess.Popen, pass_fds=[writing]))
    monkeypatch.setattr(experiments, "takes_all_gpus", lambda name: on_all)

    def interrupt():
        while not (tmp_path / "begun").exists():
            sleep(0.05)
        os.kill(os.getpid(), getattr(signal, number))

    Thread(target=interrupt, daemon=True).start()
    before = signal.getsignal(signal.SIGTERM)
    assert release.main(["short"]) == 130 and signal.getsignal(signal.SIGTERM) == before
    assert are_gone() and (tmp_path / "told").exists()


def test_nothing_is_begun_behind_an_interrupt(tmp_path):
    processes = release._Processes()
    processes.interrupt()
    with pytest.raises(KeyboardInterrupt):
        processes.run(["touch", tmp_path / "begun"], timeout=120)
    assert not (tmp_path / "begun").exists()


def test_nothing_is_recorded_from_a_tree_with_changes(recorded, monkeypatch, capsys):
    monkeypatch.setattr(results, "provenance", lambda: {"clean": False})
    monkeypatch.setattr(release, "record", None)
    assert release.main([]) == 1 and capsys.readouterr().err.startswith("Commit first")


def test_real_results_say_of_which_release_they_are():
    every = release.remaining(["theoretical_flops", "als_versions"], device="nobodys")
    assert set(every) == {"theoretical_flops", "als_versions"} and every["als_versions"] > 1
