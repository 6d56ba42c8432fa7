"""A model that one thread fits is refused to all others, and is as before when the fit is over."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD, BayesianMF, Blend, ImplicitALS, load
from gpumf._util import busy
from gpumf.models.export import export_factors
from gpumf.ratings import Ratings
from support import ragged_ratings

RATINGS = ragged_ratings(n_users=12, n_items=9, longest=7, seed=1)
KINDS = {"als": ALS, "sgd": SGD, "rbm": RBM, "bayesian": BayesianMF, "implicit": ImplicitALS}
USES = {
    "predict": lambda model: model.predict(0, 1),
    "score": lambda model: model.score(RATINGS),
    "recommend": lambda model: model.recommend(0),
    "recommend_new": lambda model: model.recommend(ratings={0: 5.0}),
    "fold_in": lambda model: model.fold_in({0: 5.0}),
    "evaluate_ranking": lambda model: model.evaluate_ranking(RATINGS, seen=()),
    "evaluate_sampled": lambda model: model.evaluate_sampled(RATINGS, seen=(), negatives=1),
    "similar_items": lambda model: model.similar_items(0),
    "list_diversity": lambda model: model.list_diversity(seen=()),
    "save": lambda model: model.save("busy.npz"),
    "fit": lambda model: model.fit(RATINGS, 1),
    "warm_start": lambda model: model.fit(RATINGS, 1, warm_start=True),
    "set_params": lambda model: model.set_params(seed=3),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "blend": lambda model: Blend(model, weights=[1]).predict(0, 1),
    "blend_save": lambda model: Blend(model, weights=[1]).save("busy.npz"),
    "blend_fit": lambda model: Blend(model).fit(RATINGS),
}


def made(kind):
    return kind(4, solver="sequential" if kind in (SGD, RBM) else None, device="cpu", seed=0)


@contextmanager
def under_fit(model, **options):
    """Within it, another thread is at an epoch of `model.fit`."""
    within, on = Event(), Event()

    def wait(told, row):
        within.set()
        assert on.wait(60)

    with ThreadPoolExecutor(1) as thread:
        fit = thread.submit(model.fit, RATINGS, 2, callbacks=[wait], **options)
        try:
            assert within.wait(60) or fit.result()
            yield
        finally:
            on.set()
        fit.result()


@pytest.mark.parametrize("name", KINDS)
def test_no_other_thread_uses_a_model_while_it_is_fitted(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = made(KINDS[name]).fit(RATINGS, 1)
    model.save("busy.npz")
    uses = USES | ({"partial_fit": lambda model: model.partial_fit(RATINGS)} if hasattr(model, "partial_fit") else {})
    uses |= {"export": export_factors} if name in ("als", "sgd", "implicit") else {}
    with under_fit(model):
        for use, call in uses.items():
            with pytest.raises(
                RuntimeError, match=f"fit is running on this {type(model).__name__} in another thread"
            ):
                call(model)
                pytest.fail(use)
        assert len(load("busy.npz").history) == 2  # the file is that from before
    assert len(model.history) == 3 and not busy._FITTING
    for use in ("predict", "save", "copy", "pickle", "blend"):
        USES[use](model)


def test_a_first_fit_is_no_missing_fit():
    model = made(ALS)
    with under_fit(model), pytest.raises(RuntimeError, match="in another thread") as refused:
        model.predict(0, 0)
    assert refused.type is RuntimeError


def test_other_models_and_copies_for_callbacks_are_free():
    model, other, told = made(ALS).fit(RATINGS, 1), made(ALS).fit(RATINGS, 1), []
    with ThreadPoolExecutor(1) as thread:

        def ask(copied, row):
            told.append((copied.predict(0, 0), thread.submit(copied.predict, 0, 0).result(60), model.predict(0, 0)))

        model.fit(RATINGS, 2, callbacks=[ask])
    assert len(told) == 2 and told[0][0] == told[0][1]
    with under_fit(model):
        other.predict(0, 0)
        other.fit(RATINGS, 1)


def test_a_callback_cannot_change_parameters():
    model = ALS(2, device="cpu")
    with pytest.raises(RuntimeError, match="this ALS is being fitted"):
        model.fit(RATINGS, 2, callbacks=[lambda told, row: model.set_params(factors=3)])
    assert model.factors == 2 and model.set_params(factors=3).factors == 3


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_fit_that_ends_early_leaves_the_model_to_all(error):
    model = made(ALS).fit(RATINGS, 1)

    def fail(told, row):
        raise error

    with pytest.raises(error):
        model.fit(RATINGS, 2, callbacks=[fail])
    with ThreadPoolExecutor(1) as thread:
        assert np.isfinite(thread.submit(model.predict, 0, 0).result(60))
    assert not busy._FITTING


def test_a_refused_fit_does_not_end_the_refusals():
    model = made(ALS).fit(RATINGS, 1)
    with under_fit(model):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="in another thread"):
                model.fit(RATINGS, 1)


@pytest.mark.parametrize("use", ["predict", "save"])
def test_what_was_read_while_a_fit_began_is_refused(use, tmp_path, monkeypatch):
    """A fit keeps the new mean before it trains: what began before may have read of both."""
    monkeypatch.chdir(tmp_path)
    model, at = made(ALS).fit(RATINGS, 1), "_predicted" if use == "predict" else "_parameters"
    original, running = getattr(ALS, at), []

    def begin(self):
        if not running:
            running.append(under_fit(model))
            running[0].__enter__()

    if use == "predict":

        def interrupted(self, *places):
            begin(self)
            return original(self, *places)

    else:

        @property
        def interrupted(self):
            begin(self)
            return original.fget(self)

    with monkeypatch.context() as patched:
        patched.setattr(ALS, at, interrupted)
        with pytest.raises(RuntimeError, match="in another thread"):
            USES[use](model)
    running[0].__exit__(None, None, None)
    assert not list(tmp_path.iterdir())


def test_the_threads_of_a_model_that_is_not_fitted_predict_at_once():
    model = made(ALS).fit(Ratings([0, 1, 1], [0, 0, 1], [4, 3, 5], n_users=2, n_items=2), 1)
    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(lambda _: float(model.predict(0, 0)), range(50)))) == 1
