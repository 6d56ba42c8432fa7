"""Where ratings may come from: folders, standard input, addresses, data frames of Polars; and without ratings."""

import gzip
import io
import socket
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest

from gpumf import ImplicitALS
from gpumf.ratings import DataError, Ratings, files, read_ratings

FRAME = pd.DataFrame({"user": ["ann", "bob", "bob", "eve"], "item": [7, 7, 9, 8], "rating": [4.0, 5.0, 3.0, 2.0]})


def same(found, frame=FRAME):
    wanted = Ratings.from_pandas(frame)
    assert found.user_ids.tolist() == wanted.user_ids.tolist() and found.item_ids.tolist() == wanted.item_ids.tolist()
    for column in ("users", "items", "values"):
        np.testing.assert_array_equal(getattr(found, column), getattr(wanted, column))


def test_a_folder_is_read_as_one(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    FRAME[:1].to_csv(folder / "a.csv", index=False)
    FRAME[1:2].to_csv(folder / "b.tsv", index=False, sep="\t")
    FRAME[2:3].to_parquet(folder / "c.parquet")
    (folder / "d.csv.gz").write_bytes(gzip.compress(FRAME[3:].to_csv(index=False).encode()))
    (folder / ".hidden.csv").write_text("nothing")
    (folder / "_SUCCESS").write_text("nothing")
    found = read_ratings(folder)
    same(found)
    assert found.name == "parts" and found.sha256
    FRAME.assign(rating=np.nan)[3:].to_csv(folder / "e.csv", index=False)
    with pytest.raises(DataError, match=r"e\.csv, line 2: rating nan"):
        read_ratings(folder)


def test_empty_parts_of_a_folder_are_passed_over(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"")
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(DataError, match=r"a\.csv is empty"):
        read_ratings(tmp_path)
    FRAME.to_csv(tmp_path / "b.csv", index=False)
    same(read_ratings(tmp_path))
    (tmp_path / "d.parquet").write_bytes(b"")
    with pytest.raises(DataError, match=r"d\.parquet is empty"):
        read_ratings(tmp_path)


def test_ids_that_are_words_in_one_file_are_words_in_all(tmp_path):
    (tmp_path / "a.csv").write_text("user,item,rating\n1,5,1\n2,5,2\n")
    (tmp_path / "b.csv").write_text("user,item,rating\nann,5,3\n2,6,4\n")
    found = read_ratings(tmp_path)
    assert found.user_ids.tolist() == ["1", "2", "ann"] and found.item_ids.tolist() == [5, 6]
    assert found.values.tolist() == [1, 2, 3, 4] and found.users.tolist() == [0, 1, 2, 1]
    (tmp_path / "c.csv").write_text("user,item,rating\n,5,3\n")
    with pytest.raises(DataError, match=r"c\.csv, line 2: the user id is missing"):
        read_ratings(tmp_path)


def test_numbers_are_the_same_ids_as_their_words_in_another_file(tmp_path):
    pd.DataFrame({"user": [1.0, 2.0], "item": [5, 5], "rating": [1, 2]}).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("user,item,rating\nann,5,3\n2,6,4\n")
    assert read_ratings(tmp_path).users.tolist() == [0, 1, 2, 1]
    (tmp_path / "b.csv").write_text("user,item,rating\nann,5,3\n2.0,6,4\n3.0,6,4\n")
    with pytest.raises(DataError, match=r"in another, which has '2\.0'; write them alike"):
        read_ratings(tmp_path)
    (tmp_path / "b.csv").write_text("user,item,rating\nann,5,3\neve,6,4\n")
    pd.DataFrame({"user": [1.0, np.nan], "item": [5, 5], "rating": [1, 2]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet, row 1: the user id is missing"):
        read_ratings(tmp_path)
    (tmp_path / "b.csv").write_text("user,item,rating\nann,5,3\n2.0,6,4\n3.0,6,4\n")
    (tmp_path / "a.parquet").unlink()
    (tmp_path / "c.csv").write_text("user,item,rating\nbob,5,3\n2,6,4\n")  # words in both
    assert read_ratings(tmp_path).user_ids.tolist() == ["2", "2.0", "3.0", "ann", "bob"]


def of_users(path, ids):
    pd.DataFrame({"user": ids, "item": 7, "rating": np.arange(len(ids), dtype=np.int8)}).to_parquet(path)


@pytest.mark.parametrize("others", [np.array([1, 2**62 + 1]), np.array([1.0, 2.0]), np.array([])])
def test_ids_of_64_bits_are_exact_whatever_other_files_have(tmp_path, others):
    of_users(tmp_path / "a.parquet", np.array([3, 2**63 + 5], np.uint64))
    of_users(tmp_path / "b.parquet", others)
    assert read_ratings(tmp_path).user_ids.tolist() == sorted([3, 2**63 + 5, *map(int, others)])


def test_negative_ids_beside_those_beyond_63_bits_are_named(tmp_path):
    of_users(tmp_path / "a.parquet", np.array([3, 2**63 + 5], np.uint64))
    of_users(tmp_path / "b.parquet", np.array([1, -2]))
    with pytest.raises(DataError, match=r"b\.parquet, row 1: negative user id -2"):
        read_ratings(tmp_path)


def test_standard_input(monkeypatch):
    for content in (FRAME.to_csv(index=False).encode(), gzip.compress(FRAME.to_csv(index=False).encode())):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        same(read_ratings("-"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"user,item,rating\n1,2,x\n")))
    with pytest.raises(DataError, match="standard input, line 2"):
        read_ratings("-")


@pytest.fixture
def served(tmp_path):
    """The address of a folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_addresses(served, tmp_path):
    FRAME.to_csv(tmp_path / "mine.csv", index=False)
    FRAME.to_csv(tmp_path / "mine.csv.gz", index=False)
    FRAME.to_parquet(tmp_path / "mine.parquet")
    for name in ("mine.csv", "mine.csv?day=1", "mine.csv.gz", "mine.parquet"):
        found = read_ratings(f"{served}/{name}")
        same(found)
        assert found.name.startswith("mine")
    with pytest.raises(DataError, match=r"/none\.csv cannot be read: .*404"):
        read_ratings(f"{served}/none.csv")


@pytest.mark.parametrize(("answers", "says"), [(True, "IncompleteRead"), (False, "timed out")])
def test_a_server_that_breaks_off_or_falls_silent(answers, says, monkeypatch):
    monkeypatch.setattr(files, "_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                if answers:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nuser,item,rating\n")
                else:
                    done.wait(20)

        done = threading.Event()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(DataError, match=rf"ratings\.csv cannot be read: .*{says}"):
                read_ratings(f"http://127.0.0.1:{server.getsockname()[1]}/ratings.csv")
        finally:
            done.set()
            thread.join()


CLICKS = FRAME[["user", "item"]]
COUNTED = pd.concat([CLICKS, CLICKS[:1]])
WANTED = FRAME.assign(rating=[2.0, 1, 1, 1]).iloc[[1, 2, 3, 0]]  # a pair stands where it comes last


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_files_without_ratings(suffix, tmp_path):
    path = tmp_path / f"clicks.{suffix}"
    if suffix == "parquet":
        COUNTED.to_parquet(path)
    else:
        COUNTED.to_csv(path, index=False, sep={"csv": ",", "tsv": "\t"}[suffix])
    same(read_ratings(path, rating=None), WANTED)
    same(read_ratings(tmp_path, rating=None), WANTED)
    with pytest.raises(DataError, match="rating=None"):
        read_ratings(path)
    with pytest.raises(DataError, match="again"):
        read_ratings(path, rating=None, duplicates="error")
    assert read_ratings(path, rating=None, duplicates="last").values.tolist() == [1, 1, 1, 1]
    if suffix != "parquet":
        path.write_text(path.read_text().split("\n", 1)[1])
        same(read_ratings(path, rating=None, header=False), WANTED)


def test_columns_and_frames_without_ratings():
    same(Ratings.from_arrays(COUNTED.user, COUNTED.item), WANTED)
    same(Ratings.from_pandas(COUNTED.assign(other=1), rating=None), WANTED)
    models = [ImplicitALS(2, device="cpu").fit(data, 2) for data in (COUNTED, (COUNTED.user, COUNTED.item), WANTED)]
    for model in models:
        np.testing.assert_array_equal(model.user_factors, models[2].user_factors)
    with pytest.raises(DataError, match="no column 'rating'"):
        ImplicitALS(2, device="cpu").fit(COUNTED.assign(stars=1), 1)


def test_sums_of_ratings():
    given = Ratings.from_arrays([1, 1, 2], [5, 5, 5], [1.5, 2, 3], duplicates="sum")
    assert given.values.tolist() == [3.5, 3]


class DataFrame:
    """As of Polars, where it is not installed."""

    __module__ = "polars.dataframe.frame"

    def __init__(self, frame):
        self._frame = frame

    def to_pandas(self):
        return self._frame


class LazyFrame:
    __module__ = "polars.lazyframe.frame"

    def __init__(self, frame):
        self._frame = frame

    def collect(self):
        return DataFrame(self._frame)


def test_frames_of_dask():
    frames = pytest.importorskip("dask.dataframe")
    found = ImplicitALS(2, device="cpu").fit(frames.from_pandas(FRAME, npartitions=2), 2)
    np.testing.assert_array_equal(found.user_factors, ImplicitALS(2, device="cpu").fit(FRAME, 2).user_factors)


@pytest.mark.parametrize("kind", [DataFrame, LazyFrame])
def test_frames_of_polars(kind):
    wanted = ImplicitALS(2, device="cpu").fit(FRAME, 2)
    found = ImplicitALS(2, device="cpu").fit(kind(FRAME), 2)
    np.testing.assert_array_equal(found.user_factors, wanted.user_factors)
    assert found.ids


@pytest.mark.parametrize("lazy", [False, True])
def test_frames_of_polars_itself(lazy):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({name: FRAME[name].tolist() for name in FRAME})
    found = ImplicitALS(2, device="cpu").fit(frame.lazy() if lazy else frame, 2)
    np.testing.assert_array_equal(found.user_factors, ImplicitALS(2, device="cpu").fit(FRAME, 2).user_factors)
