"""Whatever holds ratings in memory becomes the same Ratings, or is refused with what to call instead."""

import gzip
import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from gpumf import ALS, Blend, ImplicitALS, backends
from gpumf.ratings import DataError, DeviceRatings, Ratings, read_ratings
from gpumf.ratings.convert import positions_of, ratings_like, ratings_of
from small_files import as_pairs

FRAME = pd.DataFrame({"user": ["b", "a", "b"], "item": [7, 7, 3], "rating": [1.0, 2.0, 3.0], "timestamp": [5, 4, 6]})
PAIRS = {("a", 7): 2, ("b", 7): 1, ("b", 3): 3}
ROWS, COLUMNS, VALUES = np.array([0, 2, 2]), np.array([1, 0, 3]), np.array([4.0, 0.5, 2.0])
MATRIX = sparse.coo_array((VALUES, (ROWS, COLUMNS)), shape=(4, 5))


@pytest.mark.parametrize(
    "data",
    [
        FRAME,
        FRAME.astype({"user": "category", "item": "Int64", "rating": "Float32"}),
        FRAME.astype({"user": "string"}),
        SimpleNamespace(to_pandas=lambda: FRAME),
        (FRAME.user, FRAME.item, FRAME.rating),
        [["b", "a", "b"], [7, 7, 3], [1, 2, 3]],
    ],
)
def test_tables_keep_ids(data):
    ratings, named = ratings_of(data)
    assert named and as_pairs(ratings) == PAIRS
    assert ratings.user_ids.tolist() == ["a", "b"] and ratings.item_ids.tolist() == [3, 7]


@pytest.mark.parametrize("form", ["tocoo", "tocsr", "tocsc", "tolil"])
@pytest.mark.parametrize("kind", [sparse.coo_array, sparse.coo_matrix])
def test_sparse_matrices_keep_positions_and_shape(form, kind):
    ratings, named = ratings_of(getattr(kind(MATRIX), form)())
    assert not named and (ratings.n_users, ratings.n_items) == (4, 5)
    assert as_pairs(ratings) == {(0, 1): 4, (2, 0): 0.5, (2, 3): 2}


def test_stored_zeros_are_ratings_and_pairs_stored_twice_are_refused():
    zero = sparse.csr_array((np.array([0.0, 1]), (np.array([0, 1]), np.array([0, 1]))))
    assert as_pairs(Ratings.from_scipy(zero)) == {(0, 0): 0, (1, 1): 1}
    twice = sparse.coo_array((np.ones(3), (np.array([0, 0, 1]), np.array([0, 0, 1]))))
    with pytest.raises(DataError, match="again"):
        ratings_of(twice)
    assert Ratings.from_scipy(twice, duplicates="mean").nnz == 2


def test_times_go_along_with_ratings():
    ratings, _ = ratings_of(FRAME)
    assert ratings.times.tolist() == [5, 4, 6]
    assert ratings.select([2, 0]).times.tolist() == [6, 5]
    dated = FRAME.assign(timestamp=pd.to_datetime([86400, 1, 172800], unit="s", utc=True))
    assert ratings_of(dated)[0].times.tolist() == [86400, 1, 172800]
    twice = pd.concat([FRAME, FRAME.iloc[:1].assign(timestamp=9, rating=5)])
    assert Ratings.from_pandas(twice, time="timestamp", duplicates="last").times.tolist() == [4, 6, 9]
    older = twice.assign(timestamp=[5, 4, 6, 3])
    for duplicates, rating in (("last", 1), ("mean", 3), ("sum", 6)):
        found = Ratings.from_pandas(older, time="timestamp", duplicates=duplicates)
        assert found.times.tolist() == [5, 4, 6] and found.values.tolist() == [rating, 2, 3]
    assert Ratings.from_pandas(older, duplicates="last").values.tolist() == [2, 3, 5], "without times the last given"


def test_other_tables_are_taken_in_known_positions():
    one = pd.DataFrame({"user": ["b", "b"], "item": [3, 7], "rating": [5, 4]})
    with pytest.raises(DataError, match="one user"):
        ratings_of(one)
    train, _ = ratings_of(FRAME)
    known = train.user_ids, train.item_ids, (2, 2)
    assert as_pairs(ratings_like(one, "test", *known)) == {("b", 3): 5, ("b", 7): 4}
    other = pd.DataFrame({"user": ["b", "a"], "item": [3, 3], "rating": [5, 4]})
    taken = ratings_like(other, "test", *known)
    assert taken.users.tolist() == [1, 0] and taken.items.tolist() == [0, 0] and taken.n_items == 2
    with pytest.raises(DataError, match="1 items, such as 9, are not in the training set"):
        ratings_like(other.assign(item=[3, 9]), "test", *known)


def test_positions_of_others_are_refused():
    """A `Ratings` counts positions: with as many users of other ids, each would be taken for somebody else."""
    columns = ["a", "a", "b", "c"], [1, 2, 1, 3], [1.0, 5.0, 2.0, 4.0]
    train = Ratings.from_arrays(*columns)
    later = Ratings.from_arrays(["b", "b", "c", "d"], *columns[1:])
    model = ALS(2, device="cpu").fit(train, 1)
    uses = [
        lambda: model.score(later), lambda: model.evaluate_ranking(later, seen=()), lambda: model.partial_fit(later),
        lambda: model.fit(later, 1, warm_start=True), lambda: ALS(2, device="cpu").fit(train, 1, validation=later),
        lambda: Blend(model, model).fit(later),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(DataError, match=r"position 0 is user .b. here and .a. in the training set; give a"):
            use()
    assert model.history.epoch.tolist() == [0, 1]
    # The same ids, in another array, and positions without ids, are who they are.
    same = Ratings.from_arrays(*columns)
    plain = Ratings(train.users, train.items, train.values, 3, 3)
    assert model.score(same) == model.score(plain) == model.score(train)


def test_ids_of_another_type_are_none_of_those_known():
    assert positions_of([7, 8], np.array([8, 7])).tolist() == [1, 0]
    assert positions_of(["7", "8"], np.array([7, 8])).tolist() == [-1, -1]
    assert positions_of([7.0, 7.5], np.array([7])).tolist() == [0, -1]


def test_arrays_on_a_gpu_stay_there(host, monkeypatch):
    """CuPy's classes are known by the modules that they are of; here NumPy works in their place."""
    monkeypatch.setattr(backends, "device", lambda name="emulator": host)
    array = type("ndarray", (np.ndarray,), {"__module__": "cupy"})
    stored = SimpleNamespace(row=ROWS, col=COLUMNS, data=VALUES, shape=(4, 5))
    matrix = type("csr_matrix", (), {"__module__": "cupyx.scipy.sparse", "tocoo": lambda self: stored})()
    for data, shape in ((matrix, (4, 5)), (tuple(a.view(array) for a in (ROWS, COLUMNS, VALUES)), (3, 4))):
        ratings, named = ratings_of(data)
        assert isinstance(ratings, DeviceRatings) and not named and (ratings.n_users, ratings.n_items) == shape
        assert as_pairs(ratings.on_host()) == {(0, 1): 4, (2, 0): 0.5, (2, 3): 2}
    stored.col = np.array([1, 0, 0])
    with pytest.raises(DataError, match="sum_duplicates"):
        ratings_of(matrix)
    stored.col = COLUMNS - 1
    with pytest.raises(DataError, match="positions from 0"):
        ratings_of(matrix)


@pytest.mark.gpu
@pytest.mark.parametrize("form", ["csr_matrix", "csc_matrix", "coo_matrix", "columns"])
def test_models_take_what_lies_on_the_gpu(cuda, form):
    sparse_on_gpu = pytest.importorskip("cupyx.scipy.sparse")
    rng = np.random.default_rng(3)
    whole = sparse.random_array((30, 20), density=0.3, rng=rng, data_sampler=lambda size: rng.integers(1, 6, size))
    ratings = Ratings.from_scipy(whole)
    if form == "columns":
        data = tuple(map(cuda.array, (ratings.users, ratings.items, ratings.values)))
    else:
        data = getattr(sparse_on_gpu, form)(sparse.coo_matrix(whole).astype(np.float32))
    assert isinstance(ratings_of(data)[0], DeviceRatings)
    for model in (ALS(3, seed=1), ImplicitALS(3, seed=1)):
        wanted, again = (model.fit(what, 2).predict(ratings.users, ratings.items) for what in (ratings, data))
        np.testing.assert_allclose(again, wanted, rtol=1e-3)


def test_models_take_what_ratings_are_made_of():
    rng = np.random.default_rng(3)
    whole = sparse.random_array((30, 20), density=0.3, rng=rng, data_sampler=lambda size: rng.integers(1, 6, size))
    ratings = Ratings.from_scipy(whole)
    wanted = ALS(3, device="cpu").fit(ratings, 2).user_factors
    names = np.array([f"u{k:02}" for k in range(30)])[ratings.users]
    for data in (whole.tocsr(), (names, ratings.items, ratings.values)):
        model = ALS(3, device="cpu").fit(data, 2, validation=data)
        assert np.array_equal(model.user_factors, wanted)
        assert model.score(data)["rmse"] == pytest.approx(model.history.rmse.iloc[-1])


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
@pytest.mark.parametrize("packed", ["", ".gz", ".zip"])
def test_files_of_other_encodings(tmp_path, encoding, packed):
    data, path = "Ünal;x;3\nbob;é;2.5\n".encode(encoding), tmp_path / f"mine.csv{packed}"
    if packed == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner.csv", data)
    else:
        path.write_bytes(gzip.compress(data) if packed else data)
    ratings = read_ratings(path, encoding=encoding, header=False)
    assert as_pairs(ratings) == {("Ünal", "x"): 3, ("bob", "é"): 2.5}
    if encoding == "latin-1":
        with pytest.raises(DataError, match=r"UTF-8|utf-8"):
            read_ratings(path, header=False)


@pytest.mark.parametrize("delimiter", ["\t", " ", ",", "#"])
def test_files_without_a_header(tmp_path, delimiter):
    path = tmp_path / "mine.data"
    rows = "9 a 4 1", "9 b 5 2", "8 a 6 3"
    path.write_text("".join(row.replace(" ", delimiter) + "\n" for row in rows))
    given = {"delimiter": delimiter} if delimiter == "#" else {}
    ratings = read_ratings(path, 1, 0, 3, time=2, header=False, **given)
    assert as_pairs(ratings) == {("a", 9): 1, ("b", 9): 2, ("a", 8): 3}
    assert ratings.times.tolist() == [4, 5, 6]
    with pytest.raises(DataError, match="no column 4 among 4"):
        read_ratings(path, 0, 1, 4, header=False, **given)


@pytest.mark.parametrize("times", [["1997-12-04"] * 3, pd.to_datetime(["1997-12-04", None, "1997-12-05"])])
def test_times_that_are_none_do_not_count(times):
    ratings, _ = ratings_of(FRAME.assign(timestamp=times))
    assert ratings.nnz == 3 and ratings.times is None
    assert ratings_of(FRAME)[0].times.tolist() == [5, 4, 6]


def test_columns_of_arrow_with_dictionaries_and_dates():
    encoded = [pa.array(FRAME[name]).dictionary_encode() for name in ("user", "item", "rating")]
    dates = pa.array([86400, 1, 172800], pa.timestamp("s")).cast(pa.date32())
    columns = map(pd.arrays.ArrowExtensionArray, (*encoded, dates))
    found = Ratings.from_pandas(pd.DataFrame(dict(zip(FRAME, columns, strict=True))), time="timestamp")
    wanted = Ratings.from_pandas(FRAME)
    assert found.user_ids.tolist() == wanted.user_ids.tolist() and found.item_ids.tolist() == wanted.item_ids.tolist()
    assert np.array_equal(found.values, wanted.values) and found.times.tolist() == [86400, 0, 172800]


def test_a_pair_that_comes_twice_in_a_frame_says_where_to_choose():
    twice = pd.concat([FRAME, FRAME[:1]]).drop(columns="timestamp")
    for data in (twice, tuple(twice[name].tolist() for name in twice)):
        with pytest.raises(DataError, match=r"or 'sum' to Ratings\.from_pandas or .* with ids=True"):
            ratings_of(data)
    with pytest.raises(DataError, match=r"or 'sum'$"):
        Ratings.from_pandas(twice)
