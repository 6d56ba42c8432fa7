"""Estimators: `fit`, `predict`, `recommend`, and the same history for all of them."""

from gpumf.models.als import ALS, ImplicitALS
from gpumf.models.blend import Blend
from gpumf.models.checks import DivergedError, NotFittedError
from gpumf.models.estimator import Model
from gpumf.models.export import export_factors
from gpumf.models.factorization import Factorization
from gpumf.models.rbm import RBM
from gpumf.models.search import cross_validate, search
from gpumf.models.sgd import SGD

__all__ = [
    "ALS",
    "RBM",
    "SGD",
    "Blend",
    "DivergedError",
    "Factorization",
    "ImplicitALS",
    "Model",
    "NotFittedError",
    "cross_validate",
    "export_factors",
    "search",
]
