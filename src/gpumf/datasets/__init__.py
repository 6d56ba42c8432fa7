from gpumf.datasets.ratings import CompressedRows, DataError, Ratings

__all__ = ["CompressedRows", "DataError", "Ratings"]
