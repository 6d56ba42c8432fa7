"""The quick way from large files to columns: parts of a file on all threads, each made small before the next is read.

What a file holds that this way does not know, or that is wrong, it leaves to `gpumf.ratings.layouts`, which is
slower and says where it is.
"""

from collections import defaultdict
from threading import local

import numpy as np

from gpumf.ratings.columns import Names, coded_integers, joined, narrowed, pool

_BYTES = 4 << 20
"""Of text, in a part: what is made of it on the way takes several times as much on each core."""
_BYTES_OF_STRINGS = 8 << 20
"""The same where ids are strings: for every part all names that are known are hashed."""
_ROWS = 1 << 20
"""Of a Parquet file, in a part."""


class _Unknown(Exception):
    """This way does not know what it met."""


class _Strings(Exception):
    """A column that was taken for integers has other ids, too."""


class _Columns:
    """Three columns as they grow.

    strings : names of the columns of ids that are strings
    """

    def __init__(self, ids, rating, strings):
        import pyarrow as pa

        self._ids, self._rating = ids, rating
        self._names = {name: Names(pa.string()) for name in strings}

    def part(self, arrays):
        """The columns of a part, a dict of Arrow arrays by name, in NumPy's arrays as small as can be."""
        if any(array.null_count for array in arrays.values()):
            raise _Unknown
        result = {}
        for name in self._ids:
            array = arrays[name]
            if name in self._names:
                encoded = array if hasattr(array, "dictionary") else array.dictionary_encode()
                result[name] = self._names[name].codes(encoded)
            else:
                result[name] = narrowed(array.to_numpy(zero_copy_only=False))
        return result | {self._rating: narrowed(arrays[self._rating].to_numpy(zero_copy_only=False))}

    def whole(self, parts):
        """(users, items, values) of all parts, in order; ids as `Coded`."""
        together = defaultdict(list)
        for part in parts:
            for name, array in part.items():
                together[name].append(array)
        parts.clear()
        for name in self._ids:
            codes = joined(together[name])
            names = self._names.get(name)
            yield coded_integers(codes, overwrite=True) if names is None else names.coded(codes)
        yield joined(together[self._rating])


def _gathered(columns, read, places):
    """(users, items, values) of what read(place) returns lists of parts of."""
    import pyarrow as pa

    parts = read(places[0])  # alone: it meets most ids of all, and shows how they are written
    with pool() as threads:
        parts += [part for found in threads.map(read, places[1:]) for part in found]
    if not parts:
        raise _Unknown
    pa.default_memory_pool().release_unused()
    return tuple(columns.whole(parts))


def text(file, names, header_lines, delimiter, ids, rating, integers):
    """(users, items, values) of a text file of one rating a line; None where it is not as it should be.

    names, delimiter : of its fields, `ids` those of users and items, `rating` that of ratings
    header_lines : lines before the first rating
    integers : whether ids are integers however they are written; else only where all of a column are written as
        Python writes them, and strings where not
    """
    import pyarrow as pa
    from pyarrow import csv

    strings = set()
    while True:
        bounds = _line_bounds(file, _BYTES_OF_STRINGS if strings else _BYTES)
        columns = _Columns(ids, rating, strings)
        types = {name: pa.int64() if integers else pa.string() for name in ids} | {rating: pa.float64()}
        types |= dict.fromkeys(strings, pa.dictionary(pa.int32(), pa.string()))  # each string once in a part

        def read(k, columns=columns, types=types, bounds=bounds):
            data = file.read(bounds[k], bounds[k + 1])
            if header_lines and b'"' in data and not _lines_are_whole(data):
                raise _Unknown
            if not data.strip():
                return []
            table = csv.read_csv(
                pa.BufferReader(data),
                csv.ReadOptions(
                    use_threads=False,
                    block_size=len(data) + 1,
                    column_names=names,
                    skip_rows=header_lines if k == 0 else 0,
                ),
                csv.ParseOptions(delimiter=delimiter),
                csv.ConvertOptions(
                    include_columns=[*ids, rating], column_types=types, null_values=[""], strings_can_be_null=True
                ),
            )
            arrays = {name: _array(table[name]) for name in table.column_names}
            for name in () if integers else ids:
                if name not in strings:
                    arrays[name] = _integers(name, arrays[name])
            return [columns.part(arrays)]

        try:
            return _gathered(columns, read, range(len(bounds) - 1))
        except _Strings as other:
            strings.add(other.args[0])
        except (_Unknown, pa.ArrowException):
            return None


def _lines_are_whole(data):
    """Whether no line of these bytes ends between quotes."""
    letters = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(letters == ord('"'))
    before = np.searchsorted(quotes, np.flatnonzero(letters == ord("\n")))
    return not (np.append(before, len(quotes)) % 2).any()


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


def _array(column):
    """A column of a table as one Arrow array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _integers(name, strings):
    """Strings as int64; _Strings where one is not as Python writes an integer from 0: 007, 0x7 or 7.0."""
    import pyarrow as pa
    from pyarrow import compute as pc

    if strings.null_count:
        raise _Unknown
    try:
        result = strings.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise _Strings(name) from error
    numbers = result.to_numpy()
    # A number of d digits is at least 10**(d - 1); whatever else is parsed as it has more characters.
    digits = len(numbers)
    if digits:
        low, high = int(numbers.min()), int(numbers.max())
        digits += sum(np.count_nonzero(numbers >= 10**d) for d in range(1, len(str(high))))
        if low < 0 or digits != pc.sum(pc.binary_length(strings)).as_py():
            raise _Strings(name)
    return result


def parquet(source, ids, rating):
    """(users, items, values) of a Parquet file, or None where columns are of other types or incomplete.

    source : function without arguments that opens the file, a path or a pyarrow file
    ids, rating : names of the users' and of the items' column, and of the ratings'
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    schema = ParquetFile(source()).schema_arrow
    strings = {name for name in ids if _is_string(schema.field(name).type)}
    numbers = pa.types.is_integer, pa.types.is_floating
    if any(not pa.types.is_integer(schema.field(name).type) for name in set(ids) - strings) or not any(
        is_number(schema.field(rating).type) for is_number in numbers
    ):
        return None
    columns, opened = _Columns(ids, rating, strings), local()

    def read(group):
        if not hasattr(opened, "file"):
            opened.file = ParquetFile(source(), read_dictionary=sorted(strings))
        batches = opened.file.iter_batches(_ROWS, [group], [*ids, rating], use_threads=False)
        return [columns.part({name: batch[name] for name in (*ids, rating)}) for batch in batches]

    try:
        n_groups = ParquetFile(source()).num_row_groups
        return _gathered(columns, read, range(n_groups)) if n_groups else None
    except (_Unknown, pa.ArrowException, OSError):
        return None


def _is_string(kind):
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind)
