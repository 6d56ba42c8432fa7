"""What a killed worker costs ALS on several GPUs: epochs that are trained again, and seconds.

The first worker, which writes the checkpoints, is killed after an epoch between two of them. Dask starts it again,
and training goes on from the last checkpoint. Without GPUs two processes of this machine are the workers.
"""

import os
import signal
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from tqdm import tqdm

from gpumf import ALS, backends
from gpumf_study import sweep
from gpumf_study.claims import Claim, below
from gpumf_study.experiments import load_ratings, official, usable_workers, workers_unavailable

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "part": [150, 120], "solver": "parallel", "factors": 8, "epochs": 8,
              "every": 3, "killed_after": 5, "workers": [2], "repeats": 1},
    "full": {"data": "netflix-synthetic", "part": None, "solver": "tensor_core", "factors": 100, "epochs": 20,
             "every": 3, "killed_after": 11, "workers": [1, 2, 4], "repeats": 3},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "factors": 4}

why_unavailable = workers_unavailable


def run(data, part, solver, factors, epochs, every, killed_after, workers, repeats):
    """Train undisturbed, then with a killed worker, on the most of these numbers of workers that there are.

    What comes after a lost worker is slower, with or without another.

    part : (users, items) of it that are taken, or None for all
    every : epochs between two checkpoints
    killed_after : epoch after which the first worker is killed

    Return a DataFrame with the rows of `sweep.rows`, x_workers, x_killed (0 or 1), x_every, and x_again, the epochs
    that were trained a second time
    """
    from gpumf.distributed import fit, local_cluster

    ratings = sweep.corner(load_ratings(data), part)
    train, test = official(ratings)
    gpus, n, frames = backends.gpus(), max(usable_workers(workers)), []
    model = partial(ALS, factors, 0.05, biases=False, clip=False, solver=solver, device="cuda" if gpus else "cpu")
    with local_cluster(n) as client:
        fit(model(), train, 1, test, client=client, workers=n)  # compiles
        for killed in (0, 1):
            for repeat in tqdm(range(repeats), desc="repeats", leave=False):
                with TemporaryDirectory() as folder:
                    stop = partial(_epoch_ended, Path(folder), killed_after if killed else None)
                    options = {"stop": stop, "checkpoint": Path(folder) / "checkpoint.npz", "every": every}
                    made = fit(model(), train, epochs, test, client=client, workers=n, **options)
                    again = trained_again(Path(folder))
                labels = {"data": data, "repeat": repeat, "x_workers": n, "x_killed": killed}
                frames.append(sweep.rows(made).assign(**labels, x_every=every, x_again=again))
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs["gpus"] = max(gpus, 1)
    return frame


def _epoch_ended(folder, killed_after, row):
    """For `stop`, on the first worker: note the epoch, and kill the worker after one of them, once."""
    with (folder / "epochs").open("a") as log:
        log.write(f"{row['epoch']}\n")
    if row["epoch"] == killed_after and not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return False


def trained_again(folder):
    """Return how many epochs were trained a second time, by the notes in a folder."""
    epochs = list(map(int, (folder / "epochs").read_text().split()))
    return sum(max(before - after, 0) for before, after in pairwise(epochs))


def costs(frame):
    """Return by repeat what the killed worker cost: x_again, share (of the epochs between checkpoints), x_seconds
    (end to end, without compiling) and gap (of the last test RMSE, without sign)."""
    runs = sweep.phase_seconds(frame, without=("compile",)).set_index(["repeat", "x_killed"])
    rmse = sweep.last_epoch(frame).set_index(["repeat", "x_killed"]).value
    killed, undisturbed = (runs.xs(k, level="x_killed") for k in (1, 0))
    gap = (rmse.xs(1, level="x_killed") - rmse.xs(0, level="x_killed")).abs()
    seconds = killed.seconds - undisturbed.seconds
    table = pd.DataFrame({"x_again": killed.x_again, "share": killed.x_again / killed.x_every, "gap": gap})
    return table.assign(x_seconds=seconds).reset_index()


def _claim(id, statement, **options):
    return Claim(f"lost-worker-{id}", "gpumf", None, statement, evidence="synthetic", table=costs,
                 device="nvidia-h200-x4", **options)  # fmt: skip


CLAIMS = [
    _claim("epochs", "Epochs trained again after a worker was killed, over those between two checkpoints, at most.",
           metric="exact", select={"column": "share", "across": "max"}, criterion=below(1.0)),
    _claim("rmse", "Distance in test RMSE of trainings with a killed worker from those without, at most.",
           metric="exact", select={"column": "gap", "across": "max"}, criterion=below(1e-4)),
    _claim("seconds", "Seconds that a killed worker adds to a training on four GPUs, Netflix (synthetic).",
           metric="median", select={"column": "x_seconds"}),
]  # fmt: skip
