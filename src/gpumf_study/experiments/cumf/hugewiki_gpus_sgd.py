"""SGD at the size of Hugewiki on one, two and four GPUs: what GPUs gain in an epoch of blocks.

Source: Tan et al. 2018, section 6, where GPU-SGD trains on blocks that share no users and no items: 100 factors,
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
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import identity, workers_unavailable
from gpumf_study.experiments.cumf.hugewiki_gpus import (
    ERROR,
    beside_model,
    facts_of,
    iterations,
    of_users,
    on_workers,
    speed_up,
    within,
)

REGULARIZATION, LEARNING_RATE, SCHEDULE = 0.05, 0.3, schedules.Power(beta=0.01, power=1.5)
FOUR = "nvidia-h200-x4"
PROFILES = {
    "quick": {"data": "hugewiki-small-synthetic", "factors": 16, "parts": 2, "workers": [1, 2], "epochs": [3, 3]},
    "full": {"data": "hugewiki-synthetic", "factors": 100, "parts": 4, "workers": [1, 2, 4], "epochs": [6, 6, 20]},
}
PROFILES["smoke"] = PROFILES["quick"] | {"factors": 4, "workers": [2], "epochs": [1]}

why_unavailable = workers_unavailable


def run(data, factors, parts, workers, epochs):
    """Train with each number of workers that the machine has a GPU for, from the same factors, on the same blocks.

    data : str, one of `gpumf.ratings.synthetic_device.RECIPES`
    parts : int, of the users and of the items, a multiple of each number of workers
    epochs : list, for each number of workers; a few time an epoch, to an error it takes more

    Return a DataFrame with a row an epoch of a worker: x_workers, x_rank, x_epoch (from 1), seconds (from where all
    have begun the epoch), the test RMSE after it as value
    """
    of_workers = dict(zip(workers, epochs, strict=True))
    frame = on_workers(workers, _train, ["x_epoch", "seconds", "value"], data, factors, parts, of_workers)
    return frame.assign(model="SGD", solver="fast")


def _train(comm, data, factors, parts, epochs, device):
    """One worker's training: (identity of the data set, rows of times)."""
    from gpumf.distributed import nccl
    from gpumf.distributed.sgd import SGDWorker
    from gpumf.distributed.sources import balanced_bounds, own_of

    there = backends.device(device)
    rates = {"learning_rate": LEARNING_RATE, "schedule": SCHEDULE, "row_rates": True}
    model = SGD(factors, REGULARIZATION, solver="fast", device=device, biases=False, clip=False, **rates)
    synthetic = synthetic_device.synthetic_ratings(data, device=device)
    facts, what = facts_of(synthetic.train, there), identity(synthetic)
    model._set_training(facts)
    ends = [balanced_bounds(of, parts) for of in (facts.user_counts, facts.item_counts)]
    bounds = tuple(of[:: parts // comm.size] for of in ends)
    own = own_of(bounds, comm.rank)[0]
    errors, rows = model._errors(of_users(synthetic.test, own)), synthetic.train.by_user
    del synthetic  # with the order by item
    cuts = ends[0][(own.start <= ends[0]) & (ends[0] <= own.stop)]
    blocks = _blocks(rows, cuts, ends[1], there)
    del rows  # which the blocks drop when all are made
    found, history = [], [{"rmse": np.nan}]  # before the first epoch
    with nccl.carrier(comm, device) as carrier:
        worker = SGDWorker(carrier, model, blocks, model._initial(facts), bounds)
        for epoch in range(1, epochs[comm.size] + 1):
            carrier.barrier()
            started = time.perf_counter()
            worker.epoch(epoch - 1, history)
            seconds = time.perf_counter() - started
            sums = np.array([errors.totals(*worker.arrays())[1], errors.nnz], np.float64)
            comm.all_reduce(sums)
            history.append({"rmse": float(np.sqrt(sums[0] / sums[1]))})
            found.append((epoch, seconds, history[-1]["rmse"]))
    return what, found


def _blocks(rows, cuts, bounds, device):
    """The blocks of users' parts that end at these cuts, one part after another, as of `blocks_of`."""
    from gpumf.distributed.sgd import blocks_of

    for start, stop in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        begin, end = int(rows.indptr[start]), int(rows.indptr[stop])
        own = CompressedRows(rows.indptr[start : stop + 1] - begin, rows.indices[begin:end], rows.values[begin:end])
        yield from blocks_of(own, slice(start, stop), bounds, device)


def epochs(frame):
    """Return seconds from where all workers have begun an epoch to where the last has ended, by x_workers; none of
    trainings that diverged. Epochs are the repeats: of one process, they are no independent runs. The first, a
    warm-up, is left out."""
    frame = frame[frame.value.notna().groupby(frame.x_workers).transform("all") & (frame.x_epoch > 1)]
    ends = frame.groupby(["x_workers", "x_epoch"]).seconds.max()
    return ends.reset_index().rename(columns={"x_epoch": "repeat"})


def summary(frame):
    """Return by x_workers the seconds of an epoch (median), speed_up over one GPU, rmse (after the last epoch)."""
    seconds = epochs(frame).groupby("x_workers").seconds.median()
    rmse = frame.groupby("x_workers").value.last()
    return pd.DataFrame({"seconds": seconds, "speed_up": seconds.get(1, np.nan) / seconds, "rmse": rmse})


def received(frame, gpus):
    """Return the bytes that a GPU receives in an epoch: all items' factors, which have gone round then."""
    return 4 * int(frame.factors.iloc[0]) * synthetic_device.RECIPES[frame["data"].iloc[0]].items


def to_error(frame):
    """Return seconds to ERROR by model and x_workers: epochs to it, times the seconds of each, which are the repeats.

    A model that does not get there has no rows. ALS is what `hugewiki_gpus` recorded on four GPUs.
    """
    found = [("SGD", epochs, "x_epoch", frame)]
    if als := results.recorded("hugewiki_gpus", FOUR):
        found.append(("ALS", iterations, "x_iteration", als.frame))
    tables = []
    for model, seconds_of, column, rows in found:
        there = rows[rows.value <= ERROR].groupby("x_workers")[column].min()
        table = seconds_of(rows).assign(model=model)
        tables.append(table.assign(seconds=table.seconds * table.x_workers.map(there)).dropna(subset="seconds"))
    return pd.concat(tables, ignore_index=True)


_beside_model = partial(beside_model, epochs, received)
CLAIMS = [
    *(speed_up("SGD", gpus, epochs) for gpus in (2, 4)),
    *(within("SGD", gpus, _beside_model) for gpus in (2, 4)),
    Claim("cumf-fig-8-four", "cumf", "Figure 8",
          "Time of SGD over that of ALS to RMSE 0.52, four GPUs, Hugewiki (synthetic).", metric="ratio",
          select={"column": "seconds", "where": {"x_workers": 4}, "over": {"model": "SGD"},
                  "under": {"model": "ALS"}},
          criterion=above(1.0), evidence="synthetic", table=to_error, device=FOUR),
]  # fmt: skip
