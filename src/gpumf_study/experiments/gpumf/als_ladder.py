"""An iteration of ALS by the versions of its fastest kernels, from step to step, and by numbers of factors.

All versions of a model alternate in one process, each in a training of its own. The roofline bound is that of
`gpumf_study.experiments._limits`: every byte read and written once.
"""

import pandas as pd
from tqdm import tqdm

from gpumf import ALS, ImplicitALS, backends
from gpumf.solvers.als_tensor_core import BYTES_FACTORS, TensorCore, is_hopper, takes_warpgroups, warpgroups_defines
from gpumf.solvers.als_warpgroups import WarpGroups
from gpumf_study import figure_style as style
from gpumf_study.experiments import _limits, kernels_unavailable, load_ratings, training_ratings

# As parts of the solver, see `gpumf.solvers.als_tensor_core.Gathering`.
VERSIONS = {
    "all rows alike": {"short": 0, "WGMMA": 0, "THROUGH_L1": 1, "STAGE_ROWS": 64},
    "short rows apart": {"WGMMA": 0, "THROUGH_L1": 1, "STAGE_ROWS": 64},
    "bypassing L1": {"WGMMA": 0, "THROUGH_L1": 0, "STAGE_ROWS": 64},
    "stages of 32": {"WGMMA": 0, "THROUGH_L1": 0, "STAGE_ROWS": 32},
    "wgmma": {"WGMMA": 1, "THROUGH_L1": 0, "STAGE_ROWS": 64},
    "fetching warps": {"in_bytes": False},
    "rows in eight bits": {"in_bytes": None},  # of the side whose rows in half precision exceed the L2 cache
}
WARPGROUPS = "fetching warps", "rows in eight bits"
"""Versions of the kernel warpgroups.cu, for explicit ratings the solver of that name."""
_HU = {"regularization": 0.1, "alpha": 2.0, "unobserved_weight": 1.0, "regularization_exponent": 0.0}

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "most": 3000, "factors": [8], "implicit_factors": [], "repeats": 2},
    "full": {"data": "netflix-synthetic", "most": None, "factors": [64, 100, 128, 200, 256],
             "implicit_factors": [64, 128], "repeats": 10},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"]

why_unavailable = kernels_unavailable


def run(data, most, factors, implicit_factors, repeats):
    """Time every version that this device runs.

    data : name of a data set; where it has an official test set, the others of its ratings are used
    most : of these, the first so many, or None for all
    factors, implicit_factors : list of int, of ALS and of ImplicitALS
    repeats : int, iterations of each version

    Return a DataFrame with a row a time: variant is the version, x_step 'iteration', or 'users' or 'items' of later
    ones; x_limit_seconds (the roofline bound)
    """
    name = "cuda" if backends.available() else "emulator"
    device, shared = backends.device(name), {"solver": "tensor_core", "device": name}
    models = [ALS(f, 0.05, biases=False, clip=False, **shared) for f in factors]
    models += [ImplicitALS(f, **_HU, **shared) for f in implicit_factors]
    device.compile_ahead([_source(model, version) for model in models for version in _versions(model, device)])
    units, ceilings = ("tensor_core", _limits.ceilings(name)) if name == "cuda" else ("", _limits.ceilings("cpu"))
    ratings = load_ratings(data)
    train = training_ratings(ratings)
    if most is not None:
        train = train.select(range(min(most, train.nnz)))
    rows = []
    for model in tqdm(models, desc=f"als_ladder {ratings.name}", leave=False):
        implicit, sides = model.alpha is not None, (train.n_users, train.n_items)
        work = {
            step: _limits.side_update(*shape, train.nnz, model.factors, model.cg_steps, implicit)
            for step, shape in zip(("users", "items"), (sides, sides[::-1]), strict=True)
        }
        work["iteration"] = tuple(map(sum, zip(*work.values(), strict=True)))
        limits = {step: _limits.limit_seconds(*least, ceilings, units) for step, least in work.items()}
        for version, repeat, step, seconds in _timings(model, train, device, repeats):
            rows.append((type(model).__name__, model.factors, version, repeat, step, seconds, limits[step]))
    columns = ["model", "factors", "variant", "repeat", "x_step", "seconds", "x_limit_seconds"]
    frame = pd.DataFrame(rows, columns=columns).assign(data=train.name, task="step", phase="train", **shared)
    other = frame.variant.isin(WARPGROUPS) & (frame.model == "ALS")
    frame["solver"] = frame.solver.mask(other, "warpgroups")
    frame["x_nnz"] = train.nnz
    return frame


def _versions(model, device):
    """Those that a device runs: wgmma is Hopper's, with some numbers of factors; some solve no row apart."""
    hopper, explicit = is_hopper(device.facts), model.alpha is None
    for version, parts in VERSIONS.items():
        if version == "rows in eight bits":
            if hopper and explicit and model.factors in BYTES_FACTORS:
                yield version
            continue
        if version in WARPGROUPS:
            if (hopper and explicit and model.factors > 64) or _launches_another(model, device):
                yield version
            continue
        has_plan = 64 < model.factors <= 128 or model.factors > 192
        if parts["WGMMA"] and not (hopper and has_plan and explicit):
            continue
        if parts["STAGE_ROWS"] == 32 and model.factors > 128:
            continue
        if parts.get("short") != 0 or (explicit and model.factors > 64):
            yield version


def _launches_another(model, device):
    """Whether tensor_core launches warpgroups.cu for implicit feedback, which has no solver of that name."""
    return model.alpha is not None and takes_warpgroups(device.facts, model.factors, True)


def _source(model, version):
    """(source, definitions) of a version's kernel."""
    parts, hyper = VERSIONS[version], model.hyperparameters
    if version in WARPGROUPS:
        return WarpGroups.source, warpgroups_defines(hyper, in_bytes=parts["in_bytes"] is None)
    chosen = {key: value for key, value in parts.items() if key.isupper()}
    return TensorCore.source, TensorCore.defines(hyper) | chosen


def _solver(model, version, train):
    """A version's solver at the start."""
    if version in WARPGROUPS and model.alpha is None:
        options = {"biases": False, "clip": False, "solver": "warpgroups", "device": model.device}
        model = ALS(model.factors, model.regularization, **options)
    return model.make_solver(train, **VERSIONS[version])


def _timings(model, train, device, repeats):
    """Yield (version, repeat, step, seconds), of iterations first."""
    solvers = {version: _solver(model, version, train) for version in _versions(model, device)}
    for solver in solvers.values():
        solver.epoch(0)
    steps = [("iteration",)] * repeats + [("users", "items")] * repeats
    for number, of_round in enumerate(steps):
        for version, solver in solvers.items():
            for step in of_round:
                work = {"iteration": lambda of: of.epoch(0), "users": lambda of: of.solve_users()}
                given = work.get(step, lambda of: of.solve_items())
                yield version, number % repeats, step, device.time(lambda of=solver, do=given: do(of), 1, 0)[0]


def summary(frame):
    """Return by model, factors and version the median seconds of an iteration, the bound's, and the share."""
    rows = frame[frame.x_step == "iteration"]
    table = rows.groupby(["model", "factors", "variant"], sort=False)[["seconds", "x_limit_seconds"]].median()
    return table.assign(share=table.x_limit_seconds / table.seconds)


def figure(frame):
    """Draw milliseconds of an iteration of ALS by version and numbers of factors, and % of the roofline bound."""
    table = summary(frame).xs("ALS", level="model")[::-1]
    figure, ((axis,),) = style.panels(height=1.2 + 0.28 * len(table))
    place, seconds = range(len(table)), 1e3 * table.seconds
    axis.barh(place, seconds, 0.7, color=style.COLOURS["green"])
    for k, (time, share) in enumerate(zip(seconds, table.share, strict=True)):
        axis.annotate(f" {style.digits(time)} ms, {100 * share:.2g} %", (time, k), va="center", size=9)
    axis.set_yticks(place, [f"{f} factors, {version}" for f, version in table.index])
    axis.set(xlabel="milliseconds of an iteration", xlim=(0, 1.3 * seconds.max()))
    axis.grid(axis="y", visible=False)
    return figure
