"""Compile ahead, for the GPU at hand, all that ALS and SGD launch with some numbers of factors.

What is compiled stays in CuPy's cache on disk, so that a first `fit` loads it. RBM's kernels, which depend on the
data set's rating scale too, are left to their first use.
"""

from argparse import Namespace
from collections.abc import Iterator

from gpumf import backends
from gpumf._util.progress import progress
from gpumf.backends import sources
from gpumf.models import ALS, RBM, SGD, ImplicitALS
from gpumf.solvers.als_tensor_core import BYTES_FACTORS, is_hopper, of_device, takes_warpgroups


def variants(factors: int) -> Iterator[tuple[str, dict]]:
    """(source, definitions) of all that is launched with so many factors, two columns more where there are biases."""
    for model in (ALS, ImplicitALS, RBM, SGD):
        model.solver_classes()  # declares its sources
    facts = backends.device().facts
    for source, defines in sources.variants(FACTORS=[factors, factors + 2], HIDDEN=[], LEVELS=[]):
        columns = factors + 2 * (defines.get("BIASES", 0) > 0)
        chosen = {"FACTORS": columns, **of_device(facts, columns, defines.get("IMPLICIT"))}
        if sources.needs_hopper(source):
            chosen["WGMMA"] = int(is_hopper(facts))
            if not takes_warpgroups(facts, columns, True):
                chosen["IMPLICIT"] = 0
            if defines["IMPLICIT"] or columns not in BYTES_FACTORS:
                chosen["BYTES"] = 0
        if all(defines.get(key, value) == value for key, value in chosen.items()):
            yield source, defines


def run(options: Namespace) -> tuple[dict, list[str]]:
    """Compile for the numbers of factors that are asked for.

    Raises
    ------
    gpumf.backends.DeviceError : there is no GPU
    """
    device = backends.device()
    wanted = list({repr(variant): variant for f in options.factors for variant in variants(f)}.values())
    device.compile_ahead(wanted)
    for source, defines in progress(wanted, shown=not options.json, unit="source"):
        # Each compilation has all kernels of a source.
        device.kernel(source, next(iter(sources.kernels(sources.path(source, defines)))), **defines)
    return {"sources": len(wanted)}, [f"compiled {len(wanted)} sources"]
