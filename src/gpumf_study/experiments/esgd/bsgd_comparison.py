"""ESGD against BSGD on a corner of Netflix, on the whole GPU and on one of its multiprocessors.

After Nassar et al., section 4 and Figure 5: the first 50,000 users and 2,000 movies. Their GPU had one
multiprocessor, on which few updates are in flight at a time, whatever order the ratings lie in; a large one has
thousands. What diverges has no speed. BSGD's batches, whose size is not published, are launched as one graph, so that
their number costs no launches by the host. Neither time has transfers, which are the same for both. lambda and gamma
are those of the smaller sets of Table 1, the baseline predictors are subtracted for both.
"""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study.experiments import _fits, identity, kernels_unavailable, load_ratings
from gpumf_study.findings import Finding, Near, ratio

WHOLE = "all multiprocessors"
ONE = "one multiprocessor"
RATES = {"regularization": 0.05, "learning_rate": 0.01}
WORSE = 0.02  # in RMSE above the lowest, from which a training has not converged as the others have

PROFILES = {
    "quick": {
        "data": "ml-100k-synthetic",
        "part": [120, 100],
        "factors": 4,
        "th_size": 40,
        "batches": [8, 64],
        "epochs": 3,
    },
    "full": {
        "data": "netflix-synthetic",
        "part": [50_000, 2_000],
        "factors": 16,
        "th_size": 1000,
        "batches": [64, 256, 1024, 4096, 16384],
        "epochs": 8,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "epochs": 2}

why_unavailable = kernels_unavailable


def run(data, part, factors, th_size, batches, epochs):
    """Train with both schemes, and with every batch size.

    Parameters
    ----------
    data : name of a data set
    part : (users, items) that are taken
    factors, th_size : int
    batches : list of int, ratings of a batch of BSGD
    epochs : int, each a repeat

    Returns
    -------
    DataFrame with a row an epoch: data, nnz, machine (WHOLE, ONE), solver, variant ('as they lie', 'shuffled', or the
    ratings of a batch), device, epoch (from 1), seconds (of this epoch, on the device), rmse (test)
    """
    device = backends.device("cuda" if backends.available() else "emulator")
    ratings = _fits.corner(load_ratings(data), part)
    train, test = ratings.split(0.1)
    offset = np.float32(train.mean)
    train, test = (replace(r, values=r.values - offset) for r in (train, test))  # as a model with biases counts them
    variants = [
        ("esgd", "as they lie", {"th_size": th_size}),
        ("esgd", "shuffled", {"th_size": th_size, "shuffle": True}),
    ]
    variants += [("bsgd", str(batch), {"batch": batch}) for batch in batches]
    rows = []
    machines = {WHOLE: None} | ({ONE: 1} if device.name == "cuda" else {})
    for machine, processors in machines.items():
        for solver, variant, options in tqdm(variants, desc=f"bsgd_comparison, {machine}", leave=False):
            model = SGD(factors, solver=solver, biases="baseline", clip=False, device=device.name, **RATES, **options)
            reached = _epochs(device, model, train, test, epochs, processors)
            what = ratings.name, train.nnz, machine, solver, variant, device.name
            rows += [(*what, epoch, *of_epoch) for epoch, of_epoch in enumerate(reached, 1)]
    columns = ["data", "nnz", "machine", "solver", "variant", "device", "epoch", "seconds", "rmse"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def _epochs(device, model, train, test, epochs, processors):
    """Yield (seconds, test RMSE) of each epoch, on so many multiprocessors, or on all (None)."""
    trainer = model.make_solver(train)
    # What a first epoch compiles, loads, records and allocates would wait for the multiprocessors that are taken.
    trainer.learning_rate = 0.0
    trainer.epoch(0)
    trainer.learning_rate = model.learning_rate
    trainer.steps()
    device.synchronize()
    for epoch in range(epochs):
        with device.limited_to(processors) if processors else nullcontext():
            (seconds,) = device.time(partial(trainer.epoch, epoch), repeats=1, warmup=0)
        p, q = map(device.to_numpy, trainer.factors())
        with np.errstate(all="ignore"):
            errors = test.values - np.einsum("rk,rk->r", p[test.users], q[test.items])
            yield seconds, float(np.sqrt(np.mean(errors.astype(float) ** 2)))


def _level(frame):
    """The RMSE at the end up to which a training counts as converged."""
    last = frame[frame.epoch == frame.epoch.max()].rmse
    return last[np.isfinite(last)].min() + WORSE


def _converged(frame):
    """Whether each training ended near the lowest error: a Series by (machine, solver, variant)."""
    last = frame[frame.epoch == frame.epoch.max()].set_index(["machine", "solver", "variant"]).rmse
    return last <= _level(frame)


def summary(frame):
    """What an epoch of each variant takes, and what all of them reach.

    Returns
    -------
    DataFrame with the index (machine, solver, variant): seconds (median; missing where it has not converged), rmse
    (at the end), converged
    """
    runs = frame.groupby(["machine", "solver", "variant"], sort=False)
    converged = _converged(frame)
    seconds = runs.seconds.median()
    return pd.DataFrame({"seconds": seconds.where(converged), "rmse": runs.rmse.last(), "converged": converged}).loc[
        seconds.index
    ]


def figure(frame):
    """Seconds of an epoch, a mark a variant that converged (left); test RMSE against epochs, a line each (right).

    Below the dotted line a training counts as converged.
    """
    table = summary(frame)
    figure, (axes,) = style.panels(columns=2, height=4.2)
    variants = table.loc[WHOLE].index
    names = [f"BSGD, batch {variant}" if solver == "bsgd" else f"ESGD, {variant}" for solver, variant in variants]
    keys = ["esgd, shuffled" if variant == "shuffled" else solver for solver, variant in variants]
    looks = [style.LOOKS["SGD", key] for key in keys]
    for marker, machine in zip("os", table.index.unique("machine"), strict=False):
        seconds = table.loc[machine].seconds.reindex(variants)
        style.marks(axes[0], seconds, range(len(looks)), [look.colour for look in looks], machine, marker)
        for pair, look in zip(variants, looks, strict=True):
            course = frame.set_index(["machine", "solver", "variant"]).loc[[(machine, *pair)]]
            label = look.name if look.name not in axes[1].get_legend_handles_labels()[1] else None
            finite = course.rmse.where(np.isfinite(course.rmse))
            axes[1].plot(course.epoch, finite, look.line, color=style.COLOURS[look.colour], label=label)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set(xlabel="seconds an epoch")
    style.log_scale(axes[0].xaxis)
    level = _level(frame)
    axes[1].axhline(level, linestyle=":", color=style.COLOURS["black"])
    axes[1].set(xlabel="epochs", ylabel="test RMSE", ylim=(level - 2 * WORSE, level + 2 * WORSE))
    axes[1].legend(frameon=False)
    style.legend(figure, axes[0], 2)
    return figure


def _speedup(frame, machine):
    """What the fastest batch that converges takes over what ESGD takes, in the published order if that converges."""
    converged = _converged(frame)
    rows = frame[frame.machine == machine].set_index(["solver", "variant"]).seconds
    found = {key: rows.loc[[key]] for key in dict.fromkeys(rows.index) if converged[(machine, *key)]}
    ours = next((lot for key, lot in found.items() if key[0] == "esgd"), None)
    batches = [lot for key, lot in found.items() if key[0] == "bsgd"]
    if ours is None or not batches:
        return np.nan, np.nan, "x"
    return *ratio(min(batches, key=lambda lot: lot.median()), ours), "x"


FINDINGS = [
    Finding(
        f"esgd-fig-5-{slug}",
        "esgd",
        "Figure 5",
        f"An iteration of ESGD is 12.5 times as fast as one of BSGD with its best batches, on {machine}.",
        partial(_speedup, machine=machine),
        Near(12.5, 2.0),
    )
    for slug, machine in (("whole", WHOLE), ("one-multiprocessor", ONE))
]
