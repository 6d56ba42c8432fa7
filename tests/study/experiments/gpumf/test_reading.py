"""The seconds and the memory of reading, and what is promised of them."""

from outcomes import promise_words


def test_reading_is_held_to_its_seconds_and_to_the_file_that_takes_most_memory():
    columns = ["format", "ids", "seconds", "peak", "arrays"]

    def rows(seconds, most):
        files = [(format, ids) for format in ("parquet", "csv") for ids in ("integers", "strings")]
        return [
            (*file, seconds if file[1] == "integers" else 99, most if file == ("csv", "strings") else 1, 1)
            for file in files
        ]

    for name, times in (("read-parquet-seconds", (1.4, 2.9, 3.1)), ("read-csv-seconds", (3.9, 7.9, 8.1))):
        for seconds, expected in zip(times, ("stretch", "target", "short"), strict=True):
            assert promise_words(name, columns, rows(seconds, 1)) == expected
    for most, expected in ((1.9, "stretch"), (2.9, "target"), (3.1, "short")):
        assert promise_words("read-memory", columns, rows(1, most)) == expected
