"""Experiments of Greenquist and Kilitcioglu, GPU accelerated matrix factorization for recommender systems."""
