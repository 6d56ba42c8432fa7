"""New users without training get what training would have given them, and recommendations are explained."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from cases import HU
from gpumf import ALS, RBM, SGD, Blend, ImplicitALS
from gpumf.backends.cpu import als as cpu_als
from gpumf.models import factorization
from gpumf.ratings import Ratings
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


def test_one_new_user_is_solved_without_compiling(monkeypatch):
    model = ImplicitALS(4, device="cpu", solver="cg").fit(TRAIN, 2)
    found, _ = model.recommend(ratings=GIVEN, k=5)
    monkeypatch.setattr(cpu_als, "implicit_update", None)
    assert np.array_equal(model.recommend(ratings=GIVEN, k=5)[0], found)
    with pytest.raises(TypeError, match="not callable"):  # of several it is
        model.recommend(ratings=TRAIN, k=5)


@KINDS
def test_items_that_a_model_does_not_know_are_left_out_on_request(kind, device):
    frame = pd.DataFrame({"user": TRAIN.users, "item": [f"i{item}" for item in TRAIN.items], "rating": TRAIN.values})
    model = kind(4, device=device).fit(frame, 2)
    known, more = {f"i{item}": rating for item, rating in GIVEN.items()}, {"new": 5.0}
    wanted, ratings = model.recommend(ratings=known, k=5)
    for given in (more | known, (list(more | known), list((more | known).values()))):
        found = model.recommend(ratings=given, k=5, unknown="skip")
        assert np.array_equal(found[0], wanted) and np.array_equal(found[1], ratings)
        for call in (model.recommend, model.fold_in):
            with pytest.raises(KeyError, match="no item of the training set has the id 'new'"):
                call(ratings=given)
            with pytest.raises(ValueError, match="unknown must be"):
                call(ratings=given, unknown="mean")
    users = ["zoe"] * len(known) + ["amy", "zoe"]
    several = (users, [*known, "new", "new"], [*known.values(), 1, 2])
    found = model.recommend(ratings=several, k=5, unknown="skip")[0]  # of amy, who rated nothing known, and of zoe
    assert np.array_equal(found[0], model.recommend(ratings={}, k=5)[0]) and np.array_equal(found[1], wanted)


@pytest.mark.parametrize(
    ("kind", "options"), [(ALS, {}), (ALS, {"biases": True}), (ALS, {"biases": False}), (ImplicitALS, {})]
)
def test_few_users_are_solved_on_the_cpu_as_many_are_by_a_kernel(kind, options, launcher, monkeypatch):
    """And lists come from the item factors that are on the device: these are copied again only after another fit."""
    model, made = kind(4, device=launcher.name, **options).fit(TRAIN, 2), []
    made_of = factorization.ItemColumns
    monkeypatch.setattr(factorization, "ItemColumns", lambda *given: made.append(given) or made_of(*given))
    users = TRAIN.select(TRAIN.users < 5)
    few, lists = model.fold_in(users), model.recommend(ratings=GIVEN)
    monkeypatch.setattr(factorization, "_FEW", 0)
    many = model.fold_in(users)
    np.testing.assert_allclose(few.user_factors, many.user_factors, rtol=2e-2, atol=2e-3)
    model.recommend(np.arange(3))
    few.recommend(0)
    assert len(made) == 1
    fitted = kind(4, device=launcher.name, **options).fit(TRAIN, 3)
    assert not np.array_equal(fitted.recommend(ratings=GIVEN)[1], lists[1]) and len(made) == 2
    np.testing.assert_array_equal(model.fit(TRAIN, 3).recommend(ratings=GIVEN), fitted.recommend(ratings=GIVEN))
    assert len(made) == 3


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (ALS, {}),
        (ALS, {"weighted": True}),
        (ALS, {"biases": False}),
        (ImplicitALS, {}),
        (ImplicitALS, {"alpha": 3.0}),
    ],
)
def test_a_list_of_one_new_user_is_that_of_fold_in(kind, options, launcher, monkeypatch):
    """Without a model between them: of a user whose ratings say nothing, with dislikes, by ids, of all items."""
    model = kind(4, device=launcher.name, **options).fit(TRAIN, 2)
    known = np.flatnonzero(TRAIN.item_counts)
    news = [GIVEN, {3: -2.0}, dict.fromkeys(known[::-1].tolist(), 1), (list(GIVEN), [True] * len(GIVEN))]
    if kind is ImplicitALS:
        news.append(dict.fromkeys(GIVEN, 0))
    wanted = [[model.fold_in(one).recommend(0, k) for one in news] for k in (5, 100)]
    monkeypatch.setattr(kind, "fold_in", None)
    for k, lists in zip((5, 100), wanted, strict=True):
        for one, (items, ratings) in zip(news, lists, strict=True):
            found, values = model.recommend(ratings=one, k=k)
            assert np.array_equal(found, items) and found.dtype == items.dtype and values.dtype == np.float32
            np.testing.assert_allclose(values, ratings, rtol=1e-5, atol=1e-5)
    model.item_ids = np.array([f"item {k}" for k in range(20)], object)
    named, _ = model.recommend(ratings={f"item {k}": value for k, value in GIVEN.items()}, k=5, ids=True)
    assert named.tolist() == [f"item {k}" for k in wanted[0][0][0]]


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
    model = SGD(3, 0.05, bias_regularization=0.3, biases=True, device="cpu").fit(TRAIN, 3)
    q, targets = model.item_factors[list(GIVEN)].astype(np.float64), np.array([*GIVEN.values()])
    ridge = np.diag([0.05] * 3 + [0.3]) * len(q)
    wanted = np.linalg.solve(q[:, :-1].T @ q[:, :-1] + ridge, q[:, :-1].T @ (targets - model.mean - q[:, -1]))
    np.testing.assert_allclose(model.fold_in(GIVEN).user_factors[0], [*wanted, 1], rtol=1e-3, atol=1e-4)
    without = SGD(3, 0, biases=False, device="cpu").fit(TRAIN, 3).fold_in(([0], [3]))
    assert np.isfinite(without.user_factors).all() and without.predict(0, 0) == pytest.approx(3, rel=1e-3)


def test_a_machine_gives_the_hidden_units_of_training():
    model = RBM(4, biases=False, device="cpu").fit(TRAIN, 2)
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


def test_a_blend_folds_new_users_into_each_of_its_models(tmp_path):
    names = np.array([f"i{k:02}" for k in range(20)], object)
    columns = TRAIN.users + 100, names[TRAIN.items], TRAIN.values
    models = [kind(4, device="cpu").fit(columns, 2) for kind in (ALS, SGD, RBM)]
    blend = Blend(*models, weights=[0.5, 0.3, 0.2])
    given = {names[item]: rating for item, rating in GIVEN.items()}
    items, ratings = blend.recommend(ratings=given, k=4)
    every = np.setdiff1d(models[0].item_ids, list(given))
    parts = [model.fold_in(given).predict(0, np.searchsorted(names, every), ids=False) for model in models]
    wanted = np.array([0.5, 0.3, 0.2]) @ parts
    best = np.argsort(-wanted)[:4]
    assert items.tolist() == every[best].tolist() and ratings == pytest.approx(wanted[best], rel=1e-5)
    places, _ = blend.recommend(ratings=GIVEN, k=4, ids=False)
    assert names[places].tolist() == items.tolist()
    frame = pd.DataFrame({"user": ["zoe", "zoe", "amy"], "item": names[[1, 2, 3]], "rating": [5, 1, 4]})
    folded, (lists, _) = blend.fold_in(frame), blend.recommend(ratings=frame, k=3)
    assert folded.user_ids.tolist() == ["amy", "zoe"] and lists.shape == (2, 3)
    assert lists[1].tolist() == folded.recommend("zoe", 3)[0].tolist() and not set(lists[1]) & {"i01", "i02"}
    blend.save(tmp_path / "blend.npz")
    loaded = Blend.load(tmp_path / "blend.npz", device="cpu")
    assert loaded.recommend(ratings=given, k=4)[0].tolist() == items.tolist()
    with pytest.raises(KeyError, match="other"):
        blend.recommend(ratings={"other": 3})
    with pytest.raises(TypeError, match="not both"):
        blend.recommend()
    with pytest.raises(TypeError, match="models of gpumf"):
        Blend(type("Other", (), {"predict": print})(), weights=[1]).recommend(ratings={0: 3})


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


def test_new_ratings_renew_the_damped_biases_of_their_users_then_items(device):
    before, new = TRAIN.select(slice(3, None)), TRAIN.select(slice(3))
    model = ALS(4, device=device).fit(before, 3)
    fixed = model.item_biases.copy()
    model.partial_fit(new)
    assert (model.user_factors[:, -1] == 1).all() and (model.item_factors[:, -2] == 1).all()
    sides = ("users", "items", fixed, 5), ("items", "users", model.user_biases, 3)
    for side, other, known, damping in sides:
        of = {"users": model.user_biases, "items": model.item_biases}[side]
        for one in set(getattr(new, side).tolist()):
            here = getattr(TRAIN, side) == one
            left = TRAIN.values[here].astype(np.float64) - model.mean - known[getattr(TRAIN, other)[here]]
            assert of[one] == pytest.approx(left.sum() / (here.sum() + damping), abs=1e-5)


def test_new_ratings_take_the_place_of_those_of_the_same_pair_alone():
    users, items = np.divmod(np.arange(0, 2 * 50, 3), 50)
    before = Ratings(users, items, np.ones(len(users)), 2, 50)
    new = Ratings([0, 1, 1], [3, 4, 2], [2, 2, 2], 2, 50)
    found = ALS(2, device="cpu", biases=False).fit(before, 1).partial_fit(new)._training
    cells = dict(zip(zip(before.users, before.items, strict=True), before.values, strict=True))
    cells |= dict(zip(zip(new.users, new.items, strict=True), new.values, strict=True))
    assert dict(zip(zip(found.users, found.items, strict=True), found.values, strict=True)) == cells
    assert found.nnz == len(cells)


NAMED = pd.DataFrame(
    {
        "user": [f"u{user:02}" for user in TRAIN.users],
        "item": [f"i{item:02}" for item in TRAIN.items],
        "rating": TRAIN.values,
    }
)
LATER = pd.DataFrame(
    {
        "user": ["zoe", "zoe", "zoe", "amy", "u03", "u04", "zoe", "eve"],
        "item": ["i01", "i02", "i05", "new", "new", "new", "new", "alone"],
        "rating": [5, 1, 4, 2, 5, 4, 4, 3],
    }
)


@pytest.mark.parametrize("kind", [ALS, ImplicitALS])
def test_new_users_are_folded_in_and_new_items_solved(kind, device):
    exact = "parallel" if device == "cpu" else "cumf_cholesky"
    given = {"biases": True} if kind is ALS else {"regularization": 0.1, **HU}
    model = kind(4, **given, solver=exact, device=device).fit(NAMED, 3)
    p, q, known = *(array.copy() for array in model._learned), set(model.item_ids)
    model.partial_fit(LATER)
    assert model.user_ids.tolist() == [*sorted(set(NAMED.user)), "amy", "eve", "zoe"]
    assert model.item_ids.tolist() == [*sorted(known), "alone", "new"]
    assert model.user_factors.shape == (len(p) + 3, p.shape[1]) and len(model.item_factors) == len(q) + 2
    same = np.isin(model.user_ids[: len(p)], LATER.user, invert=True)
    assert np.array_equal(model.user_factors[: len(p)][same], p[same]) and not same.all()
    same = np.isin(model.item_ids[: len(q)], LATER.item, invert=True)
    assert np.array_equal(model.item_factors[: len(q)][same], q[same]) and same.sum() == len(q) - 3
    assert set(model.recommend("zoe", k=50)[0]) == {*known, "alone"} - {"i01", "i02", "i05"}
    assert "new" in model.recommend("u05", k=50)[0] and np.isfinite(model.predict("eve", "new"))
    # The last half-step is that of the items, from all ratings that there are now.
    users = [model.user_ids.tolist().index(name) for name in ("amy", "u03", "u04", "zoe")]
    x, values = model.user_factors[users].astype(np.float64), np.array([2, 5, 4, 4.0])
    y = model.item_factors[-1].astype(np.float64)
    if kind is ALS:
        targets, x, y = values - model.mean - x[:, -2], np.delete(x, -2, axis=1), y[[0, 1, 2, 3, -1]]
        wanted = np.linalg.solve(x.T @ x + 0.15 * 4 * np.eye(5), x.T @ targets)
    else:
        every = model.user_factors.astype(np.float64)
        system = every.T @ every + x.T @ (values[:, None] * x) + 0.1 * np.eye(4)
        wanted = np.linalg.solve(system, x.T @ (1 + values))
    np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-3)


def test_a_new_user_of_known_items_is_as_folded_in(device):
    model = ALS(4, device=device).fit(NAMED, 3)
    given = {"i01": 5.0, "i02": 1.0, "i05": 4.0}
    folded, q = model.fold_in(given), model.item_factors.copy()
    model.partial_fit(pd.DataFrame({"user": "zoe", "item": given.keys(), "rating": given.values()}))
    np.testing.assert_allclose(model.user_factors[-1], folded.user_factors[0], rtol=1e-3, atol=1e-4)
    assert model.user_ids[-1] == "zoe" and len(q) == len(model.item_factors)
    again = model.user_factors.copy()
    model.partial_fit(pd.DataFrame({"user": ["zoe"], "item": ["i07"], "rating": [2.0]}))
    assert len(model.user_factors) == len(again) and "i01" not in model.recommend("zoe", 50)[0]


def test_new_users_start_as_folded_in(monkeypatch):
    model = ALS(4, device="cpu").fit(NAMED, 3)
    folded = model.fold_in({"i01": 5.0, "i02": 1.0, "i05": 4.0}).user_factors[0]
    monkeypatch.setattr(ALS, "_solve", lambda *arguments: None)  # nobody is solved from there
    model.partial_fit(LATER[LATER.user == "zoe"])
    assert model.user_ids[-1] == "zoe" and model.item_ids[-1] == "new"
    np.testing.assert_allclose(model.user_factors[-1], folded, rtol=1e-5)


def test_sgd_folds_in_more_factors_than_solvers_on_a_gpu_take(host):
    model = SGD(299, biases=False, solver="hogwild", device="emulator").fit(TRAIN.select(np.arange(9)), 1)
    assert np.isfinite(model.fold_in(GIVEN).user_factors).all()


def test_new_users_and_items_of_positions_come_after_the_others():
    model = ALS(3, device="cpu").fit(TRAIN, 2)
    before = model.user_factors.copy()
    new = Ratings([30, 31, 30, 2], [0, 20, 20, 20], [3, 4, 5, 2], 32, 21)
    model.partial_fit(new)
    assert model._shape == (32, 21) and model.user_ids is None and model._training.nnz == TRAIN.nnz + 4
    assert np.array_equal(np.flatnonzero((model.user_factors[:30] != before).any(axis=1)), [2])
    assert 20 in model.recommend(3, k=21)[0] and 20 not in model.recommend(31, k=21)[0]
    state = [array.copy() for array in model._learned]
    with pytest.raises(ValueError, match="30 users, of which the first have to be its 32"):
        model.partial_fit(TRAIN)
    with pytest.raises(ValueError, match="no ids like the model's 0"):
        model.partial_fit(NAMED)
    assert all(map(np.array_equal, state, model._learned))


def test_contributions_add_up_to_the_preference(device):
    model = ImplicitALS(4, alpha=2.0, device=device).fit(TRAIN, 3)
    folded, tolerance = model.fold_in(GIVEN), 2e-2 if device == "cuda" else 1e-3
    for item in (0, 7):
        whole, items, parts = model.explain(USER, item, k=50)
        assert whole == pytest.approx(parts.sum()) and set(items) <= set(GIVEN) and (np.diff(parts) <= 0).all()
        assert whole == pytest.approx(float(folded.predict(0, item)), rel=tolerance, abs=1e-3)
        given = GIVEN if item else pd.DataFrame({"user": 0, "item": [*GIVEN], "rating": [*GIVEN.values()]})
        again = model.explain(None, item, 2, ratings=given)
        assert np.array_equal(again[1], items[:2]) and again[0] == pytest.approx(whole)


def test_new_users_of_implicit_feedback_follow_the_item_factors(tmp_path):
    model = ImplicitALS(4, 0.1, **HU, device="cpu").fit(TRAIN, 2)

    def right(model):
        y = model.item_factors.astype(np.float64)
        rated, weights = y[list(GIVEN)], np.array([*GIVEN.values()])
        system = y.T @ y + rated.T @ (weights[:, None] * rated) + 0.1 * np.eye(4)
        wanted = np.linalg.solve(system, rated.T @ (1 + weights))
        np.testing.assert_allclose(model.fold_in(GIVEN).user_factors[0], wanted, rtol=1e-3, atol=1e-4)

    right(model)
    with pytest.raises(ValueError, match="read-only"):
        model.item_factors[0] = 1
    copied = pickle.loads(pickle.dumps(model))
    copied.item_factors[:] *= 2
    right(copied)
    right(model)
    model.item_factors = model.item_factors * np.float32(3)
    right(model)
    right(model.partial_fit(TRAIN.select(slice(0, 5))))
    right(model.fit(TRAIN, 1, warm_start=True))
    model.save(tmp_path / "model.npz")
    right(ImplicitALS.load(tmp_path / "model.npz", device="cpu"))
    right(model.set_params(alpha=1.0).fit(TRAIN, 1))


@KINDS
def test_no_ratings_give_a_user_without_any(kind, device, tmp_path):
    model = kind(4, device=device).fit(TRAIN, 1)
    model.save(tmp_path / "m.npz")
    items, _ = model.recommend(ratings={}, k=5)
    for one in (model, kind.load(tmp_path / "m.npz", device)):
        assert len(items) == 5 and np.array_equal(one.recommend(ratings={}, k=5)[0], items)
        folded = one.fold_in({})
        assert folded._shape == (1, 20) and np.isfinite(folded.predict(0, np.arange(20))).all()
    if kind is RBM:  # as one beside whom another has ratings
        wanted = model.fold_in(Ratings([1], [0], [3], 2, 20)).user_hidden[0]
        np.testing.assert_allclose(model.fold_in(([], [])).user_hidden, [wanted], rtol=1e-6)


def test_ids_are_found_after_they_were_replaced_or_changed():
    names = np.array([f"i{k:02}" for k in range(20)], object)
    model = ALS(3, device="cpu").fit((TRAIN.users, names[TRAIN.items], TRAIN.values), 1)
    first, second = model.item_ids[:2]
    before = model.predict(0, [first, second])
    model.item_ids[:2] = second, first
    assert model.predict(0, [first, second]).tolist() == before[::-1].tolist()
    model.item_ids = np.array([f"new {name}" for name in model.item_ids], object)
    assert model.predict(0, f"new {first}") == before[1]
    with pytest.raises(KeyError, match="i00"):
        model.predict(0, "i00")


@pytest.mark.parametrize("kind", [ALS, ImplicitALS, RBM])
def test_items_are_not_learned_anew_from_the_ratings_of_newcomers_alone(kind):
    model = kind(4, device="cpu").fit(TRAIN, 2)
    folded = model.fold_in(GIVEN)
    before = folded.recommend(0, k=20)
    for attempt in (folded, pickle.loads(pickle.dumps(folded))):
        with pytest.raises(ValueError, match="users folded in"):
            attempt.partial_fit(Ratings([0], [0], [3.0], 1, TRAIN.n_items))
    np.testing.assert_array_equal(folded.recommend(0, k=20), before)
    epochs = folded.fit(TRAIN, 1).epoch
    assert folded.partial_fit(TRAIN.select(range(3))).epoch >= epochs, "trained on all, it may learn more"


def test_masked_ratings_of_a_new_user_are_refused(sets):
    model, masked = ImplicitALS(2, device="cpu").fit(sets[0], 1), np.ma.array([5.0, 1.0], mask=[True, False])
    for given, what in (([0, 1], masked), "ratings"), ((masked.astype(int), [5.0, 1.0]), "items"):
        for use in (
            model.recommend,
            model.fold_in,
            lambda ratings, **ids: model.explain(None, 0, ratings=ratings, **ids),
        ):
            with pytest.raises(ValueError, match=f"the {what} are masked"):
                use(ratings=given, ids=False)


NAMES = pd.DataFrame({"user": TRAIN.users, "item": [f"i{item}" for item in TRAIN.items], "rating": TRAIN.values})


def test_items_to_choose_from_that_a_model_does_not_know_are_left_out_on_request(device):
    model = ImplicitALS(4, device=device).fit(NAMES, 2)
    rated = pd.DataFrame({"user": [3, 3, 3], "item": ["i5", "i6", "new"], "rating": 1.0})
    both = {"candidates": ["i1", "i5", "i7", "i2", "new"], "filter_items": ["i2", "new"], "seen": rated}
    known = {name: values[:-1] for name, values in both.items()}
    for user in (3, [3, 4]):
        wanted = model.recommend(user, 5, **known)[0]
        assert set(np.ravel(wanted)) <= {"i1", "i5", "i7", None} and "i5" not in np.atleast_2d(wanted)[0]
        assert np.array_equal(model.recommend(user, 5, unknown="skip", **both)[0], wanted)
        for name, values in both.items():
            with pytest.raises((KeyError, ValueError), match="new"):
                model.recommend(user, 5, **known | {name: values})
    each = model.recommend([3, 4], 2, seen=(), candidates=[["new", "i1"], ["i7", "new", "i2"]], unknown="skip")[0]
    assert each[0].tolist() == ["i1", None] and sorted(each[1]) == ["i2", "i7"]


@KINDS
def test_items_of_new_ratings_go_by_their_ids(kind):
    known = Ratings.from_arrays(["a", "a", "b", "c"], ["x", "y", "x", "z"], [5, 1, 4, 5])
    model = kind(2, device="cpu").fit(known, 1, ids=True)
    others = Ratings.from_arrays(["n"] * 3, ["w", "y", "z"], [5, 1, 1], one_user=True)
    for call in (model.fold_in, lambda ratings: model.recommend(ratings=ratings)):
        with pytest.raises(ValueError, match="position 0 is item 'w' here and 'x' in the training set"):
            call(others)
        call(Ratings([0, 0], [0, 2], [5, 1], 1, 3))


def test_a_new_rating_off_the_scale_is_none_for_an_rbm():
    model = RBM(4, device="cpu").fit(Ratings.from_pandas(NAMES, scale=(0, 6)), 1, ids=True)
    before = model.history.copy()
    with pytest.raises(ValueError, match=r"new: rating 7 is off the scale 0 to 6"):
        model.partial_fit(NAMES[:2].assign(rating=7))
    assert model.history.equals(before)


@pytest.mark.parametrize("kind", [ALS, SGD, RBM])
def test_the_official_test_set_of_a_training_set_does_not_hinder_new_ratings(kind):
    masked = replace(TRAIN, test_mask=np.arange(TRAIN.nnz) % 9 == 0)
    model = kind(3, device="cpu").fit(masked, 1)
    unrated = next(item for item in range(20) if item not in GIVEN)
    assert model.partial_fit(Ratings([USER], [unrated], [3], 30, 20))._training.nnz == TRAIN.nnz + 1


def test_what_newcomers_have_seen_is_theirs_when_unknown_ids_are_skipped():
    model = ALS(2, device="cpu").fit(
        (["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]), 3
    )
    rated = ["amy", "bob", "zoe"], ["alien", "alien", "heat"], [5, 4, 1]
    seen = ["amy", "bob", "zoe"], ["heat", "up", "up"], [1, 1, 1]
    wanted = model.recommend(ratings=rated, seen=seen)[0]
    assert not any(item in row for item, row in zip(seen[1], wanted.tolist(), strict=True))
    assert np.array_equal(model.recommend(ratings=rated, seen=seen, unknown="skip")[0], wanted)


def test_sgd_with_users_folded_in_keeps_the_counts_of_its_items():
    ratings = Ratings([0, 1, 1, 2], [0, 0, 2, 1], [4, 3, 5, 2], 3, 4)
    folded = SGD(2, device="cpu").fit(ratings, 1).fold_in(Ratings([0, 0], [3, 0], [5, 4], 1, 4))
    folded.partial_fit(Ratings([0], [3], [5], 1, 4))
    assert folded._item_counts.tolist() == [2, 1, 1, 1]
