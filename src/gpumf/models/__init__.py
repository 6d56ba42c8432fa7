"""Estimators: `fit`, `predict`, `recommend`, and the same history for all of them."""

from typing import TYPE_CHECKING

from gpumf._util.lazy import attach
from gpumf.models.als import ALS, ImplicitALS
from gpumf.models.checks import DivergedError, NotFittedError
from gpumf.models.estimator import Model
from gpumf.models.export import export_factors
from gpumf.models.factorization import Factorization
from gpumf.models.generalization import strong_generalization
from gpumf.models.search import SearchResult, cross_validate, search

if TYPE_CHECKING:
    from gpumf.models.bayesian import BayesianMF
    from gpumf.models.blend import Blend
    from gpumf.models.rbm import RBM
    from gpumf.models.sgd import SGD
else:
    __getattr__, __dir__ = attach(__name__, {"bayesian": "BayesianMF", "blend": "Blend", "rbm": "RBM", "sgd": "SGD"})

__all__ = [
    "ALS",
    "RBM",
    "SGD",
    "BayesianMF",
    "Blend",
    "DivergedError",
    "Factorization",
    "ImplicitALS",
    "Model",
    "NotFittedError",
    "SearchResult",
    "cross_validate",
    "export_factors",
    "search",
    "strong_generalization",
]
