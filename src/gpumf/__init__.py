"""Matrix factorization on GPUs.

>>> from gpumf import ALS, datasets
>>> ratings = datasets.load("ml-100k")
>>> train, test = ratings.split(test=0.2, seed=0)
>>> model = ALS(factors=16, regularization=0.05).fit(train, epochs=20, validation=test)
>>> model.history
"""

from gpumf import datasets
from gpumf.models import ALS, RBM, SGD, Blend, DivergedError, ImplicitALS, NotFittedError

__version__ = "0.1.0"
__all__ = [
    "ALS",
    "RBM",
    "SGD",
    "Blend",
    "DivergedError",
    "ImplicitALS",
    "NotFittedError",
    "__version__",
    "datasets",
]
