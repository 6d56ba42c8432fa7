"""Experiments of Li et al., A new approach of GPU-accelerated SGD for matrix factorization, 2019."""
