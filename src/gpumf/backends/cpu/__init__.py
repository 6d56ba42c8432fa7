"""The same mathematics without a GPU: one thread, many threads (Numba), and a float64 reference (NumPy)."""
