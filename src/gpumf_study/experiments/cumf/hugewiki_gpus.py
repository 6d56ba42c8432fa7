"""ALS at the size of Hugewiki on one, two and four GPUs: who waits for whom in an iteration, and what cards gain.

After Tan et al. 2018, sections 4 and 5: 100 factors, lambda 0.05, a tenth of the ratings for the test, four GPUs.
There items' normal equations are added up over the cards; here, where cards are joined by NVLink, the users' factors
are gathered in half precision instead. Each card makes the whole twin, which takes seconds, and keeps the ratings of
its users and of its items. Without GPUs a small set of the same kind goes through the same kernels on the processor.
"""

import time
from functools import partial
from importlib.util import find_spec

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, backends
from gpumf.ratings import DeviceRatings, synthetic_device
from gpumf.ratings.csr import CompressedRows
from gpumf.solvers.als_tensor_core import TensorCore, padded
from gpumf_study import figure_style as style
from gpumf_study.experiments import _published, identity, kernels_unavailable
from gpumf_study.findings import Finding, Target, median

REGULARIZATION = 0.05
PROFILES = {
    "quick": {"data": "hugewiki-small-synthetic", "factors": 16, "workers": [1, 2], "iterations": 3},
    "full": {"data": "hugewiki-synthetic", "factors": 100, "workers": [1, 2, 4], "iterations": 10},
}
PROFILES["smoke"] = PROFILES["quick"] | {"factors": 4, "workers": [2], "iterations": 1}


def why_unavailable():
    """One sentence on what is missing, or None where nothing is."""
    missing = "distributed", *["dask_cuda"] * bool(backends.cards())
    missing = [name for name in missing if find_spec(name) is None]
    return (
        f"the package {missing[0]} is not installed; see the extra distributed" if missing else kernels_unavailable()
    )


def usable(workers):
    """Of these numbers of workers those that there are cards for; without any card all."""
    cards = backends.cards()
    return [n for n in workers if not cards or n <= cards]


def run(data, factors, workers, iterations):
    """Train with each number of workers that the machine has a card for, from the same factors.

    Parameters
    ----------
    data : str, one of `gpumf.ratings.synthetic_device.RECIPES`
    factors, iterations : int
    workers : list of int

    Returns
    -------
    DataFrame with a row a step of a worker: data, device, factors, workers, rank, iteration, step (those of
    `gpumf.distributed.als.ALSWorker.steps`), begin and seconds (from where all have begun the iteration), rmse (on
    the test set after the iteration)
    """
    columns = ["iteration", "step", "begin", "seconds", "rmse"]
    return on_workers(workers, _train, columns, data, factors, iterations)


def on_workers(workers, train, columns, data, factors, *arguments):
    """What a training gives on each number of workers that the machine has a card for, as one frame.

    Parameters
    ----------
    workers : list of int
    train : function (comm, data, factors, *arguments, device) -> (identity of the data, rows) of one worker
    columns : of the rows

    Returns
    -------
    DataFrame with these columns, rank, data, device, factors and workers
    """
    from gpumf.distributed import local_cluster
    from gpumf.distributed.together import together

    cards = backends.cards()
    device, frames = "cuda" if cards else "emulator", []
    for n in tqdm(usable(workers), desc="numbers of workers", leave=False):
        with local_cluster(n) as client:
            found = together(client, train, data, factors, *arguments, device)
        identity_of = found[0][0]
        rows = [(rank, *row) for rank, (_, rows) in enumerate(found) for row in rows]
        frame = pd.DataFrame(rows, columns=["rank", *columns])
        frames.append(frame.assign(data=data, device=device, factors=factors, workers=n))
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs["datasets"], frame.attrs["cards"] = [identity_of], max(cards, 1)
    return frame


def facts_of(train, device):
    """What all workers know of a training set of which each has made the whole, on a device."""
    from gpumf.distributed.sources import Facts

    counts = train.user_counts, train.item_counts
    return Facts(
        train.nnz, train.mean, None, train.bounds, *counts, *map(np.arange, (train.n_users, train.n_items)), device
    )


def _train(comm, data, factors, iterations, device):
    """One worker's training: (identity of the twin, rows of times)."""
    from gpumf.distributed import nccl
    from gpumf.distributed.als import ALSWorker, Shard, own_of
    from gpumf.distributed.partition import balanced_bounds

    there = backends.device(device)
    model = ALS(factors, REGULARIZATION, biases=False, clip=False, solver="tensor_core", device=device)
    twin = synthetic_device.synthetic_ratings(data, device=device)
    train, test = twin.train, twin.test
    sides = train.by_user, train.by_item
    facts = facts_of(train, there)
    model._set_training(facts)
    bounds = tuple(balanced_bounds(of, comm.size) for of in (facts.user_counts, facts.item_counts))
    own = own_of(bounds, comm.rank)
    kept = [_rows(rows, part, model._offset) for rows, part in zip(sides, own, strict=True)]
    errors, what = model._errors(of_users(test, own[0])), identity(twin)
    del twin, train, test, sides  # the other workers' ratings
    worker = ALSWorker(
        nccl.carrier(comm, device), model, Shard(facts, *kept, there), model._initial(facts), bounds, "gather"
    )
    rows = []
    for iteration in range(1, iterations + 1):
        comm.barrier()
        begun, times = time.perf_counter(), []
        for step, work in worker.steps().items():
            started = time.perf_counter()
            work()
            times.append((iteration, step, started - begun, time.perf_counter() - started))
        sums = np.array([errors.totals(*worker.arrays())[1], errors.nnz], np.float64)
        comm.all_reduce(sums)
        rows += [(*row, float(np.sqrt(sums[0] / sums[1]))) for row in times]
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


def _iterations(frame):
    """From where all workers have begun to where the last one has ended: a Series by workers and iteration."""
    return (frame.begin + frame.seconds).groupby([frame.workers, frame.iteration]).max()


def summary(frame):
    """What an iteration takes with each number of workers.

    Returns
    -------
    DataFrame with the index workers: seconds (of an iteration, median), speedup and efficiency (over one worker, and
    of that a worker's share; missing without one), rmse (after the last iteration), and for each step the seconds of
    the slowest worker (median of the iterations)
    """
    seconds = _iterations(frame).groupby("workers").median()
    alone = seconds.get(1, np.nan)
    slowest = frame.groupby(["workers", "iteration", "step"], sort=False).seconds.max()
    steps = slowest.groupby(["workers", "step"], sort=False).median().unstack()
    table = pd.DataFrame({"seconds": seconds, "speedup": alone / seconds})
    table["efficiency"] = table.speedup / table.index
    return table.assign(rmse=frame.groupby("workers").rmse.last()).join(steps)


def machine(frame):
    """What `als_seconds` asks of a worker, from this frame.

    One worker's half-sweeps have as many products each, and solve as many rows as there are users, and items: from
    both follow the rates. The bandwidth is that of the users' factors gathered by the most workers, of whom the one
    that waits least for the others is taken.
    """
    from gpumf.distributed.als import gather_bytes
    from gpumf_study.experiments.cumf._epoch_seconds import Machine, product_operations, solve_operations

    (spec, most), f = _shape(frame), int(frame.factors.iloc[0])
    alone = frame[frame.workers == 1].groupby("step").seconds.median()
    of_users, of_items = alone["solve users"], alone["solve items"]
    a_row = (of_users - of_items) / (spec["n_users"] - spec["n_items"])
    products = of_items - a_row * spec["n_items"]
    sent = frame[(frame.workers == most) & (frame.step == "gather users")].groupby("iteration").seconds.min().median()
    return Machine(
        product_operations(spec["nnz"], f) / products,
        solve_operations(1, f, TensorCore.cg_steps) / a_row,
        gather_bytes(spec["n_users"], row_bytes(f) / 4, most) / sent,
        0.0,
    )


def row_bytes(factors):
    """Of a row of factors in half precision, as kernels/als/tensor_core.cu pads it."""
    return 2 * padded(factors)


def predicted(frame, workers, of=None):
    """`als_seconds` of so many workers of this frame's machine, on its twin or on ratings of other dimensions.

    of : dict of n_users, n_items and nnz
    """
    from gpumf_study.experiments.cumf._epoch_seconds import als_seconds

    f = int(frame.factors.iloc[0])
    shape = {"columns": f, "workers": workers, "steps": TensorCore.cg_steps, "row_bytes": row_bytes(f)}
    return als_seconds(machine(frame), **(of or _shape(frame)[0]), **shape)


def _shape(frame):
    """(n_users, n_items and nnz of the training set, the most workers)."""
    spec = synthetic_device.RECIPES[frame.data.iloc[0]]
    sizes = {"n_users": spec.users, "n_items": spec.items, "nnz": spec.ratings - spec.test}
    return sizes, int(frame.workers.max())


def figure(frame):
    """The last iteration with most workers, a bar a worker (left); seconds of one against workers (right)."""
    figure, (axes,) = style.panels(columns=2, height=3.4)
    most = frame[(frame.workers == frame.workers.max()) & (frame.iteration == frame.iteration.max())]
    for (step, rows), colour in zip(
        most.groupby("step", sort=False), ("blue", "sky", "orange", "purple"), strict=False
    ):
        axes[0].barh(rows["rank"], rows.seconds, left=rows.begin, color=style.COLOURS[colour], label=step)
    axes[0].set(xlabel="seconds since all began", ylabel="worker", yticks=sorted(most["rank"].unique()))
    against_workers(axes[1], summary(frame).seconds, "seconds of an iteration")
    style.legend(figure, axes[0], 4)
    return figure


def against_workers(axis, seconds, label):
    """Draw seconds, a Series by workers, called `label`; dotted, those of the first shared out without loss."""
    axis.loglog(seconds.index, seconds, "o-", color="black", label="measured")
    shared = seconds.iloc[0] * seconds.index[0] / seconds.index
    axis.loglog(seconds.index, shared, ":", color="0.5", label="shared out")
    axis.set(xlabel="workers", ylabel=label)
    axis.set_xticks(seconds.index, [f"{n}" for n in seconds.index])
    axis.set_yticks(seconds, [f"{value:.2g}" for value in seconds])
    axis.minorticks_off()
    axis.legend(frameon=False)


def _seconds(frame):
    return *median(_iterations(frame)[4]), "s"


def _efficiency(frame):
    """One card's median over four times that of four; the spread is that of four."""
    one, four = (_iterations(frame)[n] for n in (1, 4))
    value, spread = median(1 / four)
    return one.median() * value / 4, one.median() * spread / 4, "of 1"


def _to_acceptable(frame):
    """Seconds of the iterations until the published acceptable error."""
    rmse = frame[frame.workers == 4].groupby("iteration").rmse.first()
    reached = rmse <= _published.value("Table 2", "acceptable error", "hugewiki", source="cumf")
    last = reached.idxmax() if reached.any() else -1
    return (_iterations(frame)[4][:last].sum() if reached.any() else np.nan), np.nan, "s"


def _off(frame, by):
    """By which share the median iteration of two workers is off the model by these numbers of them, one and the most.

    The most give the bandwidth alone: where they are the two themselves, what they send is measured, and that they
    share the work is predicted.
    """
    predicted_of_two = predicted(frame[frame.workers.isin(by)], 2)["total"]
    return abs(_iterations(frame)[2].median() / predicted_of_two - 1), np.nan, "of 1"


_FOUR = {"devices": ("nvidia-h200-x4",)}
FINDINGS = [
    Finding(
        "als-hugewiki-4gpu-seconds",
        "gpumf",
        None,
        "ALS, tensor_core | Hugewiki twin, 2.79 billion training ratings | 100 factors | an iteration on four GPUs",
        _seconds,
        Target(0.36, 0.29),
        **_FOUR,
    ),
    Finding(
        "als-hugewiki-4gpu-efficiency",
        "gpumf",
        None,
        "ALS, tensor_core | Hugewiki twin, 2.79 billion training ratings | 100 factors | speed-up by four GPUs over "
        "four",
        _efficiency,
        Target(0.80, 0.92, "higher"),
        **_FOUR,
    ),
    Finding(
        "hugewiki-4gpu-to-052",
        "gpumf",
        None,
        "ALS, tensor_core | Hugewiki twin, 2.79 billion training ratings | 100 factors | training seconds to test "
        "RMSE 0.52 on four GPUs",
        _to_acceptable,
        Target(2.0, 1.2),
        **_FOUR,
    ),
    Finding(
        "als-hugewiki-model",
        "gpumf",
        None,
        "Model of time, fitted to one GPU and to four | Hugewiki twin | 100 factors | error of an iteration on two",
        partial(_off, by=(1, 4)),
        Target(0.15),
        **_FOUR,
    ),
    Finding(
        "als-hugewiki-2gpu-model",
        "gpumf",
        None,
        "Model of time, rates of one GPU, bandwidth of the gathering | Hugewiki twin | 100 factors | error of an "
        "iteration on two",
        partial(_off, by=(1, 2)),
        Target(0.15),
        devices=("nvidia-h200-x2",),
    ),
]
