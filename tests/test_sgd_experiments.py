"""What the experiments on schemes of SGD make of what they measure."""

import numpy as np
import pandas as pd
import pytest

from gpumf import plots, results
from gpumf.experiments import sgd_conflicts, sgd_ml100k, sgd_schemes


def test_schemes_are_summed_up_by_speed_and_by_their_gap_to_sequential():
    rows = [
        ("a", scheme, "cpu", repeat, epoch, epoch * seconds, epoch * 100, rmse - 0.1 * epoch + 0.01 * repeat, 0.5)
        for scheme, seconds, rmse in (("sequential", 2.0, 1.0), ("fast", 0.5, 0.95))
        for repeat in (0, 1)
        for epoch in (0, 1, 2)
    ]
    columns = ["data", "scheme", "device", "repeat", "epoch", "seconds", "updates", "rmse", "mae"]
    table = sgd_schemes.summary(pd.DataFrame(rows, columns=columns)).set_index("scheme")
    assert list(table.updates_per_second) == [50, 200]
    assert list(table.last_rmse) == pytest.approx([0.805, 0.755]) and list(table.gap) == pytest.approx([0, -0.05])
    assert list(table.spread) == pytest.approx([np.std([0, 0.01], ddof=1)] * 2)


def test_the_figure_of_schemes_has_a_line_each():
    rows = [("a", scheme, epoch, epoch + 1.0, 1 / epoch) for scheme in sgd_schemes.SCHEMES for epoch in (1, 2, 3)]
    frame = pd.DataFrame(rows, columns=["data", "scheme", "epoch", "seconds", "rmse"])
    provenance = {"gpu": "a", "started": "2020-01-01", "commit": "b", "clean": True}
    result = results.Result("sgd_schemes", frame, provenance, live=True)
    figure = plots.schemes(result, ["a"])
    assert [len(axis.lines) for axis in figure.axes] == [len(sgd_schemes.SCHEMES)] * 2
    assert len({(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}) == len(
        sgd_schemes.SCHEMES
    )
    assert all(axis.get_xlabel() for axis in figure.axes) and "RMSE" in figure.axes[0].get_ylabel()


def test_every_label_of_a_scheme_is_a_kernel_with_options_that_it_has():
    for kernel, options in sgd_schemes.SCHEMES.values():
        assert set(options) <= set(sgd_schemes.SGD._trainers[kernel].options)
    assert {kernel for kernel, _ in sgd_schemes.SCHEMES.values()} == set(sgd_schemes.SGD.kernels())


def test_parameters_are_chosen_on_held_out_training_ratings_alone():
    grid = {"factors": [4], "regularization": [0.1], "bias_regularization": [0.02], "learning_rate": [0.02, 1e-5]}
    frame = sgd_ml100k.run("ml-100k-twin", "sequential", **grid, beta=[0.05], epochs=3, seeds=2)
    for _, fold in frame.groupby("fold"):
        choices, tests = (fold[fold.step == step] for step in ("choice", "test"))
        best = choices.loc[choices.rmse.idxmin()]
        assert len(choices) == 2 and len(tests) == 2 and best.learning_rate == 0.02
        assert (tests.learning_rate == best.learning_rate).all() and (tests.epochs == best.epochs).all()
    table = sgd_ml100k.summary(frame).set_index("measure")
    assert table.loc["rmse", "mean"] == pytest.approx(frame[frame.step == "test"].rmse.mean())
    assert (table.spread > 0).all()


def test_popular_rows_meet_more_often_than_the_formula_says(host):
    frame = sgd_conflicts.run(["ml-100k-twin"], [2, 8, 32], draws=2000, seeds=1, traced=600)
    share = frame.pivot_table(index="at_once", columns="how", values="share")
    assert (share["drawn"] > 1.25 * share["true shape"]).all() and share.drawn.is_monotonic_increasing
    # In a matrix of about as many users as items, both counts are about the same.
    assert np.allclose(share["published"], share["true shape"], rtol=0.2)
    assert share.overwritten.between(0, 1).all() and share.overwritten[32] > 0
