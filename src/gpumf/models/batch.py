"""Settings of ALS that train together on a GPU which one of them does not fill: shared ratings, own factors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpumf import backends
from gpumf.models.finite import SOURCE as FINITE
from gpumf.solvers.als_tensor_core import FEWEST_SHORT, TensorCore

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from typing import Any

    from gpumf.models.estimator import Model
    from gpumf.ratings import Ratings

_OWN = {"regularization", "weighted", "alpha", "unobserved_weight", "regularization_exponent"}
_ROWS = 1 << 21  # users and items of all systems of a launch, which fill any GPU many times
_THREADS = 256


def alike(model: Model) -> Hashable:
    """What models have in common that may train together; None of those that train by themselves, with `fit`.

    Together they have the factors, bit for bit, that each would have alone.
    """
    if model.device == "cpu" or model.solver_class is not TensorCore:
        return None
    shared = {name: value for name, value in model.get_params().items() if name not in _OWN}
    return type(model), model.seed, repr(shared)


def most_alike(model: Any, train: Ratings, memory: float, wait: bool) -> int:
    """How many such models train at a time, at the most, in so many bytes; `wait` as of `bytes_alike`."""
    if max(train.n_users, train.n_items) >= FEWEST_SHORT or model.biases is True or model.chunk:
        return 1  # fills the device, or has targets of its own
    one, two = (bytes_alike(model, train, n, wait) for n in (1, 2))
    return max(int(min(_ROWS // (train.n_users + train.n_items), 1 + (memory - one) // (two - one))), 1)


def bytes_alike(model: Any, train: Ratings, n: int, wait: bool) -> int:
    """Memory on the device that so many models take that train together.

    wait : whether what they learn stays there, for them to go on from
    """
    whole = 4 * (train.n_users + train.n_items) * model.columns
    return (
        n * (TensorCore.system_bytes(model.hyperparameters, train) + whole * wait) + (4 + wait) * whole
    )  # with those to start from


def trained_together(models: list[Any], train: Ratings, epochs: int) -> Iterator[tuple[Any, ...] | None]:
    """Yield what each model has learned after so many more epochs, on the device; None where one diverged.

    Parameters
    ----------
    models : `alike`, of the same epoch; those that were trained go on
    train : Ratings, checked, where the solver takes them from
    """
    first, device = models[0], backends.device(models[0].device)
    for model in models:
        model._set_training(train)
    starts = [model._learned for model in models] if first.epoch else [first._initial(train)] * len(models)
    problem = first._problem(first._as_trained(train), starts[0])
    systems = [model.hyperparameters for model in models] if len(models) > 1 else None
    if systems:
        arrays = [device.empty((len(models), *array.shape), np.float32) for array in problem.start]
        for k, start in enumerate(starts):
            for array, one in zip(arrays, first._to_solve(start) if k else problem.start, strict=True):
                array[k] = device.array(one)
        problem = problem._replace(start=arrays)
    solver = TensorCore(problem, systems=systems)
    del problem
    found, check = device.zeros(len(models), np.int32), device.kernel(FINITE, "check_finite")
    for epoch in range(epochs):
        solver.epoch(epoch)
        for array in solver.factors():
            n = array.size // len(models)
            check((-(-n // (_THREADS * 16)), len(models)), _THREADS, numbers=array, n=n, found=found)
    for k, diverged in enumerate(device.to_numpy(found) > 0):
        learned = tuple(array[k] for array in arrays) if systems else solver.factors()
        whole = models[k]._whole(learned, starts[k])
        if systems and whole is learned:
            whole = tuple(array.copy() for array in learned)  # which does not keep those of the others
        yield None if diverged else whole
        starts[k] = None
