"""A spy around what trains and judges models, under which every experiment runs in small."""

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest

from gpumf.models.blend import Blend
from gpumf.models.estimator import Model
from gpumf.ratings import Ratings
from gpumf_study import experiments

TUNED = {
    "ml-100k-synthetic": {
        "ALS": {"regularization": 0.11},
        "SGD": {"regularization": 0.07, "learning_rate": 0.013},
        "RBM": {"learning_rate": 0.03},
    }
}
# Parameters other than those of the smoke profile: such as are told apart and, where an experiment chooses, a choice.
PARAMETERS = {
    "als_convergence": {"parameters": TUNED},
    "als_netflix": {"repeats": 2},
    "als_sgd_rbm": {"repeats": 2, "epochs": {"ALS": 2, "SGD": 3, "RBM": 1}},
    "blend_ml100k": {
        "seeds": 2,
        "epochs": {"RBM": 1, "SGD": 3, "ALS": 2},
        "grids": {
            "RBM": {"hidden": [2, 4], "learning_rate": [0.05], "weight_decay": [0.0], "beta": [0.01]},
            "SGD": {"factors": [5], "regularization": [0.01, 0.3], "learning_rate": [0.02], "beta": [0.02]},
            "ALS": {"factors": [4], "regularization": [0.05, 0.3]},
        },
    },
    "crossover": {"repeats": 2, "regularization": [0.05, 0.5], "learning_rate": [0.01, 0.1]},
    "defaults": {"grid": {"ALS": [{"factors": 4}, {"biases": True, "regularization": 0.1}]}},
    "first_comparison": {"parameters": TUNED},
    "fit_seconds": {"fits": [["ALS", "parallel", 4, 1], ["SGD", "sequential", 5, 2]]},
    "implicit_seconds": {"solvers": ["cg", "parallel_cg"]},
    "parameter_search": {
        "repeats": 2,
        "sgd_regularization": [0.02, 0.2],
        "learning_rate": [0.001, 0.05],
        "als_regularization": [0.03, 0.3],
        "als_epochs": 3,
        "rbm": {"data": "ml-100k-synthetic", "users": 60, "learning_rate": [0.1, 0.4], "epochs": 1},
    },
    "rbm_tuning": {"seeds": 2},
    "sgd_ml100k": {"seeds": 2, "regularization": [0.01, 0.3], "factors": [4]},
    "sgd_netflix": {"repeats": 2},
    "sgd_schemes": {"repeats": 2},
    "sparsity": {
        "repeats": {"ALS": 2, "SGD": 2, "RBM": 2},
        "regularization": {"ALS": [0.05, 0.1], "SGD": [0.2], "RBM": [0.004]},
        "epochs": {"ALS": 2, "SGD": 3, "RBM": 1},
        "parameters": TUNED,
    },
    "speedups": {"repeats": 2},
    "stale_rbm": {"seeds": 2},
}


@dataclass
class Fit:
    """One training: the name of the model's class, its parameters, what it was given, has learned and ran with."""

    model: str
    parameters: dict
    kernel: str | None
    epochs: int
    train: Ratings
    validation: Ratings | None
    warm: bool
    learned: tuple = ()
    rows: int = 0
    solver: str = ""

    @property
    def asked(self):
        """All that a training depends on, as plain values."""
        t = self.train
        ratings = t.n_users, t.n_items, t.users.tobytes(), t.items.tobytes(), t.values.tobytes()
        return self.model, sorted(map(repr, self.parameters.items())), self.epochs, self.warm, ratings


@dataclass
class Seen:
    """What an experiment did, in its order."""

    fits: list = field(default_factory=list)
    judged: list = field(default_factory=list)  # (ratings that a model was trained on, cells that it is judged on)
    splits: list = field(default_factory=list)  # (number of fits before, train, test) of the sets split first
    errors: dict = field(default_factory=lambda: {"rmse": set(), "mae": set()})  # all that were computed
    parts: list = field(default_factory=list)  # all sets for training that a split gave, those of splits of these too


def pairs_of(ratings):
    """Each (user, item) as one number."""
    return ratings.users.astype(np.int64) * ratings.n_items + ratings.items


def common(a, b):
    """How many cells of the matrix are in both sets."""
    return len(np.intersect1d(pairs_of(a), pairs_of(b)))


@cache
def seen(name, mirrored=False):
    """What an experiment does in its smoke profile, with the ratings of its test sets `mirrored` or as they are."""
    log, parts, models = Seen(), [], {}

    def noted(whole, pair):
        train, test = pair
        log.parts.append(train)
        if not any(whole is part for part in parts):
            parts.append(train)
            if mirrored:
                low, high = test.values.min(), test.values.max()
                test = replace(test, values=low + high - test.values)
            log.splits.append((len(log.fits), train, test))
        return train, test

    def noted_errors(scores):
        for measure, error in scores.items():
            log.errors[measure].add(error)
        return scores

    def split(self, *arguments, **named):
        return noted(self, plain["split"](self, *arguments, **named))

    def official_split(self):
        return noted(self, plain["official_split"](self))

    def kfold(self, *arguments, **named):
        return (noted(self, pair) for pair in plain["kfold"](self, *arguments, **named))

    def fit(self, train, epochs=20, validation=None, **options):
        made = Fit(
            type(self).__name__,
            dict(self._parameters),
            self.solver if self._solver_given else None,
            epochs,
            train,
            validation,
            options.get("warm_start", False),
        )
        log.fits.append(made)
        models[id(self)] = self, train
        try:
            return plain["fit"](self, train, epochs, validation, **options)
        finally:
            if self.history is not None:
                made.learned, made.rows = tuple(a.copy() for a in self._learned), len(self.history)
                for measure, errors in log.errors.items():
                    errors |= set(self.history[measure])
            made.solver = self.solver
            if validation is not None:
                log.judged.append((train, validation))

    def score(self, ratings):
        log.judged.append((models[id(self)][1], ratings))
        return noted_errors(plain["score"](self, ratings))

    def rank(self, ratings, *arguments, **named):
        log.judged.append((models[id(self)][1], ratings))
        return plain["rank"](self, ratings, *arguments, **named)

    def blend_fit(self, held_out, metric="rmse"):
        log.judged.extend((models[id(model)][1], held_out) for model in self.models)
        log.fits.append(Fit("Blend", {"metric": metric}, None, 0, held_out, None, False))
        return plain["blend_fit"](self, held_out, metric)

    def blend_score(self, ratings):
        log.judged.extend((models[id(model)][1], ratings) for model in self.models)
        return noted_errors(plain["blend_score"](self, ratings))

    places = {
        "split": (Ratings, "split", split),
        "official_split": (Ratings, "official_split", official_split),
        "kfold": (Ratings, "kfold", kfold),
        "fit": (Model, "fit", fit),
        "score": (Model, "score", score),
        "rank": (Model, "evaluate_ranking", rank),
        "blend_fit": (Blend, "fit", blend_fit),
        "blend_score": (Blend, "score", blend_score),
    }
    plain = {key: getattr(of, attribute) for key, (of, attribute, _) in places.items()}
    experiment = experiments.module(name)
    with pytest.MonkeyPatch.context() as patch:
        for of, attribute, spied in places.values():
            patch.setattr(of, attribute, spied)
        log.frame = experiment.run(**experiment.PROFILES["smoke"] | PARAMETERS.get(name, {}))
    return log
