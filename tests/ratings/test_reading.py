"""Large files are read in parts, of which nothing is lost, and nothing is taken for what it is not."""

import gzip
import os
from csv import reader
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from gpumf.ratings import DataError, Ratings, columns, files, map_ratings, read_ratings, reading

N = 5_000


def table(ids="integers", values=None):
    rng = np.random.default_rng(5)
    users, items = np.divmod(rng.permutation(400 * 300)[:N], 300)
    kinds = {
        "integers": lambda k: k + 1,
        "sparse": lambda k: k * 10**15 + 7,
        "strings": lambda k: [f"née {n}" for n in k],
        "numerals": lambda k: [f"{n}.0" for n in k],
    }
    halves = rng.integers(1, 11, N) / 2
    return pa.table(
        {"user": kinds[ids](users), "item": kinds[ids](items), "rating": halves if values is None else values}
    )


def write(table, path, **options):
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        parquet.write_table(table, path, row_group_size=999, **options)
    return path


@pytest.fixture
def small_parts(monkeypatch):
    """Many parts and pieces of small files; the numbers of parts that files were tried to be read in."""
    monkeypatch.setattr(reading, "_BYTES", 3_000)
    monkeypatch.setattr(reading, "_BYTES_OF_STRINGS", 5_000)
    monkeypatch.setattr(columns, "_PIECE", 700)
    gathered, tried = reading._gathered, []

    def counted(columns, read, places):
        tried.append(len(places))
        return gathered(columns, read, places)

    monkeypatch.setattr(reading, "_gathered", counted)
    return tried


@pytest.mark.parametrize("ids", ["integers", "sparse", "strings", "numerals"])
@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("values", [None, np.linspace(0, 1, N)], ids=["halves", "fractions"])
def test_parts_hold_all_of_a_file(tmp_path, small_parts, ids, format, values):
    given = table(ids, values)
    found = read_ratings(write(given, tmp_path / f"mine.{format}"))
    assert min(small_parts) > 1
    assert np.array_equal(found.values, given["rating"].to_numpy().astype(np.float32))
    for side in ("user", "item"):
        names = given[side].to_pylist()
        names = [int(float(n)) for n in names] if ids == "numerals" else names
        known, positions = getattr(found, f"{side}_ids"), getattr(found, f"{side}s")
        assert known[positions].tolist() == names and known.tolist() == sorted(set(names))
        assert positions.dtype == np.int32 and known.dtype == (object if ids == "strings" else np.int64)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.dictionary(pa.int8(), pa.string())])
def test_parquet_of_other_types(tmp_path, small_parts, kind):
    users = pa.array(["1", "2", "3"]).cast(pa.int64() if pa.types.is_integer(kind) else pa.string()).cast(kind)
    path = tmp_path / "mine.parquet"
    parquet.write_table(
        pa.table({"user": users, "item": [2**40, 5, 6], "rating": pa.array([1, 2, 3], pa.uint8())}), path
    )
    ratings = read_ratings(path)
    assert ratings.user_ids.tolist() == [1, 2, 3] and ratings.item_ids.tolist() == [5, 6, 2**40]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("7,x,3", None),
        ("007,5,3", None),
        ("0x7,5,3", None),
        ("7,,3", "the item id is missing"),
        ("7,5,three", "rating 'three' is not a number"),
        ("7,5", "2 fields where 3 belong"),
        ("7,5,1e39", "rating 1e+39 is beyond the range of 32 bits"),
        ("-7,5,3", "negative user id -7"),
        ("1,1,3", "user 1 rates item 1 again, first at"),
        ("7,5,9", "rating 9 is off the scale"),
    ],
)
def test_what_a_late_part_holds_is_found(tmp_path, small_parts, line, message):
    lines = [f"{k % 50 + 1},{k // 50 + 1},{k % 5 + 1}" for k in range(2_000)]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["user,item,rating", *lines, line]) + "\n")
    if message is None:
        ratings = read_ratings(path, scale=(1, 5))
        user, item, _ = line.split(",")
        side = (ratings.item_ids[ratings.items], item) if item == "x" else (ratings.user_ids[ratings.users], user)
        assert side[0][-1] == side[1] and ratings.nnz == 2_001
    else:
        with pytest.raises(DataError, match=f"line 2002: {message}".replace("+", r"\+")):
            read_ratings(path, scale=(1, 5))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_quotes_are_read_in_parts_unless_lines_end_in_them(tmp_path, small_parts, end):
    for text, in_parts in (("a b", True), (f"a{end}b", False), (f"a{end}b{end}c", False)):
        small_parts.clear()
        lines = [f'"{k % 50}","{k // 50}",{k % 5 + 1},"{text}"' for k in range(60_000)]
        path = tmp_path / "mine.csv"
        path.write_bytes(end.join(['"user","item","rating","text"', *lines, ""]).encode())
        ratings = read_ratings(path)
        assert (small_parts[-1] > 1) == in_parts and ratings.nnz == 60_000 and ratings.n_users == 50


@pytest.mark.parametrize("header", ["", "\n", '"\r",'])
def test_lines_may_end_in_cr_before_others_in_lf(tmp_path, small_parts, header):
    rows = [f"{',' * header.count(',')}{k % 50},{k // 50},{k % 5}" for k in range(1_000)]
    path = tmp_path / "mine.csv"
    path.write_text("\r".join([f"{header}user,item,rating", *rows[:700], "\n".join(rows[700:])]), newline="")
    assert read_ratings(path).values.tolist() == [k % 5 for k in range(1_000)]


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_quotes_mean_what_they_mean_to_csv(tmp_path, small_parts, monkeypatch, header, seed):
    rng, path = np.random.default_rng(seed), tmp_path / "mine.csv"
    notes = ["", "ab", 'a"b', 'a"', '"a\nb"', '"\r"', '"a,b"', '"a""\nb"', '""', '"a"b', '"\n"""']
    for _ in range(40):
        end = rng.choice(["\n", "\r\n", "\r"])
        rows = [",".join([*rng.choice(notes, 2), f'u{k % 7},"{k // 7}",{k % 5}']) for k in range(60)]
        path.write_text(end.join(['"b",c,user,item,rating'] * header + rows), newline="")
        monkeypatch.setattr(reading, "_BYTES", int(rng.integers(30, 300)))
        monkeypatch.setattr(reading, "_BYTES_OF_STRINGS", int(rng.integers(30, 300)))
        with path.open(newline="") as file:
            wanted = [(user, int(item), float(rating)) for *_, user, item, rating in list(reader(file))[header:]]
        found = read_ratings(path, **{} if header else {"user": 2, "item": 3, "rating": 4, "header": False})
        columns = found.user_ids[found.users], found.item_ids[found.items], found.values
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == wanted


@pytest.mark.parametrize("size", [2**20, 2**45])
def test_pairs_that_come_twice_are_found_wherever_they_are(monkeypatch, size):
    monkeypatch.setattr(columns, "_PIECE", 100)
    from gpumf.ratings.checks import _some_twice

    rng = np.random.default_rng(2)
    users, items = np.arange(1_000, dtype=np.int32), rng.integers(0, 1_000, 1_000, np.int32)
    assert not _some_twice(users, items, size // 1024, 1024)
    for first, second in ((0, 999), (0, 1), (500, 501), (99, 100)):
        again = users.copy(), items.copy()
        for column in again:
            column[second] = column[first]
        assert _some_twice(*again, size // 1024, 1024)


@pytest.mark.parametrize("part", [1, 7, 100])
def test_parts_of_a_text_are_whole_lines_and_all_of_it(part):
    data = b"1,2,3\n10,20,30\n4,5,6\n" + b"7" * 40 + b",8,9"
    file = SimpleNamespace(size=len(data), read=lambda begin, end: data[begin:end])
    bounds = reading._line_bounds(file, part)
    assert bounds[0] == 0 and bounds[-1] == len(data) and sorted(set(bounds)) == bounds
    assert all(data[end - 1 : end] == b"\n" for end in bounds[1:-1])


def test_arrays_of_a_callers_are_left_alone():
    users, items = np.array([5, 3, 5, 9], np.int32), np.array([1, 2, 2, 1], np.int32)
    before = users.copy(), items.copy()
    Ratings.from_arrays(users, items, np.ones(4))
    assert np.array_equal(users, before[0]) and np.array_equal(items, before[1])


# Mapped


ARRAYS = {
    "user": np.array([0, 1, 1], np.int32),
    "item": np.array([2, 0, 2], np.int32),
    "rating": np.array([1, 2, 3], np.float32),
}


def saved(folder, arrays, how):
    if how == "npy":
        folder.mkdir()
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        return folder
    feather.write_feather(pa.table(arrays), folder, **{"compression": "uncompressed"} | how)
    return folder


@pytest.mark.parametrize("how", ["npy", {}])
def test_mapped_ratings_are_no_copies(tmp_path, how):
    ratings = map_ratings(saved(tmp_path / "mine", ARRAYS, how), scale=(1, 5))
    assert (ratings.n_users, ratings.n_items, ratings.name) == (2, 3, "mine")
    for column, given in zip((ratings.users, ratings.items, ratings.values), ARRAYS.values(), strict=True):
        assert np.array_equal(column, given) and not column.flags.owndata and not column.flags.writeable
    assert map_ratings(tmp_path / "mine", n_items=9).n_items == 9


def test_a_pipe_in_a_folder_is_not_mapped(tmp_path):
    folder = saved(tmp_path / "mine", ARRAYS, "npy")
    (folder / "item.npy").unlink()
    os.mkfifo(folder / "item.npy")
    with pytest.raises(DataError, match=r"mine: item\.npy is a pipe, a device or a folder; it needs user\.npy"):
        map_ratings(folder)


def test_an_archive_named_npy_is_not_mapped(tmp_path):
    for name in ("user", "item", "rating"):
        with (tmp_path / f"{name}.npy").open("wb") as file:
            np.savez(file, np.arange(3))
    with pytest.raises(DataError, match=r"it needs user\.npy, item\.npy"):
        map_ratings(tmp_path)


def test_integers_of_all_lengths_are_read_at_the_first_try(tmp_path, small_parts):
    ids = [0, 9, 10, 99, 100, 10**9, 10**18 - 1, 10**18]
    path = tmp_path / "mine.csv"
    path.write_text("user,item,rating\n" + "".join(f"{n},{n},{k % 5 + 1}\n" for k, n in enumerate(ids)))
    ratings = read_ratings(path)
    assert ratings.user_ids.tolist() == ratings.item_ids.tolist() == ids and len(small_parts) == 1


def test_a_line_may_be_longer_than_arrows_blocks(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(f"user,item,rating,text\n1,2,3,short\n4,5,2,{'long ' * 500_000}\n6,7,1,short\n")
    ratings = read_ratings(path)
    assert ratings.user_ids.tolist() == [1, 4, 6] and ratings.values.tolist() == [3, 2, 1]


@pytest.mark.parametrize("change", ["shorter", "longer", "other"])
@pytest.mark.parametrize("kind", ["parts", "quoted", "wrong", "gzip"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch, kind, change):
    note = {"quoted": '"a\nb"', "wrong": "a,b"}.get(kind, "a")
    content = "user,item,rating,note\n" + "".join(f"{k},{k % 3},1,{note}\n" for k in range(N))
    path, bounds, text = tmp_path / "mine.csv", reading._line_bounds, reading.text
    path.write_bytes(gzip.compress(content.encode()) if kind == "gzip" else content.encode())
    assert kind == "wrong" or read_ratings(path).nnz == N

    def changing(*given):
        result = bounds(*given) if kind == "parts" else None
        old = path.read_bytes()
        changed = {"shorter": old[:90], "longer": old + old[-8:], "other": old[:-8] + old[-8:].replace(b"1", b"2")}
        path.write_bytes(changed[change])
        os.utime(path, ns=(1, 1))  # as clocks may tick seldom
        return result or text(*given)

    monkeypatch.setattr(reading, "_line_bounds" if kind == "parts" else "text", changing)
    monkeypatch.setattr(reading, "_BYTES", 3_000)
    with pytest.raises(DataError, match=r"mine.csv changed while it was read"):
        read_ratings(path)


def test_a_part_that_a_file_no_longer_has_is_no_end(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes(bytes(50))
    file = files.DataFile(path)
    assert file.size == 50
    path.write_bytes(bytes(20))
    assert file.read(10, 20) == bytes(10)
    for begin in (10, 30):
        with pytest.raises(DataError, match=r"mine.csv changed while it was read"):
            file.read(begin, 50)
