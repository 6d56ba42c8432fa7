"""What an epoch of SGD has to move."""

import pandas as pd

from gpumf import SGD
from gpumf.solvers.sgd_fast import Fast
from gpumf.solvers.sgd_partition import tiled
from gpumf_study.experiments.gpumf import sgd_limits
from support import ragged_ratings


def test_the_plan_of_fast_fetches_a_row_for_every_run_and_that_of_hogwild_for_every_update(host):
    train = ragged_ratings(seed=3)
    model = SGD(6, solver="fast", device="emulator", parts=2, tiles=5, biases=False)
    _, _, n_tiles, most, n_parts = Fast.shape(model, train, host)
    tiles = tiled(train, n_tiles, most, n_parts, model.options["longest"], model.seed)
    runs = set()
    for k, (first, end) in enumerate(zip(tiles.tile_segments[:-1], tiles.tile_segments[1:], strict=True)):
        here = tiles.order[tiles.segments[first] : tiles.segments[end]]
        runs |= {(k, user) for user in train.users[here]}
    assert sgd_limits.plan(model, train) == (len(runs), 4 * 6 * len(runs) + 8 * 6 * 40 * 2)
    for kernel, bytes_of_a_factor in (("cumf_sgd", 2), ("hogwild", 4)):
        other = SGD(6, solver=kernel, device="emulator", biases=False)
        assert sgd_limits.plan(other, train) == (train.nnz, 2 * 2 * 6 * bytes_of_a_factor * train.nnz)


def test_limits_are_summed_up_an_update():
    columns = [
        "data", "solver", "x_nnz", "x_runs", "seconds", "x_limit_seconds", "x_fraction_of_limit", "x_row_bytes",
    ]  # fmt: skip
    rows = [("a", "fast", 100, 50, s, 1.0, 1 / s, 800, 3.0) for s in (2.0, 4.0, 5.0)]
    frame = pd.DataFrame(rows, columns=[*columns, "x_gather_seconds"])
    (row,) = sgd_limits.summary(frame).itertuples()
    assert (row.seconds, row.updates_per_second, row.fraction_of_limit) == (4, 25, 0.25)
    assert (row.ratings_a_run, row.bytes_an_update) == (2, 20)
