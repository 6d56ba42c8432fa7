"""What is recorded again, in which order, and what a time limit leaves out."""

import subprocess
from types import SimpleNamespace

import pytest

from gpumf import dependencies, experiments, recording, results


@pytest.fixture
def recorded(monkeypatch):
    """Results of three experiments: 'old' and 'new' are stale, 'current' is not, and 'never' has none."""
    facts = {
        "old": {"started": "2026-01-01", "duration_seconds": 50.0},
        "new": {"started": "2026-03-01", "duration_seconds": 20.0},
        "current": {"started": "2025-01-01", "duration_seconds": 1.0},
    }
    kept = {name: SimpleNamespace(name=name, provenance=one) for name, one in facts.items()}
    monkeypatch.setattr(experiments, "names", lambda: dict.fromkeys(["never", "current", "new", "old"], "gpumf"))
    monkeypatch.setattr(experiments, "why_unavailable", lambda name: None)
    monkeypatch.setattr(results, "recorded", lambda name, device=None: kept.get(name) if device == "here" else None)
    monkeypatch.setattr(results, "device_name", lambda: "here")
    monkeypatch.setattr(dependencies, "changed", lambda result: [] if result.name == "current" else ["x.py"])
    return kept


def test_stale_ones_are_taken_oldest_first(recorded, monkeypatch):
    assert list(recording.stale().items()) == [("old", 50.0), ("new", 20.0), ("never", None)]
    assert list(recording.stale(["new", "current"])) == ["new"]
    # Elsewhere nothing is current, and how long it takes is known from the reference alone.
    monkeypatch.setattr(
        results, "recorded", lambda name, device=None: recorded.get(name) if device != "there" else None
    )
    assert recording.stale(device="there") == {"current": 1.0, "old": 50.0, "new": 20.0, "never": None}


def test_only_what_fits_is_begun(recorded, monkeypatch, capsys):
    now, ran = [0.0], []

    def run(command, timeout, **_):
        name = command[command.index("gpumf.experiments") + 1]
        assert command[-3:] == ["--profile", "full", "--record"]
        ran.append((name, timeout))
        if name == "never":
            now[0] += timeout
            raise subprocess.TimeoutExpired(command, timeout)
        now[0] += 45
        return SimpleNamespace(returncode=0 if name == "old" else 3)

    outcome = recording.record(recording.stale(), 1.0, clock=lambda: now[0], run=run)
    assert ran == [("old", 60.0), ("never", 15.0)] and outcome == (1, 1, ["new"])
    assert capsys.readouterr().out.splitlines() == ["old: recorded", "never: failed (out of time)"]
    ran.clear()
    assert recording.record({"new": 20.0}, 1.0, clock=lambda: now[0], run=run) == (0, 1, [])
    assert "new: failed (3)" in capsys.readouterr().out
    monkeypatch.setattr(experiments, "why_unavailable", lambda name: "no GPU")
    assert recording.record({"new": 20.0}, 1.0, run=run) == (0, 0, []) and "new: no GPU" in capsys.readouterr().out


def test_the_command_lists_records_and_refuses(recorded, monkeypatch, capsys):
    assert recording.main(["--list"]) == 0
    assert capsys.readouterr().out.splitlines() == ["old: 50 s", "new: 20 s", "never: never recorded"]
    with pytest.raises(SystemExit, match="2"):
        recording.main(["nonsense"])
    assert "no experiment nonsense" in capsys.readouterr().err
    given = []
    monkeypatch.setattr(recording, "record", lambda todo, minutes: given.append((todo, minutes)) or (1, 0, ["new"]))
    assert recording.main(["old", "--minutes", "2"]) == 0
    assert given == [({"old": 50.0}, 2.0)]
    assert capsys.readouterr().out == "1 recorded, 0 failed; no time was left for new.\n"
    monkeypatch.setattr(recording, "record", lambda todo, minutes: (0, 1, []))
    assert recording.main([]) == 1


def test_a_real_experiment_is_found_stale():
    """On a machine without results everything is, and what the reference took is known."""
    every = recording.stale(["theoretical_flops", "als_versions"], device="nobodys")
    assert set(every) == {"theoretical_flops", "als_versions"} and every["als_versions"] > 1
