"""Times before and between fits."""

from types import SimpleNamespace

from gpumf_study.experiments.gpumf import startup


def test_lists_are_timed_for_as_many_new_users_as_asked_for(monkeypatch):
    asked = []
    model = SimpleNamespace(recommend=lambda ratings: asked.append(len(ratings)))
    monkeypatch.setattr(startup, "ImplicitALS", lambda *what, **named: SimpleNamespace(fit=lambda *what: model))
    frame = startup._new_users("cpu", repeats=2, items=50, users=7)
    assert asked == [30] * 7 * 3, "a round that loads, and two"
    assert frame.repeat.to_list() == [0, 0, 1, 1] and frame.x_percentile.to_list() == [50, 99] * 2
    assert (frame.seconds > 0).all()
