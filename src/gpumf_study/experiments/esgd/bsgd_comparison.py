"""ESGD against BSGD on a corner of Netflix, on the whole GPU and on one of its multiprocessors.

After Nassar et al., section 4 and Figure 5: the first 50,000 users and 2,000 movies, an iteration with its copies to
the device and back. Their GPU had one multiprocessor, on which few updates are in flight at a time; a large one has
thousands. BSGD's batches, whose size and GPU are not published, are launched as one graph; the fastest size counts.
lambda and gamma are those of the largest data set of Table 1, with which the error rises from the baselines'. A
variant that diverges has no speed: see `iterations`.
"""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, near
from gpumf_study.experiments import kernels_unavailable, load_ratings
from gpumf_study.experiments.esgd.esgd_errors import ORDERS
from gpumf_study.experiments.esgd.esgd_seconds import copies

ALL, ONE = "all multiprocessors", "one multiprocessor"
RATES = {"regularization": 0.05, "learning_rate": 0.05}

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "part": [120, 100], "factors": 4, "th_size": 40, "batches": [8, 64],
              "epochs": 3, "repeats": 1},
    "full": {"data": "netflix-synthetic", "part": [50_000, 2_000], "factors": 16, "th_size": 1000,
             "batches": [64, 256, 1024, 4096, 16384, 65536, 262144], "epochs": 20, "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "epochs": 2}

why_unavailable = kernels_unavailable


def run(data, part, factors, th_size, batches, epochs, repeats):
    """Train with both solvers, and with every batch size; the seconds of `transfer` are those of all iterations."""
    device = backends.device("cuda" if backends.available() else "emulator")
    ratings = sweep.corner(load_ratings(data), part)
    train, test = ratings.split(0.1)
    offset = np.float32(train.mean)
    train, test = (replace(r, values=r.values - offset) for r in (train, test))  # as a model with biases counts them
    variants = [("esgd", order, {"th_size": th_size, **options}) for order, options in ORDERS.items()]
    variants += [("bsgd", str(batch), {"batch": batch}) for batch in batches]
    machines = {ALL: None} | ({ONE: 1} if device.name == "cuda" else {})
    runs = [(*pair, *variant, k) for k in range(repeats) for pair in machines.items() for variant in variants]
    frames = []
    for machine, processors, solver, variant, options, repeat in tqdm(runs, desc="bsgd_comparison", leave=False):
        options = options | RATES | {"biases": "baseline", "clip": False, "seed": repeat}
        model = SGD(factors, solver=solver, device=device.name, **options)
        frame = _training(device, model, train, test, epochs, processors)
        frames.append(frame.assign(solver=solver, variant=variant, repeat=repeat, x_machine=machine))
    frame = pd.concat(frames, ignore_index=True)
    frame = frame.assign(data=ratings.name, task="fit", model="SGD", device=device.name, factors=factors)
    return frame.assign(x_nnz=train.nnz)


def _training(device, model, train, test, epochs, processors):
    """Train on so many multiprocessors, or on all (None); the seconds of each epoch are the device's."""
    trainer = model.make_solver(train)
    # What a first epoch compiles, loads, records and allocates would wait for the multiprocessors that are taken.
    trainer.learning_rate = 0.0
    trainer.epoch(0)
    trainer.learning_rate = model.learning_rate
    trainer.steps()
    device.synchronize()
    to_device, back = copies(device, model, train, trainer)
    seconds, rows, transfers = 0.0, [], 0.0
    for epoch in range(epochs + 1):
        if epoch:
            with device.limited_to(processors) if processors else nullcontext():
                seconds += float(device.time(partial(trainer.epoch, epoch - 1), repeats=1, warmup=0)[0])
            transfers += sum(float(device.time(copy, repeats=1, warmup=0)[0]) for copy in (to_device, back))
        p, q = map(device.to_numpy, trainer.factors())
        with np.errstate(all="ignore"):
            errors = test.values - np.einsum("rk,rk->r", p[test.users], q[test.items])
            rmse = float(np.sqrt(np.mean(errors.astype(float) ** 2)))
        rows.append((epoch, "train", seconds, "rmse", rmse if np.isfinite(rmse) else np.nan))
    rows.append((np.nan, "transfer", transfers, None, np.nan))
    return pd.DataFrame(rows, columns=["epoch", "phase", "seconds", "metric", "value"])


def iterations(frame):
    """Return the seconds of an iteration of each run that converged, with its transfers."""
    last = sweep.last_epoch(frame)
    if "transfer" not in set(frame.phase):
        return last.iloc[:0]
    transfers = sweep.phase_seconds(frame, "transfer").seconds
    seconds = (last.seconds + transfers) / last.epoch
    return last.assign(seconds=seconds)


def updates(frame):
    """Return the seconds of each epoch but the first, without transfers, of every run that converged."""
    return sweep.epoch_seconds(frame)


def summary(frame):
    """Return the seconds of the updates of an iteration by x_machine, solver and variant (medians)."""
    return updates(frame).groupby(["x_machine", "solver", "variant"], sort=False)[["seconds"]].median()


def figure(frame):
    """Draw the time of updates an iteration (left) and test RMSE against iterations (right), a line a variant."""
    figure, (axes,) = style.panels(columns=2, height=4.2)
    seconds = summary(frame).seconds
    variants = seconds[ALL].index
    names = [f"BSGD, batch {int(of):,}" if solver == "bsgd" else f"ESGD, {of}" for solver, of in variants]
    looks = [style.LOOKS["SGD", "esgd, shuffled" if of == "shuffled" else solver] for solver, of in variants]
    for marker, machine in zip("os", seconds.index.unique("x_machine"), strict=False):
        values = 1e3 * seconds[machine].reindex(variants)
        style.marks(axes[0], values, range(len(looks)), [look.colour for look in looks], machine, marker)
    course = sweep.course(frame[frame.x_machine == ALL], "rmse")
    for (solver, variant), look in zip(variants, looks, strict=True):
        of = course[(course.solver == solver) & (course.variant == variant)].groupby("epoch").value.median()
        label = look.name if look.name not in axes[1].get_legend_handles_labels()[1] else None
        axes[1].plot(of, look.line, color=style.COLOURS[look.colour], label=label)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set(xlabel="milliseconds of updates an iteration")
    style.log_scale(axes[0].xaxis)
    axes[1].set(xlabel="iterations", ylabel="test RMSE", title=style.data_name(frame.data.iloc[0]))
    axes[1].ticklabel_format(useOffset=False)
    axes[1].legend(frameon=False)
    style.legend(figure, axes[0], 2)
    return figure


def _over_bsgd(machine):
    over, under = {"solver": "bsgd"}, {"solver": "esgd", "variant": "file order"}
    return {"column": "seconds", "where": {"x_machine": machine}, "over": over, "best": "variant", "under": under}


CLAIMS = [
    *(Claim(f"esgd-fig-5-{slug}", "esgd", "Figure 5",
            f"Speed-up of an iteration with transfers over BSGD's fastest batch, Netflix (synthetic), on {machine}.",
            12.5, "ratio", _over_bsgd(machine), near(12.5, 2.0), "synthetic", iterations)
      for slug, machine in (("whole", ALL), ("one-multiprocessor", ONE))),
    *(Claim(f"esgd-fig-5-{slug}-updates", "esgd", "Figure 5",
            f"Speed-up of updates alone over BSGD's fastest batch, Netflix (synthetic), on {machine}.",
            metric="ratio", select=_over_bsgd(machine), evidence="synthetic", table=updates)
      for slug, machine in (("whole", ALL), ("one-multiprocessor", ONE))),
]  # fmt: skip
