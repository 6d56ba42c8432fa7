"""SGD and LIBMF on Netflix (synthetic): test RMSE against seconds, on the CPU and on the GPU.

Every program tries as many settings on the same tenth of the training ratings that is held out, each lambda and
learning rate with one number of epochs, then the best of them with the others, and trains on all of them with what
was best there. LIBMF gives each row a rate by its gradients (Chin et al. 2015), ours by its number of ratings, once
also one rate to all; ours has biases, which LIBMF has not. LIBMF tells nothing of its epochs: it is trained anew for
each number of them, in a new process that has trained before on few ratings. It is built from its source with the
machine's vector instructions and threads, the flags twice because it depends on setuptools which it reads:

    export CFLAGS="-O3 -march=native -DUSEAVX -DUSEOMP -fopenmp" LDFLAGS=-fopenmp
    export CXXFLAGS=$CFLAGS
    pip install --no-binary libmf libmf
"""

import platform
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.metadata import files, version
from importlib.util import find_spec
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD
from gpumf._util import threads
from gpumf.models.evaluation import Errors
from gpumf.solvers import schedules
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import _kept, load_ratings, official, usable_devices, wall_seconds

PEER, CORES, GPU, ONE_RATE = "LIBMF", "gpumf, CPU", "gpumf, GPU", "gpumf, GPU, one rate"
OURS = {
    CORES: {"solver": "ordered_parallel", "row_rates": True},
    GPU: {"solver": "fast", "row_rates": True},
    ONE_RATE: {"solver": "fast", "schedule": schedules.Power(0.1)},
}
# As many settings for each. Their middles were best in a first search, in which three programs were best at an end.
_GRIDS = {
    PEER: {"regularization": [0.01, 0.02, 0.03], "learning_rate": [0.015, 0.03, 0.06]},
    CORES: {"regularization": [0.02, 0.03, 0.05], "learning_rate": [0.05, 0.08, 0.12]},
    GPU: {"regularization": [0.015, 0.02, 0.03], "learning_rate": [0.04, 0.06, 0.1]},
    ONE_RATE: {"regularization": [0.01, 0.02, 0.03], "learning_rate": [0.01, 0.02, 0.04]},
}
PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "factors": 16, "epochs": [4, 2], "repeats": 1, "grids": _GRIDS},
    "full": {"data": "netflix-synthetic", "factors": 128, "epochs": [10, 5, 20], "repeats": 5, "grids": _GRIDS},
}
PROFILES["smoke"] = PROFILES["quick"] | {
    "grids": {program: {name: of[-1:] for name, of in grid.items()} for program, grid in _GRIDS.items()}
}


def why_unavailable():
    """What is wrong with the package libmf, or None where it is installed, and built to be fast."""
    if not find_spec("libmf"):
        return "the package libmf is not installed; see the experiment's first lines"
    code = b"".join(file.locate().read_bytes() for file in files("libmf") if file.suffix == ".so")
    # LIBMF has vector code for x86 alone; what takes registers of eight float32 has it in its name, as C++ writes
    # names in libraries. Threads are started by GNU's OpenMP or by LLVM's.
    vectors = b"Dv8_f" in code or platform.machine() not in ("x86_64", "AMD64")
    if vectors and (b"GOMP_parallel" in code or b"__kmpc_fork_call" in code):
        return None
    return "the package libmf is built without AVX or OpenMP; see the experiment's first lines"


def run(data, factors, epochs, repeats, grids):
    """Choose lambda, the learning rate and the number of epochs, then train.

    data : name of a data set; its official split, where it has one
    epochs : list of int that are tried, the first of them with every lambda and rate
    grids : dict, program -> regularization and learning_rate -> list of float, all pairs of which are tried

    Rows are of x_step 'choice', on the held-out ratings, or 'test'; `model` is the program and `epoch` the number of
    epochs, x_chosen is 1 where held-out ratings chose lambda, rate and this number. Seconds end to end are from
    ratings in NumPy, as each program takes them, to factors in NumPy; those of training are missing for LIBMF.
    """
    ratings = load_ratings(data)
    train, test = official(ratings)
    inner, held_out = train.split(0.1)
    rows = []
    usable = usable_devices()

    def fit(step, given, judge, numbers, *pair, seed, timed):
        made = partial(_fitted, program, factors, given, judge, numbers, *pair, seed=seed, timed=timed)
        return _kept.once("-".join(map(str, [step, program, *pair, seed])), made)

    for program in [PEER, *(name for name, of in OURS.items() if SGD.solvers()[of["solver"]] in usable)]:
        what, tried = {"model": program, "factors": factors}, []
        with taken(program, inner) as given:
            pairs = product(grids[program]["regularization"], grids[program]["learning_rate"])
            for pair in tqdm([*pairs], desc=f"peers_sgd {program}", leave=False):
                tried += fit("choice", given, held_out, epochs[:1], *pair, seed=0, timed=False)
            best = min(tried, key=_error)
            pair = best["x_regularization"], best["x_learning_rate"]
            tried += fit("epochs", given, held_out, epochs[1:], *pair, seed=0, timed=False)
        best = min(tried, key=_error)
        rows += [what | {"x_step": "choice", "repeat": 0, "x_chosen": int(row is best)} | row for row in tried]
        what |= {"x_step": "test"}
        with taken(program, train) as given:
            for repeat in range(repeats):
                for row in fit("test", given, test, epochs, *pair, seed=repeat, timed=True):
                    rows.append(what | {"repeat": repeat, "x_chosen": int(row["epoch"] == best["epoch"])} | row)
    frame = in_rows(pd.DataFrame(rows)).assign(
        data=ratings.name, task="fit", threads=threads.count(), x_version=version("libmf")
    )
    return frame


def in_rows(trainings):
    """Return a row a training with its RMSE and seconds end to end, and one with its seconds of training."""
    errors = trainings.assign(metric="rmse", value=trainings.rmse, seconds=trainings.wall)
    errors["phase"] = np.where(errors.seconds.notna(), "end_to_end", None)
    training = trainings.dropna(subset="train").assign(phase="train")
    return pd.concat([errors, training.assign(seconds=training.train)], ignore_index=True).drop(
        columns=["rmse", "wall", "train"]
    )


def _error(row):
    return row["rmse"]


@contextmanager
def taken(program, ratings):
    """Ratings as a program takes them: LIBMF a file of float32 (nnz, 3), a user, an item and a value each."""
    if program != PEER:
        yield ratings
        return
    with TemporaryDirectory() as folder:
        file = Path(folder, "ratings.npy")
        np.save(file, np.column_stack([ratings.users, ratings.items, ratings.values]).astype(np.float32))
        yield file


def _fitted(program, factors, train, judge, epochs, regularization, rate, seed, timed):
    """The rows of one program's trainings.

    train : as of `taken`
    timed : bool, fit ours anew for the wall's seconds of each number of epochs, without test errors on the way
    """
    if program == PEER:
        mean = np.load(train, mmap_mode="r")[:, 2].mean(dtype=np.float64)
        return [libmf(factors, train, mean, judge, n, regularization, rate) for n in epochs]
    model = SGD(factors, regularization, learning_rate=rate, biases=True, init_std=0.3 * factors**-0.5, seed=seed,
                clip=False, **OURS[program])  # fmt: skip
    history = model.fit(train, max(epochs), judge).history.set_index("epoch")
    return [{"x_regularization": regularization, "x_learning_rate": rate, "epoch": n, "train": history.seconds[n],
             "wall": wall_seconds(model, train, n) if timed else np.nan, "rmse": history.rmse[n]}
            for n in epochs]  # fmt: skip


def libmf(factors, file, mean, judge, epochs, regularization, rate):
    cores = threads.count()
    options = {"k": factors, "nr_threads": cores, "nr_bins": max(26, 2 * cores + 1), "nr_iters": epochs, "eta": rate}
    options |= {"lambda_p1": 0, "lambda_q1": 0}  # the package's defaults are not zero, as LIBMF's own are
    options |= {"lambda_p2": regularization, "lambda_q2": regularization, "quiet": True}
    wall, users, items = _apart(_factorized, options, file)
    rmse = _rmse(users, items, mean, judge)
    setting = {"x_regularization": regularization, "x_learning_rate": rate, "epoch": epochs}
    return setting | {"train": np.nan, "wall": wall, "rmse": rmse}


def _factorized(options, file):
    """(wall seconds of a training by LIBMF, factors of the users, factors of the items)."""
    from libmf import mf

    triples, model = np.load(file), mf.MF(**options)
    mf.MF(**options).fit(triples[:10_000])  # what a process does once
    started = time.perf_counter()
    model.fit(triples)
    users, items = model.p_factors(), model.q_factors()
    return time.perf_counter() - started, users, items


def _apart(function, *arguments):
    """What a function gives in a process of its own, with whose end its memory is free: the package frees none."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _rmse(users, items, mean, ratings):
    """Of these factors; the mean where LIBMF has none of a user or item, or numbers that are none."""
    known = [
        np.isin(np.arange(n), np.flatnonzero(np.isfinite(factors).all(axis=1)))
        for factors, n in ((users, ratings.n_users), (items, ratings.n_items))
    ]
    return Errors(ratings, known, mean, users.shape[1], "cpu")(
        *(np.ascontiguousarray(of, np.float32) for of in (users, items))
    )[0]


def searched(frame):
    """Return the test rows of a frame whose programs searched their learning rates; none of another."""
    return frame[(frame.x_step == "test") & ("x_learning_rate" in frame)]


def reached(frame):
    """Return of each program and repeat the fewest seconds end to end to the test RMSE that all programs reach."""
    runs = searched(frame)
    runs = runs[runs.metric == "rmse"]
    chosen = runs[runs.x_chosen == 1].groupby("model").value.median()
    there = runs[runs.value <= 1.001 * chosen.max()]
    found = there.groupby(["model", "repeat"], as_index=False, sort=False).seconds.min()
    return found.assign(device=np.where(found.model.isin([GPU, ONE_RATE]), "cuda", "cpu"))


def _claim(name, statement, over, under, metric, select, table):
    return Claim(f"peers-sgd-{name}", "gpumf", None, f"{statement}, Netflix (synthetic), 128 factors.", metric=metric,
                 select=select | {"over": {"model": over}, "under": {"model": under}},
                 criterion=above(1.0 if metric == "ratio" else 0.0), evidence="synthetic", table=table)  # fmt: skip


def _time_claim(name, device, program):
    statement = f"Seconds end to end of LIBMF over those of SGD on the {device}, to the RMSE that all programs reach"
    return _claim(name, statement, PEER, program, "ratio", {"column": "seconds"}, reached)


def _error_claim(name, statement, over, under):
    select = {"column": "value", "where": {"x_chosen": 1, "metric": "rmse"}}
    return _claim(name, statement, over, under, "difference", select, searched)


CLAIMS = [
    _time_claim("cores-wall", "CPU", CORES),
    _time_claim("gpu-wall", "GPU", GPU),
    _error_claim("cores-rmse", "Test RMSE of LIBMF less that of SGD on the CPU", PEER, CORES),
    _error_claim("gpu-rmse", "Test RMSE of LIBMF less that of SGD on the GPU", PEER, GPU),
    _error_claim("gpu-row-rates", "Test RMSE of SGD with one rate less that with a rate for each row", ONE_RATE, GPU),
]
