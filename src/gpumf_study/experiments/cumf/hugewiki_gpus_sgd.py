"""SGD at the size of Hugewiki on one, two and four GPUs: what GPUs gain in an epoch of blocks.

Source: Tan et al. 2018, section 5.5, where GPU-SGD trains on blocks that share no users and no items: 100 factors,
lambda 0.05, a learning rate that falls from epoch to epoch. Ours falls with a row's number of ratings, too: without
that no rate reached RMSE 0.52 in 100 epochs on a quarter of the users and ratings, where this one was chosen by the
epochs to it. Users and items are cut into as many parts each, the same for any number of workers. A worker has its
share of the users' parts, and of the items' parts at a time, which it passes round a ring. Without GPUs the emulator
runs the same kernels on a small data set.

A rating takes 12 bytes in the order of `fast`, 8 in the data set's by user, and 8 in the one by item, which is
dropped first. So one GPU has room for all at 100 factors: 22 GB of the data set's ratings, 34 GB of blocks, 20 GB of
users' factors in FP32, 3 GB in FP16 for the block at work, 4 GB of test ratings, 20 GB to cut a users' part into
blocks.
"""

import time
from functools import partial

import numpy as np
import pandas as pd

from gpumf import SGD, backends
from gpumf.ratings import synthetic_device
from gpumf.ratings.csr import CompressedRows
from gpumf.solvers import schedules
from gpumf_study import results
from gpumf_study.claims import Claim
from gpumf_study.experiments import identity, workers_unavailable
from gpumf_study.experiments.cumf.hugewiki_gpus import (
    ERROR,
    beside_model,
    by_training,
    facts_of,
    of_users,
    on_workers,
    speed_up,
    within,
)

REGULARIZATION, LEARNING_RATE, SCHEDULE = 0.05, 0.3, schedules.Power(beta=0.01, power=1.5)
FOUR = "nvidia-h200-x4"
PROFILES = {
    "quick": {
        "data": "hugewiki-small-synthetic",
        "factors": 16,
        "parts": 2,
        "workers": [1, 2],
        "epochs": [3, 3],
        "repeats": 2,
    },
    "full": {
        "data": "hugewiki-synthetic",
        "factors": 100,
        "parts": 4,
        "workers": [1, 2, 4],
        "epochs": [20, 6, 20],
        "repeats": 5,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"factors": 4, "workers": [2], "epochs": [1], "repeats": 1}

why_unavailable = workers_unavailable


def run(data, factors, parts, workers, epochs, repeats):
    """Train with each number of workers that the machine has a GPU for, on the same blocks.

    data : str, one of `gpumf.ratings.synthetic_device.RECIPES`
    parts : int, of the users and of the items, a multiple of each number of workers
    epochs : list, for each number of workers; a few time an epoch, to an error it takes more
    repeats : int, trainings with each number of workers, each from other factors

    Return a DataFrame with a row an epoch of a worker: x_workers, x_rank, x_epoch (from 1), seconds (from where all
    have begun the epoch), the test RMSE after it as value
    """
    of_workers = dict(zip(workers, epochs, strict=True))
    frame = on_workers(workers, _train, ["x_epoch", "seconds", "value"], data, factors, repeats, parts, of_workers)
    return frame.assign(model="SGD", solver="fast")


def _train(comm, data, factors, repeats, parts, epochs, device):
    """One worker's trainings: (identity of the data set, rows of times)."""
    from gpumf.distributed import nccl
    from gpumf.distributed.sgd import SGDWorker
    from gpumf.distributed.sources import balanced_bounds, own_of

    there = backends.device(device)
    rates = {"learning_rate": LEARNING_RATE, "schedule": SCHEDULE, "row_rates": True}
    synthetic = synthetic_device.synthetic_ratings(data, device=device)
    facts, what = facts_of(synthetic.train, there), identity(synthetic)

    def begun(seed):
        options = {"solver": "fast", "device": device, "biases": False, "clip": False, "seed": seed}
        model = SGD(factors, REGULARIZATION, **options, **rates)
        model._set_training(facts)
        return model

    ends = [balanced_bounds(of, parts) for of in (facts.user_counts, facts.item_counts)]
    bounds = tuple(of[:: parts // comm.size] for of in ends)
    own = own_of(bounds, comm.rank)[0]
    errors, rows = begun(0)._errors(of_users(synthetic.test, own)), synthetic.train.by_user
    del synthetic  # with the order by item
    cuts = ends[0][(own.start <= ends[0]) & (ends[0] <= own.stop)]
    blocks = _blocks(rows, cuts, ends[1], there)
    del rows  # which the blocks drop when all are made
    found = []
    with nccl.carrier(comm, device) as carrier:
        model = begun(0)
        worker = SGDWorker(carrier, model, blocks, model._initial(facts), bounds)
        for repeat in range(repeats):
            if repeat:
                initial = begun(repeat)._initial(facts)
                worker.set_own([array[part] for array, part in zip(initial, worker._own, strict=True)])
                del initial
            history = [{"rmse": np.nan}]  # before the first epoch
            for epoch in range(1, epochs[comm.size] + 1):
                carrier.barrier()
                started = time.perf_counter()
                worker.epoch(epoch - 1, history)
                seconds = time.perf_counter() - started
                sums = np.array([errors.totals(*worker.arrays())[1], errors.nnz], np.float64)
                comm.all_reduce(sums)
                history.append({"rmse": float(np.sqrt(sums[0] / sums[1]))})
                found.append((repeat, epoch, seconds, history[-1]["rmse"]))
    return what, found


def _blocks(rows, cuts, bounds, device):
    """The blocks of users' parts that end at these cuts, one part after another, as of `blocks_of`."""
    from gpumf.distributed.sgd import blocks_of

    for start, stop in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        begin, end = int(rows.indptr[start]), int(rows.indptr[stop])
        own = CompressedRows(rows.indptr[start : stop + 1] - begin, rows.indices[begin:end], rows.values[begin:end])
        yield from blocks_of(own, slice(start, stop), bounds, device)


def epochs(frame):
    """Return seconds from where all workers have begun an epoch to where the last has ended: see `by_training`.

    The first epoch, a warm-up, is left out, and so are numbers of workers of which a training diverged.
    """
    frame = frame[frame.value.notna().groupby(frame.x_workers).transform("all") & (frame.x_epoch > 1)]
    return by_training(frame.groupby(["x_workers", "repeat", "x_epoch"]).seconds.max())


def summary(frame):
    """Return by x_workers the seconds of an epoch (median), speed_up over one GPU, rmse (after the last epoch)."""
    seconds = epochs(frame).groupby("x_workers").seconds.median()
    rmse = frame.groupby("x_workers").value.last()
    return pd.DataFrame({"seconds": seconds, "speed_up": seconds.get(1, np.nan) / seconds, "rmse": rmse})


def received(frame, gpus):
    """Return the bytes that a GPU receives in an epoch: all items' factors, which have gone round then."""
    return 4 * int(frame.factors.iloc[0]) * synthetic_device.RECIPES[frame["data"].iloc[0]].items


def to_error(frame):
    """Return the epochs of each training to ERROR, by model and x_workers, and its seconds: as many medians of one.

    A training that does not get there has no row. ALS is what `hugewiki_gpus` recorded on that machine.
    """
    frames = [("SGD", "x_epoch", frame.assign(x_begin=0.0))]
    if als := results.recorded("hugewiki_gpus", FOUR):
        frames.append(("ALS", "x_iteration", als.frame))
    tables = []
    for model, column, rows in frames:
        training, later = ["x_workers", "repeat"], rows[rows[column] > 1]
        ends = (later.x_begin + later.seconds).groupby([later[name] for name in (*training, column)]).max()
        there = rows[rows.value <= ERROR].groupby(training)[column].min()
        found = pd.DataFrame({"epochs": there, "seconds": ends.groupby(training).median() * there}).dropna()
        tables.append(found.reset_index().assign(model=model))
    return pd.concat(tables, ignore_index=True)


_beside_model = partial(beside_model, epochs, received)
CLAIMS = [
    *(speed_up("SGD", gpus, epochs) for gpus in (2, 4)),
    *(within("SGD", gpus, _beside_model) for gpus in (2, 4)),
    *(Claim(f"cumf-fig-8-{words}", "cumf", "Figure 8",
            f"Time of our fastest SGD over that of our fastest ALS to RMSE 0.52, {words} GPU{'s' * (gpus > 1)}, "
            "Hugewiki (synthetic).",
            metric="ratio",
            select={"column": "seconds", "where": {"x_workers": gpus}, "over": {"model": "SGD"},
                    "under": {"model": "ALS"}},
            evidence="built in", table=to_error, device=FOUR)
      for words, gpus in (("one", 1), ("four", 4))),
]  # fmt: skip
