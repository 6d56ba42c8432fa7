"""Experiments of Tan et al., Matrix factorization on GPUs with memory optimization and approximate computing."""

FIGURES_AND_TABLES = {
    "Table 1": "Operations and bytes of an epoch of ALS and of SGD",
    "Table 2": "Data sets and acceptable errors",
    "Table 3": "The machines",
    "Table 4": "Seconds to acceptable errors: 5.6 to 44 times as fast as LIBMF",
    "Figure 4": "Non-coalesced loads through L1 are the fastest of three ways to load",
    "Figure 5": "CG takes a quarter of the time of LU, and half of that in FP16",
    "Figure 6": "Converges faster than all programs for CPUs",
    "Figure 7": "More FLOP/s than batched products of cuBLAS; CG reaches more bandwidth than a copy",
    "Figure 8": "ALS against SGD on one GPU and on four",
    "Section 5.6": "Implicit feedback: 2.2 s an iteration, against 90 and 360 s of two libraries",
}
"""Its figures and tables that show a measurement, with what each says."""
