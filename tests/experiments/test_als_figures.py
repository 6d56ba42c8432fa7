"""The figures of the chapters on ALS, drawn from frames of known numbers."""

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, SGD, results
from gpumf import figure_style as style
from gpumf.experiments.cumf import als_netflix, als_versions, implicit_quality
from gpumf.experiments.gpumf import als_convergence, als_scaling

CUMF = {"cumf_lu": 8.0, "cumf_cholesky": 4.0, "cumf_cg": 2.0, "cumf_cg_fp16": 1.0}


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Makes a Result of rows, kept where nobody looks."""
    monkeypatch.setattr(results, "repository", lambda: tmp_path)

    def store(name, rows, columns):
        return results.store(
            name, pd.DataFrame(rows, columns=columns), {}, results.provenance(), live=True, source="cumf"
        )

    return store


@pytest.fixture
def versions(stored):
    """Of every version one iteration, the phases of cumf's, a half-sweep of the tensor cores."""
    rows = []

    def add(kernel, load, cg_steps, step, seconds, gather=np.nan):
        fixed = "netflix-twin", "ALS", kernel, "cuda", load, 100, cg_steps, 1000, step
        rows.extend((*fixed, k, seconds + k / 100, 1e6, 1e9, 0.5, 0.5 / seconds, gather) for k in (-1, 0, 1))

    for kernel, seconds in CUMF.items():
        steps = 6 if "cg" in kernel else np.nan
        add(kernel, "coalesced", steps, "iteration", 10 + seconds, 4)
        for side in ("users", "items"):
            add(kernel, "coalesced", steps, f"{side} solve", seconds)
            for k, load in enumerate(als_versions.LOADS):
                add(kernel, load, steps, f"{side} get_hermitian", 5 + k, 2)
    for steps, seconds in ((6, 3), (4, 2)):
        add("tensor_core", np.nan, steps, "iteration", seconds, 2)
        add("tensor_core", np.nan, steps, "users", seconds / 2, 1)
    return stored("als_versions", rows, als_versions.COLUMNS)


def labelled(figure):
    return figure.get_supxlabel().startswith("Measured") and all(axis.get_xlabel() for axis in figure.axes)


def widths(axis, label):
    """Of the bars with that label, from top to bottom."""
    (bars,) = [bars for bars in axis.containers if bars.get_label() == label]
    return [bar.get_width() for bar in bars][::-1]


def test_the_summary_of_versions_tells_the_gain_of_each_over_the_one_before(versions):
    table = als_versions.summary(versions.frame)
    assert list(table.version) == [*CUMF, "tensor_core", "tensor_core, 4 steps"]
    assert list(table.seconds) == [18, 14, 12, 11, 3, 2]
    assert np.isnan(table.gain[0]) and table.gain[1] == 18 / 14 and table.gain[5] == 1.5
    np.testing.assert_allclose(table.spread, 0.02)
    np.testing.assert_allclose(table.fraction_of_limit, 0.5 / table.seconds)


def test_versions_are_drawn_beside_their_limit_and_their_gathers(versions):
    figure = style.save(als_versions.figure(versions.frame), versions)
    (axis,) = figure.axes
    assert widths(axis, "measured (median)") == [18, 14, 12, 11, 3, 2]
    np.testing.assert_allclose(widths(axis, "limit"), 0.5)
    assert list(axis.lines[0].get_xdata())[::-1] == [4, 4, 4, 4, 2, 2] and labelled(figure)


def test_loads_and_solvers_are_drawn_as_in_cumf(versions):
    figure = style.save(als_versions.figure_phases(versions.frame, "netflix-twin", 100), versions)
    loads, solvers = ([[bar.get_height() for bar in bars] for bars in axis.containers] for axis in figure.axes)
    assert loads == [[5, 5], [6, 6], [7, 7]]
    assert solvers == [list(CUMF.values())] * 2
    assert figure.axes[1].lines[0].get_ydata()[0] == 10 and labelled(figure)


def test_marks_of_the_roofline_are_at_their_intensity_and_rate(versions, stored):
    values = {"copy_bytes_per_second": 1e7, "fp16_flops": 1e12, "fp32_flops": 1e9}
    ceilings = stored("ceilings", [("cuda", *pair) for pair in values.items()], ["device", "ceiling", "value"])
    figure = style.save(als_versions.figure_roofline(versions.frame, ceilings.frame, "netflix-twin", 100), versions)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    roof = lines["device copy, FP32 products"]
    np.testing.assert_allclose(roof.get_ydata(), np.minimum(roof.get_xdata() * 1e7, 1e9))
    (x,), (y,) = lines["tensor_core, users"].get_data()
    assert x == 1000 and y == pytest.approx(1e9 / 1.5)
    unlabelled = [line.get_xdata()[0] for label, line in lines.items() if label.startswith("_")]
    assert 1e9 / (1e6 + 1e7) in unlabelled, "with a row of factors for every rating"
    assert labelled(figure)


def scaling_rows():
    for varied, settings in (("factors", (10, 20)), ("nnz", (100, 400))):
        for kernel in ("cumf_cholesky", "tensor_core"):
            for setting in settings:
                factors, nnz = (setting, 100) if varied == "factors" else (16, setting)
                power = 2 if kernel == "cumf_cholesky" else 1
                yield "a-twin", varied, kernel, "cuda", factors, nnz, 0, setting**power / 1e3, 1e-3


def test_times_are_drawn_against_factors_and_ratings(stored):
    columns = ["data", "varied", "kernel", "device", "factors", "nnz", "repeat", "seconds", "limit_seconds"]
    result = stored("als_scaling", scaling_rows(), columns)
    figure = style.save(als_scaling.figure(result.frame), result)
    assert list(figure.axes[0].lines[0].get_ydata()) == [0.1, 0.4]
    assert list(figure.axes[1].lines[1].get_xdata()) == [100, 400] and labelled(figure)
    slopes = als_scaling.summary(result.frame)
    assert slopes["factors", "cumf_cholesky"] == pytest.approx(2)
    assert slopes["nnz", "tensor_core"] == pytest.approx(1)


def test_convergence_is_drawn_as_differences_to_one_core(stored):
    errors = {"sequential": 0.5, "tensor_core": 0.25}
    rows = [("a", kernel, "cpu", e, e, rmse, 1) for kernel, rmse in errors.items() for e in (0, 1, 2)]
    result = stored("als_convergence", rows, ["data", "kernel", "device", "epoch", "seconds", "rmse", "mae"])
    figure = style.save(als_convergence.figure(result.frame), result)
    assert [list(line.get_ydata()) for line in figure.axes[1].lines] == [[0.25, 0.25], [1e-3, 1e-3]]
    assert len(figure.axes[0].lines) == 2 and labelled(figure)


def test_netflix_is_drawn_by_iterations_and_by_seconds(stored):
    speeds = {"cumf_cholesky": 4, "tensor_core": 1}
    rows = [(k, "cuda", r, e, e * s, 1 / (e + 1), 1) for k, s in speeds.items() for r in (0, 1) for e in (0, 1, 2)]
    result = stored("als_netflix", rows, ["kernel", "device", "repeat", "epoch", "seconds", "rmse", "mae"])
    figure = style.save(als_netflix.figure(result.frame), result)
    assert [list(line.get_xdata()) for line in figure.axes[0].lines] == [[1, 2]] * 2
    assert [list(line.get_xdata()) for line in figure.axes[1].lines] == [[4, 8], [1, 2]] and labelled(figure)


def test_rankings_are_drawn_a_metric_and_a_set_each(stored):
    metrics = ["precision", "recall", "map", "ndcg"]
    kernels = ["cumf_cholesky", "tensor_core"]
    rows = [(d, k, "cuda", 16, e, e, 0.1, 0.2, 0.3, 0.4) for d in ("a", "b") for k in kernels for e in (1, 2)]
    result = stored("implicit_quality", rows, ["data", "kernel", "device", "factors", "epoch", "seconds", *metrics])
    figure = style.save(implicit_quality.figure(result.frame), result)
    assert [list(axis.lines[1].get_ydata()) for axis in figure.axes] == [[0.4, 0.4], [0.2, 0.2]] * 2
    assert labelled(figure)


@pytest.mark.parametrize("model", [ALS, SGD])
def test_every_scheme_of_a_model_looks_like_no_other_and_a_variant_has_its_colour(model):
    looks = {scheme: look for (of, scheme), look in style.LOOKS.items() if of == model.__name__}
    assert set(model.kernels()) <= set(looks)
    assert len({look[1:] for look in looks.values()}) == len({look.name for look in looks.values()}) == len(looks)
    for scheme, look in looks.items():
        assert look.colour in style.COLOURS and look.colour == looks[scheme.split(", ")[0]].colour
    colours = [looks[scheme].colour for scheme in looks if "," not in scheme]
    assert len(set(colours)) == len(colours), "one colour a scheme"
