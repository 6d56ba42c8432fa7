"""Three models, until they have converged."""

import pandas as pd
import pytest

from gpumf.experiments.thesis import als_sgd_rbm
from outcomes import assert_drawn, word


def raced(sgd=0.5, data="jester-1"):
    """Published and fastest versions of three models that take a half off the MAE, in tenths an epoch."""
    rows = []
    for version, seconds in {"ALS": 1.0, "SGD": sgd, "RBM": 100.0}.items():
        for suffix, faster in (("", 1), (", fastest", 10)):
            for epoch in range(21):
                mae = 1 - 0.05 * min(epoch, 10)
                rows.append((data, version + suffix, version, "k", 0, epoch, epoch * seconds / faster, mae))
    return pd.DataFrame(rows, columns=["data", "version", "model", "kernel", "repeat", "epoch", "seconds", "mae"])


def test_a_model_has_converged_when_a_hundredth_of_its_gain_is_to_come():
    table = als_sgd_rbm.summary(raced()).set_index("version")
    assert table.loc["ALS"].epochs == 10 and table.loc["ALS"].reduction_per_second == pytest.approx(0.5 / 10)
    factors = als_sgd_rbm.factors(raced()).iloc[0]
    assert dict(factors[["ALS", "SGD"]]) == pytest.approx({"ALS": 100, "SGD": 200})


def test_convergence_is_certain_where_a_run_went_on_for_as_long_again():
    frame = raced()
    assert als_sgd_rbm.summary(frame).certain.all()
    short = als_sgd_rbm.summary(frame[(frame.version != "SGD") | (frame.epoch < 20)])
    assert list(short.version[~short.certain]) == ["SGD"]


@pytest.mark.parametrize(
    ("name", "frame", "expected"),
    [
        ("thesis-fig-6.13", raced(), "reproduced"),
        ("thesis-fig-6.13", raced(sgd=200.0), "contradicted"),
    ],
)
def test_a_word_follows_from_the_numbers(name, frame, expected):
    assert word(name, frame) == expected


def test_the_figure_says_where_it_was_measured_and_what_its_axes_are(store):
    result = store("als_sgd_rbm", raced())
    assert_drawn(als_sgd_rbm.figure(result.frame), result, 1)
