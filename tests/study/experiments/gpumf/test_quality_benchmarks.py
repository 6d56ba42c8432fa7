"""Which parameters the benchmarks of lists are judged with."""

import pandas as pd
import pytest

from gpumf_study.experiments.gpumf import quality_benchmarks


def tuned(of_draws):
    """of_draws: dict (epoch, lambda) -> NDCG of each draw."""
    rows = [(epoch, ridge, 0.2, value) for (epoch, ridge), values in of_draws.items() for value in values]
    return pd.DataFrame(rows, columns=["epoch", "x_regularization", "x_unobserved_weight", "value"])


@pytest.mark.parametrize(
    ("few", "expected"), [((0.57, 0.59), (0.02, 4)), ((0.50, 0.52), (0.01, 8))], ids=["near", "far"]
)
def test_the_fewest_epochs_within_a_standard_error_of_the_best(few, expected):
    found = {(4, 0.01): (0.5, 0.5), (4, 0.02): few, (8, 0.01): (0.57, 0.61), (8, 0.02): (0.56, 0.60)}
    parameters, epochs = quality_benchmarks.chosen(tuned(found))
    assert (parameters["regularization"], epochs) == expected and parameters["unobserved_weight"] == 0.2


def test_the_best_of_one_draw():
    parameters, epochs = quality_benchmarks.chosen(tuned({(4, 0.01): (0.5,), (8, 0.01): (0.4,), (8, 0.02): (0.51,)}))
    assert (parameters["regularization"], epochs) == (0.02, 8)
