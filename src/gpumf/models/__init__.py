"""Estimators: `fit`, `predict`, `recommend`, and the same history for all of them."""

from gpumf.models.als import ALS, ImplicitALS
from gpumf.models.base import Factorization, NotFittedError
from gpumf.models.sgd import SGD

__all__ = ["ALS", "SGD", "Factorization", "ImplicitALS", "NotFittedError"]
