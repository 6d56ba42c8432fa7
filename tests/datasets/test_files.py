"""The official file layouts, written small, read back; and what is said of broken ones."""

import gzip
import lzma
import re
import struct
import zipfile
from dataclasses import replace
from decimal import Decimal
from functools import partial

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gpumf import datasets
from gpumf.datasets import DataError, files, sources

PAIRS = {(1, 10): 4.0, (1, 20): 2.0, (7, 10): 5.0, (30, 20): 1.0}


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUMF_DATA", str(tmp_path))
    return tmp_path


load = partial(datasets.load, allow_incomplete=True)
"""Most files here are small ones in the layout of a large set."""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def archive(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in members.items():
            file.writestr(name, text)
    return path


def as_pairs(ratings):
    users, items = ratings.user_ids[ratings.users], ratings.item_ids[ratings.items]
    return {(u, i): float(v) for u, i, v in zip(users, items, ratings.values, strict=True)}


def lines(template, pairs=PAIRS, header=""):
    return header + "".join(template.format(u=u, i=i, r=int(r)) + "\n" for (u, i), r in pairs.items())


ONE_A_LINE = [
    ("ml-100k", "u.data", "{u}\t{i}\t{r}\t881250949", ""),
    ("ml-1m", "ratings.dat", "{u}::{i}::{r}::978300760", ""),
    ("ml-10m", "ml-10M100K/ratings.dat", "{u}::{i}::{r}::838985046", ""),
    *[
        (name, f"{name}/ratings.csv", "{u},{i},{r}.0,964982703", "userId,movieId,rating,timestamp\n")
        for name in ("ml-latest-small", "ml-20m", "ml-25m", "ml-32m")
    ],
    ("douban", "uir.index", "{u} {i} {r}", ""),
    ("douban", "uir.index", "{u}\t{i}\t{r}", ""),
]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(("name", "path", "template", "header"), ONE_A_LINE)
def test_one_rating_a_line(data, name, path, template, header, zipped):
    text = lines(template, header=header)
    if zipped:
        archive(data / name / "download.zip", {path: text})
    else:
        write(data / name / path, text)
    ratings = load(name)
    assert as_pairs(ratings) == PAIRS
    assert ratings.name == name
    assert ratings.scale == ((1, 5) if name in ("ml-100k", "ml-1m", "douban") else (0.5, 5))


@pytest.mark.parametrize("name", ["ml-100k", "ml-1m", "ml-20m"])
def test_times_are_in_the_order_of_the_ratings(data, name):
    path, template, header = next((p, t, h) for n, p, t, h in ONE_A_LINE if n == name)
    given = [template.rstrip("0123456789") + str(900 - k) for k in range(len(PAIRS))]
    rows = [line.format(u=u, i=i, r=int(r)) for line, ((u, i), r) in zip(given, PAIRS.items(), strict=True)]
    write(data / name / path, header + "\n".join(rows) + "\n")
    assert list(datasets.times(name)) == [900, 899, 898, 897] and load(name).nnz == 4


@pytest.mark.parametrize("time", ["", "nan", "inf", "-1", "yesterday"])
def test_a_rating_without_a_time_is_named(data, time):
    write(data / "ml-100k/u.data", f"1\t1\t3\t881250949\n1\t2\t4\t{time}\n2\t1\t5\t-7\n")
    with pytest.raises(DataError, match=r"u\.data, line 2: "):
        datasets.times("ml-100k")


def test_sets_that_do_not_say_when_their_ratings_were_given(data):
    for name in ("jester-1", "ml-100k-twin", "netflix", "nothing"):
        with pytest.raises(DataError, match="does not say when"):
            datasets.times(name)
    with pytest.raises(DataError, match=r"no file u\.data"):
        datasets.times("ml-100k")


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("ml-100k", "u.item", '7|Amélie, or "so" (1)|01-Jan||http|0\n2|B|\n'),
        ("ml-1m", "movies.dat", '7::Amélie, or "so" (1)::Comedy|Drama\n2::B::Drama\n'),
        ("ml-20m", "movies.csv", 'movieId,title,genres\n7,"Amélie, or ""so"" (1)",Comedy|Drama\n2,B,Drama\n'),
    ],
)
def test_titles_by_id(data, name, file, text):
    assert datasets.titles(name) is None and datasets.titles("jester-1") is None
    (data / name).mkdir()
    (data / name / file).write_bytes(text.encode("utf-8" if file.endswith("csv") else "latin-1"))
    assert dict(datasets.titles(name)) == {7: 'Amélie, or "so" (1)', 2: "B"}


def test_packed_or_not_has_one_sha256(data):
    text = lines("{u}\t{i}\t{r}\t0")
    plain = write(data / "ml-100k" / "u.data", text)
    first = load("ml-100k")
    plain.unlink()
    archive(data / "ml-100k.zip", {"ml-100k/u.data": text})
    second = load("ml-100k")
    assert first.sha256 == second.sha256
    assert len(first.sha256) == 64


def jester_row(ratings, n_jokes=5):
    cells = [99.0] * n_jokes
    for joke, rating in ratings.items():
        cells[joke - 1] = rating
    return [len(ratings), *cells]


JESTER = [
    [jester_row({1: -10, 2: 10, 4: 0.0}), jester_row({3: 2.72})],
    [jester_row({5: -7.82, 1: 8.79})],
    [jester_row({2: 5})],
]


def csv_of(rows):
    return "".join(",".join(f"{cell:g}" for cell in row) + "\n" for row in rows)


def xls_of(rows):
    """A minimal Excel 4 worksheet of numbers, the oldest layout that readers of .xls know."""
    record = struct.Struct("<HH")
    body = record.pack(0x0409, 6) + struct.pack("<HHH", 0, 0x10, 0)
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            body += record.pack(0x0203, 14) + struct.pack("<HHHd", r, c, 0, cell)
    return body + record.pack(0x000A, 0)


@pytest.mark.parametrize("kind", ["csv", "xls", "zip of csv", "zip of xls"])
def test_jester_in_three_parts(data, kind):
    for part, rows in enumerate(JESTER, start=1):
        content, suffix = (xls_of(rows), "xls") if kind.endswith("xls") else (csv_of(rows).encode(), "csv")
        if kind.startswith("zip"):
            archive(data / "jester" / f"jester_dataset_1_{part}.zip", {f"jester-data-{part}.{suffix}": content})
        else:
            (data / "jester").mkdir(exist_ok=True)
            (data / "jester" / f"jester-data-{part}.{suffix}").write_bytes(content)
    raw = load("jester", rescale=False)
    assert as_pairs(raw) == pytest.approx(
        {(1, 1): -10, (1, 2): 10, (1, 4): 0, (2, 3): 2.72, (3, 1): 8.79, (3, 5): -7.82, (4, 2): 5}
    )
    assert raw.scale == (-10, 10)
    rescaled = load("jester")
    assert rescaled.scale == (1, 5)
    assert as_pairs(rescaled) == {(1, 1): 1, (1, 2): 5, (1, 4): 3, (2, 3): 4, (3, 1): 5, (3, 5): 1, (4, 2): 4}
    assert load("jester-1").nnz == 4


def test_jester_with_a_row_cut_off(data):
    write(data / "jester" / "jester-data-1.csv", "3,1,2,99,4\n3,1,2,99,99\n")
    with pytest.raises(DataError, match=r"jester-data-1.csv, row 2: 2 ratings, but the first column says 3"):
        load("jester-1")


@pytest.mark.parametrize(
    ("cell", "message"), [("ten", "nan is not a finite"), ("10.5", "10.5 is off the scale -10 to")]
)
def test_jester_with_a_bad_cell(data, cell, message):
    write(data / "jester" / "jester-data-1.csv", f"3,1,2,99,4\n3,1,99,{cell},99,1\n".replace(",99,1\n", ",1\n"))
    with pytest.raises(DataError, match=rf"jester-data-1.csv, row 2, joke 3: rating {message}"):
        load("jester-1")


@pytest.mark.parametrize("name", ["douban-monti", "flixster-monti", "yahoomusic-monti"])
def test_monti_is_transposed_and_split(data, name):
    ratings, train, test = (np.zeros((4, 3)) for _ in range(3))
    ratings[0, 1], ratings[3, 0], ratings[3, 2] = 5, 2, 3
    train[0, 1] = train[3, 0] = test[3, 2] = 1
    (data / name).mkdir()
    with h5py.File(data / name / "training_test_dataset.mat", "w") as file:
        file["M"], file["Otraining"], file["Otest"] = ratings.T, train.T, test.T
    loaded = load(name)
    assert (loaded.n_users, loaded.n_items) == (4, 3)
    assert as_pairs(loaded) == {(0, 1): 5, (3, 0): 2, (3, 2): 3}
    assert as_pairs(loaded.official_split()[1]) == {(3, 2): 3}


def test_monti_that_is_not_matlab(data):
    write(data / "douban-monti" / "training_test_dataset.mat", "text")
    with pytest.raises(DataError, match=r"training_test_dataset.mat.*complete MATLAB"):
        load("douban-monti")


NETFLIX = {1: "1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n", 2: "2:\n822109,4,2005-07-05\n"}
NETFLIX_PAIRS = {(1488844, 1): 3, (822109, 1): 5, (822109, 2): 4}


@pytest.mark.parametrize("combined", [False, True])
def test_netflix_and_its_probe(data, combined):
    if combined:
        archive(
            data / "netflix" / "archive.zip",
            {"combined_data_1.txt": NETFLIX[1], "combined_data_2.txt": NETFLIX[2], "probe.txt": "1:\n822109\n"},
        )
    else:
        for movie, text in NETFLIX.items():
            write(data / "netflix" / "training_set" / f"mv_{movie:07}.txt", text)
        write(data / "netflix" / "probe.txt", "1:\n822109\n")
    ratings = load("netflix")
    assert as_pairs(ratings) == NETFLIX_PAIRS
    assert as_pairs(ratings.official_split()[1]) == {(822109, 1): 5}


def test_netflix_without_a_probe_has_no_official_split(data):
    write(data / "netflix" / "combined_data_1.txt", NETFLIX[1] + NETFLIX[2])
    ratings = load("netflix")
    assert as_pairs(ratings) == NETFLIX_PAIRS
    assert ratings.test_mask is None


def test_netflix_blocks_across_read_blocks(data):
    """Block openings are placed right in files larger than what the reader takes at a time (1 MB)."""
    text = "".join(
        f"{movie}:\n"
        + "".join(f"{user},{(user + movie) % 5 + 1},2005-09-06\n" for user in range(1, 700, movie % 3 + 1))
        for movie in range(1, 200)
    )
    write(data / "netflix" / "combined_data_1.txt", text)
    ratings = load("netflix")
    users, movies = ratings.user_ids[ratings.users], ratings.item_ids[ratings.items]
    assert len(text) > 1 << 20
    assert np.array_equal(ratings.values, (users + movies) % 5 + 1)
    assert np.array_equal(np.bincount(movies)[1:4], [350, 233, 699])


def test_netflix_probe_of_an_unrated_movie(data):
    write(data / "netflix" / "combined_data_1.txt", NETFLIX[1] + NETFLIX[2])
    write(data / "netflix" / "probe.txt", "2:\n1488844\n")
    with pytest.raises(DataError, match=r"probe.txt: 1 of its 1 pairs are not rated"):
        load("netflix")


def test_netflix_without_openings(data):
    write(data / "netflix" / "combined_data_1.txt", "1488844,3,2005-09-06\n")
    with pytest.raises(DataError, match="a rating before the first line 'id:'"):
        load("netflix")


def test_netflix_bad_line_is_counted_with_its_openings(data):
    write(data / "netflix" / "combined_data_1.txt", NETFLIX[1] + "2:\n822109,6,2005-07-05\n")
    with pytest.raises(DataError, match=r"combined_data_1.txt, line 5: rating 6 is off the scale 1 to 5"):
        load("netflix")


def test_yahoomusic_and_its_validation_set(data):
    write(
        data / "yahoomusic" / "trainIdx1.txt",
        "0|2\n507696\t90\t4\t23:17\n137915\t0\t4\t23:18\n5|1\n137915\t100\t5\t11:00\n",
    )
    write(data / "yahoomusic" / "validationIdx1.txt", "5|1\n507696\t30\t6\t11:00\n")
    ratings = load("yahoomusic")
    assert as_pairs(ratings) == {(0, 507696): 90, (0, 137915): 0, (5, 137915): 100, (5, 507696): 30}
    assert as_pairs(ratings.official_split()[1]) == {(5, 507696): 30}


def test_yahoomusic_with_a_block_cut_off(data):
    write(data / "yahoomusic" / "trainIdx1.txt", "0|2\n507696\t90\t4\t23:17\n")
    write(data / "yahoomusic" / "validationIdx1.txt", "5|1\n507696\t30\t6\t11:00\n")
    with pytest.raises(DataError, match=r"trainIdx1.txt: 1 ratings follow the line '0\|2'"):
        load("yahoomusic")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("7\t10\tfour\t0", "line 4: rating 'four' is not a number; correct it"),
        ("x7\t10\t4\t0", "line 4: user 'x7' is not an integer"),
        ("7\t10\tnan\t0", "line 4: rating nan is not a finite number"),
        ("7\t10\t\t0", "line 4: rating nan is not a finite number"),
        ("7\t10\tinf\t0", "line 4: rating inf is not a finite number"),
        ("7\t10\t6\t0", "line 4: rating 6 is off the scale 1 to 5"),
        ("-7\t10\t4\t0", "line 4: negative user id -7"),
        ("7\t-10\t4\t0", "line 4: negative item id -10"),
        ("7\t\t4\t0", "line 4: the item id is missing"),
        ("7\t10\t4", "line 4: 3 fields where 4 belong"),
        ("1\t10\t4\t0", "line 4: user 1 rates item 10 again, first at"),
        ("7\t99999999999999999999\t4\t0", "line 4: item '99999999999999999999' is not an integer of 64 bits"),
        ("7\t10\t1e39\t0", "line 4: rating 1e+39 is beyond the range of 32 bits"),
        ("7\t10\t1_000\t0", "line 4: rating '1_000' is not a number"),
        ("7.0\t10\t4\t0", "line 4: user '7.0' is not an integer"),
        ("   ", "line 4: 1 fields where 4 belong"),
    ],
)
def test_bad_lines(data, bad, message):
    # The blank second line counts as a line and not as a rating.
    path = write(data / "ml-100k" / "u.data", f"1\t10\t4\t0\n\n1\t20\t2\t0\n{bad}\n30\t20\t1\t0\n")
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        load("ml-100k")
    assert str(caught.value).startswith(str(path))


def test_line_after_a_header(data):
    text = "userId,movieId,rating,timestamp\n1,10,4.0,0\n2,10,9.0,0\n"
    write(data / "ml-20m" / "ratings.csv", text)
    with pytest.raises(DataError, match=r"ratings.csv, line 3: rating 9 is off"):
        load("ml-20m")


@pytest.mark.parametrize("name", ["ml-100k", "ml-1m", "ml-20m", "douban"])
@pytest.mark.parametrize("content", ["", "\n\n"])
def test_empty_files(data, name, content):
    file = {"ml-100k": "u.data", "ml-1m": "ratings.dat", "ml-20m": "ratings.csv", "douban": "uir.index"}[name]
    write(data / name / file, content)
    with pytest.raises(DataError, match=rf"{file} is empty: it holds no ratings"):
        load(name)


def test_one_user_only(data):
    write(data / "ml-100k" / "u.data", "1\t10\t4\t0\n1\t20\t2\t0\n")
    with pytest.raises(DataError, match=r"u.data: all ratings are by one user, 1"):
        load("ml-100k")


@pytest.mark.parametrize("keep", [0, 30, 0.5, 0.99])
def test_truncated_zip(data, keep):
    path = archive(data / "ml-100k" / "ml-100k.zip", {"ml-100k/u.data": lines("{u}\t{i}\t{r}\t0")})
    content = path.read_bytes()
    path.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    with pytest.raises(DataError, match=r"ml-100k.zip is truncated or not a zip archive; delete it"):
        load("ml-100k")


def test_zip_with_a_damaged_member(data):
    path = archive(data / "ml-100k" / "ml-100k.zip", {"u.data": lines("{u}\t{i}\t{r}\t0")})
    content = bytearray(path.read_bytes())
    content[50:60] = bytes(10)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"ml-100k.zip is truncated or not a zip archive"):
        load("ml-100k")


def test_absent_and_unknown_sets(data):
    with pytest.raises(DataError, match=r"ml-1m: no file ratings.dat in .* run `python -m gpumf.datasets ml-1m`"):
        load("ml-1m")
    with pytest.raises(DataError, match=r"netflix: no file combined_data_\*.txt or mv_\*.txt in .* its publisher"):
        load("netflix")
    with pytest.raises(DataError, match="no data set 'ml-2m'; there are ml-100k, "):
        load("ml-2m")


def test_names_say_what_is_present(data):
    write(data / "ml-100k" / "u.data", lines("{u}\t{i}\t{r}\t0"))
    names = datasets.names()
    assert names.loc["ml-100k", "present"] and names.loc["douban-twin", "present"]
    assert not names.loc["douban", "download"]
    assert names.loc["ml-1m", "download"]
    assert (names.description.str.len() > 0).all() and not names.description.str.contains("\n").any()


def test_data_folders_prefer_the_environment(data, monkeypatch):
    assert files.data_folders()[0] == data
    monkeypatch.delenv("GPUMF_DATA")
    (default,) = files.data_folders()
    assert default.parts[-2:] == ("data", "raw") and (default.parents[1] / "pyproject.toml").exists()


# --- Any file -----------------------------------------------------------------------------------------------

STRINGS = {("ann", "x"): 4.0, ("bob", "x"): 2.5, ("bob", "07"): -1.0}


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("tsv", "\t"), ("csv", ";"), ("txt", "|")])
def test_read_text(tmp_path, suffix, delimiter):
    rows = [("stars", "who", "when", "what"), *((r, u, 0, i) for (u, i), r in STRINGS.items())]
    path = write(tmp_path / f"mine.{suffix}", "\n".join(delimiter.join(map(str, row)) for row in rows))
    ratings = datasets.read(path, user="who", item="what", rating="stars")
    assert as_pairs(ratings) == STRINGS
    assert (ratings.name, ratings.scale) == ("mine", None)


def test_read_turns_a_column_of_integers_into_integers(tmp_path):
    path = write(tmp_path / "mine.csv", "user,item,rating\n12,a1,3\n5,5,4\n")
    ratings = datasets.read(path)
    assert ratings.user_ids.tolist() == [5, 12]
    assert ratings.item_ids.tolist() == ["5", "a1"]


def test_read_quoted_fields(tmp_path):
    path = write(tmp_path / "mine.csv", 'user,item,rating\n"Ann, B.",x,3\nbob,x,"4"\n')
    assert as_pairs(datasets.read(path)) == {("Ann, B.", "x"): 3, ("bob", "x"): 4}


@pytest.mark.parametrize("as_category", [False, True])
def test_read_parquet(tmp_path, as_category):
    frame = pd.DataFrame([(u, i, r) for (u, i), r in STRINGS.items()], columns=["user", "item", "rating"])
    if as_category:
        frame = frame.astype({"user": "category"})
    frame.to_parquet(tmp_path / "mine.parquet")
    assert as_pairs(datasets.read(tmp_path / "mine.parquet")) == STRINGS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("user,item,rating\n1,2,3\n2,2,bad\n", "mine.csv, line 3: rating 'bad' is not a number"),
        ("user,item,rating\n1,2,3\n,2,4\n", "mine.csv, line 3: the user id is missing"),
        ("user,item,rating\n1,2,3\n-4,2,4\n", "mine.csv, line 3: negative user id -4"),
        ("user,item,rating\n1,2,3\n2,2,7\n", "mine.csv, line 3: rating 7 is off the scale 1 to 5"),
        ("user,thing,rating\n1,2,3\n", "mine.csv, line 1: no column 'item' among ['user', 'thing', 'rating']"),
        ("", "mine.csv is empty: it holds no ratings"),
        ("user,item,rating\n", "mine.csv holds no ratings"),
    ],
)
def test_read_bad_text(tmp_path, content, message):
    with pytest.raises(DataError, match=re.escape(message)):
        datasets.read(write(tmp_path / "mine.csv", content), scale=(1, 5))


def test_read_bad_parquet(tmp_path):
    pd.DataFrame({"user": [1], "rating": [2.0]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(DataError, match=r"other.parquet: no column 'item'"):
        datasets.read(tmp_path / "other.parquet")
    with pytest.raises(DataError, match="there is no file"):
        datasets.read(tmp_path / "none.csv")


TABLE = "user,item,rating\n7,10,4\n8,10,2.5\n8,11,1\n"
TABLE_PAIRS = {(7, 10): 4.0, (8, 10): 2.5, (8, 11): 1.0}


def packed(text, how):
    """A text's bytes, packed as the name of the codec says."""
    if how == "xz":
        return lzma.compress(text.encode())
    buffer = pa.BufferOutputStream()
    with pa.CompressedOutputStream(buffer, how) as stream:
        stream.write(text.encode())
    return buffer.getvalue().to_pybytes()


@pytest.mark.parametrize("name", ["mine.csv.gz", "mine.csv", "mine"])
@pytest.mark.parametrize("how", ["gzip", "bz2", "xz", "zstd", "lz4"])
def test_read_packed_text_whatever_its_name(tmp_path, how, name):
    (tmp_path / name).write_bytes(packed(TABLE, how))
    assert as_pairs(datasets.read(tmp_path / name)) == TABLE_PAIRS


@pytest.mark.parametrize("how", ["gzip", "bz2", "xz", "zstd", "lz4"])
@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b[:12] + bytes(9) + b[21:], lambda b: b[:7]])
def test_read_damaged_packed_text(tmp_path, how, damage):
    path = tmp_path / "mine.csv"
    path.write_bytes(damage(packed(TABLE * 50, how)))
    with pytest.raises(DataError, match=r"mine.csv"):
        datasets.read(path)


@pytest.mark.parametrize("name", ["mine.parquet", "mine.pq", "mine.PARQUET", "mine.csv", "mine"])
@pytest.mark.parametrize("pack", [None, "gzip", "zip"])
def test_read_parquet_whatever_its_name(tmp_path, name, pack):
    frame = pd.DataFrame([(u, i, r) for (u, i), r in TABLE_PAIRS.items()], columns=["user", "item", "rating"])
    content = frame.to_parquet()
    path = tmp_path / name
    if pack == "zip":
        archive(path, {"folder/": "", "folder/ratings": content})
    else:
        path.write_bytes(gzip.compress(content) if pack else content)
    assert as_pairs(datasets.read(path)) == TABLE_PAIRS


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zips_read_right_or_fail_in_one_way(tmp_path, method):
    path = tmp_path / "mine.csv"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("ratings.csv", TABLE)
    assert as_pairs(datasets.read(path)) == TABLE_PAIRS
    content = path.read_bytes()
    for start in range(30, len(content), 7):
        path.write_bytes(content[:start] + bytes(5) + content[start + 5 :])
        try:
            assert as_pairs(datasets.read(path)) == TABLE_PAIRS
        except DataError as error:
            assert "mine.csv" in str(error)


@pytest.mark.parametrize(
    ("flags", "method", "message"), [(1, 8, "encrypted"), (0, 99, "compression method"), (0, 9, "compression method")]
)
def test_zips_that_cannot_be_unpacked(tmp_path, flags, method, message):
    """The flag of encryption, and methods of others, set in both of the archive's records of its member."""
    content = bytearray(archive(tmp_path / "mine.zip", {"ratings.csv": TABLE}).read_bytes())
    for signature, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        struct.pack_into("<HH", content, content.index(signature) + at, flags, method)
    (tmp_path / "mine.zip").write_bytes(content)
    with pytest.raises(DataError, match=f"mine.zip:ratings.csv cannot be unpacked: .*{message}"):
        datasets.read(tmp_path / "mine.zip")


def test_a_zip_of_several_files_and_a_folder(tmp_path):
    for members in ({}, {"a.csv": TABLE, "b.csv": TABLE}):
        path = archive(tmp_path / "mine.zip", members)
        with pytest.raises(DataError, match=f"mine.zip holds {len(members)} files"):
            datasets.read(path)
    with pytest.raises(DataError, match="is a folder; give one of its files"):
        datasets.read(tmp_path)


@pytest.mark.parametrize("start", [0, 4, 40, 400, 0.5, 0.9])
def test_damaged_parquet(tmp_path, start):
    frame = pd.DataFrame([(u, i, r) for (u, i), r in TABLE_PAIRS.items()] * 40, columns=["user", "item", "rating"])
    content = frame.to_parquet()
    start = start if isinstance(start, int) else int(start * len(content))
    path = tmp_path / "mine.parquet"
    for damaged in (content[:start], content[:start] + b"\xff" * 20 + content[start + 20 :]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"mine.parquet"):
            datasets.read(path)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("rating", pd.to_datetime(["2001-01-01"] * 3), "column 'rating' is of type timestamp"),
        ("user", pd.to_datetime(["2001-01-01"] * 3), "column 'user' is of type timestamp"),
        ("item", [True, False, True], "column 'item' is of type bool"),
        ("item", [[1], [2], [3]], "column 'item' is of type list"),
        ("rating", ["4", "four", "1"], "row 1: rating four is not a finite number"),
        ("rating", [4, 1e39, 1], r"row 1: rating 1e\+39 is beyond the range of 32 bits"),
        ("user", [7.5, 8, 8], "row 0: user id 7.5 among others"),
        ("user", pd.array([7, None, 8], "Int64"), "row 1: the user id is missing"),
        ("item", ["a", None, "b"], "row 1: the item id is missing"),
        ("rating", [4, None, 1], "row 1: rating nan is not a finite number"),
    ],
)
def test_parquet_columns_that_are_no_ratings(tmp_path, column, values, message):
    frame = pd.DataFrame({"user": [7, 8, 8], "item": [10, 10, 11], "rating": [4, 2.5, 1]})
    frame.assign(**{column: values}).to_parquet(tmp_path / "mine.parquet")
    with pytest.raises(DataError, match=message):
        datasets.read(tmp_path / "mine.parquet")


@pytest.mark.parametrize(
    "change",
    [
        {"user": [7.0, 8.0, 8.0]},
        {"user": pd.Categorical([7, 8, 8])},
        {"user": pd.Categorical(["7", "8", "8"])},
        {"user": np.array([7, 8, 8], np.uint8)},
        {"user": ["7.0", "8", " 8"]},
        {"rating": ["4", "2.5", "1"]},
        {"rating": [Decimal("4"), Decimal("2.5"), Decimal("1")]},
        {"rating": np.array([4, 2.5, 1], np.float32)},
    ],
)
def test_parquet_columns_of_every_type(tmp_path, change):
    frame = pd.DataFrame({"user": [7, 8, 8], "item": [10, 10, 11], "rating": [4, 2.5, 1]})
    frame.assign(**change).to_parquet(tmp_path / "mine.parquet")
    assert as_pairs(datasets.read(tmp_path / "mine.parquet")) == TABLE_PAIRS


@pytest.mark.parametrize(
    "content",
    [
        TABLE,
        TABLE.rstrip("\n"),
        "\ufeff" + TABLE,
        TABLE.replace("\n", "\r\n"),
        TABLE.replace("\n", "\r"),
        "\n\n" + TABLE.replace("\n", "\n\n"),
        TABLE.replace(",", ", "),
        TABLE.replace("7,", "7.0,").replace("8,", "8.00,"),
        TABLE.replace("7,", '"7",'),
        TABLE.replace("user,", "user,text,").replace("7,", '7,"two\nlines",').replace("8,", "8,x,"),
        TABLE.replace("user,", '"a\nb",user,').replace("7,", "x,7,").replace("8,", "x,8,"),
        TABLE.replace("user,", "when,user,").replace("7,", "2001-01-01 10:00,7,").replace("8,", ",8,"),
        TABLE.encode().replace(b"user,", b"t\xeftle,user,").replace(b"7,", b"M\xfcller,7,").replace(b"8,", b"x,8,"),
    ],
)
def test_one_table_in_many_writings(tmp_path, content):
    path = tmp_path / "mine.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert as_pairs(datasets.read(path)) == TABLE_PAIRS


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        (["1", "2.0"], [1, 2]),
        (["1.5", "2.0"], ["1.5", "2.0"]),
        (["007", "7"], ["007", "7"]),
        (["1e3", "5"], ["1e3", "5"]),
        (["1_0", "5"], ["1_0", "5"]),
        (["٣", "5"], ["5", "٣"]),
        (["99999999999999999999", "5"], ["5", "99999999999999999999"]),
        ([str(2**63 - 1), "5"], [5, 2**63 - 1]),
        ([" ann ", "bob"], ["ann", "bob"]),
        (['"an\nn"', "bob"], ["an\nn", "bob"]),
        (["nan", "NULL"], ["NULL", "nan"]),
        (["0x10", "5"], ["0x10", "5"]),
    ],
)
def test_ids_as_they_are_written(tmp_path, written, ids):
    path = write(tmp_path / "mine.csv", "user,item,rating\n" + "".join(f"{name},3,4\n" for name in written))
    assert datasets.read(path).user_ids.tolist() == ids


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("user,item,rating", "mine.csv holds no ratings"),
        ("user,item,rating\n\n", "mine.csv holds no ratings"),
        ("\ufeff", "mine.csv is empty"),
        ("user,item,rating\n1,2,3\n2,2,1_000\n", "line 3: rating '1_000' is not a number"),
        ("user,item,rating\n1,2,3\n2,2,1e39\n", "line 3: rating 1e+39 is beyond the range of 32 bits"),
        ("user,item,rating\n1,2,3\n2,2,\n", "line 3: rating nan is not a finite number"),
        ("user,item,rating\n1,2,3\n  ,2,4\n", "line 3: the user id is missing"),
        ('user,item,rating\n"a\nb",2,3\nc,2,x\n', "line 4: rating 'x' is not a number"),
        ('user,item,rating\n"a\nb",2,3\nc,2,inf\n', "line 4: rating inf is not a finite number"),
        ('user,item,rating\n1,2,3\n"2,2,4\n3,2,5\n', "line 3: 1 fields where 3 belong"),
        ('user,item,rating\n1,2,3\n"2' + "," * 200_000, "line 3: field larger than field limit"),
        ("user,item,rating\n1,2,3\n2,2\n", "line 3: 2 fields where 3 belong"),
        ("user,item,rating\n1,2,3\n   \n2,2,2\n", "line 3: 1 fields where 3 belong"),
        ("user,item,rating,rating\n1,2,3,4\n", "line 1: several columns 'rating' among"),
        ("user,item,rating\n1,2,3\n2,2,4\n1,2,5\n", "line 4: user 1 rates item 2 again, first at"),
        (b"user,item,rating\nann,2,3\nM\xfcller,2,4\n", "line 3: user 'M\\udcfcller' is not UTF-8; convert the file"),
        ("user,item,rating\n1,2,3\n2,2,4\n".encode("utf-16"), "mine.csv is not text in UTF-8"),
        (bytes(range(256)) * 9, "mine.csv is not text in UTF-8"),
    ],
)
def test_text_that_is_no_table(tmp_path, content, message):
    path = tmp_path / "mine.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=re.escape(message)):
        datasets.read(path)


def test_one_column_twice(tmp_path):
    with pytest.raises(ValueError, match="must be three columns"):
        datasets.read(write(tmp_path / "mine.csv", TABLE), user="item")


@pytest.mark.parametrize("content", [b"", b"garbage" * 99, bytes.fromhex("d0cf11e0a1b11ae1") + bytes(range(256)) * 9])
def test_jester_of_garbage(data, content):
    (data / "jester").mkdir()
    (data / "jester" / "jester-data-1.xls").write_bytes(content)
    with pytest.raises(DataError, match=r"jester-data-1.xls"):
        load("jester-1")


@pytest.mark.parametrize("missing", ["M", "Otest"])
@pytest.mark.parametrize("stand_in", [None, "a group", np.zeros((2, 7)), np.zeros(3)])
def test_monti_of_other_things(data, missing, stand_in):
    (data / "douban-monti").mkdir()
    with h5py.File(data / "douban-monti" / "training_test_dataset.mat", "w") as file:
        for key in {"M", "Otraining", "Otest"} - {missing}:
            file[key] = np.ones((4, 3))
        if isinstance(stand_in, str):
            file.create_group(missing)
        elif stand_in is not None:
            file[missing] = stand_in
    with pytest.raises(DataError, match=r"training_test_dataset.mat"):
        load("douban-monti")


def test_titles_of_garbage(data):
    write(data / "ml-20m" / "movies.csv", 'movieId,title\n1,"open\n2,b\n')
    with pytest.raises(DataError, match=r"movies.csv"):
        datasets.titles("ml-20m")


# --- Complete sets ------------------------------------------------------------------------------------------


def test_a_set_cut_off_at_a_line_is_refused(data, monkeypatch):
    source = replace(sources.SOURCES["ml-100k"], counts=(3, 2, 4))
    monkeypatch.setitem(sources.SOURCES, "ml-100k", source)
    text = lines("{u}\t{i}\t{r}\t0")
    path = write(data / "ml-100k" / "u.data", text)
    assert datasets.load("ml-100k").nnz == 4
    write(path, text[: text.rindex("30")])
    message = f"ml-100k: {path} holds 2 of 3 users, 2 of 2 items, 3 of 4 ratings; get the complete files"
    with pytest.raises(DataError, match=re.escape(message)):
        datasets.load("ml-100k")
    assert datasets.load("ml-100k", allow_incomplete=True).nnz == 3


def test_duplicates_are_counted_as_the_publisher_does(data, monkeypatch):
    source = replace(sources.SOURCES["ml-100k"], counts=(3, 2, 5))
    monkeypatch.setitem(sources.SOURCES, "ml-100k", source)
    write(data / "ml-100k" / "u.data", lines("{u}\t{i}\t{r}\t0") + "1\t10\t5\t9\n")
    assert datasets.load("ml-100k", duplicates="last").nnz == 4


def test_every_set_is_held_to_its_published_counts():
    for name, source in sources.SOURCES.items():
        users, items, ratings = source.counts
        assert max(users, items) <= ratings <= users * items
        if name in datasets.published().index:
            assert source.counts == tuple(datasets.published().loc[name, ["users", "items", "ratings"]])


def test_a_data_folder_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUMF_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"nowhere/ml-1m \(there is no such folder\) or .*/data/raw/ml-1m"):
        datasets.load("ml-1m")


# --- Real files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "users", "items", "ratings", "mean"),
    [
        ("ml-100k", 943, 1_682, 100_000, 3.52986),
        ("ml-latest-small", 610, 9_724, 100_836, 3.50156),
        ("jester-1", 24_983, 100, 1_810_455, 3.17818),
        ("douban-monti", 3_000, 3_000, 136_891, 3.69321),
        ("ml-1m", 6_040, 3_706, 1_000_209, 3.58156),
        ("jester", 73_421, 100, 4_136_360, None),
        ("douban", 129_490, 58_541, 16_830_839, None),
    ],
)
def test_real_files(name, users, items, ratings, mean):
    if not datasets.names().loc[name, "present"]:
        pytest.skip(f"{name} is not in {' or '.join(map(str, files.data_folders()))}")
    loaded = datasets.load(name)
    row = datasets.describe(loaded).loc[name]
    assert tuple(row[["users", "items", "ratings"]]) == (users, items, ratings)
    if mean:
        assert row["mean"] == pytest.approx(mean, abs=1e-5)
    if name in datasets.published().index:
        known = datasets.published().loc[name].dropna()
        assert row[known.index].to_list() == pytest.approx(known.to_list(), rel=2e-3)
