"""Experiments of Li et al., A new approach of GPU-accelerated SGD for matrix factorization, 2019."""

FIGURES_AND_TABLES = {
    "Figure 8": "An example block takes 8 units of time, where GPUSGD takes 15",
    "Figure 9": "The number of blocks does not change the trend of the error",
    "Figure 10": "More blocks take less time",
    "Figure 11": "Time grows linearly with the latent dimension",
    "Figure 12": "Faster than GPUSGD with 1,024 x 1,024 blocks, the more so with more factors",
}
"""Its figures and tables that show a measurement, with what each says."""
