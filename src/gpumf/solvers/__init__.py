"""One file per algorithm; `gpumf.solvers.base` says what a solver declares."""
