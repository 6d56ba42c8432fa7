"""Seconds of an iteration of ESGD in its three parts: data to the GPU, updates, factors back.

After Nassar et al., section 4: t = t_hd + t_GPU + t_dh. Its Algorithm 1 copies ratings, factors and permutation to
the device before every launch and the factors back after it. Its section 5 asks for pipelining: `streamed` copies
ratings while earlier ones are worked on, and leaves the factors on the device.
"""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, Criterion
from gpumf_study.experiments import kernels_unavailable, load_ratings
from gpumf_study.experiments.esgd.esgd_errors import FILE, ORDERS, published, rates

PARTS = {"t_hd": "transfer", "t_GPU": "train", "t_dh": "transfer"}  # and the phase of each
STREAMED, APART, WHOLE = "streamed", "t_hd + t_GPU", "iteration"
_CHUNKS = 8  # of the ratings, where they are streamed

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "part": [120, 100], "factors": 4, "th_size": 40, "st": 2, "repeats": 3},
    "full": {"data": ["ml-100k", "ml-1m", "ml-10m-synthetic"], "part": None, "factors": 16, "th_size": 1000,
             "st": 2, "repeats": 10},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "repeats": 2}

why_unavailable = kernels_unavailable


def run(data, part, factors, th_size, st, repeats):
    """Time the parts of so many iterations; an order of the ratings in which training diverges has no rows."""
    device = backends.device("cuda" if backends.available() else "emulator")
    rows = []
    for name in data:
        ratings = sweep.corner(load_ratings(name), part)
        train, _ = ratings.split(0.1)
        train = replace(train, values=train.values - np.float32(train.mean))  # as a model with biases counts them
        for order, options in tqdm(ORDERS.items(), desc=f"esgd_seconds {ratings.name}", leave=False):
            options = options | rates(name) | {"th_size": th_size, "st": st, "biases": "baseline", "clip": False}
            model = SGD(factors, solver="esgd", device=device.name, **options)
            streamed = SGD(factors, solver="esgd", device=device.name, chunk=max(train.nnz // _CHUNKS, 1), **options)
            trainers = model.make_solver(train), streamed.make_solver(train)
            to_device, back = copies(device, model, train, trainers[0])
            works = {"t_hd": to_device, "t_GPU": trainers[0].epoch, "t_dh": back, STREAMED: trainers[1].epoch}
            seconds = {what: [_seconds(device, work, k) for k in range(repeats + 1)] for what, work in works.items()}
            if all(np.isfinite(device.to_numpy(array)).all() for trainer in trainers for array in trainer.factors()):
                # The first pays for what a process does once.
                rows += [
                    (name, order, k, PARTS.get(what, "end_to_end"), of[k + 1], what, train.nnz)
                    for what, of in seconds.items()
                    for k in range(repeats)
                ]
    frame = pd.DataFrame(rows, columns=["data", "variant", "repeat", "phase", "seconds", "x_part", "x_nnz"])
    return frame.assign(task="iteration", model="SGD", solver="esgd", device=device.name, factors=factors)


def copies(device, model, train, trainer):
    """Return two functions: what an iteration as published copies to the device, and what it copies back."""
    permutation = getattr(model.solver_class, "permutation", None)
    factors = (device.to_numpy(array)[:, : model.factors] for array in trainer.factors())
    arrays = [train.users, train.items, train.values, *map(np.ascontiguousarray, factors)]
    arrays += [permutation(model.hyperparameters)] if permutation else []
    return (
        lambda *_: [device.array(array) for array in arrays],
        lambda *_: [device.to_numpy(array) for array in trainer.arrays()],
    )


def _seconds(device, work, number):
    """Return the seconds of the host's clock from a device that is idle to one that is again."""
    device.synchronize()
    started = time.perf_counter()
    work(number)
    device.synchronize()
    return time.perf_counter() - started


def iterations(frame):
    """Return seconds by data, variant and repeat, of `what`: WHOLE (all PARTS), APART (without t_dh) or STREAMED."""
    by = ["data", "variant", "repeat"]
    sums = {WHOLE: [*PARTS], APART: ["t_hd", "t_GPU"], STREAMED: [STREAMED]}
    rows = {what: frame[frame.x_part.isin(parts)] for what, parts in sums.items()}
    lots = {what: of.groupby(by, sort=False).seconds.sum() for what, of in rows.items()}
    table = pd.concat(lots, names=["what"]).reset_index()
    stated = table.data.map(lambda name: published("time of an iteration", name, "Section 4"))
    return table.assign(published_over_ours=stated / table.seconds)


def summary(frame):
    """Return the medians by data and variant: PARTS, STREAMED, WHOLE, and the published seconds."""
    table = frame.groupby(["data", "variant", "x_part"], sort=False).seconds.median().unstack(sort=False)
    stated = [published("time of an iteration", data, "Section 4") for data in table.index.get_level_values("data")]
    return table.assign(iteration=table[[*PARTS]].sum(axis=1), published=stated)


def figure(frame):
    """Draw the parts of an iteration in file order, a bar a data set; a mark: with the ratings streamed."""
    table = summary(frame).xs(FILE, level="variant")[::-1]
    figure, ((axis,),) = style.panels(height=1.4 + 0.5 * len(table))
    place, left = np.arange(len(table)), np.zeros(len(table))
    for part, colour in zip(PARTS, ("sky", "wine", "orange"), strict=True):
        axis.barh(place, 1e3 * table[part], 0.5, left=left, color=style.COLOURS[colour], label=_PARTS[part])
        left += 1e3 * table[part]
    look = {"color": style.COLOURS["black"], "markersize": 24, "label": "ratings streamed"}
    axis.plot(1e3 * table[STREAMED], place, "|", **look)
    for y, (row, end) in enumerate(zip(table.itertuples(), left, strict=True)):
        text = f"together {style.significant(end)} ms;\npublished: {1e3 * row.published:,.0f} ms"
        axis.annotate(text, (max(end, 1e3 * row.streamed), y), (6, 0), textcoords="offset points", va="center")
    axis.set_yticks(place, map(style.data_name, table.index))
    axis.set(xlabel="milliseconds an iteration", xlim=(0, 1.5 * max(left.max(), 1e3 * table[STREAMED].max())))
    style.legend(figure, axis, 4)
    return figure


_PARTS = dict(zip(PARTS, ("copies to the GPU", "updates", "copies back"), strict=True))


def _ratio(over, under):
    return {"column": "seconds", "where": {"variant": FILE}, "over": over, "under": under}


CLAIMS = [
    Claim("esgd-section-4-growth", "esgd", "Section 4",
          "Seconds of an iteration with transfers, in file order, MovieLens 10M (synthetic) over 100K.",
          2.29 / 0.02, "ratio",
          _ratio({"what": WHOLE, "data": "ml-10m-synthetic"}, {"what": WHOLE, "data": "ml-100k"}),
          Criterion(0.5 * 2.29 / 0.02, 2 * 2.29 / 0.02), "synthetic", iterations),  # any growth is no effect
    Claim("esgd-section-4-since", "esgd", "Section 4",
          "Published seconds of an iteration with its transfers over ours, MovieLens 10M (synthetic).",
          metric="median",
          select={"column": "published_over_ours", "times": 1,
                  "where": {"what": WHOLE, "data": "ml-10m-synthetic", "variant": FILE}}, evidence="synthetic",
          table=iterations),
    Claim("esgd-transfers-hidden", "esgd", "Section 5",
          "Speed-up of copying ratings while others are worked on over one after the other, MovieLens 10M "
          "(synthetic).", metric="ratio",
          select=_ratio({"what": APART, "data": "ml-10m-synthetic"}, {"what": STREAMED, "data": "ml-10m-synthetic"}),
          evidence="synthetic", table=iterations),
]  # fmt: skip
