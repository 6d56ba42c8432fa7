"""New users without training get what training would have given them, and recommendations are explained."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from gpumf import ALS, RBM, SGD, ImplicitALS
from support import ragged_ratings

TRAIN = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)
ROWS = TRAIN.by_user
USER = int(np.argmax(TRAIN.user_counts))
RATED = ROWS.indices[ROWS.indptr[USER] : ROWS.indptr[USER + 1]]
GIVEN = dict(zip(RATED.tolist(), ROWS.values[ROWS.indptr[USER] : ROWS.indptr[USER + 1]].tolist(), strict=True))
KINDS = pytest.mark.parametrize("kind", [ALS, ImplicitALS, SGD, RBM])


@KINDS
def test_one_user_a_pair_and_many_users_agree(kind, device):
    model = kind(4, device=device).fit(TRAIN, 2)
    items, ratings = model.recommend(ratings=GIVEN, k=5)
    assert len(items) == 5 and not set(items) & set(GIVEN) and (np.diff(ratings) <= 0).all()
    for same in (tuple(map(list, (GIVEN, GIVEN.values()))), TRAIN.select(TRAIN.users == USER)):
        found, values = model.recommend(ratings=same, k=5)
        assert np.array_equal(np.atleast_2d(found)[-1 if found.ndim == 1 else USER], items)
        np.testing.assert_allclose(np.atleast_2d(values)[-1 if found.ndim == 1 else USER], ratings, rtol=1e-4)
    whole = sparse.coo_array((TRAIN.values, (TRAIN.users, TRAIN.items)), shape=(30, 20)).tocsr()
    found, _ = model.recommend(ratings=whole, k=5)
    assert np.array_equal(found[USER], items)
    assert np.array_equal(model.recommend(ratings=GIVEN, k=5, candidates=items[1:])[0], items[1:])
    assert model.history.equals(model.fold_in(whole).history) and model._shape == (30, 20)


@pytest.mark.parametrize("biases", [False, True])
def test_als_gives_the_solution_of_the_normal_equations(biases, device):
    model = ALS(3, 0.2, biases=biases, device=device).fit(TRAIN, 2)
    found = model.fold_in(GIVEN).user_factors[0].astype(np.float64)
    q, targets = model.item_factors[list(GIVEN)].astype(np.float64), np.array([*GIVEN.values()])
    if biases:
        targets, q, found = targets - model.mean - q[:, -1], q[:, :-1], found[:-1]
    wanted = np.linalg.solve(q.T @ q + 0.2 * len(q) * np.eye(q.shape[1]), q.T @ targets)
    np.testing.assert_allclose(found, wanted, rtol=2e-2 if device == "cuda" else 1e-3, atol=1e-3)


def test_sgd_gives_the_least_of_its_objective():
    model = SGD(3, 0.05, bias_regularization=0.3, device="cpu").fit(TRAIN, 3)
    q, targets = model.item_factors[list(GIVEN)].astype(np.float64), np.array([*GIVEN.values()])
    ridge = np.diag([0.05] * 3 + [0.3]) * len(q)
    wanted = np.linalg.solve(q[:, :-1].T @ q[:, :-1] + ridge, q[:, :-1].T @ (targets - model.mean - q[:, -1]))
    np.testing.assert_allclose(model.fold_in(GIVEN).user_factors[0], [*wanted, 1], rtol=1e-3, atol=1e-4)
    without = SGD(3, 0, biases=False, device="cpu").fit(TRAIN, 3).fold_in(([0], [3]))
    assert np.isfinite(without.user_factors).all() and without.predict(0, 0) == pytest.approx(3, rel=1e-3)


def test_a_machine_gives_the_hidden_units_of_training():
    model = RBM(4, device="cpu").fit(TRAIN, 2)
    np.testing.assert_allclose(model.fold_in(TRAIN).user_hidden, model.user_hidden, rtol=1e-5)


def test_new_users_by_ids():
    names = np.array([f"i{k:02}" for k in range(20)], object)
    model = ALS(3, device="cpu").fit((TRAIN.users + 100, names[TRAIN.items], TRAIN.values), 2)
    frame = pd.DataFrame({"user": ["zoe", "zoe", "amy"], "item": model.item_ids[[1, 2, 3]], "rating": [5, 1, 4]})
    folded = model.fold_in(frame)
    assert folded.user_ids.tolist() == ["amy", "zoe"]
    items, _ = model.recommend(ratings=frame, k=3)
    assert np.array_equal(items[1], folded.recommend("zoe", 3)[0]) and items[1][0] in model.item_ids
    assert np.array_equal(
        model.recommend(ratings=dict(zip(model.item_ids[[1, 2]], [5, 1], strict=True)), k=3)[0], items[1]
    )
    for wrong, error in (
        ({"other": 3}, KeyError),
        ((["i01"] * 2, [1, 2]), ValueError),
        ({"i01": np.nan}, ValueError),
    ):
        with pytest.raises(error):
            model.recommend(ratings=wrong)
    with pytest.raises(TypeError, match="not both"):
        model.recommend("u", ratings=frame)


@pytest.mark.parametrize("kind", [ALS, ImplicitALS])
def test_new_ratings_change_their_users_and_items_alone(kind, device):
    before, new = (
        TRAIN.select(np.arange(TRAIN.nnz) % 9 > 0),
        TRAIN.select(np.flatnonzero(np.arange(TRAIN.nnz) % 9 == 0)[:3]),
    )
    model = kind(4, device=device).fit(before, 3)
    p, q = (array.copy() for array in model._learned)
    model.partial_fit(new)
    assert set(np.flatnonzero((model.user_factors != p).any(axis=1))) == set(new.users)
    assert set(np.flatnonzero((model.item_factors != q).any(axis=1))) <= set(new.items)
    assert model._training.nnz == before.nnz + 3 and not set(new.items[:1]) & set(
        model.recommend(int(new.users[0]), 20)[0]
    )
    assert model.partial_fit(new)._training.nnz == before.nnz + 3
    model._training = None
    with pytest.raises(ValueError, match="warm_start"):
        model.partial_fit(new)


def test_contributions_add_up_to_the_preference(device):
    model = ImplicitALS(4, alpha=2.0, device=device).fit(TRAIN, 3)
    folded, tolerance = model.fold_in(GIVEN), 2e-2 if device == "cuda" else 1e-3
    for item in (0, 7):
        whole, items, parts = model.explain(USER, item, k=50)
        assert whole == pytest.approx(parts.sum()) and set(items) <= set(GIVEN) and (np.diff(parts) <= 0).all()
        assert whole == pytest.approx(float(folded.predict(0, item)), rel=tolerance, abs=1e-3)
        again = model.explain(None, item, 2, ratings=GIVEN)
        assert np.array_equal(again[1], items[:2]) and again[0] == pytest.approx(whole)
