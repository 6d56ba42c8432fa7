"""One kernel file: checked against float64, and timed where there is a GPU.

ALS is checked by the users' half of an epoch, SGD by an epoch of updates of one worker, one after another, both
replayed by `gpumf.backends.cpu.reference`; an RBM by the same epoch, with the same draws, of the sequential solver.
"""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from gpumf import backends
from gpumf._util.validation import integer
from gpumf.backends.cpu import reference
from gpumf.models import ALS, RBM, SGD, ImplicitALS
from gpumf.ratings import Ratings, load_dataset
from gpumf.solvers.base import KernelSolver
from gpumf.solvers.sgd_base import draw_key
from gpumf.solvers.sgd_cu2rec import first_user

_CHECKED, _TIMED = (80, 50, 1500), "ml-1m-synthetic"  # users, items and ratings; a data set
_MAX_ERROR = 0.02  # relative: half precision, and conjugate gradient that ends at a residual
_RATE, _RIDGE = 0.01, 0.05
_ALONE: dict[str, dict] = {"bsgd": {"batch": 1}, "esgd": {"th_size": 1, "st": 1}}  # instead of threads=1


def run(options: Namespace) -> tuple[dict, list[str]]:
    """A row for each solver that launches the file: its error, and its milliseconds an epoch on a GPU.

    Raises
    ------
    ValueError : no solver launches such a file
    ArithmeticError : a kernel is further off than half precision allows
    """
    source, factors = f"{options.kernel.removesuffix('.cu')}.cu", integer("factors", options.factors, 1)
    device = "cuda" if backends.available() else "emulator"
    found = [
        (model, name, one)
        for model in (ALS, ImplicitALS, SGD, RBM)
        for name, one in _solvers(model).items()
        if source in (one.source, getattr(one, "solver_source", None))
    ]
    if not found:
        every = {one.source for m in (ALS, SGD, RBM) for one in _solvers(m).values()}
        raise ValueError(f"no solver launches {source}; choose from {sorted(name[:-3] for name in every)}")
    rows = []
    for model, name, one in found:
        most = min(factors, one.max_factors)
        error = _CHECKS[model](name, most, device)
        if not error <= _MAX_ERROR:
            raise ArithmeticError(f"{model.__name__}, {name}: off by {error:.2g} of the length of the reference")
        taken = _milliseconds(model, name, most) if device == "cuda" else None
        rows.append({"model": model.__name__, "solver": name, "factors": most, "error": error, "ms_per_epoch": taken})
    import pandas as pd

    shown = pd.DataFrame(rows).to_string(index=False, na_rep="-", float_format=lambda value: f"{value:.3g}")
    where = f"timed on {_TIMED}" if device == "cuda" else "without a GPU nothing is timed"
    return {"source": source, "device": device, "solvers": rows}, [f"{source} on {device}; {where}", shown]


def _solvers(model: Any) -> dict[str, Any]:
    """The model's solvers that launch kernels."""
    return {name: one for name, one in model.solver_classes().items() if issubclass(one, KernelSolver)}


def _ratings() -> Ratings:
    rng, (n_users, n_items, nnz) = np.random.default_rng(0), _CHECKED
    cells = rng.choice(n_users * n_items, nnz, replace=False)
    return Ratings(cells // n_items, cells % n_items, rng.integers(1, 6, nnz), n_users, n_items, scale=(1, 5))


_FREQUENT: dict[str, Any] = {"unobserved_weight": 0.5, "regularization_exponent": 1.0}


def _als(model: type, name: str, factors: int, device: Any) -> float:
    train, more = _ratings(), _FREQUENT if model is ImplicitALS else {"biases": False}
    made = model(factors, _RIDGE, solver=name, device=device, cg_steps=factors + 50, cg_tolerance=1e-7, **more)
    start = made.initial_factors(train)
    solver = made.make_solver(train, *start)
    solver.solve_users()
    actual = backends.device(device).to_numpy(solver.factors()[0])
    if model is ALS:
        return _error([actual], [reference.als_update(train.by_user, start[1], _RIDGE)])
    given = made.alpha, made.unobserved_weight, made.regularization_exponent
    return _error([actual], [reference.implicit_update(train.by_user, start[1], _RIDGE, *given)])


def _sgd(name: str, factors: int, device: Any) -> float:
    train, alone = _ratings(), _ALONE.get(name, {"threads": 1})
    made: Any = SGD(factors, _RIDGE, learning_rate=_RATE, biases=False, solver=name, device=device, **alone)
    hyper, steps, (p, q) = made.hyperparameters, (_RATE, _RIDGE, _RIDGE), made.initial_factors(train)
    solver = made.make_solver(train, p, q)
    solver.epoch(0)
    actual = map(backends.device(device).to_numpy, solver.factors())
    if name == "cu2rec":
        for step in range(made.solver_class.steps_an_epoch(train)):
            how = draw_key(hyper), step, first_user(step, train.n_users), hyper.options["conflict"]
            p, q = reference.cu2rec_step(train, p, q, steps, 0, *how)
    else:
        updates = made.solver_class.order(hyper, train)
        for moves, part in groupby(updates, key=lambda update: update[-1]):
            order = [rating for *_, rating, _ in part]
            p, q = reference.sgd_replay(train, order, p, q, steps, sides=moves if moves == "both" else f"{moves}s")
    return _error(actual, (p, q))


def _rbm(name: str, hidden: int, device: Any) -> float:
    ours, one_core = RBM(hidden, solver=name, device=device), RBM(hidden, solver="sequential")
    return _error(*(model.fit(_ratings(), 1)._learned for model in (ours, one_core)))


def _error(actual: Any, expected: Any) -> float:
    pairs = zip(actual, expected, strict=True)
    # NaN where one is; of an array of zeros the error itself.
    return float(np.max([np.linalg.norm(a - np.asarray(e)) / (np.linalg.norm(e) or 1.0) for a, e in pairs]))


_CHECKS: dict[type, Callable[[str, int, str], float]] = {
    **{model: partial(_als, model) for model in (ALS, ImplicitALS)},
    SGD: _sgd,
    RBM: _rbm,
}


def _milliseconds(model: type, name: str, factors: int, device: Any = "cuda", data: str = _TIMED) -> float:
    """The median of ten epochs on a data set, after two that warm up."""
    train, made = load_dataset(data), model(factors, solver=name, device=device)
    made._set_training(train)
    solver = made.make_solver(made._as_trained(made._placed(train)))
    return float(np.median(backends.device(device).time(lambda: solver.epoch(0)))) * 1e3
