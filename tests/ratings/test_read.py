"""Any table of ratings, in text or Parquet, packed or not: read right, or refused with a reason."""

import csv
import gc
import gzip
import lzma
import struct
import warnings
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpumf.ratings import DataError, files, read_ratings
from small_files import archive, as_pairs, write

STRINGS = {("ann", "x"): 4.0, ("bob", "x"): 2.5, ("bob", "07"): -1.0}


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("tsv", "\t"), ("csv", ";"), ("txt", "|")])
def test_read_text(tmp_path, suffix, delimiter):
    rows = [("stars", "who", "when", "what"), *((r, u, 0, i) for (u, i), r in STRINGS.items())]
    path = write(tmp_path / f"mine.{suffix}", "\n".join(delimiter.join(map(str, row)) for row in rows))
    ratings = read_ratings(path, user="who", item="what", rating="stars")
    assert as_pairs(ratings) == STRINGS
    assert (ratings.name, ratings.scale) == ("mine", None)


def test_read_turns_a_column_of_integers_into_integers(tmp_path):
    path = write(tmp_path / "mine.csv", "user,item,rating\n12,a1,3\n5,5,4\n")
    ratings = read_ratings(path)
    assert ratings.user_ids.tolist() == [5, 12]
    assert ratings.item_ids.tolist() == ["5", "a1"]


def test_read_quoted_fields(tmp_path):
    path = write(tmp_path / "mine.csv", 'user,item,rating\n"Ann, B.",x,3\nbob,x,"4"\n')
    assert as_pairs(read_ratings(path)) == {("Ann, B.", "x"): 3, ("bob", "x"): 4}


@pytest.mark.parametrize("as_category", [False, True])
def test_read_parquet(tmp_path, as_category):
    frame = pd.DataFrame([(u, i, r) for (u, i), r in STRINGS.items()], columns=["user", "item", "rating"])
    if as_category:
        frame = frame.astype({"user": "category"})
    frame.to_parquet(tmp_path / "mine.parquet")
    assert as_pairs(read_ratings(tmp_path / "mine.parquet")) == STRINGS


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
    assert as_pairs(read_ratings(tmp_path / name)) == TABLE_PAIRS


@pytest.mark.parametrize("how", ["gzip", "bz2", "xz", "zstd", "lz4"])
@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b[:12] + bytes(9) + b[21:], lambda b: b[:7]])
def test_read_damaged_packed_text(tmp_path, how, damage):
    path = tmp_path / "mine.csv"
    path.write_bytes(damage(packed(TABLE * 50, how)))
    with pytest.raises(DataError, match=r"mine.csv"):
        read_ratings(path)


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
    assert as_pairs(read_ratings(path)) == TABLE_PAIRS


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zips_read_right_or_fail_in_one_way(tmp_path, method):
    path = tmp_path / "mine.csv"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("ratings.csv", TABLE)
    assert as_pairs(read_ratings(path)) == TABLE_PAIRS
    content = path.read_bytes()
    for start in range(30, len(content), 7):
        path.write_bytes(content[:start] + bytes(5) + content[start + 5 :])
        try:
            assert as_pairs(read_ratings(path)) == TABLE_PAIRS
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
        read_ratings(tmp_path / "mine.zip")


def test_a_zip_without_files_is_called_empty(tmp_path):
    with pytest.raises(DataError, match=r"mine\.zip is an empty archive: it holds 0 files; pack it again"):
        read_ratings(archive(tmp_path / "mine.zip", {}))


@pytest.mark.parametrize("start", [0, 4, 40, 400, 0.5, 0.9])
def test_damaged_parquet(tmp_path, start):
    frame = pd.DataFrame([(u, i, r) for (u, i), r in TABLE_PAIRS.items()] * 40, columns=["user", "item", "rating"])
    content = frame.to_parquet()
    start = start if isinstance(start, int) else int(start * len(content))
    path = tmp_path / "mine.parquet"
    for damaged in (content[:start], content[:start] + b"\xff" * 20 + content[start + 20 :]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"mine.parquet"):
            read_ratings(path)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("rating", pd.to_datetime(["2001-01-01"] * 3), "row 0: ratings of type datetime64"),
        ("user", pd.to_datetime(["2001-01-01"] * 3), "column 'user' is of type timestamp"),
        ("item", [True, False, True], "column 'item' is of type bool"),
        ("rating", [4, 1e39, 1], r"row 1: rating 1e\+39 is beyond the range of 32 bits"),
        ("user", [7.5, 8, 8], "row 0: user id 7.5 among others"),
        ("item", ["a", None, "b"], "row 1: the item id is missing"),
    ],
)
def test_parquet_columns_that_are_no_ratings(tmp_path, column, values, message):
    frame = pd.DataFrame({"user": [7, 8, 8], "item": [10, 10, 11], "rating": [4, 2.5, 1]})
    frame.assign(**{column: values}).to_parquet(tmp_path / "mine.parquet")
    with pytest.raises(DataError, match=message):
        read_ratings(tmp_path / "mine.parquet")


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
    assert as_pairs(read_ratings(tmp_path / "mine.parquet")) == TABLE_PAIRS


@pytest.mark.parametrize(
    "kind", [*map(pa.timestamp, ("s", "ms", "us", "ns")), pa.timestamp("us", "Asia/Tokyo"), pa.date32(), pa.date64()]
)
def test_times_of_parquet_may_be_dates(tmp_path, kind):
    seconds = np.array([86_400, 0, 10**5 * 86_400])
    times = pa.array(seconds).cast(pa.timestamp("s")).cast(kind)
    table = {"user": [7, 8, 8], "item": [10, 10, 11], "rating": [True, False, True], "when": times}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    ratings = read_ratings(tmp_path / "a.parquet", time="when")
    assert ratings.times.tolist() == seconds.tolist() and ratings.values.tolist() == [1, 0, 1]
    pq.write_table(
        pa.table(table | {"user": [1, 2, 3], "when": times.cast(pa.timestamp("ns"))}), tmp_path / "b.parquet"
    )
    assert read_ratings(tmp_path, time="when").times.tolist() == 2 * seconds.tolist()
    pq.write_table(pa.table(table | {"user": [1, 2, 3], "when": seconds}), tmp_path / "b.parquet")
    with pytest.raises(
        DataError, match=r"a\.parquet, row 0: a date where .*b\.parquet, row 0 has none; give dates in"
    ):
        read_ratings(tmp_path, time="when")


@pytest.mark.parametrize("pack", [None, "gzip"])
@pytest.mark.parametrize("delimiter", [None, ","])
def test_no_file_is_left_open(tmp_path, pack, delimiter):
    path = tmp_path / "mine.csv"
    path.write_bytes(packed(TABLE, pack) if pack else TABLE.encode())
    with warnings.catch_warnings(record=True, action="always") as caught:
        read_ratings(path, delimiter=delimiter)
        with pytest.raises(DataError, match="off the scale"):
            read_ratings(path, scale=(1, 3), delimiter=delimiter)
        gc.collect()
    assert not [warning for warning in caught if warning.category is ResourceWarning]


@pytest.mark.parametrize("place", ["header", "first row", "last row"])
def test_fields_may_be_longer_than_csv_takes(tmp_path, place):
    names, first, *rows, last = (f"{line}," for line in TABLE.splitlines())
    note = "a long note, " * 20_000
    lines = {"header": names, "first row": first, "last row": last}
    text = "\n".join([names, first, *rows, last, ""]).replace(lines[place], f'{lines[place]}"{note}"')
    path = write(tmp_path / "mine.csv", text)
    before = csv.field_size_limit()
    assert as_pairs(read_ratings(path)) == TABLE_PAIRS
    write(path, text + "9,9,x,\n")
    with pytest.raises(DataError, match="line 5: rating 'x' is not a number"):
        read_ratings(path)
    assert csv.field_size_limit() == before


def test_messages_have_room_for_long_fields(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_FIELD", 200_000)
    for text, message in {
        TABLE + f"9,9,{'x' * 150_000}\n": r"line 5: rating 'xxx.* is not a number",
        f'user,item,rating\n1,2,"{"x," * 150_000}\n': r"line 2: field larger than field limit \(200000\); is",
        f"one,two,{'x,' * 50_000}\n1,2,3\n": "line 1: no column 'user' among",
        "[" + '{"user": 1, "item": 2, "rating": 3}, ' * 5_000 + "]": "mine.csv is no CSV, but JSON as it seems",
    }.items():
        with pytest.raises(DataError, match=message) as caught:
            read_ratings(write(tmp_path / "mine.csv", text))
        assert len(str(caught.value)) < 500


def test_large_integers_may_come_as_floats(tmp_path):
    pd.DataFrame({"user": [2.0**25, 2.0**26], "item": [3, 3], "rating": [1, 2]}).to_parquet(tmp_path / "mine.parquet")
    assert read_ratings(tmp_path / "mine.parquet").user_ids.tolist() == [2**25, 2**26]


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
    assert as_pairs(read_ratings(path)) == TABLE_PAIRS


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
    assert read_ratings(path).user_ids.tolist() == ids
