"""Seconds of an ALS iteration against the number of factors, and against the number of ratings.

An iteration is both half-sweeps with the data resident. Fewer ratings are a random part of a set, with all its users
and items.
"""

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, backends
from gpumf._util.counter_rng import random_subset
from gpumf_study import figure_style as style
from gpumf_study.experiments import _limits, identity, load_ratings

KERNELS = ["parallel", "thesis_shared", "cumf_cholesky", "cumf_cg", "cumf_cg_fp16", "tensor_core"]
_MAX_ON_CPU = 3e10  # multiplications of the products: what takes the CPU longer is not waited for

PROFILES = {
    "quick": {
        "data": ["ml-100k-synthetic", "ml-1m-synthetic"],
        "factors": [10, 16, 32],
        "shares": [1 / 16, 1 / 4, 1],
        "share_factors": 32,
        "repeats": 3,
    },
    "full": {
        "data": ["ml-10m-synthetic", "netflix-synthetic"],
        "factors": [10, 16, 32, 50, 64, 100, 128, 200, 256],
        "shares": [1 / 64, 1 / 16, 1 / 4, 1],
        "share_factors": 100,
        "repeats": 3,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": ["ml-100k-synthetic"] * 2,
    "factors": [8, 16],
    "shares": [0.5, 1],
    "share_factors": 8,
    "repeats": 2,
}


def run(data, factors, shares, share_factors, repeats):
    """Time iterations of the main versions on the GPU, and on all cores where that takes seconds.

    Parameters
    ----------
    data : two names of data sets, for the factors and for the ratings
    factors : list of int
    shares : list of float in (0, 1], of the ratings of the second set
    share_factors : int, with which these are factorized
    repeats : int, timings of each

    Returns
    -------
    DataFrame with a row an iteration: data, varied ('factors' or 'nnz'), kernel, device, factors, nnz, repeat,
    seconds, limit_seconds (see `_limits`)
    """
    kernels = {
        k: where for k, where in ALS.solvers().items() if k in KERNELS and (backends.available() or where == "cpu")
    }
    ceilings = {device: _limits.ceilings(device) for device in set(kernels.values())}
    many, large = map(load_ratings, data)
    parts = [_part(large, share) for share in shares]
    settings = [("factors", many, f) for f in factors] + [("nnz", part, share_factors) for part in parts]
    rows = []
    for varied, ratings, f in tqdm(settings, desc="als_scaling", leave=False):
        for kernel, device in kernels.items():
            if f > ALS.solver_classes()[kernel].max_factors or (device == "cpu" and ratings.nnz * f**2 > _MAX_ON_CPU):
                continue
            limit = _limits.limit_seconds(*_work(kernel, ratings, f), ceilings[device], kernel)
            what = ratings.name, varied, kernel, device, f, ratings.nnz
            rows += [(*what, k, s, limit) for k, s in enumerate(_seconds(kernel, ratings, f, repeats))]
    columns = ["data", "varied", "kernel", "device", "factors", "nnz", "repeat", "seconds", "limit_seconds"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.attrs["datasets"] = [identity(many), identity(large)]
    return frame


def _part(ratings, share):
    if share == 1:
        return ratings
    return ratings.select(random_subset(ratings.nnz, round(share * ratings.nnz), seed=0))


def _seconds(kernel, ratings, factors, repeats):
    """Of each iteration; what the trainer keeps on the device is freed when it returns."""
    model = ALS(factors, solver=kernel, regularization=0.05, biases=False, clip=False)
    trainer = model.make_solver(ratings)
    return _limits.clock(model.device)(lambda: trainer.epoch(0), repeats, warmup=1)


def _work(kernel, ratings, f):
    """(bytes, FLOP) of an iteration."""
    steps = (
        ALS(f, regularization=0.05, biases=False, clip=False).cg_steps
        if kernel in _limits.CONJUGATE_GRADIENT
        else None
    )
    shape = ratings.n_users, ratings.n_items
    return np.sum([_limits.half_sweep(*sides, ratings.nnz, f, steps) for sides in (shape, shape[::-1])], axis=0)


def summary(frame):
    """How fast the time grows, from the frame of `run`: the exponent from about a quarter of the largest setting on.

    Neighbours may have blocks of other shapes.

    Returns
    -------
    Series with the index (varied, kernel); 1 is a time in proportion
    """
    found = {}
    for (varied, kernel), runs in frame.groupby(["varied", "kernel"], sort=False):
        medians = runs.groupby(varied).seconds.median()
        if len(medians) > 1:
            seconds, settings = np.log(medians.to_numpy()), np.log(medians.index)
            quarter = np.abs(settings[:-1] - settings[-1] + np.log(4)).argmin()
            found[varied, kernel] = (seconds[-1] - seconds[quarter]) / (settings[-1] - settings[quarter])
    return pd.Series(found, dtype=float)


def figure(frame):
    """Seconds of an iteration against the factors (left) and against the ratings (right); dotted, the limits."""
    figure, (axes,) = style.panels(columns=2, height=4.6)
    for axis, varied in zip(axes, ("factors", "nnz"), strict=True):
        runs = frame[frame.varied == varied]
        for kernel in runs.kernel.unique():
            style.curve(axis, runs[runs.kernel == kernel].groupby(varied).seconds.median(), "ALS", kernel)
        for kernel in ("cumf_cholesky", "tensor_core"):
            colour = style.LOOKS["ALS", kernel].colour
            limit = runs[runs.kernel == kernel].groupby(varied).limit_seconds.first()
            axis.plot(limit, ":", color=style.COLOURS[colour], linewidth=1)
        of = runs.iloc[0]
        axis.set(xlabel="factors" if varied == "factors" else f"ratings ({of.factors} factors)")
        axis.set(ylabel="seconds an iteration", title=of.data)
        style.log_scale(axis.xaxis)
        style.log_scale(axis.yaxis)
    style.legend(figure, max(axes, key=lambda axis: len(axis.get_legend_handles_labels()[1])), 3)
    return figure


FINDINGS = []
