"""Matrix factorization on GPUs."""

__version__ = "0.1.0"
