"""Experiments of Kampffmeyer's master's thesis, Tromsø 2015, and on the questions that it leaves open."""

FIGURES_AND_TABLES = {
    "Figure 1.2": "GPUs pull away from CPUs in theoretical FLOP/s",
    "Figure 3.3": "An element-wise cube is much faster on the GPU",
    "Figure 3.4": "Transfers take most of that gain",
    "Figure 3.11": "Strided access is slower",
    "Figure 4.5": "Weights that stay on the GPU halve the time of a Boltzmann machine",
    "Table 6.1": "Ratings per user and item of Douban",
    "Table 6.2": "Ratings per user and item of Jester",
    "Figure 6.1": "The best regularization of Hogwild",
    "Figure 6.2": "The best learning rate of Hogwild",
    "Figure 6.3": "The best regularization of ALS",
    "Figure 6.4": "The best learning rate of the Boltzmann machine",
    "Figure 6.5": "Sparser ratings need a larger regularization",
    "Figure 6.6": "Sparser ratings give a larger error",
    "Figure 6.7": "ALS in shared memory scales linearly to 4,096 threads, then drops",
    "Figure 6.8": "Active blocks against shared memory",
    "Figure 6.9": "ALS in global memory scales linearly to 12,288 threads",
    "Figure 6.10": "Shared memory is faster; the gap narrows with more threads",
    "Table 6.3": "Speed-ups over a single-threaded CPU",
    "Figure 6.11": "Seconds to the threshold, CPU and GPU",
    "Figure 6.12": "Seconds to the threshold on the GPU",
    "Figure 6.13": "The Boltzmann machine gains less a second than ALS and SGD",
}
"""Its figures and tables that show a measurement, with what each says."""
