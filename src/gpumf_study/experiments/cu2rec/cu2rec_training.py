"""cu2rec against SGD on the CPU: time to equal error, and the errors reached.

Source: Greenquist and Kilitcioglu, "Results". Biases, a normal start, a learning rate that falls on patience, 80 % of
the ratings for training. The text names neither its sequential library nor its parameters; its repository has both:
the SVD of Surprise, 300 factors, the rates of `RATES`, and as many updates as cu2rec makes in `STEPS` steps. The
baseline here is shuffled SGD in C++ with these parameters.
"""

from math import ceil

from gpumf import SGD, backends
from gpumf_study import sweep
from gpumf_study.claims import Claim, below, near
from gpumf_study.experiments import kernels_unavailable
from gpumf_study.experiments.cu2rec import RATES, STEPS

PUBLISHED_START = {"initial": "normal", "patience": 2, "loss_every": 500}

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "part": [120, 100], "solvers": ["ordered", "cu2rec"], "factors": 4,
              "steps": 50, "max_updates": 10_000, "repeats": 2},
    "full": {"data": ["ml-100k", "ml-1m", "ml-20m-synthetic"], "part": None,
             "solvers": ["ordered", "ordered_parallel", "cu2rec", "fast"], "factors": 300, "steps": STEPS,
             "max_updates": 250_000_000, "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "steps": 20}

why_unavailable = kernels_unavailable


def run(data, part, solvers, factors, steps, max_updates, repeats):
    """Train with each solver as many epochs as `steps` steps of cu2rec are; on the CPU at most `max_updates`."""
    gpu = "cuda" if backends.available() else "emulator"

    def models(train, repeat):
        epochs = ceil(steps * train.n_users / train.nnz)
        for solver in solvers:
            on_cpu = SGD.solvers()[solver] == "cpu"
            options = PUBLISHED_START if solver == "cu2rec" else {}
            model = SGD(
                factors, solver=solver, device="cpu" if on_cpu else gpu, biases=True, clip=False, seed=repeat,
                **RATES, **options,
            )  # fmt: skip
            yield {"epochs": min(epochs, ceil(max_updates / train.nnz)) if on_cpu else epochs}, model

    return sweep.sweep(models, data, 1, repeats, held_out=0.2, part=part)


def level(frame):
    """Return by data set the test RMSE that all solvers reach: 0.5 % above the highest of their lowest."""
    return 1.005 * sweep.best_epoch(frame).groupby(["data", "solver"]).value.median().groupby("data").max()


def reached(frame):
    """Return when each run reaches the level of its data set: `train`, and `end_to_end` without later epochs."""
    found = sweep.end_to_end(sweep.time_to_error(frame, level(frame)), frame)
    return found.rename(columns={"seconds": "train"})


CLAIMS = [
    *(Claim(f"cu2rec-speed-up-{what}", "cu2rec", "Speed-up",
            f"Speed-up in {of} over single-threaded SGD, to equal RMSE, 300 factors, MovieLens 20M (synthetic).",
            10.0, "ratio",
            {"column": column, "where": {"data": "ml-20m-synthetic", "factors": 300}, "over": {"solver": "ordered"},
             "under": {"solver": "cu2rec"}}, near(10.0, 2.0), "synthetic", reached)
      for what, column, of in (("train", "train", "training time"), ("wall", "end_to_end", "end-to-end time"))),
    Claim("cu2rec-rmse", "cu2rec", "RMSE",
          "Test RMSE above that of shuffled SGD, as many updates, 300 factors, the worse of MovieLens 100K and 1M.",
          metric="difference",
          select={"column": "value", "where": {"data": ["ml-100k", "ml-1m"], "factors": 300}, "each": ["data"],
                  "across": "max", "over": {"solver": "cu2rec"}, "under": {"solver": "ordered"}},
          criterion=below(0.01), table=sweep.last_epoch),
]  # fmt: skip
