"""A bar or lines where they are wanted; they change nothing of what goes by."""

import sys

import pytest
from tqdm import tqdm

from gpumf._util.progress import plain_lines, progress


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("terminal", [False, True])
def test_a_bar_is_shown_on_a_terminal_and_lines_elsewhere(shown, terminal, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    assert list(progress(range(3), shown, desc="counting")) == [0, 1, 2]
    err = capsys.readouterr().err
    assert ("counting" in err) == shown
    assert ("counting: 3 of 3\n" in err) == (shown and not terminal)


@pytest.mark.parametrize(("steps", "lines"), [(0, 0), (1, 1), (10, 10), (11, 6), (1000, 10)])
def test_a_log_gets_few_lines(steps, lines, capsys):
    assert len(list(progress(range(steps), True))) == steps
    assert len(capsys.readouterr().err.splitlines()) == lines


@pytest.mark.parametrize("terminal", [False, True])
def test_a_bar_of_others_is_lines_where_stderr_is_no_terminal(terminal, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    with plain_lines():
        for step in tqdm(range(300), desc="counting", mininterval=0, leave=False):
            if step == 0:
                print("a line of its own", file=sys.stderr)
    err = capsys.readouterr().err
    assert "a line of its own\n" in err and "counting" in err
    assert ("\r" in err) == terminal
    assert terminal or err.count("counting") == 1, "one in ten seconds"
