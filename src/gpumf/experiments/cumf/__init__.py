"""Experiments of Tan et al., Matrix factorization on GPUs with memory optimization and approximate computing."""
