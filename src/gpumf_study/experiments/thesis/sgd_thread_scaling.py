"""Speed of Hogwild against the number of CUDA threads, and what more of them cost it in error.

The thesis (section 6.5) names a scalability experiment for SGD, without its figure: the best performance is reached
when all 8 multiprocessors have 2048 resident threads. Here with 16 factors, on the whole GPU and on 8 of its
multiprocessors, as in `thread_scaling`. More threads are more updates in flight, which overwrite each other: beside
the seconds stands the error after as many epochs for every number of threads.
"""

from contextlib import nullcontext

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf.backends.occupancy import KEPLER
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, kernels_unavailable, load_ratings, trained
from gpumf_study.experiments.thesis.thread_scaling import FACTORS, OWN
from gpumf_study.experiments.tuning import PARAMETERS, chosen
from gpumf_study.findings import Finding, Holds, Open, median, ratio

EIGHT = "8 SMs"
RESIDENT = KEPLER["multiprocessors"] * KEPLER["threads_per_multiprocessor"]

PROFILES = {
    "quick": {
        "data": "ml-100k-synthetic",
        "threads": [256, 512, 256],
        "epochs": 1,
        "repeats": 1,
        "parameters": PARAMETERS,
    },
    "full": {
        "data": "douban-synthetic",
        "threads": [1024, 32768, 1024],
        "epochs": 10,
        "repeats": 3,
        "parameters": PARAMETERS,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"threads": [256, 256, 256]}

why_unavailable = kernels_unavailable


def run(data, threads, epochs, repeats, parameters):
    """Time epochs of Hogwild on the GPU, or on the processor in its place where there is none, and train with it.

    Parameters
    ----------
    data : name of a data set, 80 % of which are for training
    threads : [first, last, step] of the numbers of CUDA threads
    epochs : int, after which errors are compared
    repeats : int, timings of each, and trainings, training k with seed k
    parameters : dict, data set -> model -> arguments of the model, see `tuning`

    Returns
    -------
    DataFrame with a row a repeat: data, device, machine ('as it is' or '8 SMs'), multiprocessors, threads, repeat,
    seconds (of an epoch), mae (on the test set, after these epochs on the whole GPU; missing of '8 SMs')
    """
    device = backends.device("cuda" if backends.available() else "emulator")
    ratings = load_ratings(data)
    train, test = ratings.split(0.2)
    arguments = chosen(parameters, data, "SGD") | {"solver": "hogwild", "device": device.name}
    machines = {OWN: device.facts["multiprocessors"]}
    if device.name == "cuda":
        machines[EIGHT] = KEPLER["multiprocessors"]
    rows = []
    first, last, step = threads
    for count in tqdm(range(first, last + 1, step), desc="sgd_thread_scaling", leave=False):
        models = [
            SGD(FACTORS, biases=False, clip=False, threads=count, seed=repeat, **arguments)
            for repeat in range(repeats)
        ]
        errors = [trained(model, train, epochs, test).history.mae.iloc[-1] for model in models]
        trainer = models[0].make_solver(train)
        trainer.epoch(0)
        for machine, processors in machines.items():

            def epoch(trainer=trainer):
                trainer.epoch(1)

            with device.limited_to(processors) if machine == EIGHT else nullcontext():
                seconds = device.time(epoch, repeats, warmup=1)
            what = ratings.name, device.name, machine, processors, count
            maes = errors if machine == OWN else [np.nan] * repeats
            rows += [(*what, k, s, mae) for k, (s, mae) in enumerate(zip(seconds, maes, strict=True))]
    columns = ["data", "device", "machine", "multiprocessors", "threads", "repeat", "seconds", "mae"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def summary(frame):
    """What each number of threads gives, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a point: machine, threads, seconds (of an epoch, median), mae (mean over the repeats),
    speedup (over the fewest threads of that machine)
    """
    table = frame.groupby(["machine", "threads"], sort=False).agg(seconds=("seconds", "median"), mae=("mae", "mean"))
    fewest = table.groupby("machine").seconds.transform("first")
    return table.assign(speedup=fewest / table.seconds).reset_index()


def figure(frame):
    """Speed-up over the fewest threads (left) and the test MAE (right) against CUDA threads.

    Dotted: the threads that the thesis found best.
    """
    points = summary(frame)
    figure, (axes,) = style.panels(columns=2, height=3.8)
    for machine, line, colour in ((OWN, "-o", "green"), (EIGHT, "--s", "purple")):
        curve = points[points.machine == machine]
        if len(curve):
            what = {"color": style.COLOURS[colour], "markersize": 4, "label": machine}
            axes[0].plot(curve.threads, curve.speedup, line, **what)
            if curve.mae.notna().any():
                axes[1].plot(curve.threads, curve.mae, line, **what)
    for axis in axes:
        axis.axvline(RESIDENT, linestyle=":", linewidth=1, color="0.4")
        axis.set(xlabel="CUDA threads", xlim=(0, None))
    axes[0].set(ylabel="speed-up over the fewest threads", ylim=(0, None))
    axes[1].set(ylabel=f"test MAE on {frame.data.iloc[0]}")
    style.legend(figure, axes[0], 2)
    return figure


def _best_of_others(frame):
    """How many times as fast as with the published best number of threads the fastest other number is, on 8."""
    rows = frame[frame.machine == EIGHT].set_index("threads").seconds
    others = rows[rows.index != RESIDENT]
    if RESIDENT not in rows.index or others.empty:
        return np.nan, np.nan, "x"
    best = others.groupby("threads").median().idxmin()
    return *ratio(rows[rows.index == RESIDENT], others[others.index == best]), "x"


def _cost(frame):
    """The test MAE with the published best number of threads, over that with the fewest, on the whole GPU."""
    rows = frame[frame.machine == OWN].set_index("threads").mae
    if RESIDENT not in rows.index:
        return np.nan, np.nan, "of the MAE"
    (many, spread_many), (few, spread_few) = (median(rows[rows.index == t]) for t in (RESIDENT, rows.index.min()))
    return many / few - 1, float(np.hypot(spread_many, spread_few) / few), "of the MAE"


FINDINGS = [
    Finding(
        "thesis-sgd-threads",
        "thesis",
        "Section 6.5",
        f"SGD is fastest on 8 multiprocessors when each has 2048 resident threads: no other number than {RESIDENT:,} "
        "is faster by more than 2 %.",
        _best_of_others,
        Holds(below=1.02),
    ),
    Finding(
        "thesis-sgd-threads-error",
        "thesis",
        "Section 6.5",
        f"What do {RESIDENT:,} threads, whose updates overwrite each other, cost SGD in error, over the fewest?",
        _cost,
        Open(),
    ),
]
