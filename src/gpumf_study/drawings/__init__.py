"""Drawings that explain: what CUDA's words mean, and how this study's kernels share out their work.

Nothing here is measured, and little is drawn by hand. Which thread takes which entry is read off the kernels as they
run on the processor, off what they export, or off the package's partitions, so that a drawing follows the code.
Each drawing is a module with a function `drawing`, which returns a `canvas.Drawing`.
"""

from importlib import import_module

PRIMER = (
    "threads",
    "half_warps",
    "coalescing",
    "banks",
    "occupancy",
    "races",
    "tensor_core_product",
    "roofline",
)
"""What CUDA's words mean."""

KERNELS = (
    "thesis_als",
    "cumf_tiles",
    "tensor_core_plan",
    "conjugate_gradient",
    "several_gpus",
    "fast_sgd",
    "rbm_products",
)
"""How algorithms are laid out on a GPU. Who updates what when, of all schemes of SGD, is drawn by the experiment
`sgd_assignment`."""


def drawing(name):
    """The drawing of this name; a notebook shows it.

    Returns
    -------
    canvas.Drawing

    Raises
    ------
    ValueError : there is none of this name
    gpumf.gpu.DeviceError : it runs kernels on the processor, and no C++ compiler is here
    """
    if name not in (*PRIMER, *KERNELS):
        raise ValueError(f"there is no drawing {name!r}; there are {', '.join((*PRIMER, *KERNELS))}")
    return import_module(f"{__name__}.{name}").drawing()
