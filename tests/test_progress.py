"""A bar or lines where they are wanted; they change nothing of what goes by."""

import pytest

from gpumf.progress import progress


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
