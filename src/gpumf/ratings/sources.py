"""The data sets by name: where each lies, how it is laid out, and how to load it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpumf._util.validation import flag, path_of
from gpumf.ratings import files, layouts
from gpumf.ratings.checks import DataError, Duplicates, check_scale
from gpumf.ratings.layouts import Delimited
from gpumf.ratings.ratings import Ratings
from gpumf.ratings.statistics import COUNTS
from gpumf.ratings.synthetic import RECIPES, synthetic_ratings

if TYPE_CHECKING:
    import os

    import pandas as pd


@dataclass(frozen=True)
class Source:
    """A published data set.

    layout : function of one list of `DataFile` a part that returns `Columns`
    counts : (users, items, ratings) of the complete set, as published
    parts : the file name patterns of the parts, as `files.find` takes them; the last ones, `optional`, may be missing
    scale : (lowest, highest) rating in the files, or None for implicit feedback
    folder : where it lies within the data folders; its name by default
    titles : the file name pattern of the items' titles, where the publisher gives them
    archives : (address, checksum) of the publisher's archives, where the licence lets anyone download them
    """

    description: str
    layout: Callable
    counts: tuple[int, int, int]
    parts: tuple[str, ...]
    scale: tuple[float, float] | None
    folder: str | None = None
    optional: int = 0
    titles: str | None = None
    archives: tuple[tuple[str, str], ...] = ()

    def found(self, name):
        """The files of each part, and the patterns of those that are missing though they may not."""
        parts = [files.find(self.folder or name, pattern) for pattern in self.parts]
        required = len(parts) - self.optional
        return parts, [pattern for pattern, part in zip(self.parts[:required], parts, strict=False) if not part]


def _movielens(name, checksum, description, layout, counts=None, file="ratings.csv", scale=(0.5, 5)):
    archives = ((f"https://files.grouplens.org/datasets/movielens/{name}.zip", checksum),)
    named = {"titles": "u.item|movies.dat|movies.csv", "archives": archives}
    return Source(f"MovieLens {description}", layout, counts or COUNTS[name], (file,), scale, **named)


def _jester(description, counts, *parts):
    checksums = (
        "sha256:cb7841756ded125b15f3d95c9f8241224065e96354c132a46ae4214deeab7615",
        "sha256:4d312fd824d8c8cb2c9c952a7b1fb7c00d1f5fd3ece370f7285aa701d371748b",
        "sha256:7f548d3762d3506cf7cd37d8cb9e3adb67984a7da7aa2d2096d5e0b1b884758d",
    )
    return Source(
        description,
        layouts.jester,
        counts,
        tuple(f"jester-data-{part}.csv|jester-data-{part}.xls" for part in parts),
        (-10, 10),
        "jester",
        archives=tuple(
            (f"https://eigentaste.berkeley.edu/dataset/jester_dataset_1_{part}.zip", checksums[part - 1])
            for part in parts
        ),
    )


def _monti(description, scale, ratings):
    files = "training_test_dataset.mat|training_test_dataset_10_NNs.mat"
    description = f"{description}, 3,000 x 3,000 sample of Monti et al. 2017"
    return Source(description, layouts.monti, (3_000, 3_000, ratings), (files,), scale)


_CSV = Delimited(",", None, "userId", "movieId", time="timestamp")
_ML_1M = "ratings.dat|ratings.csv|ratings.csv.gz"
_DOUBLE_COLON, _ML_1M_LAYOUT = (kind(*layouts.DOUBLE_COLON) for kind in (Delimited, layouts.MovieLens1M))

_MOVIELENS = {  # checksum, description and layout; what is not as of most: counts, file, scale
    "ml-100k": ("md5:0e33842e24a9c977be4e0107933c0723", "100K: 943 users, 1998", Delimited("\t")),
    "ml-latest-small": (
        "sha256:696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
        "latest small: 610 users, September 2018",
        _CSV,
    ),
    "ml-1m": ("md5:c4d9eecfca2ab87c1945afe126590906", "1M: 6,040 users, 2003", _ML_1M_LAYOUT),
    "ml-10m": ("md5:ce571fd55effeba0271552578f2648bd", "10M: 69,878 users, 2009", _DOUBLE_COLON),
    "ml-20m": ("md5:cd245b17a1ae2cc31bb14903e1204af3", "20M: 138,493 users, 2015", _CSV),
    "ml-25m": ("md5:6b51fb2759a8657d3bfcbfc42b592ada", "25M: 162,541 users, 2019", _CSV),
    "ml-32m": ("md5:d472be332d4daa821edc399621853b57", "32M: 200,948 users, 2024", _CSV),
}
_OTHERWISE: dict[str, dict] = {
    "ml-100k": {"file": "u.data", "scale": (1, 5)},
    "ml-latest-small": {"counts": (610, 9_724, 100_836)},
    "ml-1m": {"file": _ML_1M, "scale": (1, 5)},
    "ml-10m": {"file": "ratings.dat"},
    "ml-25m": {"counts": (162_541, 59_047, 25_000_095)},
    "ml-32m": {"counts": (200_948, 84_432, 32_000_204)},
}

SOURCES = {
    **{name: _movielens(name, *row, **_OTHERWISE.get(name, {})) for name, row in _MOVIELENS.items()},
    "jester": _jester("Jester dataset 1: 73,421 users, 100 jokes, 1999-2003", COUNTS["jester"], 1, 2, 3),
    "jester-1": _jester("Jester dataset 1, part 1: 24,983 users, 100 jokes", (24_983, 100, 1_810_455), 1),
    "douban": Source(
        "Douban movies of Ma et al. 2011: 129,490 users", layouts.whitespace, COUNTS["douban"], ("uir.index",), (1, 5)
    ),
    "douban-monti": _monti("Douban", (1, 5), 136_891),
    "flixster-monti": _monti("Flixster", (0.5, 5), 26_173),
    "yahoomusic-monti": _monti("Yahoo! Music", (1, 100), 5_335),
    "ncf-ml-1m": Source(
        "MovieLens 1M, official test set: the rating of each user that He et al. 2017 left out",
        layouts.leave_one_out,
        COUNTS["ml-1m"],
        ("|".join(f"../ml-1m/{name}" for name in _ML_1M.split("|")), "ml-1m.test.rating"),
        (1, 5),
    ),
    "gowalla": Source(
        "Gowalla check-ins, implicit feedback: 29,858 users; official test set: that of LightGCN",
        layouts.item_lists,
        (29_858, 40_981, 1_027_370),
        ("train.txt|train.txt.gz", "test.txt|test.txt.gz"),
        None,
    ),
    "netflix": Source(
        "Netflix Prize: 480,189 users; official test set: the probe",
        layouts.netflix,
        COUNTS["netflix"],
        ("combined_data_*.txt|mv_*.txt", "probe.txt"),
        (1, 5),
        optional=1,
    ),
    "yahoomusic": Source(
        "Yahoo! Music, KDD Cup 2011 track 1: 1,000,990 users; official test set: the validation file",
        layouts.yahoomusic,
        COUNTS["yahoomusic"],
        ("trainIdx1.txt", "validationIdx1.txt"),
        (0, 100),
    ),
}


def load_dataset(
    name: str,
    *,
    duplicates: Duplicates = "error",
    rescale: bool = True,
    seed: int = 0,
    allow_incomplete: bool = False,
) -> Ratings:
    """Load a data set by name, from $GPUMF_DATA or else data/raw, or generate a synthetic data set.

    Parameters
    ----------
    name : str, a row of `names()`: a published set, in its publisher's file layout, or "<set>-synthetic"
    duplicates : "error", or keep one rating a pair of user and item: the "mean", or the "last" in the file
    rescale : whether Jester's -10..10 becomes 1..5 by round((x + 10) / 20 * 4 + 1), halves to even
    seed : int, of a synthetic data set
    allow_incomplete : whether to take what is there where it is not the published number of users, items and ratings

    Returns
    -------
    Ratings, with the SHA-256 of its unpacked files; `official_split()` works where the publisher fixed a test set

    Raises
    ------
    DataError : an unknown or absent set; a file that cannot be read; ratings that `Ratings.from_arrays` refuses;
        another number of users, items or ratings than the publisher's

    >>> load_dataset("ml-100k-synthetic", seed=1).nnz
    100000
    """
    if isinstance(name, str) and name.endswith("-synthetic"):
        return synthetic_ratings(name.removesuffix("-synthetic"), seed)
    if not isinstance(name, str) or name not in SOURCES:
        raise DataError(f"there is no data set {name!r}; there are {', '.join(dataset_names().index)}")
    source = SOURCES[name]
    parts = _parts(name, source)
    with files.hashed([file for part in parts for file in part]) as digest:
        columns = source.layout(*parts)
    place = ", ".join(str(part[0]) for part in parts if part)
    ratings = Ratings.from_arrays(
        **columns._asdict(),
        scale=source.scale,
        duplicates=duplicates,
        name=name,
        sha256=digest.result(),
        source=place,
    )
    counts = ratings.n_users, ratings.n_items, len(columns.values)
    if counts != source.counts and not allow_incomplete:
        found = ", ".join(
            f"{count:,} of {published:,} {what}"
            for count, published, what in zip(counts, source.counts, ("users", "items", "ratings"), strict=True)
        )
        raise DataError(
            f"{name}: {place} holds {found}; get the complete files, or pass allow_incomplete=True to take these"
        )
    if source.layout is layouts.jester and rescale:
        return replace(ratings, values=np.rint((ratings.values + 10) / 20 * 4 + 1), scale=(1, 5))
    return ratings


def rating_times(name: str) -> np.ndarray:
    """When each rating of `load(name)` was given, in its order: float64 (nnz,), seconds since 1970.

    Raises
    ------
    DataError : an unknown or absent set, one whose files do not say, or a rating without a time

    >>> rating_times("jester1")
    Traceback (most recent call last):
        ...
    gpumf.ratings.checks.DataError: jester1 does not say when its ratings were given
    """
    source = SOURCES.get(name)
    if not (source and isinstance(source.layout, Delimited) and not source.layout.block):
        raise DataError(f"{name} does not say when its ratings were given")
    found = _parts(name, source)[0]
    with files.unchanged(found):
        columns = replace(source.layout, rating=source.layout.time)(found)
    wrong = np.flatnonzero(~((columns.values >= 0) & (columns.values < np.inf)))
    if len(wrong):
        where, value = columns.locate(wrong[0]), columns.values[wrong[0]]
        raise DataError(f"{where}: {value} is no time in seconds since 1970; correct it")
    return columns.values


def item_titles(name: str) -> pd.Series | None:
    """What the items of a data set are called: a Series of str by original id, or None where no file says.

    >>> print(item_titles("jester1"))
    None
    """
    source = SOURCES.get(name)
    found = files.find(source.folder or name, source.titles) if source and source.titles else []
    with files.unchanged(found[:1]):
        return layouts.titles(found[0]) if found else None


def read_ratings(
    path: str | os.PathLike,
    user: str | int | None = None,
    item: str | int | None = None,
    rating: str | int | None = "rating",
    *,
    time: str | int | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    header: bool = True,
    scale: tuple[float, float] | None = None,
    duplicates: Duplicates | None = None,
    one_user: bool = False,
) -> Ratings:
    """Read any CSV, TSV or Parquet files with a column each of users, items and ratings.

    Parameters
    ----------
    path : of a Parquet file, or of a text file, a rating a line; packed (gzip, bz2, xz, zstd, lz4, or alone in a zip)
        or not. What a file is, its first bytes say and not its name. Of a folder all files that are named .csv, .tsv,
        .txt or .parquet, packed or not; '-' is standard input, and an address with :// what is there (https
        and ftp; of stores, such as s3, what fsspec opens)
    user, item, rating : names of the three columns, 'user', 'item' and 'rating' by default; ids are integers from 0
        where all of a column are (7 or 7.0), in all files of a folder, else strings, without the blanks around them.
        rating=None for implicit feedback, each row of which counts 1
    time : name of the column that says when, a number, in Parquet also a date or a timestamp; or None
    delimiter : of a text file, one character; by default of tab, comma, semicolon and bar the one that gives most
        columns, or a blank where these give no three
    encoding : of a text file, a name that Python knows
    header : bool, whether the first line of a text file names the columns; otherwise columns are numbers from 0, by
        default 0, 1 and 2
    scale : (lowest, highest) possible rating; a rating off it is an error
    duplicates, one_user : as in `Ratings.from_arrays`

    Returns
    -------
    Ratings, named after the file or the folder

    Raises
    ------
    TypeError : a path that is none
    ValueError : columns that are not three, a delimiter or an encoding that is none
    DataError : no such file; a file that cannot be read; ratings that `Ratings.from_arrays` refuses

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "mine.csv")
    ...     _ = path.write_text("who,what,stars\\nann,x,4\\nbob,x,5\\nbob,y,3\\n")
    ...     ratings = read_ratings(path, "who", "what", "stars", scale=(1, 5))
    >>> ratings.name, ratings.nnz, list(ratings.user_ids)
    ('mine', 3, ['ann', 'bob'])
    """
    defaults = ("user", "item", "rating") if header else (0, 1, 2)
    given = user, item, defaults[2] if rating == "rating" else rating
    wanted = [default if name is None else name for name, default in zip(given[:2], defaults, strict=False)]
    wanted.append(given[2])
    if len(set(wanted)) < 3 or (time is not None and time in wanted):
        raise ValueError(f"user, item and rating must be three columns, time another one, not {[*wanted, time]}")
    if delimiter is not None and (
        not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0'
    ):
        raise ValueError(f"delimiter must be one character, of ASCII and no quote or line end, not {delimiter!r}")
    try:
        "".encode(encoding)  # which refuses codecs that are not of text
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"encoding must be one that Python knows, such as 'latin-1', not {encoding!r}") from error
    flag("header", header)
    check_scale(scale)
    path_of(path)
    name, found = files.sources(path, encoding)
    with files.hashed(found) as digest:

        def read_columns(*names):
            return layouts.stacked(
                [
                    layouts.parquet(file, *names)
                    if file.read(0, min(4, file.size)) == files.PARQUET
                    else layouts.delimited(file, *names, delimiter, header)([file])
                    for file in found
                ]
            )

        columns = read_columns(*wanted)
        times = None if time is None else read_columns(*wanted[:2], time).values
    return Ratings.from_arrays(
        **columns._asdict(),
        scale=scale,
        duplicates=duplicates,
        one_user=one_user,
        times=times,
        name=name,
        sha256=digest.result(),
        source=str(found[0]) if len(found) == 1 else str(path),
    )


def dataset_names() -> pd.DataFrame:
    """What `load` can load: a DataFrame indexed by name.

    Columns: description; present, whether its files are found or it is generated; download, whether
    `python -m gpumf.ratings <name>` fetches it.

    >>> bool(dataset_names().loc["ml-100k-synthetic", "present"])
    True
    """
    import pandas as pd

    rows = {
        name: (source.description, not source.found(name)[1], bool(source.archives))
        for name, source in SOURCES.items()
    }
    for name in RECIPES:
        rows[f"{name}-synthetic"] = (f"synthetic set with the published shape of {name}", True, False)
    return pd.DataFrame.from_dict(rows, orient="index", columns=["description", "present", "download"])


def _parts(name, source):
    """The files of each part of a data set; DataError where one is missing."""
    parts, missing = source.found(name)
    if not missing:
        return parts
    places = " or ".join(
        f"{folder / (source.folder or name)}{'' if folder.is_dir() else ' (there is no such folder)'}"
        for folder in files.data_folders()
    )
    places = places or "any folder, as neither GPUMF_DATA nor HOME is set"
    remedy = (
        f"run `python -m gpumf.ratings {name}`"
        if source.archives
        else "its terms do not allow a download from here: get it from its publisher"
    )
    raise DataError(f"{name}: no file {missing[0].replace('|', ' or ')} in {places}; {remedy}, or set GPUMF_DATA")
