"""Every version of ALS and of implicit-feedback ALS, step by step, beside the least time of each step.

After Tan et al. 2018, Figures 4 and 5, and the thesis, section 6.4. A time is that of the device, with the data
resident. Training goes on from repeat to repeat: where conjugate gradient starts from the solution before, the same
half-sweep made again would have little left to do.
"""

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, ImplicitALS, backends
from gpumf.solvers.als_cumf import Cumf
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, above, near
from gpumf_study.experiments import _limits, identity, load_ratings

ALPHA = 2.0  # of implicit feedback
PUBLISHED = {"regularization": 0.1, "alpha": ALPHA, "unobserved_weight": 1.0, "regularization_exponent": 0.0}
"""The objective of Hu et al. 2008, as cuMF has it."""
LOADS = ["coalesced", "l1", "no_l1"]  # cumf's ways to load, its default first

COLUMNS = ["data", "model", "kernel", "device", "load", "factors", "cg_steps", "nnz", "step", "repeat", "seconds"]
COLUMNS += ["bytes", "flops", "limit_seconds", "fraction_of_limit", "gather_seconds"]

PROFILES = {
    "quick": {
        "data": ["ml-100k-synthetic"],
        "factors": [[32]],
        "implicit_factors": [[16]],
        "repeats": 3,
    },
    "full": {
        "data": ["netflix-synthetic", "douban-synthetic"],
        "factors": [[100], [16]],
        "implicit_factors": [[64, 128], []],
        "repeats": 10,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": ["ml-100k-synthetic"],
    "factors": [[8]],
    "implicit_factors": [[8]],
    "repeats": 2,
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
    device = "cuda" if backends.available() else "cpu"
    ceilings = _limits.ceilings(device)
    rows, identities = [], []
    for name, explicit, implicit in zip(data, factors, implicit_factors, strict=True):
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        train = ratings if ratings.test_mask is None else ratings.official_split()[0]
        models = [
            model
            for f in explicit
            for model in _models(ALS, f, device, regularization=0.05, biases=False, clip=False)
        ]
        models += [model for f in implicit for model in _models(ImplicitALS, f, device, **PUBLISHED)]
        for model in tqdm(models, desc=f"als_versions {ratings.name}", leave=False):
            # The kernels of cumf share get_hermitian: its loads are compared once.
            loads = LOADS if model.solver == "cumf_cholesky" and model.alpha is None else LOADS[:1]
            for load in loads if issubclass(model.solver_class, Cumf) else [None]:
                rows += _timings(model, train, load, ceilings, repeats)
    frame = pd.DataFrame(rows, columns=COLUMNS)
    frame.attrs["datasets"] = identities
    return frame


def _models(model, factors, device, **options):
    """Each version that takes so many factors."""
    for kernel, where in model.solvers().items():
        if where == device and factors <= model.solver_classes()[kernel].max_factors:
            yield model(factors, solver=kernel, **options)


def _timings(model, train, load, ceilings, repeats):
    """The rows of one version; of its get_hermitian alone where it loads in another way than by default.

    All that it keeps on the device is freed when it returns: A at the size of Netflix takes gigabytes.
    """
    trainer = model.make_solver(train, **({"load": load} if load else {}))
    measured = (
        _hermitians(model, trainer, repeats) if load not in (None, LOADS[0]) else _steps(model, trainer, repeats)
    )
    work = _work(model, train)
    gathered = train.nnz * model.factors * (2 if model.solver == "tensor_core" else 4)
    steps = model.cg_steps if model.solver in _limits.CONJUGATE_GRADIENT else np.nan
    what = (
        train.name,
        type(model).__name__,
        model.solver,
        model.device,
        load or np.nan,
        model.factors,
        steps,
        train.nnz,
    )
    rows = []
    for step, seconds in measured.items():
        moved, flops = work[step]
        limit = _limits.limit_seconds(moved, flops, ceilings, model.solver)
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
    scheme, shapes = model.solver_class, {}
    steps = model.cg_steps if model.solver in _limits.CONJUGATE_GRADIENT else None
    shapes["users"] = train.n_users, train.n_items, train.nnz, model.factors, steps
    shapes["items"] = train.n_items, train.n_users, train.nnz, model.factors, steps
    work = {side: _limits.half_sweep(*shape, implicit=model.alpha is not None) for side, shape in shapes.items()}
    work["iteration"] = tuple(map(sum, zip(work["users"], work["items"], strict=True)))
    if issubclass(scheme, Cumf):
        matrix = {"entry_bytes": 2 if scheme.a_half else 4, "fused_bias": scheme.fused_bias}
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


def figure(frame, model="ALS", settings=None):
    """Seconds of an iteration of every version beside the limit and beside what the gathers alone would take.

    model : 'ALS' or 'ImplicitALS'; settings : (name of a data set, factors) of each of the axes, all by default
    """
    table = summary(frame)
    iterations = frame[frame.step == "iteration"]
    if settings is None:
        settings = table[table.model == model][["data", "factors"]].drop_duplicates().to_numpy()
    figure, (axes,) = style.panels(columns=len(settings), height=4.4)
    for axis, (name, factors) in zip(axes, settings, strict=True):
        shown = {"data": name, "model": model, "factors": factors}
        rows, of_setting = (f[(f[list(shown)] == shown).all(axis=1)] for f in (table, iterations))
        rows = rows[::-1]
        place = np.arange(len(rows))
        limit = rows.seconds * rows.fraction_of_limit
        axis.hlines(place, limit, rows.seconds, color="0.8", zorder=1)
        style.marks(axis, rows.seconds, place, "green", "measured (median)")
        style.marks(axis, limit, place, "orange", "limit", "D")
        gathers = rows.version.str.split(",").str[0].map(of_setting.groupby("kernel").gather_seconds.first())
        axis.plot(gathers, place, "|", color=style.COLOURS["black"], markersize=16, label="gathers, without caches")
        axis.set_yticks(place, rows.version)
        axis.set(xlabel="seconds an iteration", title=f"{name}, {factors} factors")
        style.log_scale(axis.xaxis)
    style.legend(figure, axes[0], 3)
    return figure


_SOLVERS = {"cumf_lu": "LU", "cumf_cholesky": "Cholesky", "cumf_cg": "CG, FP32", "cumf_cg_fp16": "CG, FP16"}


_LOADS = {
    "coalesced": ("coalesced", "blue"),
    "l1": ("non-coalesced, L1", "green"),
    "no_l1": ("non-coalesced, no L1", "orange"),
}


def figure_phases(frame, data, factors):
    """get_hermitian by its ways to load (left; Tan et al. 2018, Figure 4), and the solvers (right; Figure 5)."""
    frame = frame[(frame.data == data) & (frame.factors == factors) & (frame.model == "ALS")]
    median = frame.groupby(["kernel", "load", "step"]).seconds.median()
    figure, (axes,) = style.panels(columns=2, height=3.8)
    for k, (load, (label, colour)) in enumerate(_LOADS.items()):
        seconds = [median["cumf_cholesky", load, f"{side} get_hermitian"] for side in ("users", "items")]
        axes[0].bar(np.arange(2) + 0.27 * (k - 1), seconds, 0.25, color=style.COLOURS[colour], label=label)
    axes[0].set_xticks([0, 1], ["users (update X)", "items (update Θ)"])
    place = np.arange(len(_SOLVERS))
    of_sides = [[median[kernel, "coalesced", f"{side} solve"] for kernel in _SOLVERS] for side in ("users", "items")]
    axes[1].bar(place, of_sides[0], 0.6, color=style.COLOURS["sky"], label="solve, users")
    axes[1].bar(place, of_sides[1], 0.6, bottom=of_sides[0], color=style.COLOURS["purple"], label="solve, items")
    hermitian = sum(median["cumf_cholesky", "coalesced", f"{side} get_hermitian"] for side in ("users", "items"))
    axes[1].axhline(hermitian, linestyle="--", color=style.COLOURS["black"], label="get_hermitian, both")
    axes[1].set_xticks(place, _SOLVERS.values())
    axes[0].set(ylabel="seconds", xlabel=f"get_hermitian, {style.data_name(data)}, {factors} factors")
    axes[1].set(ylabel="seconds", xlabel="solver, an iteration")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


_STEPS = {
    ("cumf_cholesky", "users get_hermitian"): ("get_hermitian, users", "o"),
    ("cumf_cholesky", "items get_hermitian"): ("get_hermitian, items", "s"),
    ("cumf_cholesky", "users solve"): ("Cholesky, users", "^"),
    ("cumf_cg", "users solve"): ("CG in FP32, users", "^"),
    ("cumf_cg_fp16", "users solve"): ("CG in FP16, users", "^"),
    ("tensor_core", "users"): ("tensor_core, users", "o"),
    ("tensor_core", "items"): ("tensor_core, items", "s"),
}


_ROOFS = {"fp16_flops": ("FP16 products", "--"), "fp32_flops": ("FP32 products", "-")}


def figure_roofline(frame, ceilings, data, factors):
    """FLOP/s against operations a byte, under the roofs that were measured (Williams et al. 2009).

    Filled marks count the bytes that cannot be avoided, open ones a row of factors for each rating too, as if no
    cache answered any.

    ceilings : frame of the experiment of that name, of the same device
    """
    roofs = ceilings[ceilings.device == "cuda"].set_index("ceiling").value
    frame = frame[(frame.data == data) & (frame.factors == factors) & (frame.model == "ALS")]
    frame = frame[frame.load.isna() | (frame.load == LOADS[0])]
    figure, ((axis,),) = style.panels(height=4.8)
    intensity = np.logspace(-1, 4, 100)
    bandwidth = roofs["copy_bytes_per_second"]
    for roof, (label, line) in _ROOFS.items():
        bound = np.minimum(intensity * bandwidth, roofs[roof])
        axis.plot(intensity, bound, line, color="0.4", label=f"device copy, {label}")
    for (kernel, step), (label, marker) in _STEPS.items():
        runs = frame[(frame.kernel == kernel) & (frame.step == step)]
        if runs.empty:
            continue
        runs = runs[(runs.cg_steps == runs.cg_steps.max()) | runs.cg_steps.isna()]
        colour = style.COLOURS[style.LOOKS["ALS", kernel].colour]
        flops, least, rate = runs.flops.iloc[0], runs.bytes.iloc[0], (runs.flops / runs.seconds).median()
        axis.plot(flops / least, rate, marker, color=colour, label=label)
        gathered = runs.gather_seconds.iloc[0] * bandwidth
        if gathered > 0:
            axis.plot(flops / (least + gathered), rate, marker, color=colour, markerfacecolor="white")
    axis.set(xlabel="operational intensity (FLOP/byte)", ylabel="FLOP/s")
    style.log_scale(axis.xaxis)
    style.log_scale(axis.yaxis)
    style.legend(figure, axis, 3)
    return figure


def both_sides(frame):
    """Return the seconds of the phases of an iteration of ALS on Netflix, users and items added up, by repeat."""
    rows = frame[(frame.data == "netflix-synthetic") & (frame.model == "ALS") & (frame.factors == 100)]
    sides = rows.step.str.extract("(?P<side>users|items) (?P<phase>.*)")
    rows = rows.join(sides).dropna(subset="phase")
    return rows.groupby(["kernel", "load", "phase", "repeat"]).seconds.sum().reset_index()


def _over(name, figure, statement, over, under, **options):
    select = {"column": "seconds", "over": over, "under": under}
    return Claim(
        f"cumf-fig-{name}", "cumf", figure, f"{statement}, 100 factors, Netflix (synthetic).",
        metric="ratio", select=select, table=both_sides, evidence="synthetic", **options,
    )  # fmt: skip


def _hermitian(load):
    return {"kernel": "cumf_cholesky", "load": load, "phase": "get_hermitian"}


def _solve(kernel):
    return {"kernel": kernel, "phase": "solve"}


_LU = {"kernel": "cumf_lu", "phase": "get_hermitian"}

CLAIMS = [
    *(
        _over(
            f"4-{slug}",
            "Figure 4",
            f"Time of get_hermitian with {name} loads over that with non-coalesced ones through L1",
            _hermitian(load),
            _hermitian("l1"),
            criterion=above(1.0),
        )
        for slug, load, name in (
            ("coalesced", "coalesced", "coalesced"),
            ("no-l1", "no_l1", "non-coalesced, L1-bypassing"),
        )
    ),
    _over(
        "5-lu", "Figure 5", "Time of LU over that of get_hermitian", _solve("cumf_lu"), _LU,
        published=2.0, criterion=near(2.0, 1.5),
    ),
    _over(
        "5-cg", "Figure 5", "Time of CG in FP32 over that of LU", _solve("cumf_cg"), _solve("cumf_lu"),
        published=0.25, criterion=near(0.25, 1.5),
    ),
    _over(
        "5-fp16", "Figure 5", "Time of CG in FP16 over that of CG in FP32", _solve("cumf_cg_fp16"), _solve("cumf_cg"),
        published=0.5, criterion=near(0.5, 1.5),
    ),
    Claim(
        "cumf-fig-5-l1", "cumf", "Figure 5", "CG takes the same time with L1 and without it.",
        missing="a version of the solver that bypasses L1",
    ),
]  # fmt: skip
