"""What many factors buy in top-N recommendations, on the fastest device of this machine, and their seconds.

Benchmark, protocol and rows are those of `quality_benchmarks` for Gowalla. Parameters are chosen once, on training
pairs that are held out.
"""

from gpumf_study.experiments.gpumf import quality_benchmarks

_GRID = {"regularization": [0.003, 0.004, 0.005, 0.006], "unobserved_weight": [0.005, 0.01, 0.02]}
PROFILES = {
    "full": {"data": "gowalla", "factors": [256, 1024, 2048, 8192],
             "grid": {"factors": 1024, **_GRID, "epochs": [4, 6, 8]}, "repeats": 3},
    "smoke": {"data": "ml-100k-synthetic", "factors": [4, 8],
              "grid": {"factors": 4, "regularization": [0.01, 0.1], "unobserved_weight": [0.1], "epochs": [1, 2]},
              "repeats": 2},
}  # fmt: skip
PROFILES["quick"] = PROFILES["full"] | {"factors": [64, 128], "repeats": 1}
PROFILES["quick"]["grid"] = PROFILES["full"]["grid"] | {"factors": 64, "epochs": [4, 6]}


def run(data, factors, grid, repeats):
    """Choose parameters with one number of factors, and judge them on the test set with each."""
    return quality_benchmarks.run([data], {data: factors}, {data: grid}, repeats, device="auto")


summary = quality_benchmarks.summary
