"""Estimators: `fit`, `predict`, `recommend`, and the same history for all of them."""

from gpumf.models.als import ALS, ImplicitALS
from gpumf.models.base import Factorization, Model, NotFittedError
from gpumf.models.blend import Blend
from gpumf.models.rbm import RBM
from gpumf.models.sgd import SGD

__all__ = ["ALS", "RBM", "SGD", "Blend", "Factorization", "ImplicitALS", "Model", "NotFittedError"]
