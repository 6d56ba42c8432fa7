"""Estimators: `fit`, `predict`, `recommend`, and the same history for all of them."""

from gpumf.models.als import ALS, ImplicitALS
from gpumf.models.base import Factorization, NotFittedError
from gpumf.models.blend import Blend
from gpumf.models.sgd import SGD

__all__ = ["ALS", "SGD", "Blend", "Factorization", "ImplicitALS", "NotFittedError"]
