"""The official file layouts, written small, read back; and what is said of broken ones."""

import struct
import sys

import h5py
import numpy as np
import pytest

from gpumf.ratings import DataError
from refusals import table
from small_files import ONE_A_LINE, PAIRS, archive, as_pairs, lines, load, write


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


@pytest.mark.parametrize(
    ("package", "name", "file"),
    [("h5py", "douban-monti", "training_test_dataset.mat"), ("xlrd", "jester-1", "jester-data-1.xls")],
)
def test_a_file_whose_package_is_missing_names_the_extra(data, monkeypatch, package, name, file):
    write(data / name.removesuffix("-1") / file, "anything")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DataError, match=rf'{file} needs the package {package}: install .*"gpumf\[data\]"'):
        load(name)


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


def test_yahoomusic_and_its_validation_set(data):
    write(
        data / "yahoomusic" / "trainIdx1.txt",
        "0|2\n507696\t90\t4\t23:17\n137915\t0\t4\t23:18\n5|1\n137915\t100\t5\t11:00\n",
    )
    write(data / "yahoomusic" / "validationIdx1.txt", "5|1\n507696\t30\t6\t11:00\n")
    ratings = load("yahoomusic")
    assert as_pairs(ratings) == {(0, 507696): 90, (0, 137915): 0, (5, 137915): 100, (5, 507696): 30}
    assert as_pairs(ratings.official_split()[1]) == {(5, 507696): 30}


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


def of_netflix(text, **others):
    return {"netflix/combined_data_1.txt": text} | {f"netflix/{name}.txt": other for name, other in others.items()}


def of_yahoomusic(train, validation="30\t6\t11:00"):
    given = {"trainIdx1": f"0|2\n507696\t90\t4\t23:17\n{train}", "validationIdx1": f"5|1\n507696\t{validation}\n"}
    return {f"yahoomusic/{name}.txt": text for name, text in given.items()}


def of_ml_100k(line):
    """The blank second line counts as a line and not as a rating."""
    return {"ml-100k/u.data": f"1\t10\t4\t0\n\n1\t20\t2\t0\n{line}\n30\t20\t1\t0\n"}


JESTER_1, MONTI = "jester/jester-data-1.csv", "douban-monti/training_test_dataset.mat"
# Of which set, its files, what it says.
BROKEN = {
    "a row cut off": ("jester-1", {JESTER_1: "3,1,2,99,4\n3,1,2,99,99\n"}, "1.csv, row 2: 2 ratings, but .* says 3"),
    "a word": ("jester-1", {JESTER_1: "3,1,2,99,4\n3,1,99,ten,1\n"}, "1.csv, row 2, joke 3: rating nan is not a"),
    "a large cell": ("jester-1", {JESTER_1: "3,1,2,99,4\n3,1,99,10.5,1\n"}, "joke 3: rating 10.5 is off the scale"),
    "no MATLAB": ("douban-monti", {MONTI: "text"}, "training_test_dataset.mat.*complete MATLAB"),
    "a probe of an unrated movie": (
        "netflix", of_netflix(NETFLIX[1] + NETFLIX[2], probe="2:\n1488844\n"), "probe.txt: 1 of its 1 pairs are not"),
    "no movie": ("netflix", of_netflix("1488844,3,2005-09-06\n"), "a rating before the first line 'id:'"),
    "a rating before its movie": (
        "netflix", of_netflix("1488844,3,2005-09-06\n" + NETFLIX[1]), "a rating before the first line 'id:'"),
    "a line behind openings": (
        "netflix", of_netflix(NETFLIX[1] + "2:\n822109,6,2005-07-05\n"), "1.txt, line 5: rating 6 is off the scale"),
    "a block cut off": ("yahoomusic", of_yahoomusic(""), r"trainIdx1.txt: 1 ratings follow the line '0\|2'"),
    "to train on": (
        "yahoomusic", of_yahoomusic("137915\t101\t4\t23:18\n"), "trainIdx1.txt, line 3: rating 101 is off"),
    "to validate with": (
        "yahoomusic", of_yahoomusic("137915\t0\t4\t23:18\n", "-1\t6\t11:00"), "validationIdx1.txt, line 2: rating"),
    "a word for a rating": ("ml-100k", of_ml_100k("7\t10\tfour\t0"), "line 4: rating 'four' is not a number;"),
    "a word for a user": ("ml-100k", of_ml_100k("x7\t10\t4\t0"), "u.data, line 4: user 'x7' is not an integer"),
    "off the scale": ("ml-100k", of_ml_100k("7\t10\t6\t0"), "line 4: rating 6 is off the scale 1 to 5"),
    "a large item": ("ml-100k", of_ml_100k(f"7\t{10**20}\t4\t0"), f"line 4: item '{10**20}' is not an integer of 64"),
    "a decimal user": ("ml-100k", of_ml_100k("7.0\t10\t4\t0"), "line 4: user '7.0' is not an integer"),
    "behind a header": (
        "ml-20m", {"ml-20m/ratings.csv": "userId,movieId,rating,timestamp\n1,10,4.0,0\n2,10,9.0,0\n"},
        "ratings.csv, line 3: rating 9 is off"),
}  # fmt: skip


@table(BROKEN)
def test_a_broken_file_says_where(data, case):
    name, given, words = case
    for path, text in given.items():
        write(data / path, text)
    with pytest.raises(DataError, match=words):
        load(name)
