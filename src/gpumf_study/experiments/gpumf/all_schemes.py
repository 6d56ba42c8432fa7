"""Every scheme at once: test RMSE against seconds of training and of the whole fit, on one set and one GPU.

As many factors as all can do, the thesis's kernels of ALS at most 32; the machine has as many hidden units. All
schemes of a model have its parameters, none of them tuned here: lambda of ALS is that of cumf (Table 2); SGD has the
rate and lambda for MovieLens, and the schedule, of `sgd_schemes`; the machine is the thesis's, but for its size. No
model has biases. The split is one; each repeat starts from factors, and draws, of its own.
"""

from functools import partial
from time import perf_counter

import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from tqdm import tqdm

from gpumf import ALS, RBM, SGD
from gpumf_study import figure_style as style
from gpumf_study.experiments import _fits, identity, load_ratings, trained, usable_devices
from gpumf_study.experiments.cumf import cumf_convergence
from gpumf_study.experiments.gpumf import _work, sgd_schemes
from gpumf_study.findings import Finding, Holds, Target, ratio

MODELS = {"ALS": ALS, "SGD": SGD, "RBM": RBM}
REFERENCES = ("ALS", "parallel"), ("SGD", "ordered_parallel")
"""On all cores: the exact solution, and each rating once in an order that loses no update."""
ABOVE = 1.01  # of the larger error at which a reference ends: the error that schemes are timed to

_GPU = [f"{kind} {name}" for kind, model in MODELS.items() for name, at in model.solvers().items() if at == "cuda"]
_CPU = ["ALS sequential", "ALS parallel", "ALS parallel_cg", "SGD ordered", "SGD ordered_parallel"]
PARAMETERS = {
    "ALS": {"regularization": cumf_convergence.LAMBDA["ml"], "biases": False, "clip": False},
    "SGD": sgd_schemes.RATES["ml"] | {"schedule": sgd_schemes.POWER, "biases": False, "clip": False},
    "RBM": RBM.THESIS,
}

PROFILES = {
    "quick": {
        "data": "ml-100k-synthetic",
        "schemes": [*_CPU, "RBM parallel", *_GPU],
        "factors": 16,
        "parameters": PARAMETERS,
        "epochs": {"ALS": 10, "SGD": 20, "RBM": 10},
        "repeats": 2,
        "shorter": {},
        "once": [],
    },
    "full": {
        "data": "ml-20m-synthetic",
        "schemes": [*_CPU, *_GPU],
        "factors": 32,
        "parameters": PARAMETERS,
        "epochs": {"ALS": 10, "SGD": 20, "RBM": 10},
        "repeats": 3,
        # Where an epoch takes a second, as many as come to the common error.
        "shorter": {"ALS sequential": 5},
        "once": [*_CPU, "ALS thesis_global", "ALS thesis_hybrid", "SGD gpusgd", "RBM thesis"],
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"factors": 4, "epochs": {"ALS": 2, "SGD": 2, "RBM": 1}}


def run(data, schemes, factors, parameters, epochs, repeats, shorter, once):
    """Train every scheme that this machine has, each first for an epoch on few ratings, which is not timed.

    Parameters
    ----------
    data : name of a data set, split as published, or else 90 % for training
    schemes : list of 'model solver'
    factors : int, of the machine hidden units
    parameters : dict, model -> arguments of all its schemes
    epochs : dict, model -> int
    repeats : int; repeat k has seed k
    shorter : dict, 'model solver' -> epochs, where fewer are wanted
    once : list of 'model solver' with seed 0 alone

    Returns
    -------
    DataFrame with a row an epoch: data, nnz (of the training set), model, scheme, source (of the publication that
    the scheme is from, or 'gpumf'), device, factors, bytes and flops (of an epoch, counted: see `_work`; missing of
    the machine), repeat, elapsed (wall seconds from the call of `fit` until the
    errors after the epoch were known, but for compiling; missing before the first), and what `_fits.history` has
    """
    ratings = load_ratings(data)
    train, test = ratings.split(0.1, seed=0) if ratings.test_mask is None else ratings.official_split()
    few, _ = train.split(0.99, seed=0)
    devices, frames = usable_devices(), []
    for text in tqdm(schemes, desc=f"all_schemes {ratings.name}", leave=False):
        kind, scheme = text.split()
        if MODELS[kind].solvers()[scheme] not in devices:
            continue
        arguments = parameters[kind] | {"hidden" if kind == "RBM" else "factors": factors, "solver": scheme}
        model = MODELS[kind](**arguments)
        publication, (moved, flops) = model.solver_class.publication, _work.of_epoch(model, train)
        what = {"data": ratings.name, "nnz": train.nnz, "model": kind, "scheme": scheme}
        what |= {"source": publication.key if publication else "gpumf", "device": model.device}
        what |= {"factors": factors, "bytes": moved, "flops": flops}
        trained(model, few, 1, test)
        for repeat in range(1 if text in once else repeats):
            model = MODELS[kind](**arguments, seed=repeat)
            history = _history(model, train, shorter.get(text, epochs[kind]), test)
            frames.append(history.assign(**what, repeat=repeat))
    frame = pd.concat(frames, ignore_index=True)
    first = ["data", "nnz", "model", "scheme", "source", "device", "factors", "bytes", "flops", "repeat", "epoch"]
    frame = frame[[*first, *frame.columns.difference(first, sort=False)]]
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def _history(model, train, epochs, test):
    """`_fits.history` of ratings of which no order is known yet, with the wall seconds until each epoch's errors."""
    train = train.select(np.arange(train.nnz))
    until, started = {}, perf_counter()

    def stamp(row):
        until[row["epoch"]] = perf_counter() - started

    history = _fits.history(model, train, epochs, test, stop=stamp)
    return history.assign(elapsed=history.epoch.map(until).astype(float) - history["compile"])


# Seconds to one error

_TRAINING = ["model", "scheme", "device", "source"]


def last_errors(frame):
    """The test RMSE after the last epoch of each training; missing where it diverged.

    Returns
    -------
    DataFrame with the columns model, scheme, device, source, repeat and rmse
    """
    return frame.groupby([*_TRAINING, "repeat"], sort=False).tail(1)[[*_TRAINING, "repeat", "rmse"]]


def level(frame):
    """The common error: 1 % above the larger of those at which the REFERENCES end (medians)."""
    errors = last_errors(frame).groupby(["model", "scheme"]).rmse.median()
    return ABOVE * errors.reindex(list(REFERENCES)).max(skipna=False)


def reached(frame):
    """When each training that did not diverge first had the common error.

    Returns
    -------
    DataFrame with a row a training: model, scheme, device, source, repeat, epoch, train and wall (seconds until
    then; those of `seconds` and of `elapsed`)
    """
    rows = frame[~frame.diverged.astype(bool) & (frame.epoch > 0) & (frame.rmse <= level(frame))]
    first = rows.groupby([*_TRAINING, "repeat"], sort=False).head(1)
    first = first.assign(train=first.seconds, wall=first.elapsed)
    return first[[*_TRAINING, "repeat", "epoch", "train", "wall"]]


def summary(frame):
    """Errors of every scheme, and its seconds to the common error.

    Returns
    -------
    DataFrame with the index (model, scheme): device, source, repeats, rmse (after the last epoch; median, missing
    where a training diverged), spread (largest less smallest), level (the common error), epochs, train, wall (to it,
    medians; missing where not all trainings come to it)
    """
    by = ["model", "scheme"]
    errors = last_errors(frame).groupby(by, sort=False)
    repeats = errors.repeat.nunique()
    table = (
        errors[["device", "source"]]
        .first()
        .assign(
            repeats=repeats,
            rmse=errors.rmse.median().where(errors.rmse.count() == repeats),
            spread=errors.rmse.agg(np.ptp),
            level=level(frame),
        )
    )
    soon = reached(frame).groupby(by)
    times = soon[["epoch", "train", "wall"]].median().rename(columns={"epoch": "epochs"})
    return table.join(times[soon.size() == repeats.reindex(times.index)])


# Figures

_MARKERS = "osD^vP*X<>hd8p"


def _name(kind, scheme):
    return f"{kind}, {style.LOOKS[kind, scheme].name}"


def _shade(kind, place):
    """The model's colour, from light to dark as `place` goes from 0 to 1."""
    shades = LinearSegmentedColormap.from_list(kind, ["white", style.COLOURS[style.MODELS[kind][0]], "black"])
    return shades(0.3 + 0.5 * place)


def figure(frame):
    """Test RMSE against seconds of training (left) and of the whole fit (right), a line a scheme (medians).

    Colours are the models', from light to dark in the order of their schemes. Dashed: on the processor. Dotted
    across: the common error.
    """
    runs = frame[frame.epoch > 0]
    schemes = list(dict.fromkeys(zip(runs.model, runs.scheme, runs.device, strict=True)))
    figure, (axes,) = style.panels(columns=2, height=6.4, sharey=True)
    of_model = {kind: [s for k, s, _ in schemes if k == kind] for kind in MODELS}
    for kind, scheme, device in schemes:
        run = runs[(runs.model == kind) & (runs.scheme == scheme)]
        median = run.groupby("epoch")[["seconds", "elapsed", "rmse"]].median()
        place = of_model[kind].index(scheme)
        look = {
            "color": _shade(kind, place / len(of_model[kind])),
            "marker": _MARKERS[place % len(_MARKERS)],
            "linestyle": "--" if device == "cpu" else "-",
        }
        for axis, seconds in zip(axes, ("seconds", "elapsed"), strict=True):
            axis.plot(median[seconds], median.rmse, **look, markersize=4, linewidth=1.2, label=_name(kind, scheme))
    for axis, label in zip(axes, ("training time (s)", "end-to-end time (s)"), strict=True):
        axis.axhline(level(frame), linestyle=":", color=style.COLOURS["black"])
        axis.set(xlabel=label)
        style.log_scale(axis.xaxis)
    errors = runs.rmse.dropna()  # without what diverged
    # The first epochs of SGD are far above everything worth seeing.
    axes[0].set_ylim(errors.min() - 0.02 * np.ptp(errors), np.quantile(errors, 0.9))
    axes[0].set_ylabel(f"test RMSE on {frame.data.iloc[0]}")
    style.legend(figure, axes[0], 3)
    return figure


def figure_seconds(frame):
    """Training and end-to-end time to the common error, a row a solver, the fastest on top.

    Who does not come to it has no marks, and says where it ends.
    """
    table = summary(frame).sort_values(["train", "rmse"], ascending=False, na_position="first")
    figure, ((axis,),) = style.panels(height=1.2 + 0.24 * len(table))
    place = np.arange(len(table))
    axis.hlines(place, table.train, table.wall, color="0.8", zorder=1)
    colours = [style.MODELS[kind][0] for kind, _ in table.index]
    for what, marker, sure in (("train", "o", True), ("wall", "D", False)):
        style.marks(axis, table[what], place, colours, marker=marker, sure=[sure] * len(table))
        axis.plot([], [], marker, color="0.35", markerfacecolor="0.35" if sure else "white", label=_SHOWN[what])
    names = []
    for (kind, scheme), row in table.iterrows():
        ends = "diverges" if np.isnan(row.rmse) else f"ends at {row.rmse:.3f}"
        names.append(_name(kind, scheme) + (f" ({ends})" if np.isnan(row.train) else ""))
    axis.set_yticks(place, names)
    axis.set(xlabel=f"seconds to test RMSE {table.level.iloc[0]:.3f}, {style.data_name(frame.data.iloc[0])}")
    style.log_scale(axis.xaxis)
    style.legend(figure, axis, 2)
    return figure


_SHOWN = {"train": "training time", "wall": "end-to-end time"}


# Findings


def _soonest(table, what):
    """Of rows of the summary the scheme that comes to the error first; None where none does."""
    return None if table[what].isna().all() else table[what].idxmin()


def _over(frame, what, slower, faster):
    """What a scheme takes to the common error over what another one takes, each as (model, scheme) or None."""
    if slower is None or faster is None:
        return np.nan, np.nan, "x"
    times = reached(frame).set_index(["model", "scheme"])[what]
    return *ratio(times.loc[[slower]], times.loc[[faster]]), "x"


def _others_over(frame, scheme, what):
    """What the soonest one of the other schemes takes over what this one takes."""
    table = summary(frame)
    arrives = scheme in table.index and not np.isnan(table[what][scheme])
    return _over(frame, what, _soonest(table.drop([scheme], errors="ignore"), what), scheme if arrives else None)


def _published_over_ours(frame, what):
    """What the soonest published scheme of the GPU takes over what the soonest one of ours takes."""
    table = summary(frame)
    table = table[table.device == "cuda"]
    ours = table.source == "gpumf"
    return _over(frame, what, _soonest(table[~ours], what), _soonest(table[ours], what))


def _cores_over_gpu(frame, what):
    """What the soonest scheme of the processor takes over what the soonest one of the GPU takes."""
    table = summary(frame)
    return _over(frame, what, *(_soonest(table[table.device == at], what) for at in ("cpu", "cuda")))


def _unexpected(frame, short):
    """How many published schemes of the GPU are among those that come `short` of the error and do, or the reverse."""
    table = summary(frame)
    table = table[(table.device == "cuda") & (table.source != "gpumf")]
    if table.empty:
        return np.nan, np.nan, "schemes"
    return float((table.train.isna() != table.index.isin(short)).sum()), np.nan, "schemes"


_SET = "MovieLens 20M twin | 32 factors"
_TO = "seconds to the common error"
FINDINGS = [
    *(
        Finding(
            f"all-schemes-soonest-{what}",
            "gpumf",
            None,
            f"ALS, tensor_core | {_SET} | {what} {_TO}: soonest other scheme over it",
            partial(_others_over, scheme=("ALS", "tensor_core"), what=what),
            Holds(above=1.0),
        )
        for what in ("train", "wall")
    ),
    Finding(
        "all-schemes-published",
        "gpumf",
        None,
        f"published schemes | {_SET} | cu2rec, ESGD in the set's order and the thesis's machine alone do not come to "
        "the common error: schemes of which that is wrong",
        partial(_unexpected, short=[("RBM", "thesis"), ("SGD", "cu2rec"), ("SGD", "esgd")]),
        Holds(below=0.5),
    ),
    Finding(
        "all-schemes-ours-train",
        "gpumf",
        None,
        f"all schemes | {_SET} | train {_TO}: soonest published scheme over soonest of ours",
        partial(_published_over_ours, what="train"),
        Target(2.0, 4.0, "higher"),
    ),
    Finding(
        "all-schemes-cores-wall",
        "gpumf",
        None,
        f"all schemes | {_SET} | wall {_TO}: soonest on the processor over soonest on the GPU",
        partial(_cores_over_gpu, what="wall"),
        Target(5.0, 10.0, "higher"),
    ),
]
