"""The claims on ALS without a GPU, tested with frames of known numbers."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.gpumf import als_implicit_cpu as experiment
from support import ragged_ratings


def frame(seconds, ndcg=(0.3, 0.3), default=experiment.EXACT):
    """Of three seeds and two numbers of factors: seconds of an iteration by model, NDCG of ours and the package's."""
    rows = [{"model": experiment.POPULAR, "task": "rank", "metric": "ndcg", "value": 0.2}]
    for repeat in range(3):
        for f, times in ((16, 0.5), (64, 1.0)):
            for name, spent in seconds.items():
                labels = experiment._labels(name) | {
                    "factors": f,
                    "repeat": repeat,
                    "x_default": int(name == default),
                }
                ours = name == experiment.OURS
                spent = times * spent * (1 + 0.01 * repeat) if ours else spent
                rows += [labels | {"task": "iteration", "seconds": spent, "x_iteration": k} for k in range(3)]
                value = ndcg[0 if ours else 1] + 0.001 * repeat
                if name in (experiment.OURS, experiment.PEER):
                    rows.append(labels | {"task": "rank", "metric": "ndcg", "value": value})
    return schema.validated(pd.DataFrame(rows))


def seconds(ours=1.0, peer=2.0, exact=1.0, cg=2.0):
    return {experiment.OURS: ours, experiment.PEER: peer, experiment.EXACT: exact, experiment.CG: cg}


def test_confidences_are_those_of_hu_koren_and_volinsky():
    train = ragged_ratings(seed=0)
    confidences = experiment.confidences(train, 40)
    assert confidences.shape == (train.n_users, train.n_items) and confidences.nnz == train.nnz
    found = np.asarray(confidences[train.users, train.items]).ravel()
    np.testing.assert_allclose(found, 1 + 40 * train.values)


class Package:
    """In the place of the package's model: notes what it is fitted to."""

    def __init__(self):
        self.fitted = None

    def fit(self, confidences, show_progress):
        self.fitted = confidences
        n_users, n_items = confidences.shape
        self.user_factors, self.item_factors = np.ones((n_users, 2), np.float32), np.ones((n_items, 2), np.float32)


def test_both_are_fitted_to_the_training_set_and_judged_by_the_other(monkeypatch):
    train, test = ragged_ratings(seed=0).split(0.2)
    peer, seen, like = Package(), [], []
    monkeypatch.setattr(experiment, "_peer", lambda *arguments: like.append(arguments) or peer)
    monkeypatch.setattr(experiment, "_one_thread_of_blas", nullcontext)

    class Ours:
        alpha, times = 7, SimpleNamespace(end_to_end=7.0)

        def fit(self, ratings, epochs):
            seen.append(("fit", ratings, epochs))

        def evaluate_ranking(self, ratings, k):
            seen.append(("rank", ratings, k))
            return {"precision": 0.5, "ndcg": 0.25, "recall": 9}

        def score(self, ratings):
            seen.append(("score", ratings, None))
            return {"rmse": 0.75, "mae": 9}

    monkeypatch.setattr(experiment, "_rank", lambda *what: seen.append(what) or {"precision": 0.1, "ndcg": 0.2})
    model = Ours()
    rows = experiment._fits({experiment.OURS: model}, train, test, 3, 10)
    (_, fitted, epochs), (_, ranked, k), (_, scored, _), of_peer = seen
    assert epochs == 3 and k == 10 and ranked is test and scored is test
    np.testing.assert_array_equal([fitted.users, fitted.items], [train.users, train.items])
    assert like == [(model, 3)] and peer.fitted.max() == 1 + 7 * train.values.max()
    assert peer.fitted.nnz == train.nnz and of_peer[0] is train and of_peer[1] is test and of_peer[2] == 10
    ours, theirs = ([row for row in rows if row["model"] == name] for name in ("ImplicitALS", experiment.PEER))
    assert (ours[0]["task"], ours[0]["phase"], ours[0]["seconds"]) == ("fit", "end_to_end", 7)
    assert [(row["metric"], row["value"]) for row in ours[1:]] == [("precision", 0.5), ("ndcg", 0.25), ("rmse", 0.75)]
    assert [row.get("metric") for row in theirs] == [None, "precision", "ndcg"] and theirs[2]["value"] == 0.2


def test_exact_solutions_are_timed_up_to_so_many_factors(monkeypatch):
    timed = []
    monkeypatch.setattr(experiment, "load_ratings", lambda name: ragged_ratings(seed=0))
    monkeypatch.setattr(experiment, "_iterations", lambda models, *rest: timed.append(models) or [])
    monkeypatch.setattr(experiment, "_fits", lambda *rest: [])
    monkeypatch.setattr(experiment, "version", lambda name: "0")
    of_implicit = {"alpha": 7.0, "regularization": 5.0}
    experiment.run("x", factors=[2, 4, 5], exact=4, seeds=2, iterations=1, k=5, **of_implicit)
    assert [(models[experiment.OURS].factors, experiment.EXACT in models) for models in timed] == [
        (2, True), (4, True), (5, False)
    ] * 2  # fmt: skip
    assert [{model.seed for model in models.values()} for models in timed] == [{0}] * 3 + [{1}] * 3
    for model in timed[0].values():
        assert (model.cg_steps, model.cg_tolerance, model.seed) == (3, 0, 0)
    found = {name: (model.regularization, model.alpha) for name, model in timed[0].items()}
    assert found == {experiment.OURS: (5, 7), experiment.CG: (0.1, None), experiment.EXACT: (0.1, None)}


def test_the_package_gets_the_parameters_of_ours(monkeypatch):
    def theirs(*arguments, **named):
        return SimpleNamespace(arguments=arguments, **named)

    monkeypatch.setitem(sys.modules, "implicit.cpu.als", SimpleNamespace(AlternatingLeastSquares=theirs))
    peer = experiment._peer(experiment.ImplicitALS(9, 5.0, alpha=7.0, device="cpu", seed=4), 6)
    assert peer.arguments == (9, 5) and (
        peer.alpha, peer.iterations, peer.random_state, peer.cg_steps,
    ) == (1, 6, 4, 3)  # fmt: skip


@pytest.mark.parametrize(
    ("factors", "explicit"), [(8, experiment.EXACT), (16, experiment.EXACT), (17, experiment.CG), (64, experiment.CG)]
)
def test_of_the_models_that_are_timed_each_class_chooses_one(factors, explicit):
    assert experiment._defaults(factors, ragged_ratings(seed=0)) == {experiment.OURS, explicit}
