"""Results of the tests of experiments; and what every figure has that one of them draws."""

from types import SimpleNamespace

import pandas as pd
import pytest

from gpumf import backends
from gpumf_study import figure_style as style
from gpumf_study import results
from outcomes import assert_whole


@pytest.fixture
def stored(repository, monkeypatch):
    """Makes a live Result of a frame, or of rows and columns, of any schema."""
    monkeypatch.setattr(results, "schema", SimpleNamespace(validated=lambda frame: frame))

    def store(frame, columns=None, name="x"):
        frame = pd.DataFrame(frame, columns=columns)
        return results.store(name, frame, {}, results.provenance(), live=True, source="gpumf")

    return store


@pytest.fixture
def ceilings(monkeypatch):
    """Has this machine have a GPU of these ceilings."""

    def of_gpu(**found):
        device = SimpleNamespace(ceilings=lambda repeats=10: found)
        monkeypatch.setattr(backends, "available", lambda: True)
        monkeypatch.setattr(backends, "device", lambda name="cuda": device)

    return of_gpu


@pytest.fixture(autouse=True)
def whole_figures(monkeypatch):
    """Whatever is drawn with the panels of `figure_style` is whole when a test is done."""
    drawn, plain = [], style.panels

    def panels(*arguments, **named):
        made = plain(*arguments, **named)
        drawn.append(made[0])
        return made

    monkeypatch.setattr(style, "panels", panels)
    yield
    for figure in drawn:
        assert_whole(figure)
