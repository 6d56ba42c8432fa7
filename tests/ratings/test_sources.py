"""The data sets by name: complete ones, their times and titles, and those that are not there."""

import re
from dataclasses import replace

import pytest

from gpumf.ratings import (
    DataError,
    dataset_names,
    describe,
    files,
    item_titles,
    load_dataset,
    published_shapes,
    rating_times,
    sources,
)
from small_files import ONE_A_LINE, PAIRS, lines, load, write


@pytest.mark.parametrize("name", ["ml-100k", "ml-1m", "ml-20m"])
def test_times_are_in_the_order_of_the_ratings(data, name):
    path, template, header = next((p, t, h) for n, p, t, h in ONE_A_LINE if n == name)
    given = [template.rstrip("0123456789") + str(900 - k) for k in range(len(PAIRS))]
    rows = [line.format(u=u, i=i, r=int(r)) for line, ((u, i), r) in zip(given, PAIRS.items(), strict=True)]
    write(data / name / path, header + "\n".join(rows) + "\n")
    assert list(rating_times(name)) == [900, 899, 898, 897] and load(name).nnz == 4


@pytest.mark.parametrize("time", ["", "nan", "inf", "-1", "yesterday"])
def test_a_rating_without_a_time_is_named(data, time):
    write(data / "ml-100k/u.data", f"1\t1\t3\t881250949\n1\t2\t4\t{time}\n2\t1\t5\t-7\n")
    with pytest.raises(DataError, match=r"u\.data, line 2: "):
        rating_times("ml-100k")


def test_sets_that_do_not_say_when_their_ratings_were_given(data):
    for name in ("jester-1", "ml-100k-synthetic", "netflix", "nothing"):
        with pytest.raises(DataError, match="does not say when"):
            rating_times(name)
    with pytest.raises(DataError, match=r"no file u\.data"):
        rating_times("ml-100k")


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("ml-100k", "u.item", '7|Amélie, or "so" (1)|01-Jan||http|0\n2|B|\n'),
        ("ml-1m", "movies.dat", '7::Amélie, or "so" (1)::Comedy|Drama\n2::B::Drama\n'),
        ("ml-20m", "movies.csv", 'movieId,title,genres\n7,"Amélie, or ""so"" (1)",Comedy|Drama\n2,B,Drama\n'),
    ],
)
def test_titles_by_id(data, name, file, text):
    assert item_titles(name) is None and item_titles("jester-1") is None
    (data / name).mkdir()
    (data / name / file).write_bytes(text.encode("utf-8" if file.endswith("csv") else "latin-1"))
    assert dict(item_titles(name)) == {7: 'Amélie, or "so" (1)', 2: "B"}


def test_names_say_what_is_present(data):
    write(data / "ml-100k" / "u.data", lines("{u}\t{i}\t{r}\t0"))
    names = dataset_names()
    assert names.loc["ml-100k", "present"] and names.loc["douban-synthetic", "present"]
    assert not names.loc["douban", "download"]
    assert names.loc["ml-1m", "download"]
    assert (names.description.str.len() > 0).all() and not names.description.str.contains("\n").any()


def test_titles_of_garbage(data):
    write(data / "ml-20m" / "movies.csv", 'movieId,title\n1,"open\n2,b\n')
    with pytest.raises(DataError, match=r"movies.csv"):
        item_titles("ml-20m")


def test_a_set_cut_off_at_a_line_is_refused(data, monkeypatch):
    source = replace(sources.SOURCES["ml-100k"], counts=(3, 2, 4))
    monkeypatch.setitem(sources.SOURCES, "ml-100k", source)
    text = lines("{u}\t{i}\t{r}\t0")
    path = write(data / "ml-100k" / "u.data", text)
    assert load_dataset("ml-100k").nnz == 4
    write(path, text[: text.rindex("30")])
    message = f"ml-100k: {path} holds 2 of 3 users, 2 of 2 items, 3 of 4 ratings; get the complete files"
    with pytest.raises(DataError, match=re.escape(message)):
        load_dataset("ml-100k")
    assert load_dataset("ml-100k", allow_incomplete=True).nnz == 3


def test_duplicates_are_counted_as_the_publisher_does(data, monkeypatch):
    source = replace(sources.SOURCES["ml-100k"], counts=(3, 2, 5))
    monkeypatch.setitem(sources.SOURCES, "ml-100k", source)
    write(data / "ml-100k" / "u.data", lines("{u}\t{i}\t{r}\t0") + "1\t10\t5\t9\n")
    assert load_dataset("ml-100k", duplicates="last").nnz == 4


def test_a_line_a_user_with_the_second_file_as_test_set(data):
    write(data / "gowalla/train.txt", "0 0 1\n1 2\n")
    write(data / "gowalla/test.txt", "0 2\n1\n")
    loaded = load("gowalla")
    train, test = loaded.official_split()
    assert (
        list(zip(train.users, train.items, strict=True)) == [(0, 0), (0, 1), (1, 2)]
        and train.values.tolist() == [1] * 3
    )
    assert list(zip(test.users, test.items, strict=True)) == [(0, 2)] and loaded.scale is None
    write(data / "gowalla/test.txt", "0 2 x\n")
    with pytest.raises(DataError, match=r"test\.txt.*a line must have ids"):
        load("gowalla")


def test_pairs_that_were_left_out_count_in_the_order_of_the_ratings(data):
    write(data / "ml-1m/ratings.csv", "user,item,rating\n7,30,5\n7,10,3\n9,30,4\n9,20,1\n")
    write(data / "ncf-ml-1m/ml-1m.test.rating", "0\t1\t3\t0\n1\t2\t1\t0\n")
    train, test = load("ncf-ml-1m").official_split()
    assert train.values.tolist() == [5, 4] and test.values.tolist() == [3, 1]
    write(data / "ncf-ml-1m/ml-1m.test.rating", "0\t2\t3\t0\n")
    with pytest.raises(DataError, match="0 of its 1 pairs are rated"):
        load("ncf-ml-1m")


def test_every_set_is_held_to_its_published_counts():
    for name, source in sources.SOURCES.items():
        users, items, ratings = source.counts
        assert max(users, items) <= ratings <= users * items
        if name in published_shapes().index:
            assert source.counts == tuple(published_shapes().loc[name, ["users", "items", "ratings"]])


@pytest.mark.parametrize(
    ("name", "users", "items", "ratings", "mean"),
    [
        ("ml-100k", 943, 1_682, 100_000, 3.52986),
        ("ml-latest-small", 610, 9_724, 100_836, 3.50156),
        ("jester-1", 24_983, 100, 1_810_455, 3.17818),
        ("douban-monti", 3_000, 3_000, 136_891, 3.69321),
        ("ml-1m", 6_040, 3_706, 1_000_209, 3.58156),
        ("ncf-ml-1m", 6_040, 3_706, 1_000_209, 3.58156),
        ("gowalla", 29_858, 40_981, 1_027_370, 1.0),
        ("jester", 73_421, 100, 4_136_360, None),
        ("douban", 129_490, 58_541, 16_830_839, None),
    ],
)
def test_real_files(name, users, items, ratings, mean):
    if not dataset_names().loc[name, "present"]:
        pytest.skip(f"{name} is not in {' or '.join(map(str, files.data_folders()))}")
    loaded = load_dataset(name)
    row = describe(loaded).loc[name]
    assert tuple(row[["users", "items", "ratings"]]) == (users, items, ratings)
    if mean:
        assert row["mean"] == pytest.approx(mean, abs=1e-5)
    if name in published_shapes().index:
        known = published_shapes().loc[name].dropna()
        assert row[known.index].to_list() == pytest.approx(known.to_list(), rel=2e-3)
