"""Matrix factorization on GPUs.

>>> from gpumf import ALS
>>> from gpumf.ratings import load_dataset
>>> ratings = load_dataset("ml-100k-synthetic")
>>> train, test = ratings.split(test=0.2, seed=0)
>>> model = ALS(factors=16).fit(train, epochs=3, validation=test)
>>> list(model.history)
['epoch', 'seconds', 'rmse', 'mae']
>>> items, scores = model.recommend(0, k=5)
>>> items.shape
(5,)
"""

from typing import TYPE_CHECKING

from gpumf._util.lazy import attach
from gpumf.models import ALS, DivergedError, ImplicitALS, NotFittedError, cross_validate, search
from gpumf.ratings import Ratings

if TYPE_CHECKING:
    from gpumf.models import RBM, SGD, BayesianMF, Blend
    from gpumf.models.loading import load
    from gpumf.ratings import dataset_names, load_dataset, read_ratings
    from gpumf.suggestion import suggest
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "models": "RBM SGD BayesianMF Blend",
            "models.loading": "load",
            "ratings": "dataset_names load_dataset read_ratings",
            "suggestion": "suggest",
        },
    )

__version__ = "1.1.0.dev0"
__all__ = [
    "ALS",
    "RBM",
    "SGD",
    "BayesianMF",
    "Blend",
    "DivergedError",
    "ImplicitALS",
    "NotFittedError",
    "Ratings",
    "__version__",
    "cross_validate",
    "dataset_names",
    "load",
    "load_dataset",
    "read_ratings",
    "search",
    "suggest",
]
