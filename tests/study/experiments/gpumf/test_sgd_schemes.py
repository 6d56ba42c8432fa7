"""The schemes of SGD: their speeds, and their gaps to one core."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study import figure_style as style
from gpumf_study.experiments.gpumf import sgd_netflix, sgd_schemes
from outcomes import labelled


def test_schemes_are_summed_up_by_speed_and_by_their_gap_to_one_core_that_takes_ratings_as_they_do():
    rows = [
        (
            "a",
            scheme,
            "cpu",
            repeat,
            epoch,
            epoch * seconds,
            epoch * 100,
            rmse - 0.1 * epoch + 0.01 * repeat,
            0.5 - epoch / 10,
        )
        for scheme, seconds, rmse in (
            ("sequential", 2.0, 1.0),
            ("hogwild", 1.0, 1.02),
            ("ordered_parallel", 1.0, 0.94),
            ("fast", 0.5, 0.95),
        )
        for repeat in (0, 1)
        for epoch in (0, 1, 2)
    ]
    columns = ["data", "scheme", "device", "repeat", "epoch", "seconds", "updates", "rmse", "mae"]
    table = sgd_schemes.summary(pd.DataFrame(rows, columns=columns)).set_index("scheme")
    assert list(table.updates_per_second) == [50, 100, 100, 200]
    assert table.last_rmse[["sequential", "fast"]].to_list() == pytest.approx([0.805, 0.755])
    np.testing.assert_allclose(table.best_rmse, table.last_rmse)
    assert list(table.last_mae) == pytest.approx([0.3] * 4) and set(table.epochs) == {2}
    assert list(table.gap) == pytest.approx([0, 0.02, 0, 0.01])
    assert list(table.spread) == pytest.approx([np.std([0, 0.01], ddof=1)] * 4)


def test_the_figure_of_schemes_has_a_line_each(stored):
    rows = [("a", scheme, epoch, epoch + 1.0, 1 / epoch) for scheme in sgd_schemes.SCHEMES for epoch in (1, 2, 3)]
    frame = pd.DataFrame(rows, columns=["data", "scheme", "epoch", "seconds", "rmse"])
    result = stored(frame)
    figure = style.save(sgd_schemes.figure(frame), result)
    assert [len(axis.lines) for axis in figure.axes] == [len(sgd_schemes.SCHEMES)] * 2
    assert len({(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}) == len(
        sgd_schemes.SCHEMES
    )
    assert labelled(figure) and "RMSE" in figure.axes[0].get_ylabel()
    few = sgd_schemes.figure(frame, labels=["fast", "hogwild"])
    assert sorted(line.get_label() for line in few.axes[0].lines) == ["Hogwild", "fast"]


def test_every_label_of_a_scheme_is_a_kernel_with_options_that_it_has():
    for kernel, options in sgd_schemes.SCHEMES.values():
        assert set(options) <= set(sgd_schemes.SGD.solver_classes()[kernel].options)
    assert {kernel for kernel, _ in sgd_schemes.SCHEMES.values()} == set(sgd_schemes.SGD.solvers())


def test_the_reference_that_takes_each_rating_once_has_the_blocks_that_its_promise_names():
    (gap,) = (finding for finding in sgd_netflix.FINDINGS if finding.id == "sgd-fast-rmse-gap")
    side = sgd_schemes.SGD.options_of(sgd_schemes.ONCE_EACH)["side"].default
    assert gap.statement.endswith(f"in {side} × {side} blocks")
    assert sgd_schemes.SCHEMES[sgd_schemes.ONCE_EACH] == (sgd_schemes.ONCE_EACH, {})


def test_speeds_are_drawn_a_set_each(stored):
    columns = ["data", "scheme", "device", "repeat", "epoch", "seconds", "updates", "rmse", "mae"]
    rows = [
        (data, scheme, device, 0, epoch, epoch * seconds, epoch * 100, 1, 1)
        for data in ("a", "b")
        for scheme, device, seconds in (("sequential", "cpu", 2.0), ("fast", "cuda", 0.5))
        for epoch in (0, 1, 2)
    ]
    frame = pd.DataFrame(rows, columns=columns)
    figure = style.save(sgd_schemes.figure_updates(frame), stored(frame))
    speeds = {line.get_label(): list(line.get_xdata()) for line in figure.axes[0].lines}
    assert speeds == {"GPU": [200], "CPU": [50]} and len(figure.axes) == 2 and labelled(figure)
