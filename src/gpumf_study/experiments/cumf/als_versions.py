"""Seconds of every solver of ALS and of implicit-feedback ALS, step by step, beside the roofline bound of each step.

Source: Tan et al. 2018, Figures 4 and 5, and the thesis, section 6.4. A time is that of the device, with the data
resident. Training goes on from repeat to repeat: where conjugate gradient starts from the solution before, the same
update made again would have little left to do.
"""

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, ImplicitALS, backends
from gpumf.solvers.als_cumf import Cumf
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, above, near
from gpumf_study.experiments import _limits, load_ratings, training_ratings, usable_solvers

ALPHA = 2.0  # of implicit feedback
PUBLISHED = {"regularization": 0.1, "alpha": ALPHA, "unobserved_weight": 1.0, "regularization_exponent": 0.0}
"""The objective of Hu et al. 2008, as cuMF has it."""
LOADS = ["coalesced", "l1", "no_l1"]  # of cuMF's kernels, the default first

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "factors": [[32]], "implicit_factors": [[16]], "repeats": 3},
    "full": {"data": ["netflix-synthetic", "douban-synthetic"], "factors": [[100], [16]],
             "implicit_factors": [[64, 128], []], "repeats": 10},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"factors": [[8]], "implicit_factors": [[8]], "repeats": 2}


def run(data, factors, implicit_factors, repeats):
    """Time every solver that this machine's GPU runs, or its CPU where there is none.

    data : names of data sets; where one has an official test set, the others of its ratings are used
    factors, implicit_factors : for each data set a list of int, of ALS and of ImplicitALS
    repeats : int, timings of each step

    Return a DataFrame with a row a timing: variant (how cuMF's kernels load factors), x_step ('users', 'items', the
    'iteration' of both timed as one, and of cuMF's kernels the phases, as 'users get_hermitian'), x_cg_steps (missing
    for exact solutions), x_bytes and x_flops (the fewest), x_limit_seconds (the roofline bound), x_gather_seconds
    (one row of factors for each rating, in the kernel's precision, at the copy bandwidth: what the gathers would take
    if caches answered none)
    """
    device = "cuda" if backends.available() else "cpu"
    ceilings = _limits.ceilings(device)
    frames = []
    for name, explicit, implicit in zip(data, factors, implicit_factors, strict=True):
        ratings = load_ratings(name)
        train = training_ratings(ratings)
        options = {"regularization": 0.05, "biases": False, "clip": False}
        models = [model for f in explicit for model in _models(ALS, f, device, **options)]
        models += [model for f in implicit for model in _models(ImplicitALS, f, device, **PUBLISHED)]
        for model in tqdm(models, desc=f"als_versions {ratings.name}", leave=False):
            # The kernels of cuMF share get_hermitian: its loads are compared once.
            loads = LOADS if model.solver == "cumf_cholesky" and model.alpha is None else LOADS[:1]
            for load in loads if issubclass(model.solver_class, Cumf) else [None]:
                frames.append(_timings(model, train, load, ceilings, repeats))
    return pd.concat(frames, ignore_index=True)


def _models(model, factors, device, **options):
    """Yield a model with each solver that takes so many factors."""
    for solver in usable_solvers(model):
        if model.solvers()[solver] == device and factors <= model.solver_classes()[solver].max_factors:
            yield model(factors, solver=solver, **options)


def _timings(model, train, load, ceilings, repeats):
    """Return the rows of one solver; of its get_hermitian alone where it loads in another way than by default.

    All that it keeps on the device is freed when it returns: A at the size of Netflix takes gigabytes.
    """
    trainer = model.make_solver(train, **({"load": load} if load else {}))
    timed = _hermitians if load not in (None, LOADS[0]) else _steps
    measured, work = timed(model, trainer, repeats), _work(model, train)
    gathered = train.nnz * model.factors * (2 if model.solver in _limits.FUSED else 4)
    rows = []
    for step, seconds in measured.items():
        moved, flops = work[step]
        limit = _limits.limit_seconds(moved, flops, ceilings, model.solver)
        times = 2 if step == "iteration" else 0 if step.endswith(("get_gram", "solve")) else 1
        gather = times * gathered / ceilings["copy_bytes_per_second"] if times else np.nan
        rows += [(step, k, s, moved, flops, limit, gather) for k, s in enumerate(seconds)]
    columns = ["x_step", "repeat", "seconds", "x_bytes", "x_flops", "x_limit_seconds", "x_gather_seconds"]
    labels = {"data": train.name, "task": "step", "model": type(model).__name__, "solver": model.solver}
    labels |= {"variant": load, "device": model.device, "factors": model.factors, "phase": "train"}
    steps = model.cg_steps if model.solver in _limits.CONJUGATE_GRADIENT else np.nan
    return pd.DataFrame(rows, columns=columns).assign(**labels, x_cg_steps=steps, x_nnz=train.nnz)


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
    """(name, function) of the phases of an update of one side, in order; what the model does not need is left out."""
    for phase, work in trainer.phases(side).items():
        if phase != "get_gram" or model.alpha is not None:
            yield phase, work


def _hermitians(model, trainer, repeats):
    """Seconds of get_hermitian, a dict of arrays."""
    timed = _limits.clock(model.device)
    trainer.epoch(0)
    works = {side: trainer.phases(side)["get_hermitian"] for side in ("users", "items")}
    return {f"{side} get_hermitian": timed(work, repeats, warmup=1) for side, work in works.items()}


def _work(model, train):
    """(bytes, FLOP) of every step, a dict."""
    scheme, shapes = model.solver_class, {}
    steps = model.cg_steps if model.solver in _limits.CONJUGATE_GRADIENT else None
    shapes["users"] = train.n_users, train.n_items, train.nnz, model.factors, steps
    shapes["items"] = train.n_items, train.n_users, train.nnz, model.factors, steps
    work = {side: _limits.side_update(*shape, implicit=model.alpha is not None) for side, shape in shapes.items()}
    work["iteration"] = tuple(map(sum, zip(work["users"], work["items"], strict=True)))
    if issubclass(scheme, Cumf):
        matrix = {"entry_bytes": 2 if scheme.a_half else 4, "fused_bias": scheme.fused_bias}
        for side, shape in shapes.items():
            work |= {f"{side} {phase}": least for phase, least in _limits.phases(*shape, **matrix).items()}
    return work


def summary(frame):
    """Return by data set, model, factors and solver the median seconds of an iteration, the roofline bound's seconds,
    the share of it reached, and the gain (the seconds of the solver before over its own)."""
    rows = frame[frame.x_step == "iteration"]
    by = ["data", "model", "factors", "solver"]
    table = rows.groupby(by, sort=False)[["seconds", "x_limit_seconds", "x_gather_seconds"]].median()
    table.columns = ["seconds", "bound", "gathers"]
    before = table.groupby(level=by[:3], sort=False).seconds.shift()
    return table.assign(share=table.bound / table.seconds, gain=before / table.seconds)


def figure(frame, model="ALS", settings=None):
    """Draw an iteration of every solver as a bar that says its milliseconds and its % of the roofline bound.

    model : 'ALS' or 'ImplicitALS'; settings : (data set, factors) of each of the panels, all by default
    """
    table = summary(frame).xs(model, level="model")
    settings = settings or list(table.index.droplevel("solver").unique())
    figure, (axes,) = style.panels(columns=len(settings), height=3.6)
    for axis, (data, factors) in zip(axes, settings, strict=True):
        rows = table.loc[data, factors][::-1]
        ours = [solver in _OURS for solver in rows.index]
        axis.barh(rows.index, 1e3 * rows.seconds, 0.7, color=np.where(ours, style.COLOURS["green"], "0.75"))
        axis.plot(1e3 * rows.bound, rows.index, "D", color=style.COLOURS["orange"], label="roofline bound")
        for place, row in enumerate(rows.itertuples()):
            text = f"{style.significant(1e3 * row.seconds)} ms, {100 * row.share:.2g} %"
            clear = 9 if row.share > 0.8 else 3  # of the mark of the bound
            beside = {"textcoords": "offset points", "va": "center", "size": 9}
            axis.annotate(text, (1e3 * row.seconds, place), (clear, 0), **beside)
        axis.set(xlabel="milliseconds of an iteration", title=f"{style.data_name(data)}, {factors} factors")
        style.log_scale(axis.xaxis)
        axis.set_xlim(rows.bound.min() * 700, rows.seconds.max() * 3e4)
        axis.grid(axis="y", visible=False)
    style.legend(figure, axes[0], 1)
    return figure


_OURS = "tensor_core", "warpgroups", "wmma_simple"
_SOLVERS = {"cumf_lu": "LU", "cumf_cholesky": "Cholesky", "cumf_cg": "CG, FP32", "cumf_cg_fp16": "CG, FP16"}


_LOADS = {
    "coalesced": ("coalesced", "blue"),
    "l1": ("non-coalesced, L1", "green"),
    "no_l1": ("non-coalesced, no L1", "orange"),
}


def figure_phases(frame, data, factors):
    """get_hermitian by its ways to load (left; Tan et al. 2018, Figure 4), and the solvers (right; Figure 5)."""
    frame = frame[(frame.data == data) & (frame.factors == factors) & (frame.model == "ALS")]
    median = 1e3 * frame.groupby(["solver", "variant", "x_step"]).seconds.median()
    figure, (axes,) = style.panels(columns=2, height=3.8)
    for k, (load, (label, colour)) in enumerate(_LOADS.items()):
        spent = [median["cumf_cholesky", load, f"{side} get_hermitian"] for side in ("users", "items")]
        bars = axes[0].bar(np.arange(2) + 0.27 * (k - 1), spent, 0.25, color=style.COLOURS[colour], label=label)
        axes[0].bar_label(bars, [*map(style.significant, spent)], size=style.SMALL)
    axes[0].set_xticks([0, 1], ["users", "items"])
    place, below = np.arange(len(_SOLVERS)), np.zeros(len(_SOLVERS))
    for side, colour in (("users", "sky"), ("items", "purple")):
        spent = median[:, "coalesced", f"{side} solve"][list(_SOLVERS)].to_numpy()
        look = {"color": style.COLOURS[colour], "label": f"solve, {side}"}
        bars = axes[1].bar(place, spent, 0.6, bottom=below, **look)
        below = below + spent
    axes[1].bar_label(bars, [*map(style.significant, below)], size=style.SMALL)
    hermitian = sum(median["cumf_cholesky", "coalesced", f"{side} get_hermitian"] for side in ("users", "items"))
    axes[1].axhline(hermitian, linestyle="--", color=style.COLOURS["black"], label="get_hermitian, both")
    beside = {"textcoords": "offset points", "size": style.SMALL, "ha": "right"}
    axes[1].annotate(style.significant(hermitian), (3.4, hermitian), (0, 3), **beside)
    axes[1].set_xticks(place, _SOLVERS.values())
    axes[0].set(ylabel="milliseconds", xlabel=f"get_hermitian, {style.data_name(data)}, {factors} factors")
    axes[1].set(ylabel="milliseconds", xlabel="solver, an iteration")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


_STEPS = {
    ("cumf_cholesky", "users get_hermitian"): ("get_hermitian, FP32", "o", (7, 8), "top"),
    ("cumf_cholesky", "users solve"): ("Cholesky", "^", (7, -3), "baseline"),
    ("cumf_cg", "users solve"): ("CG, FP32", "v", (7, -17), "baseline"),
    ("cumf_cg_fp16", "users solve"): ("CG, FP16", "s", (7, 4), "baseline"),
    ("tensor_core", "users"): ("tensor_core", "D", (-6, 6), "bottom"),
}
_ROOFS = {"fp16_flops": ("FP16 products", "--"), "fp32_flops": ("FP32 products", "-")}


def figure_roofline(frame, ceilings, data, factors):
    """Draw FLOP/s of user updates against operations a byte, under the measured roofs (Williams et al. 2009).

    Filled marks count the bytes that cannot be avoided, open ones a row of factors for each rating too, as if no
    cache answered any.

    ceilings : frame of the experiment of that name, of the same device
    """
    roofs = ceilings[ceilings.device == "cuda"].set_index("metric").value
    whole = summary(frame).loc[data, "ALS", factors]
    frame = frame[(frame.data == data) & (frame.factors == factors) & (frame.model == "ALS")]
    frame = frame[frame.variant.isna() | (frame.variant == LOADS[0])]
    figure, ((axis,),) = style.panels(height=4.8)
    intensity, bandwidth = np.logspace(-1, 4, 100), roofs["copy_bytes_per_second"]
    for roof, (label, line) in _ROOFS.items():
        axis.plot(intensity, np.minimum(intensity * bandwidth, roofs[roof]), line, color="0.4", label=label)
    for (solver, step), (label, marker, by, va) in _STEPS.items():
        runs = frame[(frame.solver == solver) & (frame.x_step == step)]
        if runs.empty:
            continue
        colour = style.COLOURS[style.LOOKS["ALS", solver].colour]
        if solver in ("tensor_core", "cumf_cholesky") and not step.endswith("solve"):
            of = whole.loc[solver]
            label += f"\n{1e3 * of.seconds:.1f} ms an iteration,"
            label += f"\n{100 * of.share:.0f} % of bound {1e3 * of.bound:.1f} ms"
        flops, least, rate = runs.x_flops.iloc[0], runs.x_bytes.iloc[0], (runs.x_flops / runs.seconds).median()
        axis.plot(flops / least, rate, marker, color=colour)
        beside = {"textcoords": "offset points", "size": 9, "va": va}
        axis.annotate(label, (flops / least, rate), by, color=colour, **beside)
        gathered = runs.x_gather_seconds.iloc[0] * bandwidth
        if gathered > 0:
            axis.plot(flops / (least + gathered), rate, marker, color=colour, markerfacecolor="white")
    axis.set(xlabel="operational intensity (FLOP/byte)", ylabel="FLOP/s")
    style.log_scale(axis.xaxis)
    axis.set_xlim(right=1e5)  # room for what stands beside the last mark
    style.log_scale(axis.yaxis)
    style.legend(figure, axis, 2)
    return figure


def both_sides(frame):
    """Return the seconds of the phases of an iteration of ALS on Netflix, users and items added up, by repeat."""
    rows = frame[(frame.data == "netflix-synthetic") & (frame.model == "ALS") & (frame.factors == 100)]
    sides = rows.x_step.str.extract("(?P<side>users|items) (?P<phase_of>.*)")
    rows = rows.join(sides).dropna(subset="phase_of")
    rows = rows.groupby(["model", "solver", "variant", "phase_of", "repeat"]).seconds.sum().reset_index()
    return rows.rename(columns={"phase_of": "phase"})


def _over(name, figure, statement, over, under, **options):
    select = {"column": "seconds", "over": over, "under": under}
    return Claim(f"cumf-fig-{name}", "cumf", figure, f"{statement}, 100 factors, Netflix (synthetic).",
                 metric="ratio", select=select, table=both_sides, evidence="synthetic", **options)  # fmt: skip


def _hermitian(load):
    return {"solver": "cumf_cholesky", "variant": load, "phase": "get_hermitian"}


def _solve(solver):
    return {"solver": solver, "phase": "solve"}


_LU = {"solver": "cumf_lu", "phase": "get_hermitian"}

CLAIMS = [
    *(_over(f"4-{slug}", "Figure 4",
            f"Time of get_hermitian with {name} loads over that with non-coalesced ones through L1", _hermitian(load),
            _hermitian("l1"), criterion=above(1.0))
      for slug, load, name in (
          ("coalesced", "coalesced", "coalesced"), ("no-l1", "no_l1", "non-coalesced, L1-bypassing"),
      )),
    _over("5-lu", "Figure 5", "Time of our LU over that of get_hermitian", _solve("cumf_lu"), _LU),
    _over("5-cg", "Figure 5", "Time of CG in FP32 over that of our LU", _solve("cumf_cg"), _solve("cumf_lu")),
    _over("5-fp16", "Figure 5", "Time of CG in FP16 over that of CG in FP32", _solve("cumf_cg_fp16"),
          _solve("cumf_cg"), published=0.5, criterion=near(0.5, 1.5)),
    Claim("cumf-fig-5-l1", "cumf", "Figure 5", "CG takes the same time with L1 and without it.",
          missing="a version of the solver that bypasses L1"),
]  # fmt: skip
