"""What a larger GPU gains cu2rec: all multiprocessors against a quarter of them, by size and by number of factors.

After Greenquist and Kilitcioglu, "GPU vs GPU", where a V100 gains more over a TITAN Z on larger sets and with more
factors. Here one GPU stands for both: with all its multiprocessors, and with a quarter, the others being kept busy.
Its caches and its memory's bandwidth stay what they are.
"""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import _fits, identity, kernels_unavailable, load_ratings
from gpumf_study.experiments.cu2rec.cu2rec_training import RATES

WHOLE, QUARTER = "all multiprocessors", "a quarter of them"

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "part": [120, 100], "factors": [4, 8], "steps": 5, "repeats": 2},
    "full": {
        "data": ["ml-100k", "ml-1m-synthetic", "ml-10m-synthetic", "ml-20m-synthetic"],
        "part": None,
        "factors": [50, 100, 200, 300],
        "steps": 500,
        "repeats": 3,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "steps": 2}

why_unavailable = kernels_unavailable


def run(data, part, factors, steps, repeats):
    """Time steps, an update of every user each.

    Parameters
    ----------
    data : names of data sets
    part : (users, items) of each that are taken, or None for all
    factors : list of int
    steps : int, of a timing
    repeats : int

    Returns
    -------
    DataFrame with a row a timing: data, nnz, n_users, factors, machine (WHOLE, QUARTER), device, repeat, steps,
    seconds
    """
    device = backends.device("cuda" if backends.available() else "emulator")
    machines = {WHOLE: None}
    if device.name == "cuda":
        machines[QUARTER] = device.facts["multiprocessors"] // 4
    rows, identities = [], []
    for name in data:
        ratings = _fits.corner(load_ratings(name), part)
        identities.append(identity(ratings))
        train, _ = ratings.split(0.2)
        train = replace(train, values=train.values - np.float32(train.mean))  # as a model with biases counts them
        for f in tqdm(factors, desc=f"cu2rec_gpus {ratings.name}", leave=False):
            model = SGD(f, biases=True, clip=False, solver="cu2rec", device=device.name, **RATES)
            trainer = model.make_solver(train)
            trainer.take_steps(0, 1)  # compiles and loads
            for machine, processors in machines.items():
                for repeat in range(repeats):
                    device.synchronize()
                    with device.limited_to(processors) if processors else nullcontext():
                        work = partial(trainer.take_steps, 1 + repeat * steps, steps)
                        (seconds,) = device.time(work, repeats=1, warmup=0)
                    rows.append((name, train.nnz, train.n_users, f, machine, device.name, repeat, steps, seconds))
    columns = ["data", "nnz", "n_users", "factors", "machine", "device", "repeat", "steps", "seconds"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.attrs["datasets"] = identities
    return frame


def summary(frame):
    """Seconds of the steps on both, and what the whole GPU gains.

    Returns
    -------
    DataFrame with the index (data, factors), a column a machine (medians), and gain where both were measured
    """
    table = frame.pivot_table(
        index=["data", "factors"], columns="machine", values="seconds", aggfunc="median", sort=False
    )
    return table.assign(gain=table[QUARTER] / table[WHOLE]) if QUARTER in table else table


def figure(frame):
    """Seconds of the steps against the number of factors, a line a set and machine."""
    table = summary(frame)
    figure, ((axis,),) = style.panels(height=3.6)
    colours = dict(zip(frame.data.unique(), ("teal", "blue", "orange", "purple"), strict=False))
    for machine, line in ((WHOLE, "-o"), (QUARTER, "--o")):
        if machine in table:
            for data, colour in colours.items():
                seconds = table[machine].xs(data, level="data")
                axis.plot(seconds, line, color=style.COLOURS[colour], label=f"{data}, {machine}", markersize=4)
    axis.set(xlabel="factors", ylabel=f"seconds of {frame.steps.iloc[0]:,} steps")
    style.log_scale(axis.yaxis)
    style.legend(figure, axis, 2)
    return figure


def _gains(id, statement, here, there):
    """The claim that the whole GPU gains more in one setting, (data, factors), than in another."""
    select = {"column": "seconds", "over": {"machine": QUARTER}, "under": {"machine": WHOLE}}
    select |= {
        key: dict(zip(("data", "factors"), place, strict=True)) for key, place in (("here", here), ("there", there))
    }
    return Claim(
        id, "cu2rec", "GPU against GPU", statement, metric="ratio_of_ratios", select=select, criterion=above(1.0),
        evidence="synthetic",
    )  # fmt: skip


CLAIMS = [
    _gains(
        "cu2rec-gpus-size",
        "All multiprocessors gain more over a quarter of them on MovieLens 20M (synthetic) than on 100K.",
        ("ml-20m-synthetic", 50),
        ("ml-100k", 50),
    ),
    _gains(
        "cu2rec-gpus-factors",
        "All multiprocessors gain more over a quarter of them with 300 factors than with 50.",
        ("ml-20m-synthetic", 300),
        ("ml-20m-synthetic", 50),
    ),
]
