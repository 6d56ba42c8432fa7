"""Steps and epochs of SGD at the sizes of cu2rec."""

import pandas as pd

from gpumf.experiments.cu2rec import sgd_cu2rec
from outcomes import lines, promise_words


def test_steps_and_epochs_of_sgd_are_summed_up_and_drawn():
    rows = [(f, 10, 100, s * f, r) for f in (50, 300) for r, s in ((0.9, 1.0), (0.8, 3.0), (0.7, 2.0))]
    frame = pd.DataFrame(rows, columns=["factors", "steps", "updates", "seconds", "rmse"])
    table = sgd_cu2rec.summary(frame)
    assert list(table.seconds) == [100, 600] and list(table.spread) == [100, 600] and list(table.rmse) == [0.9, 0.9]
    assert lines(sgd_cu2rec.figure(frame).axes[0])["median"] == ([50, 300], [100, 600])


def test_the_steps_of_cu2rec_are_of_its_own_size():
    columns = ["data", "factors", "steps", "seconds"]
    for factors, times in ((50, (0.09, 0.2, 0.4)), (300, (0.4, 1.0, 1.3))):
        for seconds_, expected in zip(times, ("stretch", "target", "short"), strict=True):
            rows = [("ml-10m-twin", factors, 3000, seconds_), ("ml-10m-twin", factors, 30, 1e-9)]
            assert promise_words(f"sgd-cu2rec{factors}-seconds", columns, rows) == expected
