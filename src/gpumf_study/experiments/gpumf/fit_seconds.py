"""Where the time of a `fit` goes, as a user waits for it: from ratings in NumPy arrays to factors in NumPy arrays.

`model.times` counts apart what prepares the ratings, moves them and trains; `wall` is all of it. Of each model the
first fit of the process, which loads or compiles the kernels, and warm ones after it; with the ratings' layouts made
on the device, and on the host. Beside them, where it is installed, the package `implicit` fits the same ratings, with
as many factors and iterations, from the same arrays to its factors in arrays. On a smaller set one core, each rating
once an epoch, is the baseline of the speed-ups of `train` and of `wall`.
"""

import time
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD, ImplicitALS, backends
from gpumf.models.times import Times
from gpumf.solvers import schedules
from gpumf_study import figure_style as style
from gpumf_study.experiments import _fits, identity, load_ratings
from gpumf_study.findings import Finding, Open, Target

MODELS = {"ALS": ALS, "ImplicitALS": ImplicitALS, "SGD": SGD}
PEER = "implicit"
PHASES = {"prepare": "blue", "transfer": "orange", "train": "green", "compile": "grey"}
_POWER = {
    "biases": False,
    "clip": False,
    "regularization": 0.05,
    "learning_rate": 0.03,
    "schedule": schedules.Power(0.1),
}
PARAMETERS = {
    "ALS": {"biases": False, "clip": False, "regularization": 0.05},
    "ImplicitALS": {
        "regularization": 0.1,
        "alpha": 40.0,
        "unobserved_weight": 1.0,
        "regularization_exponent": 0.0,
    },
    "SGD": _POWER,
}
_RECOMMENDED = 10
_ONE_CORE = {"ALS": "sequential", "SGD": "ordered"}

PROFILES = {
    "quick": {
        "data": "ml-100k-synthetic",
        "fits": [
            ["ALS", "parallel", 16, 5],
            ["ImplicitALS", "parallel_cg", 16, 5],
            [PEER, "cpu", 16, 5],
            ["SGD", "sequential", 16, 5],
        ],
        "prepare": ["host"],
        "baseline": {"data": "ml-100k-synthetic", "fits": [["ALS", "sequential", 16, 5], ["SGD", "ordered", 16, 5]]},
        "repeats": 2,
    },
    "full": {
        "data": "netflix-synthetic",
        "fits": [
            ["ALS", "tensor_core", 100, 10],
            ["ALS", "tensor_core", 256, 10],
            ["ImplicitALS", "tensor_core", 64, 10],
            [PEER, "gpu", 64, 10],
            ["ImplicitALS", "tensor_core", 128, 10],
            ["SGD", "fast", 128, 20],
            ["SGD", "cumf_sgd", 128, 20],
        ],
        "prepare": ["device", "host"],
        "baseline": {
            "data": "douban-synthetic",
            "fits": [
                ["ALS", "sequential", 16, 10],
                ["ALS", "tensor_core", 16, 10],
                ["SGD", "ordered", 16, 20],
                ["SGD", "fast", 16, 20],
            ],
        },
        "repeats": 3,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {
    "fits": [["ALS", "parallel", 4, 1]],
    "baseline": {"data": "ml-100k-synthetic", "fits": []},
    "repeats": 1,
}


def run(data, fits, prepare, baseline, repeats):
    """Fit models to the ratings of the official training set, or of all where there is none, and recommend with them.

    Parameters
    ----------
    data : name of a data set
    fits : list of [model, kernel, factors, epochs]; of the model 'implicit' the kernel is 'gpu' or 'cpu', and it is
        left out where the package is not installed, or not for a GPU
    prepare : of 'device' and 'host', where layouts of models on a GPU are made: on the first of these for all, on
        the others for the first fit of each model alone, and once, after those that have compiled
    baseline : dict with such data and fits, one core's among them, for speed-ups; these recommend nothing
    repeats : int, warm fits of each, after the first one

    Returns
    -------
    DataFrame with a row a fit: data, model, kernel, device, factors, epochs, nnz, prepared ('device' or 'host', the
    layouts), repeat (0 is the first of the process), prepare, transfer, train, compile, wall (seconds, see
    `gpumf.models.times`; of `implicit` the wall alone), recommend (seconds to find the ten best unseen items of all
    users with the fitted model, missing of the baseline's set), peer (the package and its version, or that it is
    not installed)
    """
    rows, identities = [], []
    for name, chosen, where in ((data, fits, prepare), (baseline["data"], baseline["fits"], prepare[:1])):
        if not chosen:
            continue
        ratings = load_ratings(name)
        train = ratings.official_split()[0] if ratings.test_mask is not None else ratings
        identities.append(identity(ratings))
        met = set()
        for fit in tqdm(chosen, desc=f"fit_seconds {ratings.name}", leave=False):
            rows += _measured(train, *fit, where[:1] if fit[0] in met else where, repeats, chosen is fits)
            met.add(fit[0])
    columns = ["data", "model", "kernel", "device", "factors", "epochs", "nnz", "prepared", "repeat", *_fits.TIMES]
    peer = f"{PEER} {version(PEER)}" if find_spec(PEER) else f"{PEER} is not installed"
    frame = pd.DataFrame(rows, columns=[*columns, "recommend"]).assign(peer=peer)
    frame.attrs["datasets"] = identities
    return frame


def _measured(train, name, kernel, factors, epochs, where, repeats, recommends):
    """Rows of the fits of one model."""
    if name == PEER:
        if not _has_peer(kernel):
            return
        for repeat in range(repeats + 1):
            wall, seconds = _peer_seconds(train, kernel, factors, epochs)
            times = Times(*[np.nan] * 4, wall)
            what = train.name, name, kernel, {"gpu": "cuda"}.get(kernel, kernel), factors, epochs, train.nnz
            yield *what, "host", repeat, *vars(times).values(), seconds
        return
    on_device = MODELS[name].solvers()[kernel] != "cpu"
    for prepared in where if on_device else ["host"]:
        again = prepared != where[0] and on_device
        for repeat in [1] if again else range(repeats + 1):
            model = MODELS[name](factors, solver=kernel, **PARAMETERS[name])
            if prepared == "host":
                model._takes_from_device = bool  # no: the trainer copies the layouts that the host makes
            model.fit(replace(train), epochs)  # without the orders that a fit before has made
            started = time.perf_counter()
            if recommends:
                model.recommend(np.arange(train.n_users), k=_RECOMMENDED)
            seconds = time.perf_counter() - started if recommends else np.nan
            what = train.name, name, kernel, model.device, factors, epochs, train.nnz, prepared, repeat
            yield *what, *vars(model.times).values(), seconds


def _has_peer(kernel):
    """Whether the package is installed, for a GPU where it is to run on one."""
    if find_spec(PEER) is None or kernel == "cpu":
        return find_spec(PEER) is not None
    from implicit.gpu import HAS_CUDA

    return HAS_CUDA and backends.available()


def _peer_seconds(train, kernel, factors, iterations):
    """Seconds of the package's fit, and to recommend to all users."""
    from implicit.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    started = time.perf_counter()
    confidences = np.float32(1) + np.float32(PARAMETERS["ImplicitALS"]["alpha"]) * train.values
    by_user = csr_matrix((confidences, (train.users, train.items)), (train.n_users, train.n_items))
    model = AlternatingLeastSquares(
        factors, regularization=0.1, alpha=1.0, iterations=iterations, use_gpu=kernel == "gpu", random_state=0
    )
    model.fit(by_user, show_progress=False)
    for array in (model.user_factors, model.item_factors):
        if kernel == "gpu":
            array.to_numpy()
    wall, started = time.perf_counter() - started, time.perf_counter()
    model.recommend(np.arange(train.n_users), by_user, N=_RECOMMENDED)
    return wall, time.perf_counter() - started


def _whole(frame):
    """The frame; one recorded before layouts were made on the host too has those of the device."""
    return frame if "prepared" in frame else frame.assign(prepared="device")


_KEYS = ["data", "model", "kernel", "factors", "epochs", "prepared"]


def summary(frame):
    """Medians of the warm fits.

    Returns
    -------
    DataFrame with a row a fit: data, model, kernel, factors, epochs, prepared, prepare, transfer, train, compile,
    wall, recommend, first_wall (of the first fit of these)
    """
    frame = _whole(frame)
    warm = frame[frame.repeat > 0].groupby(_KEYS, sort=False)
    table = warm[["prepare", "transfer", "train", "compile", "wall", "recommend"]].median()
    first = frame[frame.repeat == 0].set_index(_KEYS).wall
    return table.assign(first_wall=first).reset_index()


def figure(frame):
    """The phases of warm fits on the first data set, a bar a model and place of preparation, a part a phase."""
    table = summary(frame[frame.data == frame.data.iloc[0]])
    figure, ((axis,),) = style.panels(height=1.2 + 0.4 * len(table))
    place, left = np.arange(len(table))[::-1], np.zeros(len(table))
    for phase, colour in PHASES.items():
        seconds = table[phase].fillna(0)
        axis.barh(place, seconds, left=left, color=style.COLOURS[colour], label=phase)
        left += seconds
    axis.barh(place, table.wall - left, left=left, color="#dddddd", label="errors, copies and all else")
    axis.set_yticks(place, [_label(row) for row in table.itertuples()])
    axis.set(xlabel="seconds of a fit, from arrays to arrays")
    style.legend(figure, axis, 5)
    return figure


def _label(row):
    return f"{row.model}, {row.kernel}, on the {row.prepared}, {row.factors} factors, {row.epochs} epochs"


def _median(frame, column, model, factors, kernel):
    """Of the warm fits with layouts made on the device, and half of what they cover."""
    fits = _whole(frame).query("repeat > 0 and model == @model and factors == @factors and kernel == @kernel")
    fits = fits[(fits.prepared == "device") & (fits.data == "netflix-synthetic")]
    seconds = fits.train / fits.epochs if column == "iteration" else fits[column]
    return seconds.median(), (seconds.max() - seconds.min()) / 2, "s"


def _speedup(frame, column, model, kernel):
    """Median seconds of one core over the median of the kernel's, of the warm fits of both."""
    fits = frame[(frame.repeat > 0) & (frame.model == model) & (frame.data == "douban-synthetic")]
    slow, fast = (fits[column][fits.kernel == name] for name in (_ONE_CORE[model], kernel))
    extremes = slow.min() / fast.max(), slow.max() / fast.min()
    return slow.median() / fast.median(), (extremes[1] - extremes[0]) / 2, "x"


FINDINGS = [
    Finding(
        id,
        "gpumf",
        None,
        f"{model}, {kernel} | Netflix twin | {factors} factors | {metric}",
        partial(_median, column=column, model=model, factors=factors, kernel=kernel),
        Target(target, stretch),
    )
    for id, model, kernel, factors, column, metric, target, stretch in (
        (
            "als-explicit-wall10",
            "ALS",
            "tensor_core",
            100,
            "wall",
            "wall seconds of a fit, 10 iterations",
            0.50,
            0.30,
        ),
        ("sgd-fast-wall20", "SGD", "fast", 128, "wall", "wall seconds of a fit, 20 epochs", 0.75, 0.45),
        ("sgd-cumf-wall20", "SGD", "cumf_sgd", 128, "wall", "wall seconds of a fit, 20 epochs", 1.8, 1.2),
        ("als-implicit64-wall10", "ImplicitALS", "tensor_core", 64, "wall", "wall seconds of a fit", 0.45, 0.25),
        (
            "recommend-all-seconds",
            "ALS",
            "tensor_core",
            100,
            "recommend",
            "ten items to all users, seconds",
            0.15,
            0.08,
        ),
        (
            "recommend-all-implicit-seconds",
            "ImplicitALS",
            "tensor_core",
            128,
            "recommend",
            "ten items to all users, seconds",
            0.15,
            0.08,
        ),
        ("als-explicit256-seconds", "ALS", "tensor_core", 256, "iteration", "an iteration", 0.075, 0.045),
    )
]
FINDINGS += [
    Finding(
        f"{model.lower()}-douban-{column}-speedup",
        "gpumf",
        None,
        f"{model}, {kernel} | Douban twin | 16 factors, {epochs} | seconds of one core over its own, {column}",
        partial(_speedup, column=column, model=model, kernel=kernel),
        rule,
    )
    for model, kernel, epochs, wall in (
        ("ALS", "tensor_core", "10 iterations", Target(100, 300, "higher")),
        ("SGD", "fast", "20 epochs", Target(40, 150, "higher")),
    )
    for column, rule in (("wall", wall), ("train", Open()))
]
