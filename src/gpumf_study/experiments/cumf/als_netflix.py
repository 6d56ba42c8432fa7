"""ALS at the size of the Netflix Prize: test error by iterations and by seconds, tensor cores against exact FP32.

Source: Tan et al. 2018, section 5: 100 factors, lambda 0.05, no biases, the official test set; the data set is
synthetic.
"""

from gpumf import ALS, backends
from gpumf_study import sweep

EXACT = "cumf_cholesky"

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "factors": 32, "epochs": 3, "repeats": 1},
    "full": {"data": ["netflix-synthetic"], "factors": 100, "epochs": 10, "repeats": 5},
}
PROFILES["smoke"] = PROFILES["quick"] | {"epochs": 2}


def run(data, factors, epochs, repeats):
    """Train an exact solver in FP32 and the tensor-core kernel; without a GPU the exact one on the CPU alone."""

    def models(train, repeat):
        for solver in [EXACT, "tensor_core"] if backends.available() else ["parallel"]:
            options = {"biases": False, "weighted": True, "clip": False}
            yield {}, ALS(factors, 0.05, solver=solver, seed=repeat, **options)

    return sweep.sweep(models, data, epochs, repeats, held_out=0.2, official=True)
