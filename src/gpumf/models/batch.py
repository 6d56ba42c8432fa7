"""Settings that train together: shared ratings, own factors. On a GPU by launches, on the CPU in lanes of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpumf import backends
from gpumf.models.finite import SOURCE as FINITE
from gpumf.solvers.als_base import ParallelConjugateGradient
from gpumf.solvers.als_settings import SettingsGradient, settings_at_a_time, settings_bytes
from gpumf.solvers.als_tensor_core import FEWEST_SHORT, WARPGROUPS, TensorCore
from gpumf.solvers.sgd_fast import Fast

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from gpumf.models.estimator import Model
    from gpumf.ratings import Ratings

_OWN = {"regularization", "weighted", "alpha", "unobserved_weight", "regularization_exponent"}
_OWN |= {"item_regularization", "bias_regularization", "item_bias_regularization", "learning_rate", "schedule"}
_ROWS = 1 << 21  # users and items of all systems of a launch, which fill any GPU many times
_THREADS = 256


def alike(model: Model, train: Ratings) -> tuple[Any, ...] | None:
    """What models have in common that may train together; None of those that train by themselves, with `fit`.

    Together they do what each would do alone: `TensorCore` gives the same factors, bit for bit, `Fast` makes the same
    updates, of which other ones are lost in every run, `ParallelConjugateGradient` sums up in another order.
    """
    if model._chooses(train):
        return None
    solver = _solver_of(model, train)
    if solver not in (TensorCore, Fast, ParallelConjugateGradient) or (model.device == "cpu" and model.threads):
        return None
    shared = {name: value for name, value in model.get_params().items() if name not in _OWN}
    return solver, type(model), model.seed, repr(shared)


def _solver_of(model, train):
    return model._solvers[model.solver if model._solver_given else model.choose(train)]


def most_alike(model: Any, train: Ratings, memory: float, wait: bool) -> int:
    """How many such models train at a time, at the most, in so many bytes; `wait` as of `bytes_alike`."""
    if model.device == "cpu":
        most = settings_at_a_time(model._solved_columns, train)
        return most if most == 1 or bytes_alike(model, train, most, wait) <= memory else 1
    own_targets = model.biases is True and not hasattr(model, "learning_rate")
    wide = _solver_of(model, train) is TensorCore and TensorCore.launched(model.hyperparameters)[0] == WARPGROUPS
    if max(train.n_users, train.n_items) >= FEWEST_SHORT or own_targets or model.chunk or wide:
        return 1  # fills the device
    one, two = (bytes_alike(model, train, n, wait) for n in (1, 2))
    return max(int(min(_ROWS // (train.n_users + train.n_items), 1 + (memory - one) // (two - one))), 1)


def bytes_alike(model: Any, train: Ratings, n: int, wait: bool) -> int:
    """Memory where they train that so many models take that train together.

    wait : whether what they learn stays there, for them to go on from
    """
    whole = 4 * (train.n_users + train.n_items) * model.columns
    if model.device == "cpu":
        return settings_bytes(model._solved_columns, train) + (n + 1 + 3 * model._damped) * whole
    return (
        n * (_solver_of(model, train).system_bytes(model.hyperparameters, train) + whole * wait) + (5 + wait) * whole
    )


def trained_together(models: list[Any], train: Ratings, epochs: int) -> Iterator[tuple[Any, ...] | None]:
    """Yield what each model has learned after so many more epochs, on the device; None where one diverged.

    Parameters
    ----------
    models : `alike`, of the same epoch; those that were trained go on
    train : Ratings, checked, where the solver takes them from
    """
    first = models[0]
    solver = _solver_of(first, train)
    for model in models:
        model._set_training(train)
    starts = [model._learned for model in models] if first.epoch else [first._initial(train)] * len(models)
    ratings = first._as_trained(train)
    if solver is ParallelConjugateGradient:
        yield from _in_lanes(models, ratings, starts, epochs)
        return
    device = backends.device(first.device)
    found, check = device.zeros(len(models), np.int32), device.kernel(FINITE, "check_finite")

    def watch(array, found, layers=1):
        n = array.size // layers
        check((-(-n // (_THREADS * 16)), layers), _THREADS, numbers=array, n=n, found=found)

    if solver is Fast:
        others = (model._problem(ratings, start) for model, start in zip(models[1:], starts[1:], strict=True))
        trainers = Fast(first._problem(ratings, starts[0])).layered(others, len(models) - 1)
        before = first.epoch or 0
        for epoch in range(before, before + epochs):
            for model, trainer in zip(models, trainers, strict=True):
                model._set_rate(trainer, epoch, [{"rmse": np.nan}] * (epoch + 1))
            trainers[0].epoch(epoch)
        learned_by = [trainer.factors for trainer in trainers]
    else:
        together = _together(models, ratings, starts)
        for epoch in range(epochs):
            together.epoch(epoch)
            for array in together.factors():
                watch(array, found, len(models))
        diverged = device.to_numpy(found) > 0
        layers = [together.factors()] if len(models) == 1 else list(zip(*together.factors(), strict=True))
        learned_by = [lambda k=k: layers[k] for k in range(len(models))]
    for k, model in enumerate(models):
        learned = learned_by[k]()
        if solver is Fast:
            for array in learned:
                watch(array, found[k : k + 1])
            diverged = device.to_numpy(found) > 0
        whole = model._whole(learned, starts[k])
        if whole is learned and solver is TensorCore and len(models) > 1:
            whole = tuple(array.copy() for array in learned)  # which does not keep those of the others
        yield None if diverged[k] else whole
        starts[k] = None


def _in_lanes(models, ratings, starts, epochs):
    """As `trained_together`, on the CPU."""
    problem = models[0]._problem(ratings, starts[0])
    cold = starts[0] is starts[1]
    own = [problem.start] * len(starts) if cold else [models[0]._to_solve(start) for start in starts]
    together = SettingsGradient(problem, own, [model.hyperparameters for model in models])
    for epoch in range(epochs):
        together.epoch(epoch)
    for k, (model, start) in enumerate(zip(models, starts, strict=True)):
        yield model._whole(together.factors(k), start) if together.finite[k] else None


def _together(models, ratings, starts):
    """`TensorCore` of models with these starts."""
    first, device = models[0], backends.device(models[0].device)
    problem = first._problem(ratings, starts[0])
    if len(models) == 1:
        return TensorCore(problem)
    arrays = [device.empty((len(models), *array.shape), np.float32) for array in problem.start]
    warm = starts[0] is not starts[1]
    for k, start in enumerate(starts):
        for array, one in zip(arrays, first._to_solve(start) if warm else problem.start, strict=True):
            array[k] = device.array(one)
    return TensorCore(problem._replace(start=arrays), systems=[model.hyperparameters for model in models])
