"""What answers requests: blends in files, factors for other libraries' indices, and what one user's answer takes."""

import sys

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD, Blend, ImplicitALS, NotFittedError
from gpumf.models import export_factors
from gpumf.ratings import Ratings
from support import least_peak, ragged_ratings

TRAIN, TEST = ragged_ratings(n_users=60, n_items=40, longest=30, seed=4).split(0.2, seed=1)


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize("kind", [ALS, SGD, ImplicitALS])
def test_exported_factors_order_items_as_recommendations(kind, cosine):
    model = kind(4, device="cpu", **({} if kind is ImplicitALS else {"clip": False})).fit(TRAIN, 2)
    queries, vectors = export_factors(model, cosine=cosine)
    assert queries.dtype == vectors.dtype == np.float32 and vectors.flags.c_contiguous
    scores = queries[:9].astype(np.float64) @ vectors.T
    offset = model.mean if model.biases else 0
    np.testing.assert_allclose(scores + offset, model.predict(np.arange(9)[:, None], np.arange(40)), atol=1e-4)
    if cosine:
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), np.linalg.norm(vectors, axis=1).max(), rtol=1e-5)


def test_what_is_no_inner_product_is_not_exported():
    with pytest.raises(TypeError, match="inner products"):
        export_factors(RBM(4, device="cpu").fit(TRAIN, 1))
    with pytest.raises(NotFittedError):
        export_factors(ALS(4))


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_blends_are_kept_in_files(suffix, tmp_path):
    path = tmp_path / f"blend.{suffix}"
    models = [kind(4, device="cpu").fit(TRAIN, 2) for kind in (ALS, RBM)]
    blend = Blend(*models).fit(TEST)
    blend.save(path, seen=True)
    loaded = Blend.load(path, device="cpu")
    assert [type(model) for model in loaded.models] == [ALS, RBM] and np.array_equal(loaded.weights, blend.weights)
    wanted, found = (one.recommend(np.arange(20), 5) for one in (blend, loaded))
    assert np.array_equal(found[0], wanted[0]) and np.array_equal(found[1], wanted[1])
    assert loaded.evaluate_ranking(TEST, 5) == blend.evaluate_ranking(TEST, 5)
    with pytest.raises(ValueError, match=r"holds Blend .*gpumf\.load"):
        ALS.load(path)
    others = Blend(models[0], ALS(4, device="cpu").fit(TEST, 1), weights=[0.5, 0.5])  # who know other ratings
    for of, seen in ((blend, False), (others, True)):
        of.save(path, seen=seen)
        with pytest.raises(ValueError, match="not known"):
            Blend.load(path, device="cpu").recommend(3)
    with pytest.raises(TypeError, match="models of gpumf"):
        Blend(type("Other", (), {"predict": print})(), weights=[1]).save(path)


def test_a_blend_is_of_models_one_by_one():
    model = ALS(4, device="cpu")
    blend = Blend(model, weights=[1])
    assert repr(blend) == f"Blend({model!r}, weights=[1.])"
    with pytest.raises(TypeError, match="one by one"):
        Blend([model, model])
    with pytest.raises(TypeError, match="not of another blend"):
        Blend(blend, model)


def test_one_user_is_answered_without_work_on_the_whole_model(tmp_path):
    """In few calls, and in less memory than the scores of all items take, whatever else the machine does."""
    rng = np.random.default_rng(1)
    cells = rng.choice(2000 * 10_000, 100_000, replace=False)
    train = Ratings(cells // 10_000, cells % 10_000, rng.integers(1, 6, len(cells)), 2000, 10_000)
    ALS(32, device="cpu").fit(train, 0).save(tmp_path / "model.npz", seen=True)
    model, calls = ALS.load(tmp_path / "model.npz", device="cpu"), []
    model.recommend(0)  # compiled
    sys.setprofile(lambda frame, event, _: event == "call" and calls.append(frame.f_code))
    model.recommend(1)
    sys.setprofile(None)
    assert len(calls) <= 200 and least_peak(model.recommend, range(2, 12)) < 4 * 10_000
