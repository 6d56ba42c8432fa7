"""Every version of ALS and of implicit-feedback ALS, step by step, beside the least time of each step.

After Tan et al. 2018, Figures 4 and 5, and the thesis, section 6.4. A time is that of the device, with the data
resident. Training goes on from repeat to repeat: where conjugate gradient starts from the solution before, the same
half-sweep made again would have little left to do.
"""

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, ImplicitALS, gpu
from gpumf.experiments import _limits, identity, load_ratings
from gpumf.models.als.cumf import Cumf

ALPHA = 2.0  # of implicit feedback
LOADS = ["coalesced", "l1", "no_l1"]  # cumf's ways to load, its default first

COLUMNS = ["data", "model", "kernel", "device", "load", "factors", "cg_steps", "nnz", "step", "repeat", "seconds"]
COLUMNS += ["bytes", "flops", "limit_seconds", "fraction_of_limit", "gather_seconds"]

# An iteration of the published programs on an H100, at the shape of Netflix. This package has not measured them: they
# may be set beside its times, but not divided by them.
PUBLISHED = pd.DataFrame(
    [
        ("cuMF_ALS, LU", "ALS", 100, 0.47),
        ("cuMF_ALS, CG with A in FP16", "ALS", 100, 0.27),
        ("implicit", "ImplicitALS", 64, 0.46),
        ("implicit", "ImplicitALS", 128, 0.61),
    ],
    columns=["program", "model", "factors", "seconds"],
)

PROFILES = {
    "quick": {
        "data": ["ml-100k-twin"],
        "factors": [[16, 32]],
        "implicit_factors": [[16]],
        "repeats": 5,
    },
    "full": {
        "data": ["netflix-twin", "douban-twin"],
        "factors": [[100], [16]],
        "implicit_factors": [[64, 128], []],
        "repeats": 10,
    },
}


def run(data, factors, implicit_factors, repeats):
    """Time every version that this machine's GPU runs, or its CPU where there is none.

    Parameters
    ----------
    data : names of data sets; where one has an official test set, the others of its ratings are used
    factors, implicit_factors : for each set a list of int, of ALS and of ImplicitALS
    repeats : int, timings of each step

    Returns
    -------
    DataFrame with a row a timing: data, model, kernel, device, load (how cumf's kernels load factors; missing for the
    others), factors, cg_steps (missing for exact solutions), nnz, step ('users', 'items', the 'iteration' of both
    timed as one, and for cumf's kernels the phases, as 'users get_hermitian'), repeat, seconds, bytes, flops,
    limit_seconds, fraction_of_limit, gather_seconds (one row of factors for each rating, in the kernel's precision,
    at the copy bandwidth: what the gathers would take if caches answered none; missing where nothing is gathered)
    """
    device = "cuda" if gpu.available() else "cpu"
    ceilings = _limits.ceilings(device)
    rows, identities = [], []
    for name, explicit, implicit in zip(data, factors, implicit_factors, strict=True):
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        train = ratings if ratings.test_mask is None else ratings.official_split()[0]
        models = [model for f in explicit for model in _models(ALS, f, device)]
        models += [model for f in implicit for model in _models(ImplicitALS, f, device, alpha=ALPHA)]
        for model in tqdm(models, desc=f"als_versions {ratings.name}", leave=False):
            # The kernels of cumf share get_hermitian: its loads are compared once.
            loads = LOADS if model.kernel == "cumf_cholesky" and model.alpha is None else LOADS[:1]
            for load in loads if issubclass(model._trainers[model.kernel], Cumf) else [None]:
                rows += _timings(model, train, load, ceilings, repeats)
    frame = pd.DataFrame(rows, columns=COLUMNS)
    frame.attrs["datasets"] = identities
    return frame


def _models(model, factors, device, **options):
    """Each version that takes so many factors."""
    for kernel, where in model.kernels().items():
        if where == device and factors <= model._trainers[kernel].max_factors:
            yield model(factors, kernel=kernel, **options)


def _timings(model, train, load, ceilings, repeats):
    """The rows of one version; of its get_hermitian alone where it loads in another way than by default.

    All that it keeps on the device is freed when it returns: A at the size of Netflix takes gigabytes.
    """
    make_trainer = model._trainers[model.kernel]
    trainer = make_trainer(model, train, *model.initial_factors(train), **({"load": load} if load else {}))
    measured = (
        _hermitians(model, trainer, repeats) if load not in (None, LOADS[0]) else _steps(model, trainer, repeats)
    )
    work = _work(model, train)
    gathered = train.nnz * model.factors * (2 if model.kernel == "tensor_core" else 4)
    steps = model.cg_steps if model.kernel in _limits.CONJUGATE_GRADIENT else np.nan
    what = (
        train.name,
        type(model).__name__,
        model.kernel,
        model.device,
        load or np.nan,
        model.factors,
        steps,
        train.nnz,
    )
    rows = []
    for step, seconds in measured.items():
        moved, flops = work[step]
        limit = _limits.limit_seconds(moved, flops, ceilings, model.kernel)
        times = 2 if step == "iteration" else 0 if step.endswith(("get_gram", "solve")) else 1
        gather = times * gathered / ceilings["copy_bytes_per_second"] if times else np.nan
        rows += [(*what, step, k, s, moved, flops, limit, limit / s, gather) for k, s in enumerate(seconds)]
    return rows


def _steps(model, trainer, repeats):
    """Seconds of every step, a dict of lists: whole iterations first, then by halves, then by phases."""
    timed = _limits.clock(model.device)
    measured = {"iteration": timed(lambda: trainer.epoch(0), repeats, warmup=1)}
    halves = {"users": trainer.solve_users, "items": trainer.solve_items}
    passes = [halves]
    if isinstance(trainer, Cumf):
        passes.append({f"{side} {phase}": work for side in halves for phase, work in _phases(model, trainer, side)})
    for steps in passes:
        measured |= {step: [] for step in steps}
        for _ in range(repeats):
            for step, work in steps.items():
                measured[step].append(timed(work, 1, warmup=0)[0])
    return measured


def _phases(model, trainer, side):
    """(name, function) of the phases of a half-sweep, in order; what the model does not need is left out."""
    for phase, work in trainer.phases(side).items():
        if phase != "get_gram" or model.alpha is not None:
            yield phase, work


def _hermitians(model, trainer, repeats):
    """Seconds of get_hermitian, a dict of arrays."""
    timed = _limits.clock(model.device)
    trainer.epoch(0)
    return {
        f"{side} get_hermitian": timed(trainer.phases(side)["get_hermitian"], repeats, warmup=1)
        for side in ("users", "items")
    }


def _work(model, train):
    """(bytes, FLOP) of every step, a dict."""
    make_trainer, shapes = model._trainers[model.kernel], {}
    steps = model.cg_steps if model.kernel in _limits.CONJUGATE_GRADIENT else None
    shapes["users"] = train.n_users, train.n_items, train.nnz, model.factors, steps
    shapes["items"] = train.n_items, train.n_users, train.nnz, model.factors, steps
    work = {side: _limits.half_sweep(*shape, implicit=model.alpha is not None) for side, shape in shapes.items()}
    work["iteration"] = tuple(map(sum, zip(work["users"], work["items"], strict=True)))
    if issubclass(make_trainer, Cumf):
        matrix = {"entry_bytes": 2 if make_trainer.a_half else 4, "fused_bias": make_trainer.fused_bias}
        for side, shape in shapes.items():
            work |= {f"{side} {phase}": least for phase, least in _limits.phases(*shape, **matrix).items()}
    return work


def summary(frame):
    """What an iteration of each version takes, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a version, in the order of the model's kernels: data, model, factors, version (the kernel,
    and its steps of conjugate gradient where these are fewer than by default), seconds (median), spread (largest less
    smallest), fraction_of_limit (median), gain (the time of the version before over its own; missing for the first)
    """
    rows = frame[frame.step == "iteration"]
    fewer = rows.cg_steps < rows.groupby("kernel").cg_steps.transform("max")
    rows = rows.assign(version=rows.kernel.where(~fewer, rows.kernel + rows.cg_steps.map(", {:.0f} steps".format)))
    groups = rows.groupby(["data", "model", "factors", "version"], sort=False)
    table = groups.agg(
        seconds=("seconds", "median"),
        spread=("seconds", lambda seconds: seconds.max() - seconds.min()),
        fraction_of_limit=("fraction_of_limit", "median"),
    ).reset_index()
    before = table.groupby(["data", "model", "factors"]).seconds.shift()
    return table.assign(gain=before / table.seconds)
