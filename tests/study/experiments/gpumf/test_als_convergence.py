"""Kernels of ALS, an epoch after another."""

from gpumf_study import figure_style as style
from gpumf_study.experiments.gpumf import als_convergence
from outcomes import labelled


def test_convergence_is_drawn_as_differences_to_one_core(stored):
    errors = {"sequential": 0.5, "tensor_core": 0.25}
    rows = [("a", kernel, "cpu", e, e, rmse, 1) for kernel, rmse in errors.items() for e in (0, 1, 2)]
    result = stored(rows, ["data", "kernel", "device", "epoch", "seconds", "rmse", "mae"])
    figure = style.save(als_convergence.figure(result.frame), result)
    assert [list(line.get_ydata()) for line in figure.axes[1].lines] == [[0.25, 0.25], [1e-3, 1e-3]]
    assert len(figure.axes[0].lines) == 2 and labelled(figure)
