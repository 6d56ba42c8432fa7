"""Experiments of Nassar et al., Novel GPU-based approach for matrix factorization using SGD."""
