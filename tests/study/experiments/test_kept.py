"""What a run leaves for the next: large data sets, and what was measured when it was stopped."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from time import sleep

import numpy as np
import pandas as pd
import pytest

import gpumf
from gpumf import SGD
from gpumf.ratings import Ratings, synthetic_ratings
from gpumf_study import experiments, results, sweep
from gpumf_study.experiments import _kept


class Once:
    """Makes a number, and counts how often."""

    SECONDS = 0.01

    def __init__(self):
        self.made = 0

    def __call__(self):
        self.made += 1
        sleep(self.SECONDS)
        return self.made


@pytest.fixture
def now(repository, monkeypatch):
    """What provenance says, of a clean tree at first, and at another time whenever it is asked."""
    facts, clock = {"commit": "c0ffee", "clean": True, "gpu": "H200", "cpu": "Xeon", "cpu_count": 16}, count()
    monkeypatch.setattr(
        results, "provenance", lambda: facts | {"started": f"2026-01-01T00:00:{next(clock):02}+00:00"}
    )
    return facts


def stopped(make, keys="ab", parameters=None, **options):
    """What a run measures of some parts before it is stopped."""
    with pytest.raises(KeyboardInterrupt), _kept.measured("name", parameters, **options):
        found = [_kept.once(key, make) for key in keys]
        raise KeyboardInterrupt
    return found


def test_a_stopped_run_goes_on_and_leaves_nothing_when_it_is_done(now, repository):
    make = Once()
    assert stopped(make) == [1, 2] and stopped(make, "abc") == [1, 2, 3]
    with _kept.measured("name", None):
        assert [_kept.once(key, make) for key in "abcd"] == [1, 2, 3, 4]
    assert not list(repository.rglob("*.pkl")) and stopped(make, "a") == [5]
    assert _kept.once("a", make) == 6, "outside of a recording"


def test_runs_are_a_process_each_where_they_are_kept(now, monkeypatch):
    make = Once()
    for number in (1, 2):
        with pytest.raises(_kept.Unfinished, match=f"{number} of 3 runs"), _kept.measured("name", None):
            _kept.of_processes(3, make)
        assert make.made == number
    with _kept.measured("name", None):
        assert _kept.of_processes(3, make) == [1, 2, 3] and _kept.origins()["pieces"]["runs"] == 3
    assert _kept.of_processes(3, make) == [4, 5, 6], "outside of a recording"


def test_what_other_code_another_machine_or_another_parameter_measured_is_not_taken(now, monkeypatch, tmp_path):
    make, module = Once(), tmp_path / "module.py"
    module.write_text("first")
    assert stopped(make) == [1, 2] and stopped(make, parameters={"factors": 8}) == [3, 4]
    assert stopped(make, modules=[module]) == [5, 6]
    module.write_text("second")
    assert stopped(make, modules=[module]) == [7, 8]
    for fact, other in {"gpu": "H100", "cpu": "EPYC", "cpu_count": 8, "kernels_sha256": "1"}.items():
        known, now[fact] = now.get(fact), other
        assert stopped(make) == [make.made - 1, make.made], fact
        now[fact] = known
    now["commit"] = "decade"
    assert stopped(make) == [1, 2], "whose code is the same"
    monkeypatch.setattr(_kept, "_package", lambda: [module])
    assert stopped(make) == [make.made - 1, make.made]
    now["clean"] = False
    assert stopped(make) == [make.made - 1, make.made] != stopped(make)


def test_pieces_depend_on_the_package_but_not_on_its_command():
    package = Path(gpumf.__file__).parent
    files = {str(path.relative_to(package)) for path in _kept._package()}
    assert {"models/als.py", "backends/cpu/native/als.cpp"} <= files
    assert not [name for name in files if name.startswith("command_line")]
    used = "from gpumf import command_line", "from gpumf.command_line", "import gpumf.command_line"
    for path in Path(_kept.__file__).parent.rglob("*.py"):
        assert not any(words in path.read_text() for words in used), path


def test_a_key_that_comes_twice_is_made_twice(now):
    make = Once()
    assert stopped(make, "aa") == [1, 2] and stopped(make, "aa") == [1, 3]


def test_the_runs_that_pieces_come_from_are_told(now):
    make = Once()
    assert _kept.origins() == {}
    stopped(make)
    now["commit"] = "decade"
    with _kept.measured("name", None):
        assert _kept.origins() == {}, "nothing is taken yet"
        assert [_kept.once(key, make) for key in "abc"] == [1, 2, 3]
        pieces = _kept.origins()["pieces"]
    assert 2 * Once.SECONDS <= pieces.pop("seconds") < 30, "those of a and b"
    assert pieces == {"runs": 2, "first": "2026-01-01T00:00:00+00:00", "commits": ["c0ffee", "decade"]}


def test_half_a_part_is_measured_again(now, repository, monkeypatch):
    make = Once()
    monkeypatch.setattr(_kept.pickle, "dumps", lambda made: None)  # which no file can hold
    with pytest.raises(TypeError), _kept.measured("name", None):
        _kept.once("a", make)
    monkeypatch.undo()
    monkeypatch.setattr(results, "repository", lambda: repository)
    monkeypatch.setattr(results, "provenance", lambda: now)
    assert stopped(make, "a") == [2]


def test_a_stopped_sweep_gives_the_frame_of_one_that_was_not(now, monkeypatch):
    trained, warmed, plain = [], [], sweep.trained

    def models(train, repeat):
        for rate in (0.01, 0.02):
            yield {"x_rate": rate}, SGD(2, learning_rate=rate, solver="sequential", device="cpu", seed=repeat)

    def stops(model, *arguments, **options):
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(model)
        return plain(model, *arguments, **options)

    def run():
        frame = sweep.sweep(models, ["ml-100k-synthetic"], 2, 2, part=(60, 50))
        return frame.assign(seconds=frame.seconds.notna())

    whole = run()
    monkeypatch.setattr(sweep, "trained", stops)
    with pytest.raises(KeyboardInterrupt), _kept.measured("name", None):
        run()
    monkeypatch.setattr(sweep, "trained", lambda *of, **options: trained.append(of[0]) or plain(*of, **options))
    monkeypatch.setattr(sweep, "warm", lambda *of: warmed.append(of[0].learning_rate))
    with _kept.measured("name", None):
        pd.testing.assert_frame_equal(run(), whole)
    assert len(trained) == 4 and warmed == [0.02], "the last alone, as it was not the first of its kind"


def test_a_recording_keeps_its_pieces_until_it_is_stored(now, repository, monkeypatch):
    make, experiment = Once(), experiments.module("theoretical_flops")
    plain = experiment.run

    def run(**parameters):
        if _kept.once("a", make) == 1 and make.made == 1:
            make.made += 1
            raise KeyboardInterrupt
        return plain(**parameters)

    monkeypatch.setattr(experiment, "run", run)
    monkeypatch.setenv("GPUMF_RECORD", "1")
    with pytest.raises(KeyboardInterrupt):
        experiments.run("theoretical_flops")
    assert len(list(repository.rglob("*.pkl"))) == 1
    assert experiments.run("theoretical_flops").provenance["pieces"]["runs"] == 2
    assert make.made == 2 and not list(repository.rglob("*.pkl"))


def test_a_large_synthetic_set_is_drawn_once(repository, monkeypatch):
    drawn, loading = [], experiments.load_dataset
    monkeypatch.setattr(experiments, "_KEPT_RATINGS", 100_000)
    monkeypatch.setattr(experiments, "load_dataset", lambda name: drawn.append(name) or loading(name))
    first, second = (experiments.load_ratings("ml-100k-synthetic") for _ in range(2))
    assert drawn == ["ml-100k-synthetic"]
    for ratings in (first, second):
        assert all(getattr(ratings, fact) == getattr(first, fact) for fact in _kept._FACTS)
        assert all(np.array_equal(getattr(ratings, name), getattr(first, name)) for name in _kept._ARRAYS)
        assert experiments.identity(ratings)["sha256"] == synthetic_ratings("ml-100k").sha256
    monkeypatch.setattr(_kept, "_code", lambda: ["other code"])
    experiments.load_ratings("ml-100k-synthetic")
    monkeypatch.setattr(experiments, "_KEPT_RATINGS", 100_001)
    experiments.load_ratings("ml-100k-synthetic")
    assert len(drawn) == 3


def test_a_set_with_a_test_set_of_its_own_keeps_it(repository):
    ratings = synthetic_ratings("ml-100k")
    mask = np.arange(ratings.nnz) % 5 == 0
    for _ in range(2):
        of = _kept.drawn("name", lambda: replace(ratings, test_mask=mask))
        assert np.array_equal(of.test_mask, mask)


def test_of_two_processes_that_draw_at_a_time_both_have_it(repository):
    other = Ratings([0, 1], [1, 0], [3, 4], 2, 2, scale=(1, 5))
    drawn = _kept.drawn("small", lambda: _kept.drawn("small", lambda: other))
    (kept,) = (repository / "build" / "drawn").iterdir()
    assert drawn is other and _kept.drawn("small", None).values.tolist() == [3, 4] and (kept / "facts.json").is_file()
