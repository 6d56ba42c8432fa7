"""Drawings that explain: what CUDA's words mean, and how this study's kernels share out their work.

Most are plain SVG files in figures/drawings. A few are modules of this package with a function `drawing`: which
thread takes which entry is read off the kernels, as they run on the CPU, so that the drawing follows the code.
"""

from importlib import import_module

from gpumf_study import results
from gpumf_study.drawings import canvas

TRACED = "thesis_als", "cumf_tiles", "tensor_core_plan", "fast_sgd"
"""Read off kernels. Who updates what when, of all SGD solvers, is drawn by the experiment `sgd_assignment`."""

RECORDED = ("roofline",)
"""Drawn from stored results."""


def plain():
    """The names of the drawings that are plain SVG files."""
    return sorted(path.stem for path in (results.repository() / "figures/drawings").glob("*.svg"))


def drawing(name):
    """The drawing of this name; a notebook shows it.

    Returns
    -------
    canvas.Drawing or canvas.Plain

    Raises
    ------
    ValueError : there is none of this name
    gpumf.backends.DeviceError : it runs kernels on the CPU, and no C++ compiler is here
    """
    if name in (*TRACED, *RECORDED):
        return import_module(f"{__name__}.{name}").drawing()
    if name not in plain():
        raise ValueError(f"there is no drawing {name!r}; there are {', '.join((*plain(), *TRACED, *RECORDED))}")
    return canvas.Plain(results.repository() / f"figures/drawings/{name}.svg")
