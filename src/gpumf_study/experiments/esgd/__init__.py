"""Experiments of Nassar et al., Novel GPU-based approach for matrix factorization using SGD."""

FIGURES_AND_TABLES = {
    "Table 1": "Data sets and parameters",
    "Table 2": "The least errors, and the iterations until them",
    "Section 4": "Seconds of an iteration on three sets",
    "Figure 5": "12.5 times as fast an iteration as BSGD",
}
"""Its figures and tables that show a measurement, with what each says."""
