"""ALS at the size of Hugewiki on one, two and four GPUs: who waits for whom in an iteration, and what GPUs gain.

Source: Tan et al. 2018, section 5: 100 factors, lambda 0.05, a tenth of the ratings for the test, four GPUs. Tan et
al. 2016 add the items' normal equations up over the GPUs; here, where NVLink joins them, the users' factors are
gathered in half precision instead. Each GPU makes the whole data set, which takes seconds, and keeps the ratings of
its users and of its items. Without GPUs the emulator runs the same kernels on a small data set.
"""

import time
from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, backends
from gpumf.ratings import DeviceRatings, synthetic_device
from gpumf.ratings.csr import CompressedRows
from gpumf.solvers.als_tensor_core import padded
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, Criterion
from gpumf_study.experiments import _kept, identity, usable_workers, workers_unavailable

REGULARIZATION = 0.05
ERROR = 0.52
"""Test RMSE that the publication accepts."""
LINKS = 450e9
"""Bytes a second that an H200 receives from others of its host: 18 links of NVLink 4, 25 GB/s in each direction each,
as NVIDIA publishes them."""
PROFILES = {
    "quick": {"data": "hugewiki-small-synthetic", "factors": 16, "workers": [1, 2], "iterations": 3, "repeats": 2},
    "full": {"data": "hugewiki-synthetic", "factors": 100, "workers": [1, 2, 4], "iterations": 10, "repeats": 5},
}
PROFILES["smoke"] = PROFILES["quick"] | {"factors": 4, "workers": [2], "iterations": 1, "repeats": 1}


why_unavailable = workers_unavailable


def run(data, factors, workers, iterations, repeats):
    """Train with each number of workers that the machine has a GPU for.

    data : str, one of `gpumf.ratings.synthetic_device.RECIPES`
    repeats : int, trainings with each number of workers, each from other factors

    Return a DataFrame with a row a step of a worker: x_workers, x_rank, x_iteration, x_step (those of
    `gpumf.distributed.als.ALSWorker.steps`), x_begin and seconds (from where all have begun the iteration), the test
    RMSE after the iteration as value
    """
    columns = ["x_iteration", "x_step", "x_begin", "seconds", "value"]
    frame = on_workers(workers, _train, columns, data, factors, repeats, iterations)
    return frame.assign(model="ALS", solver="tensor_core")


def on_workers(workers, train, columns, data, factors, *arguments):
    """What trainings give on each number of workers that the machine has a GPU for, as one frame.

    train : function (comm, data, factors, *arguments, device) -> (identity of the data, rows) of one worker
    columns : of the rows, behind the number of the training

    Return a DataFrame with these columns, x_rank, x_workers, and those of the schema but model and solver. Each
    number of workers is a piece of a recording, see `_kept.once`
    """
    from gpumf.distributed import local_cluster
    from gpumf.distributed.together import together

    gpus = backends.gpus()
    device, frames = "cuda" if gpus else "emulator", []

    def on_cluster(n):
        with local_cluster(n) as client:
            return together(client, train, data, factors, *arguments, device)

    for n in tqdm(usable_workers(workers), desc="numbers of workers", leave=False):
        found = _kept.once(str(n), partial(on_cluster, n))
        identity_of = found[0][0]
        rows = [(rank, *row) for rank, (_, rows) in enumerate(found) for row in rows]
        frame = pd.DataFrame(rows, columns=["x_rank", "repeat", *columns])
        frames.append(frame.assign(data=data, device=device, factors=factors, x_workers=n))
    frame = pd.concat(frames, ignore_index=True).assign(task="fit", metric="rmse")
    frame.attrs["datasets"], frame.attrs["gpus"] = [identity_of], max(gpus, 1)
    return frame


def facts_of(train, device):
    """What all workers know of a training set of which each has made the whole, on a device."""
    from gpumf.distributed.sources import Facts

    counts = train.user_counts, train.item_counts
    return Facts(
        train.nnz, train.mean, None, train.bounds, *counts, *map(np.arange, (train.n_users, train.n_items)), device
    )


def _train(comm, data, factors, repeats, iterations, device):
    """One worker's trainings: (identity of the data set, rows of times)."""
    from gpumf.distributed import nccl
    from gpumf.distributed.als import ALSWorker, Shard
    from gpumf.distributed.sources import balanced_bounds, own_of

    there = backends.device(device)
    synthetic = synthetic_device.synthetic_ratings(data, device=device)
    train, test = synthetic.train, synthetic.test
    sides = train.by_user, train.by_item
    facts = facts_of(train, there)
    bounds = tuple(balanced_bounds(of, comm.size) for of in (facts.user_counts, facts.item_counts))
    own = own_of(bounds, comm.rank)

    def begun(seed):
        options = {"biases": False, "clip": False, "solver": "tensor_core", "device": device, "seed": seed}
        model = ALS(factors, REGULARIZATION, **options)
        model._set_training(facts)
        return model

    model = begun(0)
    kept = [_rows(rows, part, model._offset) for rows, part in zip(sides, own, strict=True)]
    errors, what = model._errors(of_users(test, own[0])), identity(synthetic)
    del synthetic, train, test, sides  # the other workers' ratings
    shard, rows = Shard(facts, *kept, there), []
    with nccl.carrier(comm, device) as carrier:
        for repeat in range(repeats):
            model = begun(repeat)
            worker = ALSWorker(carrier, model, shard, model._initial(facts), bounds, "gather")
            for iteration in range(1, iterations + 1):
                carrier.barrier()
                begin, times = time.perf_counter(), []
                for step, work in worker.steps().items():
                    started = time.perf_counter()
                    work()
                    times.append((repeat, iteration, step, started - begin, time.perf_counter() - started))
                sums = np.array([errors.totals(*worker.arrays())[1], errors.nnz], np.float64)
                comm.all_reduce(sums)
                rows += [(*row, float(np.sqrt(sums[0] / sums[1]))) for row in times]
            del worker, work  # before the next one takes as much memory
    return what, rows


def _rows(rows, part, offset):
    """A copy of some rows, whose ratings are less an offset."""
    begin, end = int(rows.indptr[part.start]), int(rows.indptr[part.stop])
    indptr = rows.indptr[part.start : part.stop + 1] - begin
    return CompressedRows(indptr, rows.indices[begin:end].copy(), rows.values[begin:end] - np.float32(offset))


def of_users(ratings, part):
    """The ratings of some users, of ratings that are ordered by user."""
    ends = ratings.xp.asarray([part.start, part.stop], np.int32)
    begin, end = map(int, ratings.xp.searchsorted(ratings.users, ends))
    columns = (column[begin:end].copy() for column in (ratings.users, ratings.items, ratings.values))
    return DeviceRatings(*columns, ratings.n_users, ratings.n_items, device=ratings.device)


def iterations(frame):
    """Return seconds from where all workers have begun an iteration to where the last has ended: see `by_training`.

    The first iteration, a warm-up, is left out.
    """
    frame = frame[frame.x_iteration > 1]
    by = [frame.x_workers, frame.repeat, frame.x_iteration]
    return by_training((frame.x_begin + frame.seconds).groupby(by).max())


def by_training(seconds):
    """Return the median of each training: a DataFrame of x_workers, repeat and seconds.

    Where one training alone was made its iterations are the repeats, which are no independent runs.

    seconds : Series by x_workers, repeat and the number of an iteration
    """
    frame = seconds.rename("seconds").reset_index()
    alone = frame.groupby("x_workers").repeat.transform("nunique") == 1
    frame["repeat"] = frame.repeat.mask(alone, frame[seconds.index.names[-1]])
    return frame.groupby(["x_workers", "repeat"], as_index=False).seconds.median()


def to_error(frame):
    """Return the seconds of each training to ERROR, of all iterations until then; missing where it stays above."""
    rows = []
    for key, of in frame.groupby(["x_workers", "repeat"]):
        seconds = (of.x_begin + of.seconds).groupby(of.x_iteration).max().cumsum()
        rows.append((*key, seconds.get(of[of.value <= ERROR].x_iteration.min(), np.nan)))
    return pd.DataFrame(rows, columns=["x_workers", "repeat", "seconds"])


def predicted(seconds, gpus, received):
    """Return the seconds of an iteration on several GPUs, by those of one on one GPU: nothing else is fitted.

    Work divides by the GPUs: who has most ratings has at most a user's or an item's more than its share
    (`gpumf.distributed.sources.balanced_bounds`), 1.3 % of it here. Then each GPU receives what others have solved.

    received : bytes that a GPU receives in an iteration
    """
    return seconds / gpus + received / LINKS


def received(frame, gpus):
    """Return the bytes that a GPU receives in an iteration: users' factors in FP16, items' in FP32, of the others."""
    spec, factors = synthetic_device.RECIPES[frame["data"].iloc[0]], int(frame.factors.iloc[0])
    return (2 * padded(factors) * spec.users + 4 * factors * spec.items) * (gpus - 1) / gpus


def beside_model(measured, received, frame):
    """Return what `measured` makes of a frame (variant 'measured'), and the same by `predicted` (variant 'model').

    measured : function of a frame: repeats with seconds, by x_workers
    received : function of a frame and a number of GPUs
    """
    table = measured(frame)
    one, several = table[table.x_workers == 1], sorted(set(table.x_workers) - {1})
    by_model = [
        one.assign(x_workers=gpus, seconds=predicted(one.seconds, gpus, received(frame, gpus))) for gpus in several
    ]
    both = {"measured": table, "model": pd.concat([*by_model, one])}
    return pd.concat([rows.assign(variant=variant) for variant, rows in both.items()], ignore_index=True)


def summary(frame):
    """Return by x_workers the seconds of an iteration (median), the speed_up over one GPU, efficiency (that over the
    GPUs), rmse (after the last iteration), and the seconds of each step of the slowest worker (median)."""
    seconds = iterations(frame).groupby("x_workers").seconds.median()
    slowest = frame.groupby(["x_workers", "repeat", "x_iteration", "x_step"], sort=False).seconds.max()
    steps = slowest.groupby(["x_workers", "x_step"], sort=False).median().unstack()
    table = pd.DataFrame({"seconds": seconds, "speed_up": seconds.get(1, np.nan) / seconds})
    table["efficiency"] = table.speed_up / table.index
    return table.assign(rmse=frame.groupby("x_workers").value.last()).join(steps)


def figure(frame):
    """Draw the last iteration with most workers, a bar a worker (left); seconds of one against workers (right)."""
    figure, (axes,) = style.panels(columns=2, height=3.4)
    most = frame[(frame.x_workers == frame.x_workers.max()) & (frame.repeat == frame.repeat.max())]
    most = most[most.x_iteration == most.x_iteration.max()]
    for (step, rows), colour in zip(
        most.groupby("x_step", sort=False), ("blue", "sky", "orange", "purple"), strict=False
    ):
        axes[0].barh(rows.x_rank, rows.seconds, left=rows.x_begin, color=style.COLOURS[colour], label=step)
    axes[0].set(xlabel="seconds since all began", ylabel="GPU", yticks=sorted(most.x_rank.unique()))
    against_workers(axes[1], summary(frame).seconds, "seconds of an iteration")
    style.legend(figure, axes[0], 4)
    return figure


def against_workers(axis, seconds, label):
    """Draw seconds, a Series by workers, called `label`; dotted, those of the first shared out without loss."""
    axis.loglog(seconds.index, seconds, "o-", color="black", label="measured")
    shared = seconds.iloc[0] * seconds.index[0] / seconds.index
    axis.loglog(seconds.index, shared, ":", color="0.5", label="shared without loss")
    axis.set(xlabel="GPUs", ylabel=label)
    axis.set_xticks(seconds.index, [f"{n}" for n in seconds.index])
    axis.set_yticks(seconds, [f"{value:.2g}" for value in seconds])
    axis.minorticks_off()
    axis.legend(frameon=False)


def speed_up(model, gpus, table):
    """Return the claim on what an iteration takes on one GPU over that on several."""
    name = {2: "two", 4: "four"}[gpus]
    return Claim(f"{model.lower()}-hugewiki-{gpus}gpu-speedup", "gpumf", None,
                 f"Time of an iteration of {model} on one GPU over that on {name}, Hugewiki (synthetic).",
                 metric="ratio", select={"column": "seconds", "over": {"x_workers": 1}, "under": {"x_workers": gpus}},
                 evidence="synthetic", table=table, device="nvidia-h200-x4")  # fmt: skip


def within(model, gpus, table):
    """Return the claim that the model of time is within 15 % of an iteration on several GPUs."""
    name = {2: "two", 4: "four"}[gpus]
    return Claim(f"{model.lower()}-hugewiki-{gpus}gpu-model", "gpumf", None,
                 f"Predicted over measured time of an iteration of {model} on {name} GPUs, by that on one and the "
                 "published rate of NVLink, Hugewiki (synthetic).",
                 metric="ratio", select={"column": "seconds", "where": {"x_workers": gpus},
                                         "over": {"variant": "model"}, "under": {"variant": "measured"}},
                 criterion=Criterion(0.85, 1.15), evidence="synthetic", table=table,
                 device="nvidia-h200-x4")  # fmt: skip


_beside_model = partial(beside_model, iterations, received)
CLAIMS = [
    *(speed_up("ALS", gpus, iterations) for gpus in (2, 4)),
    *(within("ALS", gpus, _beside_model) for gpus in (2, 4)),
]
