"""What a rating set is, where it comes from, how it is split; synthetic data sets."""

from typing import TYPE_CHECKING

from gpumf._util.lazy import attach
from gpumf.ratings.checks import DataError
from gpumf.ratings.csr import CompressedRows
from gpumf.ratings.device import DeviceRatings
from gpumf.ratings.mapped import map_ratings
from gpumf.ratings.presorted import presort
from gpumf.ratings.ratings import Ratings

if TYPE_CHECKING:
    from gpumf.ratings.sources import dataset_names, item_titles, load_dataset, rating_times, read_ratings
    from gpumf.ratings.statistics import describe, published_shapes
    from gpumf.ratings.synthetic import synthetic_ratings
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "sources": "load_dataset dataset_names read_ratings rating_times item_titles",
            "statistics": "describe published_shapes",
            "synthetic": "synthetic_ratings",
        },
    )

__all__ = [
    "CompressedRows",
    "DataError",
    "DeviceRatings",
    "Ratings",
    "dataset_names",
    "describe",
    "item_titles",
    "load_dataset",
    "map_ratings",
    "presort",
    "published_shapes",
    "rating_times",
    "read_ratings",
    "synthetic_ratings",
]
