"""The file layouts that rating sets are published in, each read into plain columns."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from gpumf._util.validation import brief
from gpumf.ratings import reading
from gpumf.ratings.checks import DataError, joined_ids, plain_ids
from gpumf.ratings.columns import Coded
from gpumf.ratings.files import of_extra

_POINTED = re.compile(r"-?[0-9]+\.0+")
"""A whole number with a point."""
_LINE_END = re.compile(r"\r\n?|\n")
_WITHOUT = ", or rating=None where there are no ratings"


class Columns(NamedTuple):
    """Ratings as they stand in files: the arguments of `Ratings.from_arrays` that a layout knows."""

    users: np.ndarray
    items: np.ndarray
    values: np.ndarray | None
    locate: Callable[[int], str]
    test_mask: np.ndarray | None = None
    shape: tuple[int, int] | None = None


@dataclass(frozen=True)
class Delimited:
    """One rating a line, its fields separated by one character; more fields than the three are passed over.

    names : of the fields, in order; None where the first line names them
    block : the character that ends the id on a line of its own, which all ratings up to the next such line share;
        a number after it counts those ratings. The field of that id is then not in `names`
    integers : whether ids are integers; otherwise they become integers where all of a column's are
    rating, time : None for implicit feedback; when a rating was given, in seconds since 1970, where that is a field
    """

    delimiter: str
    names: tuple[str, ...] | None = ("user", "item", "rating", "time")
    user: str = "user"
    item: str = "item"
    rating: str | None = "rating"
    time: str = "time"
    block: str | None = None
    integers: bool = True

    def __call__(self, files):
        return stacked([self._read(file) for file in files])

    def _read(self, file):
        import pyarrow as pa

        if next(file.lines(), None) is None:
            raise DataError(f"{file} is empty: it holds no ratings; get it again")
        if b"\0" in file.read(0, min(4096, file.size)):
            raise DataError(
                f"{file} is not text in UTF-8; convert it, pass `encoding` to read_ratings, or check the file"
            )
        names, header_lines = (self.names, 0) if self.names is not None else self._header(file)
        ids = [name for name in (self.user, self.item) if name in names]

        def locate(k):
            number, _ = next(islice(self._ratings(file, names), int(k), None))
            return f"{file}, line {number}"

        if next(self._ratings(file, names), None) is None:
            return Columns(*(np.empty(0, dtype) for dtype in (np.int64, np.int64, np.float64)), locate)
        given = names, header_lines, self.delimiter, ids, self.rating, self.integers, self.block
        try:
            columns, openings = reading.text(file, *given)
        except pa.ArrowException as error:
            raise self._first_bad_line(file, names, ids) or DataError(f"{file}: {error}") from error
        if self.block:
            other = self._ids_of_blocks(file, openings, len(columns[1]))
            columns = (other, *columns) if self.user not in names else (columns[0], other, columns[1])
        return Columns(*columns, locate)

    def _header(self, file):
        """The names of the fields, and how many lines end with them."""
        number, names = next(file.records(self.delimiter))
        names = [name.strip(" \t").encode(errors="replace").decode() for name in names]  # Arrow takes UTF-8 alone
        for name in (one for one in (self.user, self.item, self.rating) if one is not None):
            if names.count(name) != 1:
                problem = "several columns" if name in names else "no column"
                if names[0].startswith(("{", "[")) and name not in names:
                    raise DataError(f"{file} is no CSV, but JSON as it seems; convert it to CSV or Parquet")
                raise DataError(
                    f"{file}, line {number}: {problem} {name!r} among {brief(names)}; "
                    f"name the columns to read{_WITHOUT}"
                )
        return names, number + sum(len(_LINE_END.findall(name)) for name in names)

    def _ids_of_blocks(self, file, openings, n_ratings):
        """The id that each rating's block opens with, int64 (n_ratings,)."""
        starts = np.array([number - 1 - k for k, (number, _) in enumerate(openings)], np.int64)
        if n_ratings and (len(starts) == 0 or starts[0] > 0):
            raise DataError(f"{file}, line 1: a rating before the first line 'id{self.block}'; is the file complete?")
        sizes = np.diff(np.append(starts, n_ratings))
        ids = np.empty(len(openings), np.int64)
        for k, (_, text) in enumerate(openings):
            name, _, count = text.partition(self.block)
            try:
                ids[k], announced = int(name), int(count or sizes[k])
            except ValueError as error:
                raise DataError(f"{file}: the line {text!r} opens no block of ratings; correct it") from error
            if announced != sizes[k]:
                raise DataError(f"{file}: {sizes[k]} ratings follow the line {text!r}; is the file complete?")
        return np.repeat(ids, sizes)

    def _ratings(self, file, names):
        """(line number, fields) of the records that are ratings, or should be."""
        for number, fields in islice(file.records(self.delimiter), int(self.names is None), None):
            opens = self.block and len(fields) != len(names) and self.block in self.delimiter.join(fields)
            if not opens:
                yield number, fields

    def _first_bad_line(self, file, names, ids):
        """The error of the first line that cannot be read, or None; slow, and called only when reading failed."""
        import pyarrow as pa

        kinds = dict.fromkeys(ids, pa.int64() if self.integers else pa.string()) | {self.rating: pa.float64()}
        for number, fields in self._ratings(file, names):
            if len(fields) != len(names):
                return DataError(
                    f"{file}, line {number}: {len(fields)} fields where {len(names)} belong: "
                    f"{self.delimiter.join(fields)[:200]!r}; correct it, or check that the file is complete"
                )
            for name in kinds.keys() - {None}:
                field = fields[names.index(name)]
                try:
                    if field:
                        pa.array([field.strip(" \t")]).cast(kinds[name])
                except UnicodeEncodeError:
                    return DataError(
                        f"{file}, line {number}: {name} {brief(field)} is not UTF-8; convert the file, or pass "
                        "`encoding` to read_ratings"
                    )
                except pa.ArrowInvalid:
                    wanted = "a number" if name == self.rating else "an integer of 64 bits"
                    comma = re.fullmatch(r"\s*[+-]?\d*,\d+\s*", field)
                    remedy = "write it with a decimal point" if comma else "correct it"
                    return DataError(f"{file}, line {number}: {name} {brief(field)} is not {wanted}; {remedy}")
        return None


def delimited(file, user, item, rating, delimiter=None, header=True):
    """The layout of a text file, whose first line names its columns unless it has no header; else they are numbers.

    rating : None for implicit feedback
    delimiter : by default of tab, comma, semicolon and bar the one that gives most columns, or a blank where these
        give no three, or two of implicit feedback
    """
    least = 2 if rating is None else 3

    def columns(delimiter):
        _, fields = next(file.records(delimiter), (0, ()))
        return len(fields)

    if delimiter is None:
        delimiter = max("\t,;|", key=columns)
        delimiter = delimiter if columns(delimiter) >= least else max((delimiter, " "), key=columns)
    if header:
        return Delimited(delimiter, None, user, item, rating, integers=False)
    names, wanted = tuple(map(str, range(columns(delimiter)))), (user, item, rating)[:least]
    for number in wanted:
        if str(number) not in names:
            raise DataError(f"{file}: no column {number!r} among {len(names)}, counted from 0; or pass header=True")
    return Delimited(delimiter, names, *map(str, wanted), *[None] * (3 - least), integers=False)


def parquet(file, user, item, rating):
    """The named columns of a Parquet file; rating is None for implicit feedback.

    Where that column has timestamps or dates, so have the values: datetime64, which times may be and ratings not.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    def opened():
        return str(file.path) if file.plain else pa.BufferReader(file.contents)

    def locate(k):
        return f"{file}, row {k}"

    try:
        schema = ParquetFile(opened()).schema_arrow
        names, types = schema.names, {}
        for name in (user, item) if rating is None else (user, item, rating):
            if names.count(name) != 1:
                problem = "several columns" if name in names else "no column"
                raise DataError(f"{file}: {problem} {name!r} among {names}; name the columns to read{_WITHOUT}")
            kind = schema.field(name).type
            types[name] = reading.plain_type(kind, name != rating)
            if types[name] is None:
                raise DataError(f"{file}: column {name!r} is of type {kind}; give numbers, or ids as strings")
        columns = reading.parquet(opened, types, (user, item), rating)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file}: {error}; is this a complete Parquet file?") from error
    return Columns(*(columns or np.empty((3, 0))), locate)


def titles(file):
    """The title of each item by its id, a Series: MovieLens's u.item, movies.dat or movies.csv."""
    import pandas as pd

    ending = str(file).rsplit(".", 1)[1]
    delimiter, encoding = {"item": (r"\|", "latin-1"), "dat": ("::", "latin-1"), "csv": (",", "utf-8")}[ending]
    try:
        frame = pd.read_csv(
            io.BytesIO(file.contents),
            sep=delimiter,
            engine="python",
            encoding=encoding,
            quoting=csv.QUOTE_MINIMAL if ending == "csv" else csv.QUOTE_NONE,
            header=0 if ending == "csv" else None,
            usecols=[0, 1],
        )
    except ValueError as error:  # pandas's errors are ValueErrors
        raise DataError(f"{file}: {error}; is this the complete file?") from error
    return pd.Series(frame.iloc[:, 1].to_numpy(str), frame.iloc[:, 0].to_numpy(), name="title")


def whitespace(files):
    """user item rating, separated by a tab or a space: the uir.index of Ma et al. 2011."""
    _, first = next(files[0].lines(), (0, ""))
    return Delimited("\t" if "\t" in first else " ", ("user", "item", "rating"))(files)


class MovieLens1M(Delimited):
    """user::item::rating::time, as published; or user,item,rating below a line of these names."""

    def __call__(self, files):
        _, first = next(files[0].lines(), (0, ""))
        return super().__call__(files) if "::" in first else Delimited(",", None, rating=self.rating)(files)


DOUBLE_COLON = ":", ("user", "", "item", "", "rating", "", "time")
"""user::item::rating::time: the second colon of each pair opens an empty field."""


def leave_one_out(files, test):
    """MovieLens 1M, and the test pairs of He et al. 2017 as its official test set: user, item, rating, time.

    Their users and items are numbers from 0 in the order in which MovieLens first has them.
    """
    import pandas as pd

    columns = MovieLens1M(*DOUBLE_COLON)(files)
    users, items = (pd.factorize(_decoded(ids))[0] for ids in columns[:2])
    tested = Delimited("\t")(test)
    wanted = np.isin(_pair(users, items), _pair(*map(_decoded, tested[:2])))
    if wanted.sum() != len(tested.users):
        raise DataError(f"{test[0]}: {wanted.sum()} of its {len(tested.users)} pairs are rated in {files[0]}")
    return columns._replace(users=users, items=items, test_mask=wanted)


def _decoded(ids):
    """Integers as such, none of which is missing."""
    plain = isinstance(ids, Coded) and ids.names.dtype.kind in "iu" and ids.codes.min(initial=0) >= 0
    return ids.names[ids.codes] if plain else ids


def item_lists(*parts):
    """A line a user: the user's id, then the items' ids, separated by blanks; the second file is the test set."""
    found = []
    for (file,) in parts:
        lines = list(file.lines())
        try:
            rows = [np.array(text.split(), np.int64) for _, text in lines]
        except ValueError as error:
            raise DataError(f"{file}: {error}; a line must have ids of a user and of items") from error
        users = np.repeat([row[0] for row in rows], [len(row) - 1 for row in rows])
        numbers = np.repeat([number for number, _ in lines], [len(row) - 1 for row in rows])
        items = np.concatenate([row[1:] for row in rows])

        def locate(k, file=file, numbers=numbers):
            return f"{file}, line {numbers[k]}"

        found.append(Columns(users, items, np.ones(len(users)), locate))
    return stacked(found)._replace(test_mask=np.repeat([False, True], [len(part.users) for part in found]))


def jester(*parts):
    """Tables with a user a row: the number of ratings, then a rating from -10 to 10 or 99 for each joke.

    Items are jokes from 1, users rows from 1, counted through all parts.
    """
    tables, before = [], 0
    for (file,) in parts:
        cells = _spreadsheet(file)
        rated = cells[:, 1:] != 99
        wrong = rated.sum(axis=1) != cells[:, 0]
        if wrong.any():
            row = wrong.argmax()
            raise DataError(
                f"{file}, row {row + 1}: {rated[row].sum()} ratings, but the first column says {cells[row, 0]:g}; "
                "is the file complete?"
            )
        rows, jokes = np.nonzero(rated)

        def locate(k, file=file, rows=rows, jokes=jokes):
            return f"{file}, row {rows[k] + 1}, joke {jokes[k] + 1}"

        tables.append(Columns(rows + before + 1, jokes + 1, cells[:, 1:][rated], locate))
        before += len(cells)
    return stacked(tables)


def _spreadsheet(file):
    """The cells of a CSV or Excel file without a header as float64 (rows, columns), NaN where not a number."""
    import pandas as pd

    xlrd = None if str(file).endswith(".csv") else of_extra("xlrd", file)
    try:
        if xlrd is None:
            frame = pd.read_csv(io.BytesIO(file.contents), header=None)
        else:
            sheet = xlrd.open_workbook(file_contents=file.contents.to_pybytes()).sheet_by_index(0)
            frame = pd.DataFrame([sheet.row_values(row) for row in range(sheet.nrows)])
    except Exception as error:  # xlrd fails on garbage in as many ways as there are bytes
        raise DataError(f"{file}: {error}; is this the complete file?") from error
    return frame.apply(pd.to_numeric, errors="coerce").to_numpy(np.float64)


def monti(files):
    """A MATLAB v7.3 file of Monti et al. 2017: ratings M, and masks Otraining and Otest (users x items)."""
    (file,) = files
    h5py = of_extra("h5py", file)
    try:
        with h5py.File(io.BytesIO(file.contents)) as matlab:
            # MATLAB stores columns first, so HDF5 shows every array transposed.
            ratings, train, test = (matlab[key][:].T for key in ("M", "Otraining", "Otest"))
        users, items = np.nonzero((train > 0) | (test > 0))
        values, in_test = ratings[users, items], test[users, items] > 0
    except Exception as error:  # h5py says by many exceptions that an object is missing, damaged or of another kind
        raise DataError(f"{file}: {error}; is this the complete MATLAB v7.3 file?") from error
    return Columns(
        users, items, values, lambda k: f"{file}, M({users[k] + 1}, {items[k] + 1})", in_test, ratings.shape
    )


def netflix(files, probe):
    """Blocks 'movie:' of 'user,rating,date' lines; the probe's blocks of users are the official test set."""
    import pandas as pd

    columns = Delimited(",", ("user", "rating", "date"), block=":")(files)
    if not probe:
        return columns
    lines = pd.Series([text for _, text in probe[0].lines()], dtype="object")
    opens = lines.str.endswith(":").to_numpy(bool)
    numbers = pd.to_numeric(lines.str.rstrip(":"), errors="coerce")
    if numbers.isna().any() or not opens[:1].all():
        wrong = lines[numbers.isna().argmax()]
        raise DataError(f"{probe[0]}: {wrong!r} is neither 'movie:' nor a user below it; correct it")
    numbers = numbers.to_numpy(np.int64)
    movies = numbers[opens][np.cumsum(opens) - 1]
    wanted = _pair(movies, numbers)[~opens]
    test = pd.Series(_pair(columns.items, _decoded(columns.users))).isin(wanted).to_numpy()
    if test.sum() != len(wanted):
        missing = len(wanted) - test.sum()
        raise DataError(f"{probe[0]}: {missing} of its {len(wanted)} pairs are not rated; are all files there?")
    return columns._replace(test_mask=test)


def _pair(movies, users):
    """One int64 a pair of ids below 2**31."""
    return (movies.astype(np.int64) << 32) | users


def yahoomusic(train, validation):
    """KDD Cup 2011: blocks 'user|count' of 'item, rating, date, time' lines; the validation file is the test set."""
    layout = Delimited("\t", ("item", "rating", "date", "time"), block="|")
    parts = [layout(train), layout(validation)]
    return stacked(parts)._replace(test_mask=np.repeat([False, True], [len(part.values) for part in parts]))


def stacked(parts):
    """The ratings of several files as those of one."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([len(part.users) for part in parts])

    def locate(k):
        which = int(np.searchsorted(ends, k, side="right"))
        return parts[which].locate(k - (ends[which - 1] if which else 0))

    users, items = (_joined([part[i] for part in parts]) for i in range(2))
    if parts[0].values is None:
        return Columns(users, items, None, locate)
    rated = [part for part in parts if len(part.values)] or parts
    kinds = {part.values.dtype.kind == "M": part for part in rated}
    if len(kinds) == 2:
        raise DataError(
            f"{kinds[True].locate(0)}: a date where {kinds[False].locate(0)} has none; give dates in all files, or "
            "numbers in all"
        )
    return Columns(users, items, np.concatenate([part.values for part in rated]), locate)


def _joined(columns):
    """Ids of several files as one column, strings in all where they are in one: numbers as `_written`."""
    columns = list(map(_decoded, columns))
    if not any(isinstance(column, Coded) for column in columns):
        # Exact also where files differ: NumPy makes float64 of integers with floats.
        columns = [plain_ids(column)[0] for column in columns if len(column)] or columns
        if {column.dtype.kind for column in columns} == {"i", "u"} and any(column.min() < 0 for column in columns):
            # Refused for the negative ids: those beyond int64 need not differ.
            columns = [np.minimum(column, np.iinfo(np.int64).max).astype(np.int64) for column in columns]
        return joined_ids(columns)
    plain = [
        np.append(column.names.astype(object), None)[column.codes] if isinstance(column, Coded) else column
        for column in columns
    ]
    names = [column.names if isinstance(column, Coded) else column for column in columns]
    if any(len(of) and of.dtype == object for of in names):
        _check_written_alike(names)
        plain = [[one if isinstance(one, str) else _written(one) for one in ids] for ids in plain]
    return np.concatenate([np.array(ids, object) for ids in plain])


def _written(number):
    """A number that is an id, as a string; a whole one without a point. None for one that is missing."""
    if number is None or number != number:
        return None
    return str(int(number)) if isinstance(number, float | np.floating) and number.is_integer() else str(number)


def _check_written_alike(columns):
    """DataError where the strings of one file have an id 7.0 and another file the number 7."""
    pointed = {
        one.partition(".")[0]: one for ids in columns if ids.dtype == object for one in ids if _POINTED.fullmatch(one)
    }
    for ids in columns if pointed else ():
        numbers = map(_written, np.unique(ids)) if ids.dtype != object else ()
        if found := next((pointed[one] for one in numbers if one in pointed), None):
            raise DataError(
                f"ids are numbers in one file and text in another, which has {found!r}; write them alike in all files"
            )
