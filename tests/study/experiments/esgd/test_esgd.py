"""What is read off the experiments on ESGD, and the probability that draws are independent."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

from gpumf.ratings import Ratings
from gpumf_study import schema
from gpumf_study.experiments.esgd import bsgd_comparison, sgd_conflicts
from gpumf_study.experiments.esgd.sgd_conflicts import independence_probability


def course(values, seconds=1.0, **labels):
    """A training with these errors after each epoch, an epoch a number of seconds."""
    epochs = np.arange(len(values))
    rows = {"epoch": epochs, "phase": "train", "seconds": epochs * seconds, "metric": "rmse", "value": values}
    return pd.DataFrame(rows | labels)


@pytest.mark.parametrize(("reached", "counts"), [(0.5, True), (1.5, True), (np.nan, False)])
def test_what_diverges_has_no_speed(reached, counts):
    lots = []
    for solver, least in (("esgd", 0.5), ("bsgd", reached)):
        labels = {"data": "x", "solver": solver, "variant": "1", "repeat": 0, "x_machine": bsgd_comparison.ALL}
        lots += [course([1.0, least, 2.0], **labels)]
        lots += [pd.DataFrame([{"phase": "transfer", "seconds": 6.0} | labels])]
    frame = schema.validated(pd.concat(lots, ignore_index=True))
    found = bsgd_comparison.iterations(frame).set_index("solver").seconds
    assert ("bsgd" in found) == counts
    assert found["esgd"] == 4.0, "2 s of updates and 6 s of transfers, over two iterations"
    assert bsgd_comparison.iterations(frame[frame.phase == "train"]).empty, "without transfers there is no iteration"


def test_popular_rows_conflict_more_often_than_the_formula_says(host):
    blocks = {"sorted_by_user": "ml-100k-synthetic", "th_size": 100, "st": 2, "factors": 4}
    frame = sgd_conflicts.run(["ml-100k-synthetic"], [2, 8, 32], draws=2000, seeds=1, traced=600, **blocks)
    assert frame[frame.variant == sgd_conflicts.ESGD].x_at_once.tolist() == [25]
    frame = frame[frame.variant != sgd_conflicts.ESGD]
    share = frame.pivot_table(index="x_at_once", columns="variant", values="value")
    assert (share["drawn"] > 1.25 * share["true shape"]).all() and share.drawn.is_monotonic_increasing
    # In a matrix of about as many users as items, both counts are about the same.
    assert np.allclose(share["published"], share["true shape"], rtol=0.2)
    assert share.overwritten.between(0, 1).all() and share.overwritten[32] > 0


def test_conflicts_of_a_block_are_counted_by_hand():
    """Blocks of four ratings, sorted by user and mixed, two in use at a time; the ninth rating is left over."""
    users, items = [2, 0, 0, 1, 0, 1, 1, 0, 3], [0, 1, 2, 3, 4, 1, 5, 6, 0]
    ratings = Ratings(users, items, np.ones(9, np.float32), 4, 7)
    # The first block has user 0 alone; of the second, user 2 meets nobody, nor does whoever is with it.
    assert {sgd_conflicts._in_blocks_that_conflict(ratings, 4, 2, seed) for seed in range(20)} == {0.75}
    ratings = Ratings(np.arange(8), [0, 0, 0, 0, 1, 2, 3, 4], np.ones(8, np.float32), 8, 5)
    assert {sgd_conflicts._in_blocks_that_conflict(ratings, 4, 2, seed) for seed in range(20)} == {0.5}


def independent_share(n_users, n_items, draws):
    """The share of all ways to draw entries in which none share a row or column, counted one by one."""
    ways = list(combinations(product(range(n_users), range(n_items)), draws))
    apart = sum(len({u for u, _ in way}) == len({i for _, i in way}) == draws for way in ways)
    return apart / len(ways)


@pytest.mark.parametrize(("n_users", "n_items", "draws"), [(4, 4, 1), (4, 4, 3), (3, 5, 2), (3, 5, 3), (2, 6, 2)])
def test_the_probability_of_independence_counts_ways(n_users, n_items, draws):
    share = independent_share(n_users, n_items, draws)
    assert independence_probability(n_users, n_items, draws, square=False) == pytest.approx(share)
    published = independence_probability(n_users, n_items, draws)
    assert (published == pytest.approx(share)) == (n_users == n_items or draws == 1)


def test_few_draws_from_a_large_matrix_hardly_meet():
    # Two draws share a row with probability 1/m and a column with 1/n, nearly.
    meet = 1 - independence_probability(480_189, 17_770, 2, square=False)
    assert meet == pytest.approx(1 / 480_189 + 1 / 17_770, rel=1e-3)


def test_more_draws_than_rows_must_meet():
    assert independence_probability(5, 9, 6) == 0 == independence_probability(5, 9, 6, square=False)
