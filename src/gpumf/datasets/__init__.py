"""What a rating set is, where it comes from, how it is split; the synthetic twins."""

from typing import TYPE_CHECKING

from gpumf.datasets.checks import DataError
from gpumf.datasets.device import DeviceRatings
from gpumf.datasets.mapped import mapped
from gpumf.datasets.orders import ordered
from gpumf.datasets.ratings import Ratings
from gpumf.datasets.rows import CompressedRows
from gpumf.late import late

if TYPE_CHECKING:
    from gpumf.datasets.sources import load, names, read, times, titles
    from gpumf.datasets.statistics import describe, published
    from gpumf.datasets.twins import twin
else:
    __getattr__, __dir__ = late(
        __name__,
        {"sources": "load names read times titles", "statistics": "describe published", "twins": "twin"},
    )

__all__ = [
    "CompressedRows",
    "DataError",
    "DeviceRatings",
    "Ratings",
    "describe",
    "load",
    "mapped",
    "names",
    "ordered",
    "published",
    "read",
    "times",
    "titles",
    "twin",
]
