"""Experiments of Greenquist and Kilitcioglu, GPU accelerated matrix factorization for recommender systems."""

FIGURES_AND_TABLES = {
    "Speed-up": "Ten times as fast as sequential libraries",
    "RMSE": "Matches the best errors; without striding they are 2 to 3 % worse",
    "GPU against GPU": "A better GPU gains more on larger sets and with more factors",
    "Early bird gets the gradient": "12 to 15 % faster than when the early bird loses",
}
"""Its figures and tables that show a measurement, with what each says."""

# Of its repository (`config.h`, `create_config.py` and `run_surprise.py`), for cu2rec and for the SVD of Surprise.
RATES = {"learning_rate": 0.01, "regularization": 0.02}
STEPS = 10_000
