"""What an epoch of a scheme moves and computes: counted from its plan, not measured.

The bytes are those of `sgd_limits.plan`, and the like of ALS: ratings, every row of factors that is fetched or
stored, and the matrices of the normal equations where they are in memory, as if caches answered nothing. The
operations are those of `_limits`, whatever a scheme does twice.
"""

import numpy as np

from gpumf.solvers.als_cumf import Cumf
from gpumf.solvers.als_thesis import Thesis
from gpumf_study.experiments import _limits
from gpumf_study.experiments.gpumf import sgd_limits


def of_epoch(model, train):
    """(bytes, FLOP) of an epoch of a model's scheme on a training set; missing of a machine, which has no update a
    rating.

    model : ALS or SGD without biases, or RBM
    """
    count = {"ALS": _of_als, "SGD": _of_sgd}.get(type(model).__name__)
    return count(model, train) if count else (np.nan, np.nan)


def _of_als(model, train):
    """Of the update of each side: ratings, a row of factors for each of them, the solutions, and the matrices."""
    f, rows, nnz, scheme = model.factors, train.n_users + train.n_items, train.nnz, model.solver_class
    steps = model.cg_steps if model.solver in _limits.CONJUGATE_GRADIENT else None
    shapes = (train.n_users, train.n_items), (train.n_items, train.n_users)
    flops = sum(_limits.side_update(*shape, nnz, f, steps)[1] for shape in shapes)
    entry = 2 if model.solver in _limits.FUSED else 4
    return 2 * (8 + entry * f) * nnz + 4 * f * rows + f * (f + 1) // 2 * _matrix_entries(scheme, rows, nnz), flops


def _matrix_entries(scheme, rows, nnz):
    """Bytes of an epoch for each entry of a triangle of the matrices."""
    if issubclass(scheme, Cumf):  # written by get_hermitian, read by the solver
        return 2 * (2 if scheme.a_half else 4) * rows
    if issubclass(scheme, Thesis) and scheme.shared_matrices < 2:  # the sum is read and written for every rating
        return 2 * 4 * 2 * nnz
    return 0


def _of_sgd(model, train):
    f, nnz = model.factors, train.nnz
    _, flops = _limits.epoch_of_updates(train.n_users, train.n_items, nnz, f)
    if model.solver == "kato_hosino":  # two sweeps, each of which fetches the rows of the side that stays
        return 2 * (12 + 4 * f) * nnz + 8 * f * (train.n_users + train.n_items), flops
    return 12 * nnz + sgd_limits.plan(model, train)[1], flops
