"""Ratings that cannot be used, in files and in memory: each refused with one error that says what to do."""

import gzip
import io
import os
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from scipy import sparse

from gpumf import ALS
from gpumf.ratings import (
    DataError,
    Ratings,
    load_dataset,
    map_ratings,
    rating_times,
    read_ratings,
    sources,
    synthetic_ratings,
)
from refusals import contents, refused, table

TABLE = "user,item,rating\n7,10,4\n8,10,2.5\n8,11,1\n"
FRAME = pd.DataFrame({"user": [7, 8, 8], "item": [10, 10, 11], "rating": [4.0, 2.5, 1.0]})
RATINGS = Ratings([0, 1, 1], [0, 0, 1], [4, 2.5, 1], 2, 2)


def zipped(**members):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in members.items():
            file.writestr(name, text)
    return whole.getvalue()


def of_arrow(columns):
    whole = io.BytesIO()
    parquet.write_table(pa.table(columns), whole)
    return whole.getvalue()


def zstd(data):
    return pa.compress(data.encode() * 50, "zstd", asbytes=True)


# Bytes of a file, options of `read`, what it says.
FILES = {
    "empty": (b"", {}, "is empty"),
    "blank lines": (b"\n\n \n", {}, "is empty"),
    "header only": (b"user,item,rating\n", {}, "holds no ratings"),
    "zeros": (bytes(5000), {}, "not text in UTF-8"),
    "other column names": (TABLE.replace("user", "who"), {}, "line 1: no column 'user' among .*name the columns"),
    "names in capitals": (TABLE.replace("user,item", "User,Item"), {}, "no column 'user' among"),
    "wanted column not there": (TABLE, {"user": "who"}, "no column 'who'"),
    "column by number": (TABLE, {"user": 0}, "no column 0"),
    "name without a header": (TABLE, {"user": "user", "header": False}, "no column 'user'.*header=True"),
    "column beyond the last": ("1,2,3\n4,5,6\n", {"rating": 3, "header": False}, "no column 3 among 3"),
    "negative column": ("1,2,3\n4,5,6\n", {"rating": -1, "header": False}, "no column -1 among 3"),
    "other delimiter": (TABLE, {"delimiter": ";"}, "no column 'user' among"),
    "delimiter of two": (TABLE, {"delimiter": "::"}, "delimiter must be one character.*not '::'"),
    "delimiter of none": (TABLE, {"delimiter": ""}, "delimiter must be one character.*not ''"),
    "delimiter that ends lines": (TABLE, {"delimiter": "\n"}, "delimiter must be one character"),
    "delimiter that quotes": (TABLE, {"delimiter": '"'}, "delimiter must be one character"),
    "delimiter beyond ASCII": (TABLE, {"delimiter": "→"}, "delimiter must be one character"),
    "delimiter a number": (TABLE, {"delimiter": 1}, "delimiter must be one character.*not 1"),
    "unknown encoding": (TABLE, {"encoding": "utf-9"}, "encoding must be one that Python knows.*'utf-9'"),
    "encoding of bytes": (TABLE, {"encoding": "base64"}, "encoding must be one that Python knows.*'base64'"),
    "encoding none": (TABLE, {"encoding": None}, "encoding must be one that Python knows.*None"),
    "not in the encoding": (TABLE[:-1], {"encoding": "utf-16"}, "not text in utf-16"),
    "UTF-16 unsaid": (TABLE.encode("utf-16"), {}, "not text in UTF-8"),
    "header not a flag": (TABLE, {"header": "yes"}, "header must be True or False, not 'yes'"),
    "one column for two": (TABLE, {"user": "item"}, "must be three columns"),
    "time is a rating": (TABLE, {"time": "rating"}, "time another one"),
    "time not there": (TABLE, {"time": "when"}, "no column 'when'"),
    "time a word": (
        "user,item,rating,when\n7,10,4,noon\n8,10,2,1\n", {"time": "when"}, "line 2: when 'noon' is not a number"),
    "unknown duplicates": (TABLE, {"duplicates": "first"}, "duplicates must be .* not 'first'"),
    "scale of one": (TABLE, {"scale": (1,)}, r"scale must be \(lowest, highest\), not \(1,\)"),
    "scale upside down": (TABLE, {"scale": (5, 1)}, r"scale must be \(lowest, highest\), not \(5, 1\)"),
    "scale of words": (TABLE, {"scale": "15"}, r"scale must be \(lowest, highest\), not '15'"),
    "scale not a pair": (TABLE, {"scale": 5}, r"scale must be \(lowest, highest\), not 5"),
    "scale of nothing": (TABLE, {"scale": (1, np.nan)}, r"scale must be \(lowest, highest\)"),
    "off the scale": (TABLE, {"scale": (1, 3)}, "line 2: rating 4 is off the scale 1 to 3"),
    "not a number": (TABLE.replace("2.5", "good"), {}, "line 3: rating 'good' is not a number"),
    "nan": (TABLE.replace("2.5", "nan"), {}, "line 3: rating nan is not a finite number"),
    "inf": (TABLE.replace("2.5", "-inf"), {}, "line 3: rating -inf is not a finite number"),
    "beyond 32 bits": (TABLE.replace("2.5", "1e300"), {}, r"line 3: rating 1e\+300 is beyond the range"),
    "missing rating": (TABLE.replace("2.5", ""), {}, "line 3: rating nan"),
    "missing item": (TABLE.replace("8,11", "8,"), {}, "line 4: the item id is missing"),
    "negative id": (TABLE.replace("8,11", "8,-11"), {}, "line 4: negative item id -11"),
    "huge negative id": (TABLE.replace("8,11", f"{-2**63},11"), {}, "line 4: negative user id -9223372036854775808"),
    "decimal comma": (TABLE.replace("2.5", "2,5"), {}, "line 3: 4 fields where 3 belong"),
    "decimal comma in its own field": (
        TABLE.replace(",", ";").replace("2.5", "2,5"), {}, "line 3: rating '2,5' is not a number; .* decimal point"),
    "short line": (TABLE.replace("8,11,1", "8,11"), {}, "line 4: 2 fields where 3 belong"),
    "quote left open": (TABLE.replace("8,11", '"8,11'), {}, "line 4"),
    "duplicates": (TABLE + "8,10,3\n", {}, "line 5: user 8 rates item 10 again, first at .*line 3"),
    "one user": (TABLE.replace("7,", "8,", 1).replace("8,10,2.5", "8,12,2.5"), {}, "all ratings are by one user, 8"),
    "one rating": ("user,item,rating\n7,10,4\n", {}, "all ratings are by one user, 7"),
    "underscores": (TABLE.replace("2.5", "1_000"), {}, "line 3: rating '1_000' is not a number"),
    "blank id": (TABLE.replace("8,10", "  ,10"), {}, "line 3: the user id is missing"),
    "line within quotes": ('user,item,rating\n"a\nb",2,3\nc,2,x\n', {}, "line 4: rating 'x' is not a number"),
    "endless number": ('user,item,rating\n"a\nb",2,3\nc,2,inf\n', {}, "line 4: rating inf is not a finite number"),
    "quote within the table": ('user,item,rating\n1,2,3\n"2,2,4\n3,2,5\n', {}, "line 3: 1 fields where 3 belong"),
    "endless field": ('user,item,rating\n1,2,3\n"2' + "," * 200_000, {}, "line 3: 1 fields where 3 belong"),
    "one name twice": ("user,item,rating,rating\n1,2,3,4\n", {}, "line 1: several columns 'rating' among"),
    "Latin-1 unsaid": (
        b"user,item,rating\nann,2,3\nM\xfcller,2,4\n", {}, r"line 3: user 'M\\udcfcller' is not UTF-8; convert"),
    "gzip truncated": (gzip.compress(TABLE.encode() * 50)[:-12], {}, "cannot be read.*complete"),
    "gzip of nothing": (gzip.compress(b""), {}, "is empty"),
    "gzip of its start alone": (b"\x1f\x8b", {}, "cannot be read"),
    "zip truncated": (zipped(a=TABLE)[:-30], {}, "."),
    "zip of two": (zipped(a=TABLE, b=TABLE), {}, "holds 2 files, a, b"),
    "zip of none": (zipped(), {}, "is an empty archive: it holds 0 files; pack it again"),
    "zip damaged": (zipped(a=TABLE * 9).replace(b"user", b"USER"), {}, "."),
    "zstd damaged": (b"\x28\xb5\x2f\xfd" + bytes(60), {}, "."),
    "zstd truncated": (b"\x28\xb5\x2f\xfd", {}, "cannot be read"),
    "Parquet truncated": (of_arrow({"user": [1, 2]})[:-20], {}, "complete Parquet file"),
    "Parquet's start alone": (b"PAR1", {}, "complete Parquet file"),
    "Parquet of no column": (of_arrow({}), {}, "no column 'user'"),
    "Parquet of no row": (of_arrow({name: pa.array([], pa.int64()) for name in FRAME}), {}, "holds no ratings"),
    "Parquet with nulls": (of_arrow({"user": [1, None], "item": [1, 2], "rating": [1, 2]}), {}, "row 1: the user id"),
    "Parquet null rating": (of_arrow({"user": [1, 2], "item": [1, 2], "rating": [1, None]}), {}, "row 1: rating nan"),
    "Parquet all null": (of_arrow({"user": [1, 2], "item": pa.nulls(2), "rating": [1, 2]}), {}, "type null"),
    "Parquet nested": (of_arrow({"user": [{"a": 1}] * 2, "item": [1, 2], "rating": [1, 2]}), {}, "type struct"),
    "Parquet binary ids": (of_arrow({"user": [b"a", b"b"], "item": [1, 2], "rating": [1, 2]}), {}, "type binary"),
    "Parquet negative": (of_arrow({"user": [-1, 2], "item": [1, 2], "rating": [1, 2]}), {}, "row 0: negative user"),
    "Parquet words": (of_arrow({"user": [1, 2], "item": [1, 2], "rating": ["1", "x"]}), {}, "row 1: rating x"),
    "Parquet dates as ratings": (
        of_arrow({"user": [1, 2], "item": [1, 2], "rating": pa.array([0, 1], pa.timestamp("ns"))}), {},
        "row 0: ratings of type datetime64"),
    "Parquet dates as ids": (
        of_arrow({"user": pa.array([0, 1], pa.timestamp("ns")), "item": [1, 2], "rating": [1, 2]}), {}, "timestamp"),
    "Parquet truth": (of_arrow({"user": [1, 2], "item": [True, False], "rating": [1, 2]}), {}, "type bool"),
    "Parquet fractions": (of_arrow({"user": [7.5, 8], "item": [1, 2], "rating": [1, 2]}), {}, "row 0: user id 7.5"),
    "Parquet, beyond 32 bits": (
        of_arrow({"user": [1, 2], "item": [1, 2], "rating": [4, 1e39]}), {}, r"row 1: rating 1e\+39 is beyond"),
    "Parquet by number": (of_arrow({"user": [1]}), {"header": False}, "no column 0"),
}  # fmt: skip


@table(FILES)
def test_files_that_are_no_ratings(case, tmp_path):
    data, options, words = case
    path = tmp_path / "mine"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    before = contents(tmp_path)
    refused(lambda: read_ratings(path, **options), ValueError, words)
    assert contents(tmp_path) == before


def piped(folder):
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


PATHS = {
    "missing": (lambda folder: folder / "none.csv", DataError, "there is no file"),
    "a folder": (lambda folder: folder, DataError, "is a folder"),
    "below a file": (lambda folder: folder / "text/none.csv", DataError, "there is no file"),
    "a null in it": (lambda folder: "a\0b", ValueError, r"path must not have a NUL byte, as 'a\\x00b' has"),
    "too long": (lambda folder: "a" * 300, DataError, "there is no file|cannot be read"),
    "a number": (lambda folder: 7, TypeError, "path must be a str or os.PathLike, not int"),
    "none": (lambda folder: None, TypeError, "path must be a str or os.PathLike, not NoneType"),
    "a frame": (lambda folder: FRAME, TypeError, "path must be .*not DataFrame"),
    "a pipe": (piped, DataError, "is a pipe or a device; give - in its place"),
}


@table(PATHS)
@pytest.mark.parametrize("read_from", [read_ratings, map_ratings])
def test_paths_that_lead_nowhere(read_from, case, tmp_path):
    path, error, words = case
    (tmp_path / "text").write_text(TABLE)
    if read_from is map_ratings and error is DataError:
        words = "needs user.npy|give a Feather file"
    refused(lambda: read_from(path(tmp_path)), error, words)


def _damaged_rows():
    """A sparse matrix whose rows end where there are no entries; SciPy reads beyond its arrays."""
    matrix = sparse.csr_array(np.eye(3))
    matrix.indptr[1] = 10**6
    return matrix


def damaged(name, data):
    def place(folder):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return place


SETS = {
    "unknown": ("ml-7", lambda folder: None, "no data set 'ml-7'; there are ml-100k"),
    "none": (None, lambda folder: None, "no data set None"),
    "a list": (["ml-100k"], lambda folder: None, "no data set"),
    "absent": ("netflix", lambda folder: None, "its terms do not allow.*GPUMF_DATA"),
    "absent, to download": ("ml-1m", lambda folder: None, "python -m gpumf.ratings ml-1m"),
    "empty": ("ml-100k", damaged("ml-100k/u.data", b""), "u.data is empty"),
    "damaged": ("ml-100k", damaged("ml-100k/u.data", b"1\t2\t3\t4\n5\t6"), "line 2: 2 fields where 4 belong"),
    "another file": ("ml-100k", damaged("ml-100k/u.data", zipped(a=TABLE)), "ml-100k/u.data"),
    "incomplete": (
        "ml-100k",
        damaged("ml-100k/u.data", b"1\t2\t3\t4\n5\t6\t1\t4\n"),
        "2 of 943 users.*get the complete",
    ),
    "damaged zip": ("ml-20m", damaged("ml-20m.zip", b"PK\3\4"), "ml-20m.zip is truncated or not a zip"),
    "damaged MATLAB": ("monti", damaged("monti/training_test_dataset.mat", b"x"), "."),
}


@table(SETS)
def test_sets_that_cannot_be_loaded(case, tmp_path, monkeypatch):
    name, place, words = case
    monkeypatch.setenv("GPUMF_DATA", str(tmp_path))
    monkeypatch.setattr(sources.files.paths, "home", lambda: tmp_path / "none")
    place(tmp_path)
    before = contents(tmp_path)
    refused(lambda: load_dataset(name), DataError, words)
    assert contents(tmp_path) == before


def npy(**changes):
    columns = {"user": np.int32([0, 1]), "item": np.int32([1, 0]), "rating": np.float32([3, 4])} | changes

    def make(folder):
        for name, column in columns.items():
            if isinstance(column, bytes):
                (folder / f"{name}.npy").write_bytes(column)
            elif column is not None:
                np.save(folder / f"{name}.npy", column)
        return folder

    return make


def feathered(columns, **options):
    def make(folder):
        feather.write_feather(pa.table(columns), folder / "a", **options)
        return folder / "a"

    return make


PLAIN = {"user": np.int32([0, 1]), "item": np.int32([1, 0]), "rating": np.float32([3, 4])}
MAPPED = {
    "users of 64 bits": (npy(user=np.int64([0, 1])), {}, "user is int64"),
    "ratings of 64 bits": (npy(rating=np.float64([0, 1])), {}, "rating is float64"),
    "two dimensions": (npy(item=np.int32([[0], [1]])), {}, r"item is int32 \(2, 1\)"),
    "nothing": (npy(user=np.int32([])), {}, r"user is int32 \(0,\)"),
    "other lengths": (npy(user=np.int32([0])), {}, "as long as each other"),
    "negative": (npy(user=np.int32([0, -1])), {}, "users must lie in 0..0; number 1 is -1"),
    "beyond the shape": (npy(), {"n_users": 1}, "users must lie in 0..0; number 1 is 1"),
    "no such shape": (npy(), {"n_users": -1}, "n_users must be an integer from 1"),
    "a shape of words": (npy(), {"n_items": "2"}, "n_items must be an integer from 1"),
    "pickles": (npy(user=np.array([{}, 1], object)), {}, "user.npy"),
    "truncated": (npy(user=b"\x93NUMPY\1\0v\0"), {}, "user.npy"),
    "garbage": (npy(user=b"garbage"), {}, "user.npy"),
    "missing": (npy(user=None), {}, "user.npy"),
    "Feather, batches": (
        feathered(PLAIN, compression="uncompressed", chunksize=1), {}, "several record batches"),
    "Feather, compressed": (feathered(PLAIN, compression="lz4"), {}, "compressed"),
    "Feather, columns": (feathered({"a": [1]}, compression="uncompressed"), {}, "columns user, item, rating"),
    "Feather, types": (feathered(PLAIN | {"user": [0, 1]}, compression="uncompressed"), {}, "user is int64"),
    "Feather, nulls": (
        feathered(PLAIN | {"user": pa.array([0, None], pa.int32())}, compression="uncompressed"), {}, "none missing"),
    "Feather, words": (feathered(PLAIN | {"user": ["a", "b"]}, compression="uncompressed"), {}, "user|zero"),
}  # fmt: skip


@table(MAPPED)
def test_files_that_do_not_map(case, tmp_path):
    make, options, words = case
    refused(lambda: map_ratings(make(tmp_path), **options), DataError, words)


A, B, V = [0, 1, 1], [0, 0, 1], [4, 2.5, 1]
ARRAYS = {
    "other lengths": ((A, B, V[:2]), {}, "3 users, 3 items and 2 ratings"),
    "none": (([], [], []), {}, "holds no ratings"),
    "no columns": ((None, B, V), {}, "users must be a column"),
    "numbers": ((1, 2, 3), {}, "users must be a column"),
    "2-d users": ((np.ones((3, 1), int), B, V), {}, r"users must be a column.*\(3, 1\)"),
    "2-d ratings": ((A, B, np.ones((3, 2))), {}, r"ratings must be a column.*\(3, 2\)"),
    "nan": ((A, B, [1, np.nan, 2]), {}, "row 1: rating nan"),
    "inf": ((A, B, [1, 2, np.inf]), {}, "row 2: rating inf"),
    "words": ((A, B, ["1", "2", "x"]), {}, "row 2: rating x"),
    "complex": ((A, B, np.array([1, 2, 3j])), {}, "type complex128 are not numbers"),
    "dates": ((A, B, np.array(["2001"] * 3, "M8[s]")), {}, "are not numbers"),
    "records": ((A, B, np.zeros(3, [("a", int)])), {}, "are not numbers"),
    "lists": ((A, B, [[1], [2, 3], [4]]), {}, "ratings"),
    "none among ratings": ((A, B, [1, None, 2]), {}, "row 1: rating None"),
    "negative ids": (([0, -1, 1], B, V), {}, "row 1: negative user id -1"),
    "fractions": (([0, 0.5, 1], B, V), {}, "user id 0.5"),
    "nan ids": (([0, np.nan, 1], B, V), {}, "row 1: the user id is missing"),
    "mixed ids": ((["a", 1, "b"], B, V), {}, "user id 1 among others"),
    "bool ids": ((A, np.array([True, False, True]), V), {}, "item id (True|False) is a bool; give all as integers"),
    "complex ids": ((np.array([1j, 0, 1]), B, V), {}, "user id"),
    "lists as ids": (([[1], [2], [1]], B, V), {}, "users must be a column|user id"),
    "huge ids": (([0, 2**64, 1], B, V), {}, "give all as integers of 64 bits"),
    "float ids beyond exact": (([0, 1e300, 1], B, V), {}, r"user id 1e\+300"),
    "dates as ids": ((np.array(["2001", "2002", "2002"], "M8[s]"), B, V), {}, "user id"),
    "shape too small": ((A, B, V), {"shape": (1, 2)}, "row 1: user 1 is not a position below the 1 of the shape"),
    "shape of one": ((A, B, V), {"shape": (2,)}, r"shape must be \(users, items\), not \(2,\)"),
    "shape of words": ((A, B, V), {"shape": ("a", 2)}, r"shape must be \(users, items\)"),
    "shape of fractions": ((A, B, V), {"shape": (2.5, 2)}, r"shape must be \(users, items\)"),
    "shape below zero": ((A, B, V), {"shape": (-1, 2)}, r"shape must be \(users, items\)"),
    "words of a shape": ((["a", "b", "b"], B, V), {"shape": (2, 2)}, "user . is not a position"),
    "twice": (([*A, 1], [*B, 1], [*V, 2]), {}, "row 3: user 1 rates item 1 again"),
    "unknown duplicates": ((A, B, V), {"duplicates": "first"}, "duplicates must be"),
    "times of another length": ((A, B, V), {"times": [1]}, "3 ratings and 1 times"),
    "times of words": ((A, B, V), {"times": ["a", "b", "c"]}, "times must be numbers"),
    "times nan": ((A, B, V), {"times": [1, 2, np.nan]}, "row 2: nan is no time"),
    "mask of another length": ((A, B, V), {"test_mask": np.ones(2, bool)}, "a test mask of 2"),
    "mask of numbers": ((A, B, V), {"test_mask": np.array([0, 5, 2])}, "test mask must be bool"),
    "scale": ((A, B, V), {"scale": (5, 1)}, "scale must be"),
    "complex among objects": ((A, B, np.array([1, 2, 3j], object)), {}, "complex"),
    "a rating of many bits": ((A, B, [1, 10**400, 3]), {}, "row 1: rating"),
    "a rating that is no UTF-8": ((A, B, ["1", "1\ud800", "3"]), {}, "row 1: rating"),
    "above the scale": ((A, B, [1, 5.5, 3]), {"scale": (1, 5)}, "row 1: rating 5.5 is off the scale 1 to 5"),
    "below the scale": ((A, B, [1, 2, 0.5]), {"scale": (1, 5)}, "row 2: rating 0.5 is off the scale 1 to 5"),
    "ratings beyond 32 bits": ((A, B, [1, 1e39, 3]), {}, r"row 1: rating 1e\+39 is beyond the range of 32 bits"),
    "ids that floats do not tell apart": ((np.array([0, 2**24, 1], np.float32), B, V), {}, r"user id 1.6777216e\+07"),
    "one user": (([7, 7], [1, 2], [3, 4]), {}, "all ratings are by one user, 7"),
    "negative items": ((A, [0, 0, -1], V), {}, "row 2: negative item id -1"),
    "none among ids": ((["a", None, "b"], B, V), {}, "row 1: the user id is missing"),
    "masked ratings": ((A, B, np.ma.array(V, mask=[0, 0, 1])), {}, "row 2: ratings are masked"),
    "masked ids": ((np.ma.array(A, mask=[0, 1, 0]), B, V), {}, "row 1: users are masked"),
    "a sum beyond 32 bits": (([*A, 1], [*B, 1], [1, 1, 3e38, 3e38]), {"duplicates": "sum"}, "row 3: .* add up to"),
}


@table(ARRAYS)
def test_columns_that_are_no_ratings(case):
    columns, options, words = case
    refused(lambda: Ratings.from_arrays(*columns, **options), ValueError, words)


POSITIONS = {
    "outside": (([0, 2], [0, 1], [1, 2], 2, 2), {}, r"users must lie in 0..1; number 1 is 2"),
    "negative": (([0, 1], [0, -1], [1, 2], 2, 2), {}, r"items must lie in 0..1; number 1 is -1"),
    "fractions": (([0, 0.5], [0, 1], [1, 2], 2, 2), {}, "users must be integers"),
    "nan": (([0, np.nan], [0, 1], [1, 2], 2, 2), {}, "users must"),
    "words": ((["a", "b"], [0, 1], [1, 2], 2, 2), {}, "users must be integers"),
    "words as ratings": (([0, 1], [0, 1], ["1", "2"], 2, 2), {}, "values must be numbers"),
    "complex": (([0, 1], [0, 1], [1, 2j], 2, 2), {}, "values must be numbers, not complex"),
    "lists": (([[0], [1, 2]], [0, 1], [1, 2], 2, 2), {}, "users must be"),
    "lists as ratings": (([0, 1], [0, 1], [[0], [1, 2]], 2, 2), {}, "values must be"),
    "other lengths": (([0, 1], [0], [1, 2], 2, 2), {}, "as long as each other"),
    "no users": (([0, 1], [0, 1], [1, 2], 0, 2), {}, "n_users must be an integer from 1"),
    "users as bool": (([0, 1], [0, 1], [1, 2], True, 2), {}, "n_users must be an integer from 1"),
    "ids with fractions": (
        ([0, 1], [0, 1], [1, 2], 2, 2),
        {"user_ids": [1.5, 2]},
        "must be integers or strings, not 1.5",
    ),
    "ids that are pairs": (([0, 1], [0, 1], [1, 2], 2, 2), {"item_ids": [("a", 1), ("b", 2)]}, "have the shape"),
    "a scale beyond floats": (([0, 1], [0, 1], [1, 2], 2, 2), {"scale": (0, 1e300)}, "the scale must be"),
    "too few ids": (([0, 1], [0, 1], [1, 2], 2, 2), {"user_ids": ["a"]}, "there are 1 user_ids, not 2"),
    "ids of a number": (([0, 1], [0, 1], [1, 2], 2, 2), {"user_ids": 7}, "user_ids"),
    "scale": (([0, 1], [0, 1], [1, 2], 2, 2), {"scale": (1, 2, 3)}, "scale must be"),
    "scale of words": (([0, 1], [0, 1], [1, 2], 2, 2), {"scale": ("a", "b")}, "scale must be"),
    "times": (([0, 1], [0, 1], [1, 2], 2, 2), {"times": ["a", "b"]}, "times must be numbers"),
    "beyond 32 bits": ((np.array([0, 2**32]), [0, 1], [1, 2], 2, 2), {}, "number 1 is 4294967296"),
    "items outside": (([0, 1], [2, 1], [1, 2], 2, 2), {}, "items must lie in 0..1; number 0 is 2"),
    "objects": (([0, 1], [0, 1], np.array([1, None], object), 2, 2), {}, "values must be numbers, not object"),
    "fewer values": (([0, 1], [0, 1], [1], 2, 2), {}, "one dimension"),
    "two dimensions": (([[0, 1]], [[0, 1]], [[1, 2]], 2, 2), {}, "one dimension"),
    "a fraction of users": (([0, 1], [0, 1], [1, 2], 2.0, 2), {}, "n_users must be an integer"),
    "too many items": (([0, 1], [0, 1], [1, 2], 2, 2**31), {}, "n_items must be an integer"),
    "a short mask": (([0, 1], [0, 1], [1, 2], 2, 2), {"test_mask": np.zeros(1, bool)}, "one dimension"),
    "an infinite scale": (([0, 1], [0, 1], [1, 2], 2, 2), {"scale": (1, np.inf)}, "scale must be"),
    "a scale without a lowest": (([0, 1], [0, 1], [1, 2], 2, 2), {"scale": (-np.inf, 5)}, "scale must be"),
    "a scale of nothing": (([0, 1], [0, 1], [1, 2], 2, 2), {"scale": (np.nan, 5)}, "scale must be"),
}


@table(POSITIONS)
def test_positions_that_do_not_fit(case):
    columns, options, words = case
    refused(lambda: Ratings(*columns, **options), DataError, words)


def without(name):
    return FRAME.drop(columns=name)


MEMORY = {
    "frame without items": (lambda: Ratings.from_pandas(without("item")), DataError, "no column 'item' among"),
    "frame without ratings": (
        lambda: Ratings.from_pandas(without("rating")), DataError, "no column 'rating' .*, or rating=None"),
    "frame, other names": (lambda: Ratings.from_pandas(FRAME, "who"), DataError, "'who' .* has the users"),
    "frame, twice": (
        lambda: Ratings.from_pandas(pd.concat([FRAME, FRAME.user], axis=1)), DataError, "several columns 'user'"),
    "frame, no rows": (lambda: Ratings.from_pandas(FRAME.head(0)), DataError, "holds no ratings"),
    "frame, nan": (lambda: Ratings.from_pandas(FRAME.assign(rating=[1, None, 2])), DataError, "row 1: rating nan"),
    "frame, words": (lambda: Ratings.from_pandas(FRAME.assign(rating=["1", "b", "2"])), DataError, "row 1: rating b"),
    "frame, times": (
        lambda: Ratings.from_pandas(FRAME.assign(t=["a", "b", "c"]), time="t"), DataError, "times must be numbers"),
    "frame, lists": (lambda: Ratings.from_pandas(FRAME.assign(user=[[1], [2], [3]])), DataError, "user id"),
    "frame, dates": (
        lambda: Ratings.from_pandas(FRAME.assign(rating=pd.to_datetime(["2001"] * 3))),
        DataError, "not numbers|rating"),
    "not a frame": (lambda: Ratings.from_pandas([1, 2]), TypeError, "must be a pandas DataFrame, not list"),
    "not sparse": (lambda: Ratings.from_scipy(np.ones((2, 2))), TypeError, "must be a sparse matrix.*not ndarray"),
    "sparse, 1-d": (lambda: Ratings.from_scipy(sparse.coo_array([1.0, 2.0])), DataError, "two dimensions"),
    "sparse, complex": (lambda: Ratings.from_scipy(sparse.coo_array([[1j, 2], [3, 4]])), DataError, "not numbers"),
    "sparse, damaged": (
        lambda: Ratings.from_scipy(_damaged_rows()), DataError, "matrix is damaged: "),
    "sparse, nothing": (lambda: Ratings.from_scipy(sparse.csr_array((2, 2))), DataError, "holds no ratings"),
    "sparse, nan": (lambda: Ratings.from_scipy(sparse.csc_array([[np.nan, 1], [1, 0]])), DataError, "rating nan"),
    "sparse, twice": (
        lambda: Ratings.from_scipy(sparse.coo_array(([1, 2, 3], ([0, 0, 1], [0, 0, 1])))), DataError, "again"),
    "split of none": (lambda: RATINGS.split(0), ValueError, "test must lie between 0 and 1, not 0"),
    "frame, labels": (
        lambda: Ratings.from_pandas(FRAME.set_axis(["x", "y", "z"]).assign(rating=[1, np.inf, 2])),
        DataError, "row 'y'"),
    "split of all": (lambda: RATINGS.split(1), ValueError, "test must lie between 0 and 1, not 1"),
    "split of nan": (lambda: RATINGS.split(np.nan), ValueError, "test must lie between 0 and 1, not nan"),
    "split of a word": (lambda: RATINGS.split("half"), ValueError, "test must lie between 0 and 1, not 'half'"),
    "split of nothing": (lambda: RATINGS.split(0.01), ValueError, "empty set of 3 ratings"),
    "a seed of a word": (lambda: RATINGS.split(0.5, "a"), ValueError, "seed must be an integer"),
    "no folds": (lambda: list(RATINGS.kfold(1)), ValueError, "k must lie between 2 and the 3 ratings, not 1"),
    "folds of a word": (lambda: list(RATINGS.kfold("2")), ValueError, "k must .*not '2'"),
    "half a fold": (lambda: list(RATINGS.kfold(2.5)), ValueError, "k must .*not 2.5"),
    "no times": (lambda: RATINGS.split_by_time(), DataError, "does not say when"),
    "newest without times": (lambda: RATINGS.leave_one_out(newest=True), DataError, "does not say when"),
    "no official split": (lambda: RATINGS.official_split(), DataError, "has no official split"),
    "titles of none": (lambda: rating_times("ml-7"), DataError, "ml-7 does not say when"),
    "no recipe": (lambda: synthetic_ratings("ml-7"), ValueError, "ml-7"),
    "train on a dict": (lambda: ALS(2, device="cpu").fit({"a": 1}), TypeError, "must be Ratings.*not dict"),
}  # fmt: skip


@table(MEMORY)
def test_data_in_memory_that_are_no_ratings(case):
    refused(*case)


DAYS = ["2024-01-04", "2024-01-01", "2024-01-02", "2024-01-03"]
SECONDS = [1704326400.0, 1704067200.0, 1704153600.0, 1704240000.0]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.to_datetime(DAYS)),
        pd.Series(pd.to_datetime(DAYS)).astype("category"),
        pd.Series(pd.to_datetime(DAYS, utc=True)).astype("timestamp[us, tz=UTC][pyarrow]"),
        pd.Series(pd.to_datetime(DAYS, utc=True).tz_convert("Asia/Tokyo")),
    ],
    ids=["dates", "categories", "Arrow with a zone", "a zone"],
)
def test_dates_of_every_type_are_seconds(column):
    frame = pd.DataFrame({"user": list("abcd"), "item": list("xyxz"), "rating": [1, 2, 3, 4], "time": column})
    made = Ratings.from_pandas(frame, user="user", item="item", rating="rating", time="time")
    assert made.times.tolist() == SECONDS
    frame.loc[2, "time"] = None
    with pytest.raises(DataError, match="row 2: nan is no time"):
        Ratings.from_pandas(frame, user="user", item="item", rating="rating", time="time")


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        (pd.to_datetime(DAYS), SECONDS),
        (np.array(DAYS, "M8[D]"), SECONDS),
        (pd.to_datetime([*DAYS[:3], None]), "row 3: nan is no time"),
        (np.array([1, 2, 3, 4j]), "times must be numbers"),
        (np.array([1, 2, 3, 4], "m8[s]"), "times must be numbers"),
    ],
)
def test_times_are_numbers_or_dates_which_count_in_seconds(times, wanted):
    columns = list("abcd"), list("xyxz"), [1, 2, 3, 4]
    if wanted is SECONDS:
        assert Ratings.from_arrays(*columns, times=times).times.tolist() == SECONDS
    else:
        with pytest.raises(DataError, match=wanted):
            Ratings.from_arrays(*columns, times=times)
