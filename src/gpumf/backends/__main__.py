"""Compile ahead, for the GPU at hand, all that ALS and SGD launch with some numbers of factors.

What is compiled stays in CuPy's cache on disk, so that a first `fit` loads it. RBM's kernels, which depend on the
data set's rating scale too, are left to their first use.
"""

import argparse
import sys

from tqdm import tqdm

from gpumf import ALS, RBM, SGD, ImplicitALS, backends
from gpumf.backends import sources


def variants(factors):
    """(source, definitions) of all that is launched with so many factors, two columns more where there are biases."""
    for model in (ALS, ImplicitALS, RBM, SGD):
        model.solver_classes()  # declares its sources
    for source, defines in sources.variants(FACTORS=[factors, factors + 2], HIDDEN=[], LEVELS=[]):
        columns = factors + 2 * (defines.get("BIASES", 0) > 0)
        if defines.get("FACTORS", columns) == columns:
            yield source, defines


def main(arguments=None):
    """Compile for the factors that the arguments give; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gpumf.backends", description=__doc__)
    parser.add_argument("factors", nargs="*", type=int, default=[16, 64, 100, 128], help="by default %(default)s")
    chosen = parser.parse_args(arguments)
    if why := backends.why_unavailable():
        print(why, file=sys.stderr)
        return 1
    device = backends.device()
    wanted = list({repr(variant): variant for f in chosen.factors for variant in variants(f)}.values())

    device.compile_ahead(wanted)
    for source, defines in tqdm(wanted, unit="source"):
        # Each compilation has all kernels of a source.
        device.kernel(source, next(iter(sources.kernels(sources.path(source, defines)))), **defines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
