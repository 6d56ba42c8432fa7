"""Several workers learn what one learns."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, RBM, SGD, ImplicitALS
from gpumf.distributed import fit
from gpumf.models.checks import DivergedError
from gpumf.ratings import DataError, Ratings


@pytest.fixture(scope="module")
def sets():
    """Ratings with users and items that have none, and some to validate with."""
    rng = np.random.default_rng(3)
    cells = rng.permutation(60 * 40)[:900]
    values = rng.integers(1, 6, 900).astype(np.float32)
    ratings = Ratings(cells // 40, cells % 40, values, 63, 42, scale=(1, 5))
    return ratings.split(seed=1)


MODELS = {
    "als": lambda: ALS(5, 0.1, device="cpu", solver="parallel"),
    "als without biases": lambda: ALS(5, 1.0, biases=False, weighted=False, device="cpu", solver="sequential"),
    "als, clipped, by cg": lambda: ALS(5, 0.1, clip=True, device="cpu", solver="cg"),
    "implicit": lambda: ImplicitALS(5, alpha=2, device="cpu", solver="parallel"),
    "implicit by cg": lambda: ImplicitALS(5, device="cpu"),
}
WAYS = [(name, way) for name in MODELS for way in ("gather", "reduce") if way == "gather" or "cg" not in name]


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_any_number_of_workers_learns_what_one_estimator_does(client, sets, name, way):
    train, test = sets
    one = MODELS[name]().fit(train, 3, test)
    # One estimator solves in 32 bits, workers that add equations up in 64: a regularization of 0.1 on sums without
    # weights is up to 1.3e-5 apart, near-singular implicit ones more.
    rounding = 2e-3 if (name, way) == ("implicit", "reduce") else 1e-5
    for workers in (1, 2, 3):
        made = fit(MODELS[name](), train, 3, test, client=client, workers=workers, item_update=way, attempts=1)
        for several, alone in zip(made._learned, one._learned, strict=True):
            assert np.allclose(several, alone, atol=rounding)
        assert np.allclose(made.history[["rmse", "mae"]], one.history[["rmse", "mae"]], atol=1e-5)
        assert made.history.epoch.tolist() == [0, 1, 2, 3] and made.history.seconds.is_monotonic_increasing
        assert made.times.train > 0 and made.times.preprocess > 0
        assert 0 < made.times.transfer < made.times.end_to_end - made.times.train
    assert np.allclose(made.predict([0, 62], [1, 41]), one.predict([0, 62], [1, 41]), atol=1e-5)
    assert list(made.recommend(0, 5)[0]) == list(one.recommend(0, 5)[0])


def test_lambda_is_chosen_as_one_estimator_does(client):
    """Of ratings that it tries lambda on: of two groups of users, each with items of its own."""
    rng = np.random.default_rng(1)
    users, items = 200, 120
    group = np.arange(users)[:, None] % 2 == np.arange(items) % 2
    cells = np.flatnonzero(rng.random((users, items)) < np.where(group, 0.9, 0.1))
    assert len(cells) > 10_000
    ratings = Ratings(cells // items, cells % items, np.ones(len(cells), np.float32), users, items)
    one = ImplicitALS(3, device="cpu").fit(ratings, 2)
    made = fit(ImplicitALS(3, device="cpu"), ratings, 2, client=client, workers=2, attempts=1)
    assert made.hyperparameters.regularization == one.hyperparameters.regularization
    untried = fit(ImplicitALS(3, device="cpu"), ratings.select(range(9_000)), 2, client=client, workers=2, attempts=1)
    assert untried._shares != made._shares
    assert np.allclose(made.item_factors, one.item_factors, atol=1e-4)


def test_a_worker_without_users_or_items_takes_part(client, sets):
    """All ratings are of two users and two items, which leaves one of three workers with neither."""
    train = Ratings([0, 0, 1, 1], [0, 1, 0, 1], [1, 2, 3, 5], 2, 2)
    for make in (lambda: ALS(2, device="cpu"), lambda: SGD(2, device="cpu", solver="ordered")):
        one, several = make().fit(train, 2), fit(make(), train, 2, client=client, attempts=1)
        if isinstance(one, ALS):
            assert np.allclose(several.user_factors, one.user_factors, atol=1e-5)
        assert np.isfinite(several.user_factors).all() and len(several.history) == 3


def test_the_best_epoch_is_kept_and_stop_is_asked_once_an_epoch(client, sets):
    train, test = sets
    model, (one, several) = lambda: ALS(8, 0.01, device="cpu"), (None, None)
    one = model().fit(train, 6, test, keep="best")
    several = fit(model(), train, 6, test, client=client, workers=2, keep="best", attempts=1)
    assert several.epoch == one.epoch < 6 and np.allclose(several.item_factors, one.item_factors, atol=1e-4)
    stopped = fit(model(), train, 6, test, client=client, workers=2, stop=lambda row: row["epoch"] == 2, attempts=1)
    assert stopped.epoch == 2 and len(stopped.history) == 3


def test_what_was_fitted_is_saved_and_loaded(client, sets, tmp_path):
    train, test = sets
    model = fit(ALS(4, device="cpu"), train, 1, test, client=client, workers=2, attempts=1)
    model.save(tmp_path / "m.npz")
    again = ALS.load(tmp_path / "m.npz", device="cpu")
    assert np.array_equal(again.user_factors, model.user_factors) and again.score(test) == model.score(test)
    assert again.history.equals(model.history)


@pytest.fixture
def frames(sets):
    """The same ratings as DataFrames, in five parts of different lengths, with ids that are not positions."""
    frame = pd.DataFrame({"user": sets[0].users * 7 + 3, "item": sets[0].items * 2, "rating": sets[0].values})
    ends = [0, 100, 110, 400, 700, len(frame)]
    return [frame[begin:end] for begin, end in pairwise(ends)]


def by_ids(sets):
    """What one estimator is given of these ratings."""
    train = sets[0]
    return Ratings.from_arrays(train.users * 7 + 3, train.items * 2, train.values)


def test_each_worker_reads_its_part_of_a_folder_of_parquet_files(client, sets, frames, tmp_path):
    for k, frame in enumerate(frames):
        frame.to_parquet(tmp_path / f"part-{k}.parquet")
    whole = by_ids(sets)
    one = ALS(4, device="cpu").fit(whole, 2, whole)
    for workers in (1, 3):
        made = fit(ALS(4, device="cpu"), tmp_path, 2, tmp_path, client=client, workers=workers, attempts=1)
        assert np.array_equal(made.user_ids, whole.user_ids) and np.array_equal(made.item_ids, whole.item_ids)
        assert np.allclose(made.user_factors, one.user_factors, atol=1e-5)
        assert np.allclose(made.history.rmse, one.history.rmse, atol=1e-5)
    with pytest.raises(ValueError, match="seen"):
        made.recommend(whole.user_ids[0])


def test_models_speak_of_users_and_items_as_after_model_fit(client, sets, frames, tmp_path):
    frames[3].to_parquet(tmp_path / "all.parquet")
    new, train = Ratings.from_pandas(frames[3]), partial(fit, epochs=1, client=client, workers=2, attempts=1)
    for data, shape, told in ((new, None, new), (tmp_path, None, frames[3]), (tmp_path, (500, 100), sets[0])):
        for before in (
            ALS(4, device="cpu"),
            ALS(4, device="cpu").fit(frames[4], 1),
            ALS(4, device="cpu").fit(new, 1),
        ):
            made, one = train(before, data, shape=shape), ALS(4, device="cpu").fit(told, 1)
            assert made.ids is one.ids
            if shape is None:
                assert np.array_equal(made.user_ids, one.user_ids) and np.array_equal(made.item_ids, one.item_ids)
            else:
                assert made.user_ids is made.item_ids is None
    named = ALS(4, device="cpu").fit(frames[3], 1)
    assert train(named, Ratings.from_pandas(frames[3]), warm_start=True).ids


def test_a_loaded_model_forgets_what_users_rated_before(client, sets, frames, tmp_path):
    ALS(4, device="cpu").fit(sets[1], 1).save(tmp_path / "m.npz", seen=True)
    frames[3].to_parquet(tmp_path / "all.parquet")
    made = fit(ALS.load(tmp_path / "m.npz", device="cpu"), tmp_path, 1, client=client, workers=2, attempts=1)
    with pytest.raises(ValueError, match="seen"):
        made.recommend(0, ids=False)
    with pytest.raises(ValueError, match="what users rated cannot be saved"):
        made.save(tmp_path / "again.npz", seen=True)


def test_workers_without_a_file_leave_what_others_learn_as_it_is(client, frames, tmp_path):
    frames[3].to_parquet(tmp_path / "all.parquet")
    one, several = (fit(ALS(4, device="cpu", seed=1), tmp_path, 1, client=client, workers=n) for n in (1, 3))
    assert several.hyperparameters.regularization == pytest.approx(one.hyperparameters.regularization)
    assert np.allclose(several.user_factors, one.user_factors, atol=1e-5)


def test_ids_may_be_strings(client, sets, tmp_path):
    train = sets[0]
    frame = pd.DataFrame({"user": [f"u{k}" for k in train.users], "item": [f"i{k}" for k in train.items]})
    frame.assign(rating=train.values).to_parquet(tmp_path / "all.parquet")
    made = fit(ALS(4, device="cpu"), tmp_path, 1, client=client, workers=2, attempts=1)
    assert list(made.user_ids) == sorted(set(frame.user)) and len(made.item_factors) == frame.item.nunique()
    frame.assign(user=" " + frame.user, rating=train.values)[-1:].to_parquet(tmp_path / "blank.parquet")
    with pytest.raises(DataError, match="more than once"):
        fit(ALS(4, device="cpu"), tmp_path, 1, client=client, workers=2)


def test_a_dask_dataframe_is_trained_on(client, sets, frames):
    dd = pytest.importorskip("dask.dataframe")
    whole = by_ids(sets)
    one = ALS(4, device="cpu").fit(whole, 2)
    made = fit(ALS(4, device="cpu"), dd.from_pandas(pd.concat(frames), npartitions=4), 2, client=client, attempts=1)
    assert np.allclose(made.user_factors, one.user_factors, atol=1e-5)


BAD = {
    "a missing id": (
        lambda f: f.assign(user=f.user.astype("Int64").where(f.user > f.user.min())),
        "user id is missing",
    ),
    "a missing rating": (
        lambda f: f.assign(rating=f.rating.where(f.index > f.index[3])),
        "rating nan is not a finite number",
    ),
    "an endless rating": (lambda f: f.assign(rating=np.inf), "not a finite number"),
    "no column": (lambda f: f.drop(columns="item"), "item"),
    "words for ratings": (lambda f: f.assign(rating="good"), "rating good is not a finite number"),
    "fractions for ids": (lambda f: f.assign(item=f.item + 0.5), "item id .*5 among others; give all as integers"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_part_is_named_with_the_worker_that_read_it(client, frames, tmp_path, name):
    spoil, words = BAD[name]
    for k, frame in enumerate(frames):
        (spoil(frame) if k == 3 else frame).to_parquet(tmp_path / f"part-{k}.parquet")
    with pytest.raises(DataError, match=rf"part-3.parquet \(read by worker [0-2]\).*{words}"):
        fit(ALS(4, device="cpu"), tmp_path, 1, client=client)


def test_a_damaged_file_and_an_empty_folder_are_named(client, frames, tmp_path):
    with pytest.raises(DataError, match=r"no file \*\.parquet"):
        fit(ALS(4, device="cpu"), tmp_path, 1, client=client)
    frames[0].to_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(DataError, match=r"b\.parquet \(read by worker"):
        fit(ALS(4, device="cpu"), tmp_path, 1, client=client)


def test_a_pair_that_comes_twice_and_an_unknown_user_are_named(client, frames, tmp_path):
    for folder in ("twice", "known", "unknown"):
        (tmp_path / folder).mkdir()
    pair = frames[0].iloc[4]
    named = f"user {pair.user:.0f} rates item {pair['item']:.0f}"
    frames[0].to_parquet(tmp_path / "twice/all.parquet")
    frames[0].iloc[4:5].to_parquet(tmp_path / "twice/more.parquet")
    with pytest.raises(DataError, match=f"{named} more than once"):
        fit(ALS(4, device="cpu"), tmp_path / "twice", 1, client=client)
    pd.concat([frames[0], frames[0].iloc[4:5]]).to_parquet(tmp_path / "twice/all.parquet")
    with pytest.raises(DataError, match=rf"all.parquet \(read by worker \d\).*{named} again"):
        fit(ALS(4, device="cpu"), tmp_path / "twice", 1, client=client)
    frames[0].to_parquet(tmp_path / "known/all.parquet")
    frames[0][:1].assign(user=99999).to_parquet(tmp_path / "unknown/all.parquet")
    with pytest.raises(DataError, match="user 99999 has no rating in the training set"):
        fit(ALS(4, device="cpu"), tmp_path / "known", 1, tmp_path / "unknown", client=client)


def test_divergence_leaves_the_last_finite_epoch(client, sets):
    model = SGD(4, learning_rate=1e18, biases=False, device="cpu", solver="ordered")
    with pytest.raises(DivergedError) as raised:
        fit(model, *sets[:1], 3, sets[1], client=client, workers=2, attempts=1)
    assert model.epoch == raised.value.epoch - 1 and np.isfinite(model.user_factors).all()


def test_positions_and_ids_go_together_only_where_ids_are_positions(client, sets, frames, tmp_path):
    train, named = (
        partial(fit, ALS(4, device="cpu"), epochs=1, client=client, attempts=1),
        Ratings.from_pandas(frames[3]),
    )
    frames[3].to_parquet(tmp_path / "all.parquet")
    for data, validation in ((named, tmp_path), (tmp_path, named), (tmp_path, sets[1])):
        with pytest.raises(ValueError, match="give both as Ratings, or neither"):
            train(data, validation=validation)
    frame = pd.DataFrame({"user": sets[1].users, "item": sets[1].items, "rating": sets[1].values})
    frame.to_parquet(tmp_path / "all.parquet")
    by_position = [
        train(*given, **more).history.rmse.tolist()
        for given, more in (
            ((sets[1],), {"validation": sets[1]}),
            ((sets[1],), {"validation": tmp_path}),
            ((tmp_path,), {"validation": sets[1], "shape": (63, 42), "scale": (1, 5)}),
        )
    ]
    assert np.allclose(by_position, by_position[0], atol=1e-5)


def test_what_cannot_be_shared_out_is_said_before_anything_is_sent(client, addresses, sets):
    train, test = sets
    renamed = replace(test, item_ids=np.arange(42)[::-1])
    als, cg = ALS(4, device="cpu"), ALS(4, device="cpu", solver="cg")
    for error, words, call in (
        (TypeError, "not RBM", lambda: fit(RBM(device="cpu"), train, client=client)),
        (TypeError, "not list", lambda: fit(als, [1], client=client)),
        (ValueError, "keep", lambda: fit(als, train, keep="all", client=client)),
        (ValueError, "validation set", lambda: fit(als, train, keep="best", client=client)),
        (DataError, "position 0 is item 41 here and 0", lambda: fit(als, train, 1, renamed, client=client)),
        (ValueError, "there are 3 workers, not 4", lambda: fit(als, train, workers=4, client=client)),
        (ValueError, "no worker tcp://nobody", lambda: fit(als, train, workers=["tcp://nobody"], client=client)),
        (ValueError, "one or more, each once", lambda: fit(als, train, workers=addresses[:1] * 2, client=client)),
        (ValueError, r"each once, not \[\]", lambda: fit(als, train, workers=[], client=client)),
        (ValueError, "item_update must be", lambda: fit(als, train, item_update="both", client=client)),
        (ValueError, "whose equations add up", lambda: fit(cg, train, item_update="reduce", client=client)),
        (ValueError, "round a ring", lambda: fit(SGD(4, device="cpu"), train, item_update="gather", client=client)),
        (ValueError, "baseline", lambda: fit(SGD(4, device="cpu", biases="baseline"), train, client=client)),
        (ValueError, "timeout", lambda: fit(als, train, timeout=0, client=client)),
        (ValueError, "every", lambda: fit(als, train, every=0, client=client)),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            call()
    assert als.history is None
