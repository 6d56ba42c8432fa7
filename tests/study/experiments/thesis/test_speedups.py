"""Speed-ups of versions to the same error."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from gpumf_study import schema
from gpumf_study.experiments.thesis import speedups
from support import ragged_ratings


def test_the_rate_is_tuned_for_the_epochs_to_the_error(monkeypatch):
    courses = {0.1: [0.9, 0.7, 0.6, 0.6], 0.01: [0.9, 0.8, 0.65, 0.5], 0.001: [0.9, 0.9, 0.9, 0.9]}

    def trained(model, part, epochs, held_out, stop):
        return SimpleNamespace(history=pd.DataFrame({"epoch": range(4), "mae": courses[model.learning_rate]}))

    monkeypatch.setattr(speedups, "trained", trained)
    train = ragged_ratings(seed=0)
    assert speedups._fastest(train, [*courses], {"regularization": 0.1}, 3, 0.7) == 0.1
    assert speedups._fastest(train, [*courses], {"regularization": 0.1}, 3, None) == 0.01, "no error to reach"


def test_a_rate_that_is_later_than_another_is_not_trained_to_the_end(monkeypatch):
    courses, asked = {0.1: [0.9, 0.7, 0.6, 0.6], 0.01: [0.9, 0.8, 0.75, 0.5], 0.2: [0.9, 0.9, 0.6, 0.6]}, {}

    def trained(model, part, epochs, held_out, stop):
        asked[model.learning_rate] = epochs
        mae = courses[model.learning_rate][: epochs + 1]
        return SimpleNamespace(history=pd.DataFrame({"epoch": range(len(mae)), "mae": mae}))

    monkeypatch.setattr(speedups, "trained", trained)
    for threshold, best, most in ((0.65, 0.1, 2), (0.55, 0.01, 3), (None, 0.01, 3)):
        assert (
            speedups._fastest(ragged_ratings(seed=0), [0.01, 0.1, 0.2], {"regularization": 0.1}, 3, threshold) == best
        )
        assert asked == {0.2: 3, 0.1: most, 0.01: most}


def test_a_version_says_how_many_cuda_threads_its_model_has(monkeypatch):
    made = []

    class SGD:
        solvers = staticmethod(lambda: {"fast": "cuda", "hogwild": "cuda"})

        def __init__(self, factors, threads, **options):
            self.threads = threads

    def sweep(models, *what, **named):
        made.extend(models(ragged_ratings(seed=0), 0))

    monkeypatch.setattr(speedups.sweep, "sweep", sweep)
    versions = [(SGD, *of) for _, *of in speedups.VERSIONS if of[0] in SGD.solvers()]
    monkeypatch.setattr(speedups, "VERSIONS", versions)
    monkeypatch.setattr(speedups, "usable_devices", lambda: {"cpu", "cuda"})
    monkeypatch.setattr(speedups, "_fastest", lambda *what: 0.01)
    speedups.run(**speedups.PROFILES["smoke"])
    said = {columns["variant"]: (columns["x_cuda_threads"], model.threads) for columns, model in made}
    assert said["32 x 128"] == (32 * 128, 32 * 128) and said["2048 x 128"] == (2048 * 128, 2048 * 128)
    for variant in (None, "all threads"):
        assert np.isnan(said[variant][0]) and said[variant][1] is None


def runs_of_sgd(courses):
    """A frame of runs on a data set without a threshold: (solver, variant) -> test MAE after each epoch."""
    frame = pd.concat([
        pd.DataFrame({
            "data": "ml-100k-synthetic", "task": "fit", "model": "SGD", "solver": solver, "variant": variant,
            "device": "cuda" if variant else "cpu", "factors": 16, "repeat": repeat, "x_setting": "published",
            "epoch": [1.0, 2.0, 3.0], "phase": "train", "metric": "mae", "value": course, "seconds": [1.0, 2.0, 3.0],
        })
        for (solver, variant), of in courses.items() for repeat, course in enumerate(of)
    ])  # fmt: skip
    return schema.validated(frame.reset_index(drop=True))


def test_a_solver_of_today_does_not_set_the_level_of_the_thesis():
    good, bad = [0.9, 0.8, 0.7], [0.9, 0.85, 0.85]
    frame = runs_of_sgd({
        ("sequential", None): [good] * 2, ("ordered", None): [good] * 2, ("ordered_parallel", None): [good] * 2,
        ("hogwild", "32 x 128"): [good] * 2, ("fast", "2"): [good, bad],
    })  # fmt: skip
    assert set(speedups.reached(frame).level) == {0.85}
    found = speedups.reached_by_thesis(frame)
    assert set(found.level) == {0.7} and set(found.solver) == {"sequential", "hogwild"}
    table = speedups.summary(frame).set_index("solver")
    assert set(table.level) == {0.7} and table.seconds["hogwild"] == 3 and table.single["hogwild"] == 1
    assert np.isnan(table.seconds["fast"]), "one of two repeats is not there"
