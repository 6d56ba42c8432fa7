"""Seconds of an iteration of ESGD in its three parts: data to the GPU, updates, factors back.

After Nassar et al., section 4: t = t_hd + t_GPU + t_dh. Its Algorithm 1 copies ratings, factors and permutation to
the device before every launch and the factors back after it. Beside that what its section 5 asks for: ratings that
are copied while the ones before are worked on (`streamed`; the factors stay).
"""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study.experiments import _fits, identity, kernels_unavailable, load_ratings
from gpumf_study.experiments.esgd.esgd_errors import ORDERS, published, rates
from gpumf_study.findings import Finding, Near, Open, ratio

PARTS = ["t_hd", "t_GPU", "t_dh"]
STREAMED = "streamed"

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "part": [120, 100], "factors": 4, "th_size": 40, "st": 2, "repeats": 3},
    "full": {
        "data": ["ml-100k", "ml-1m-synthetic", "ml-10m-synthetic"],
        "part": None,
        "factors": 16,
        "th_size": 1000,
        "st": 2,
        "repeats": 10,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "repeats": 2}
_CHUNKS = 8  # of the ratings, where they are streamed

why_unavailable = kernels_unavailable


def run(data, part, factors, th_size, st, repeats):
    """Time the parts of iterations.

    Parameters
    ----------
    data : names of data sets of Table 1, or of their twins
    part : (users, items) of each that are taken, or None for all
    factors, th_size, st : int
    repeats : int, iterations, one behind the other

    Returns
    -------
    DataFrame with a row a measurement: data, nnz, order (of ORDERS), device, part (of PARTS, or STREAMED), repeat,
    seconds, finite (whether the factors still are)
    """
    device = backends.device("cuda" if backends.available() else "emulator")
    rows, identities = [], []
    for name in data:
        ratings = _fits.corner(load_ratings(name), part)
        identities.append(identity(ratings))
        train, _ = ratings.split(0.1)
        train = replace(train, values=train.values - np.float32(train.mean))  # as a model with biases counts them
        for order, options in tqdm(ORDERS.items(), desc=f"esgd_seconds {ratings.name}", leave=False):
            common = {
                "biases": "baseline",
                "device": device.name,
                "th_size": th_size,
                "st": st,
                **rates(name),
                **options,
            }
            model = SGD(factors, solver="esgd", clip=False, **common)
            streamed = SGD(factors, solver="esgd", chunk=max(train.nnz // _CHUNKS, 1), clip=False, **common)
            measured, finite = _parts(device, model, train, repeats)
            measured[STREAMED], still = _streamed(device, streamed, train, repeats)
            what = name, train.nnz, order, device.name
            for of, seconds in measured.items():
                rows += [(*what, of, k, s, finite and still) for k, s in enumerate(seconds)]
    columns = ["data", "nnz", "order", "device", "part", "repeat", "seconds", "finite"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.attrs["datasets"] = identities
    return frame


def _parts(device, model, train, repeats):
    """Seconds of the three parts, a dict of lists, and whether the factors are finite in the end."""
    trainer, scheme = model.make_solver(train), model.solver_class
    p, q = map(device.to_numpy, trainer.factors())
    arrays = train.users, train.items, train.values, p[:, : model.factors], q[:, : model.factors]
    arrays = [np.ascontiguousarray(a) for a in (*arrays, scheme.permutation(model.hyperparameters))]
    measured = {part: [] for part in PARTS}
    for k in range(-1, repeats):  # one before those that count
        times = (
            _seconds(device, lambda: [device.array(a) for a in arrays]),
            _seconds(device, lambda k=k: trainer.epoch(k + 1)),
            _seconds(device, lambda: [device.to_numpy(a) for a in trainer.arrays()]),
        )
        if k >= 0:
            for part, seconds in zip(PARTS, times, strict=True):
                measured[part].append(seconds)
    return measured, _finite(device, trainer)


def _streamed(device, model, train, repeats):
    trainer = model.make_solver(train)
    seconds = [_seconds(device, lambda k=k: trainer.epoch(k)) for k in range(repeats + 1)]
    return seconds[1:], _finite(device, trainer)


def _seconds(device, work):
    """Of the host's clock, from a device that is idle to one that is again."""
    device.synchronize()
    started = time.perf_counter()
    work()
    device.synchronize()
    return time.perf_counter() - started


def _finite(device, trainer):
    return all(np.isfinite(device.to_numpy(array)).all() for array in trainer.factors())


def summary(frame):
    """The parts side by side.

    Returns
    -------
    DataFrame with the index (data, order): t_hd, t_GPU, t_dh, streamed (medians), iteration (the three together),
    published (seconds of an iteration), finite
    """
    table = frame.pivot_table(index=["data", "order"], columns="part", values="seconds", aggfunc="median", sort=False)
    finite = frame.groupby(["data", "order"]).finite.all()
    stated = [published("time of an iteration", data, "Section 4") for data, _ in table.index]
    return table[[*PARTS, STREAMED]].assign(iteration=table[PARTS].sum(axis=1), published=stated, finite=finite)


def figure(frame):
    """The three parts of an iteration, a bar a set, in the order of the ratings; a mark: with transfers hidden."""
    table = summary(frame)
    table = table.xs(next(iter(ORDERS)), level="order")[::-1]
    figure, ((axis,),) = style.panels(height=1.4 + 0.5 * len(table))
    place, left = np.arange(len(table)), np.zeros(len(table))
    for part, colour in zip(PARTS, ("sky", "wine", "orange"), strict=True):
        axis.barh(place, table[part], 0.5, left=left, color=style.COLOURS[colour], label=part)
        left += table[part]
    axis.plot(table[STREAMED], place, "|", color=style.COLOURS["black"], markersize=24, label="ratings streamed")
    axis.set_yticks(place, table.index)
    axis.set(xlabel="seconds an iteration")
    style.legend(figure, axis, 4)
    return figure


def _iterations(frame, data, parts=PARTS):
    """The seconds of the iterations of a set, of these parts, in an order in which it converges."""
    rows = frame[(frame.data == data) & frame.finite.astype(bool) & frame.part.isin(parts)]
    chosen = next((order for order in ORDERS if (rows.order == order).any()), None)
    return rows[rows.order == chosen].groupby("repeat").seconds.sum()


def _growth(frame):
    """How many times as long an iteration takes with a hundred times the ratings."""
    return *ratio(_iterations(frame, "ml-10m-synthetic"), _iterations(frame, "ml-100k")), "x"


def _since(frame):
    """The published seconds over those of an iteration of MovieLens 10M, its transfers included."""
    stated = published("time of an iteration", "ml-10m", "Section 4")
    return *ratio([stated], _iterations(frame, "ml-10m-synthetic")), "x"


def _hidden(frame):
    """Transfer and updates one after another, over those of which one hides the other, on MovieLens 10M."""
    apart = _iterations(frame, "ml-10m-synthetic", ["t_hd", "t_GPU"])
    return *ratio(apart, _iterations(frame, "ml-10m-synthetic", [STREAMED])), "x"


FINDINGS = [
    Finding(
        "esgd-section-4-growth",
        "esgd",
        "Section 4",
        "An iteration on MovieLens 10M takes 114.5 times as long as one on MovieLens 100K, 2.29 s against 0.02 s.",
        _growth,
        Near(2.29 / 0.02, 2.0),
    ),
    Finding(
        "esgd-section-4-since",
        "esgd",
        "Section 4",
        "How many times as fast is an iteration on MovieLens 10M, with its transfers, as the published 2.29 s?",
        _since,
        Open(),
    ),
    Finding(
        "esgd-transfers-hidden",
        "esgd",
        "Section 4",
        "How much faster is an iteration whose ratings are copied while others are worked on?",
        _hidden,
        Open(),
    ),
]
