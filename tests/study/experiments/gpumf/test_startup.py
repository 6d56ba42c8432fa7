"""What is promised of the import and of compiling with empty caches."""

import numpy as np

from outcomes import promise_words


def test_starting_up_is_held_to_the_import_and_to_the_largest_model():
    columns = ["step", "factors", "seconds"]
    others = [("compile", 100, 9.0), ("recommend", 256, 9.0)]
    for name, step, factors, times in (
        ("import-seconds", "import", np.nan, (0.24, 0.39, 0.41)),
        ("compile-cold-seconds", "compile", 256, (1.4, 2.9, 3.1)),
    ):
        for seconds, expected in zip(times, ("stretch", "target", "short"), strict=True):
            assert promise_words(name, columns, [(step, factors, seconds), *others]) == expected
