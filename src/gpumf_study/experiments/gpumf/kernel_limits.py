"""How far each kernel is from what the machine allows.

For every kernel two numbers before any time: the bytes it cannot avoid to move and the operations it must do, in FP16
where tensor cores do them and in FP32 elsewhere; see `_limits`.
"""

from functools import partial

import numpy as np
import pandas as pd

from gpumf import ALS, SGD, backends
from gpumf.models.evaluation import Errors
from gpumf_study import figure_style as style
from gpumf_study.experiments import _limits, identity, load_ratings

# The schemes of SGD whose plan is to move little; the others are timed by `sgd_schemes`.
SGD_KERNELS = "sequential", "parallel", "hogwild", "cumf_sgd", "fast"

PROFILES = {
    "quick": {"data": ["jester-1"], "factors": 16, "repeats": 10},
    "full": {"data": ["jester-synthetic", "douban-synthetic"], "factors": 16, "repeats": 20},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "repeats": 2}


def run(data, factors, repeats):
    """Time this machine's GPU, or its CPU where there is none: ALS, SGD (the kernels of SGD_KERNELS), the errors.

    Returns
    -------
    DataFrame with a row a timing: data, kernel, step, device, repeat, seconds, bytes, flops, limit_seconds,
    fraction_of_limit
    """
    device = "cuda" if backends.available() else "cpu"
    timed, ceilings = _limits.clock(device), _limits.ceilings(device)
    rows, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        for kernel, step, work, moved, flops in _steps(ratings, factors, device):
            limit = _limits.limit_seconds(moved, flops, ceilings, kernel)
            rows += [
                (ratings.name, kernel, step, device, k, seconds, moved, flops, limit, limit / seconds)
                for k, seconds in enumerate(timed(work, repeats))
            ]
    columns = ["data", "kernel", "step", "device", "repeat", "seconds", "bytes", "flops"]
    frame = pd.DataFrame(rows, columns=[*columns, "limit_seconds", "fraction_of_limit"])
    frame.attrs["datasets"] = identities
    return frame


_REGULARIZATION = {ALS: 0.05, SGD: 0.02}


def _steps(ratings, f, device):
    """(kernel, step, function that does it once, bytes, FLOP) of each thing that training consists of."""
    rows, nnz = {"users": ratings.n_users, "items": ratings.n_items}, ratings.nnz
    factor_bytes = 4 * f * sum(rows.values())

    def trainers(model):
        for kernel, where in model.solvers().items():
            if where == device and (model is not SGD or kernel in SGD_KERNELS):
                made = model(f, _REGULARIZATION[model], biases=False, clip=False, solver=kernel)
                yield made, kernel, made.make_solver(ratings)

    for made, kernel, trainer in trainers(ALS):
        steps = made.cg_steps if kernel in _limits.CONJUGATE_GRADIENT else None
        for side, other, solve in (("users", "items", trainer.solve_users), ("items", "users", trainer.solve_items)):
            yield f"ALS {kernel}", side, solve, *_limits.half_sweep(rows[side], rows[other], nnz, f, steps)

    epoch = _limits.epoch_of_updates(*rows.values(), nnz, f)
    for _, kernel, updates in trainers(SGD):
        yield f"SGD {kernel}", "epoch", partial(updates.epoch, 0), *epoch

    errors = Errors(ratings, [np.ones(n, bool) for n in rows.values()], 0.0, f, device)
    factors = trainer.factors()
    yield "errors", "all ratings", lambda: errors(*factors), 12 * nnz + factor_bytes, nnz * (2 * f + 4)


def figure(frame):
    """Seconds of every kernel beside the limit that bytes and operations set on this machine."""
    frame = frame.assign(what=lambda f: f.kernel + ", " + f.step)
    names = frame.data.unique()
    figure, axes = style.panels(columns=len(names), height=4.6, sharey=True)
    for axis, name in zip(axes[0], names, strict=True):
        medians = frame[frame.data == name].groupby("what", sort=False)[["seconds", "limit_seconds"]].median()[::-1]
        place = np.arange(len(medians))
        axis.hlines(place, medians.limit_seconds, medians.seconds, color="0.8", zorder=1)
        style.marks(axis, medians.seconds, place, "green", "measured (median)")
        style.marks(axis, medians.limit_seconds, place, "orange", "limit", "D")
        axis.set_yticks(place, medians.index)
        axis.set(xlabel="seconds", title=name)
        style.log_scale(axis.xaxis)
    style.legend(figure, axes[0, 0], 2)
    return figure


def summary(frame):
    """Medians over the repeats, from the frame of `run`.

    Returns
    -------
    DataFrame with the index (data, kernel, step): seconds, limit_seconds, fraction_of_limit
    """
    return frame.groupby(["data", "kernel", "step"], sort=False)[
        ["seconds", "limit_seconds", "fraction_of_limit"]
    ].median()


FINDINGS = []
