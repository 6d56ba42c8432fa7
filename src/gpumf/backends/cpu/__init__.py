"""The same mathematics without a GPU: one core, many cores (Numba), and a float64 reference (NumPy)."""
