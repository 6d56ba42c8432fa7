"""From large files to columns: parts of a file on all threads, each made small before the next is read."""

from codecs import BOM_UTF8
from collections import defaultdict
from threading import local

import numpy as np

from gpumf._util import threads
from gpumf.ratings.columns import Names, coded_integers, joined, narrowed, pool

_BYTES = 4 << 20
"""Of text, in a part: what is made of it on the way takes several times as much on each core."""
_BYTES_OF_STRINGS = 8 << 20
"""The same where ids are strings: for every part all names that are known are hashed."""
_ROWS = 1 << 20
"""Of a Parquet file, in a part."""


class _Quoted(Exception):
    """A line of a text ends between quotes, so that it has no parts."""


class _Named(Exception):
    """A column of ids that was taken for integers has others, or some are missing: it goes by `Names`."""


class _Columns:
    """Columns of ids and of ratings as they grow.

    ids, rating : their names; rating is None for implicit feedback
    named : names of the columns of ids that go by `Names`, with the Arrow type of these
    """

    def __init__(self, ids, rating, named):
        self._ids, self._rating = ids, rating
        self._names = {name: Names(kind) for name, kind in named.items()}

    def part(self, arrays):
        """The columns of a part, a dict of Arrow arrays by name, in NumPy's arrays as small as can be."""
        import pyarrow as pa

        result = {}
        for name, array in arrays.items():
            if name in self._names:
                encoded = array if hasattr(array, "dictionary") else array.dictionary_encode()
                result[name] = self._names[name].codes(encoded)
            elif name != self._rating and array.null_count and pa.types.is_integer(array.type):
                raise _Named(name)
            else:
                numbers = array.to_numpy(zero_copy_only=False)
                # Ids beyond 2**24 stay float64: of float32 they would not be known for integers.
                wide = name in self._ids and numbers.dtype == np.float64 and (np.abs(numbers) > 1 << 24).any()
                result[name] = numbers if wide else narrowed(numbers)
        return result

    def whole(self, parts):
        """Yield the columns of ids of all parts, integers and strings as `Coded`, and the ratings or None."""
        together = defaultdict(list)
        for part in parts:
            for name, array in part.items():
                together[name].append(array)
        parts.clear()
        for name in self._ids:
            codes = joined(together[name])
            if name in self._names:
                yield self._names[name].coded(codes)
            else:
                yield coded_integers(codes, overwrite=True) if codes.dtype.kind in "iu" else codes
        yield joined(together[self._rating]) if self._rating is not None else None


def _gathered(columns, read, places):
    """The columns of what read(place) returns lists of parts of; None where there is no part."""
    import pyarrow as pa

    parts = read(places[0])  # alone: it meets most ids of all, and shows how they are written
    with pool() as threads:
        parts += [part for found in threads.map(read, places[1:]) for part in found]
    pa.default_memory_pool().release_unused()
    return tuple(columns.whole(parts)) if parts else None


def text(file, names, header_lines, delimiter, ids, rating, integers, block=None):
    """(columns, openings) of a text file of one rating a line.

    names, delimiter : of its fields, `ids` those of ids and `rating` that of ratings, or None
    header_lines : lines before the first rating
    integers : whether ids are integers however they are written; else only where all of a column are written as
        Python writes them, and strings where not
    block : a character that is in lines of other lengths, the openings, which come as (line number, text)

    Raises
    ------
    pyarrow.ArrowException : a line that is not as it should be
    """
    import pyarrow as pa
    from pyarrow import csv

    kind = pa.int64() if integers else pa.string()
    coded = pa.dictionary(pa.int32(), pa.string())  # has each string once in a part
    named, quoted, openings = {}, False, []

    def other_length(row):
        if block in row.text:
            openings.append((row.number, row.text))
            return "skip"
        return "error"

    while True:
        whole = quoted or block is not None
        bounds = [0, file.size] if whole else _line_bounds(file, _BYTES_OF_STRINGS if named else _BYTES)
        columns = _Columns(ids, rating, named)
        types = {name: coded if name in named and not integers else kind for name in ids}
        if rating is not None:
            types[rating] = pa.float64()
        convert = csv.ConvertOptions(include_columns=[*types], column_types=types, null_values=[""])
        parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=quoted)
        if block is not None:
            parse.invalid_row_handler = other_length

        def read(k, columns=columns, bounds=bounds, whole=whole, convert=convert, parse=parse):
            options = csv.ReadOptions(column_names=names, skip_rows=header_lines if k == 0 else 0)
            # Row numbers, which place the openings, are known only to a single thread.
            options.use_threads = parse.newlines_in_values and threads.count() > 1
            if not whole:
                data = file.read(bounds[k], bounds[k + 1])
                options.block_size = len(data) + 1
                if b'"' in data and not _lines_are_whole(data, delimiter):
                    raise _Quoted
            with file.stream() if whole else pa.BufferReader(data) as opened:
                table = csv.read_csv(opened, options, parse, convert)
            arrays = {name: table[name].unify_dictionaries().combine_chunks() for name in table.column_names}
            if not integers:
                arrays |= {name: _integers(name, arrays[name]) for name in ids if name not in named}
            return [columns.part(arrays)]

        try:
            return _gathered(columns, read, range(len(bounds) - 1)), openings
        except _Named as other:
            named[other.args[0]] = kind
        except _Quoted:
            quoted = True
        openings.clear()


def _lines_are_whole(data, delimiter):
    """Whether no line of these bytes ends between quotes; False also where a quote that should open is in a field.

    There it is text, and neither opens nor closes: counting quotes does not tell which lines end in between.
    """
    letters = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(letters == ord('"'))
    before = np.searchsorted(quotes, np.flatnonzero(letters == ord("\n")))
    opening = quotes[::2]
    opening = opening[opening > (len(BOM_UTF8) if data.startswith(BOM_UTF8) else 0)]
    starts = np.zeros(256, bool)
    starts[list(f'"\r\n{delimiter}'.encode())] = True  # of fields, or of an escaped quote
    return starts[letters[opening - 1]].all() and not (np.append(before, len(quotes)) % 2).any()


def _line_bounds(file, part):
    """Where parts of about so many bytes begin and end: at line ends."""
    bounds, size = [0], file.size
    while bounds[-1] < size:
        begin = bounds[-1] + part
        found = -1
        while begin < size and found < 0:
            ahead = file.read(begin, min(begin + (1 << 16), size))
            found = ahead.find(b"\n")
            begin += len(ahead) if found < 0 else found + 1
        bounds.append(min(begin, size))
    return bounds


def _integers(name, strings):
    """Strings as int64; _Named where one is not as Python writes an integer from 0: 007, 0x7, 7.0, or nothing."""
    import pyarrow as pa
    from pyarrow import compute as pc

    try:
        result = strings.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise _Named(name) from error
    numbers = result.to_numpy()
    # A number of d digits is at least 10**(d - 1); whatever else is parsed as it has more characters.
    digits = len(numbers)
    if digits:
        low, high = int(numbers.min()), int(numbers.max())
        digits += sum(np.count_nonzero(numbers >= 10**d) for d in range(1, len(str(high))))
        if low < 0 or digits != pc.sum(pc.binary_length(strings)).as_py():
            raise _Named(name)
    return result


def plain_type(kind, is_id):
    """The Arrow type that a column of a Parquet file is read as, numbers, dates or strings; None of any other.

    is_id : whether it has ids, which are neither dates nor bools
    """
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return kind
    if pa.types.is_decimal(kind):
        return pa.float64()
    if not is_id and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return kind
    if not is_id and pa.types.is_boolean(kind):
        return pa.uint8()
    return pa.string() if pa.types.is_string(kind) or pa.types.is_large_string(kind) else None


def parquet(source, types, ids, rating):
    """The columns of a Parquet file.

    source : function without arguments that opens the file, a path or a pyarrow file
    types : of the columns that are read, as of `plain_type`
    ids, rating : names of the columns of ids, and of that of ratings or None
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    named = {name: types[name] for name in ids if pa.types.is_string(types[name])}
    schema, n_groups = ParquetFile(source()).schema_arrow, ParquetFile(source()).num_row_groups
    coded = [name for name in named if not pa.types.is_large_string(schema.field(name).type)]

    def plain(name, column):
        return column if name in coded else column.cast(types[name])

    while True:
        columns, opened = _Columns(ids, rating, named), local()

        def read(group, columns=columns, opened=opened):
            if not hasattr(opened, "file"):
                opened.file = ParquetFile(source(), read_dictionary=coded)
            batches = opened.file.iter_batches(_ROWS, [group], list(types), use_threads=False)
            return [columns.part({name: plain(name, batch[name]) for name in types}) for batch in batches]

        try:
            return _gathered(columns, read, range(n_groups)) if n_groups else None
        except _Named as other:
            named[other.args[0]] = types[other.args[0]]
