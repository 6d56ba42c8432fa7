"""Every solver on one data set."""

from gpumf_study.experiments.gpumf import all_schemes
from support import ragged_ratings


def test_every_solver_is_loaded_once_before_it_is_timed(monkeypatch):
    train, happened = ragged_ratings(seed=0), []

    def sweep(models, data, epochs, repeats, **named):
        for repeat in range(repeats):
            happened.extend(("timed", model.solver, model.seed) for _, model in models(train, repeat))

    monkeypatch.setattr(all_schemes.sweep, "sweep", sweep)
    monkeypatch.setattr(
        all_schemes, "trained", lambda model, part, epochs, *what: happened.append(("loaded", model.solver, epochs))
    )
    chosen = {"schemes": ["ALS parallel", "SGD ordered"], "once": ["SGD ordered"], "repeats": 2}
    all_schemes.run(**all_schemes.PROFILES["smoke"] | chosen)
    first = [("loaded", "parallel", 1), ("timed", "parallel", 0), ("loaded", "ordered", 1), ("timed", "ordered", 0)]
    assert happened == [*first, ("timed", "parallel", 1)]
