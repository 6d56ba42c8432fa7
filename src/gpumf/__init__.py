"""Matrix factorization on GPUs.

>>> from gpumf import ALS, datasets
>>> ratings = datasets.load("ml-100k-twin")
>>> train, test = ratings.split(test=0.2, seed=0)
>>> model = ALS(factors=16).fit(train, epochs=3, validation=test)
>>> list(model.history)
['epoch', 'seconds', 'rmse', 'mae']
>>> items, scores = model.recommend(0, k=5)
>>> items.shape
(5,)
"""

from typing import TYPE_CHECKING

from gpumf import datasets
from gpumf.late import late
from gpumf.models import ALS, DivergedError, ImplicitALS, NotFittedError, cross_validate, search

if TYPE_CHECKING:
    from gpumf.models import RBM, SGD, Blend
    from gpumf.models.loading import load
    from gpumf.suggestion import suggest
else:
    __getattr__, __dir__ = late(
        __name__, {"models": "RBM SGD Blend", "models.loading": "load", "suggestion": "suggest"}
    )

__version__ = "0.2.0"
__all__ = [
    "ALS",
    "RBM",
    "SGD",
    "Blend",
    "DivergedError",
    "ImplicitALS",
    "NotFittedError",
    "__version__",
    "cross_validate",
    "datasets",
    "load",
    "search",
    "suggest",
]
