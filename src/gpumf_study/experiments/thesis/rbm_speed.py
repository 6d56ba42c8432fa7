"""Seconds of an epoch of an RBM and of its three updates: the thesis's Figure 4.5, and faster versions.

After the thesis, section 4.2.2: its RBM (`RBM.thesis`) with all ratings of Douban (synthetic). The weights stay on
the device, or are moved there and back for every update; in both versions of Figure 4.5 the matrices of a batch are
made and moved inside the epoch, when its turn comes. In a third version both stay on the device. Updates are timed
one by one, with the device idle before each; epochs as a whole, so that launches overlap. Versions that would take
minutes are timed on the first batches of an epoch alone; seconds of an epoch then follow from their share of ratings.
"""

from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import RBM, backends
from gpumf.solvers.rbm_divergence import batch_order
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, near
from gpumf_study.experiments import _limits, _published, load_ratings

UPDATES = "hidden update", "visible update", "weight update"
BATCHES = "batches"  # their matrices, made and moved

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "hidden": 128, "batch": 100, "few": 5, "repeats": 3},
    "full": {"data": "douban-synthetic", "hidden": 128, "batch": 100, "few": 30, "repeats": 10},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": "ml-100k-synthetic", "hidden": 8, "repeats": 2}


def run(data, hidden, batch, few, repeats):
    """Time the versions that this computer has, those of the CPU and, with a GPU, its own.

    few : int, batches of which an epoch of the slow versions (those that move something, and the CPU's beside a GPU)
        and all single updates are made
    repeats : int, timings of each; few batches are timed a third as often

    A row is a timing of x_part: 'prepare', to put what stays where it is used, 'epoch', or, of the solver thesis,
    one of UPDATES and BATCHES. x_weights and x_batches say whether these stay on the 'device' or are moved
    ('transfer'); x_share is the share of an epoch's ratings that was timed, x_epoch_seconds are seconds over it. Of
    an epoch: x_bytes, x_flops, x_limit_seconds (its roofline bound), x_fraction_of_limit.
    """
    ratings = load_ratings(data)
    versions = ["sequential", "parallel"]
    if backends.available():
        versions += ["thesis, transfer", "thesis, batches", "thesis", "fast"]
    ceilings = {device: _limits.ceilings(device) for device in ["cpu", *(["cuda"] if backends.available() else [])]}
    rows = []
    for kernel, version in (RBM.versions()[name] for name in tqdm(versions, desc="rbm_speed", leave=False)):
        model = RBM.thesis(hidden=hidden, batch=batch, solver=kernel, **version.options)
        places = {"x_weights": model.weights, "x_batches": model.batches}
        slow = "transfer" in places.values() or (backends.available() and model.device == "cpu")
        what = {"data": ratings.name, "solver": kernel, **places, "device": model.device, "factors": hidden}
        rows += [what | row for row in _timings(model, ratings, few, slow, repeats, ceilings[model.device])]
    return pd.DataFrame(rows).assign(task="epoch", model="RBM")


def _timings(model, ratings, few, slow, repeats, ceilings):
    """The rows of one version; all that it keeps on the device is freed when it returns."""
    timed, few_repeats = _limits.clock(model.device), max(1, repeats // 3)
    model._set_training(ratings)
    initial = model._initial(ratings)
    model.solver_class.compile(model.hyperparameters)
    _ = ratings.by_user
    made = []
    (seconds,) = timed(lambda: made.append(model.make_solver(ratings, *initial)), 1, warmup=0)
    yield _row("prepare", 0, 1.0, seconds)

    (trainer,) = made
    order = batch_order(model.seed, 0, len(trainer.batches))
    chosen = order[:few] if slow else order
    share, moved, flops = _work(trainer.batches, chosen, ratings.nnz, model)
    limit = _limits.limit_seconds(moved, flops, ceilings, model.solver)

    def epoch():
        for number in chosen.tolist():
            trainer.train_batch(number, trainer.keys(0, number))

    for repeat, seconds in enumerate(timed(epoch, few_repeats if slow else repeats, warmup=1)):
        least = {"x_bytes": moved / share, "x_flops": flops / share, "x_limit_seconds": limit / share}
        yield _row("epoch", repeat, share, seconds) | least | {"x_fraction_of_limit": limit / seconds}
    if model.solver == "thesis":
        share, *_ = _work(trainer.batches, order[:few], ratings.nnz, model)
        for repeat in range(few_repeats):
            for part, seconds in _updates(trainer, order[:few], timed).items():
                yield _row(part, repeat, share, seconds)


def _row(part, repeat, share, seconds):
    phase = "preprocess" if part == "prepare" else "train"
    row = {"x_part": part, "phase": phase, "repeat": repeat, "seconds": seconds}
    return row | {"x_share": share, "x_epoch_seconds": seconds / share}


def _updates(trainer, numbers, timed):
    """Seconds of each of UPDATES and of BATCHES in these batches, a dict."""
    seconds = dict.fromkeys((BATCHES, *UPDATES), 0.0)

    def add(update, work):
        seconds[update] += timed(work, 1, warmup=0)[0]

    for number in numbers.tolist():
        add(BATCHES, partial(trainer.take, number))
        add("hidden update", trainer.hidden_update)
        for draws in trainer.keys(0, number):
            add("visible update", partial(trainer.visible_update, *draws))
            add("hidden update", partial(trainer.hidden_update, reconstructed=True))
        add("weight update", trainer.weight_update)
    return seconds


def _work(batches, numbers, nnz, model):
    """(share of the ratings, bytes, FLOP) of these batches.

    The bytes: item and level of every rating once, and, of every item that is rated, all weights and visible biases,
    read once and written once an epoch, of which this is the share: they stay in the cache from batch to batch. The
    operations: an addition a hidden unit for each rating shown, K inner products for each one reconstructed, the
    gradients, and, batch by batch, the change of each weight.
    """
    entries = sum(end - first for first, end in map(batches.entries, numbers))
    items, of_epoch = int(np.diff(batches.batch_rows)[numbers].sum()), len(np.unique(batches.row_items))
    levels, hidden, steps = model.n_levels, model.hidden, model.steps_in(0)
    moved = 5 * entries + entries / nnz * 2 * 4 * of_epoch * levels * (hidden + 1)
    of_rating = (1 + steps) + 2 * levels * steps + (1 + 2 * levels)
    return entries / nnz, moved, hidden * (entries * of_rating + 2 * items * levels)


def summary(frame):
    """Return of each version (as of `RBM.versions`) the medians over the repeats.

    Columns are device, share (of an epoch that was timed), epoch_seconds, spread (largest less smallest), one for
    each of UPDATES and BATCHES (missing where they were not timed), prepare, fraction_of_limit, speedup
    (epoch_seconds of the thesis's version with all on the device over this one's).
    """
    moved = np.select([frame.x_weights == "transfer", frame.x_batches == "transfer"], [", transfer", ", batches"], "")
    frame = frame.assign(version=frame.solver + moved)
    groups = frame.groupby(["version", "x_part"], sort=False).x_epoch_seconds
    medians = groups.median().unstack().reindex(columns=["epoch", *UPDATES, BATCHES, "prepare"])
    epochs = frame[frame.x_part == "epoch"].groupby("version", sort=False)
    found = {"device": ("device", "first"), "share": ("x_share", "first"), "spread": ("x_epoch_seconds", np.ptp)}
    table = epochs.agg(**found, fraction_of_limit=("x_fraction_of_limit", "median"))
    table = table.join(medians.rename(columns={"epoch": "epoch_seconds"}))
    thesis = table.epoch_seconds.get("thesis", np.nan)
    return table.assign(speedup=thesis / table.epoch_seconds).reset_index()


def figure(frame):
    """Draw seconds of an epoch of each version and its roofline bound; hollow where few batches were timed."""
    table = summary(frame)[::-1].reset_index(drop=True)
    figure, ((axis,),) = style.panels(height=1.4 + 0.5 * len(table))
    limit = table.epoch_seconds * table.fraction_of_limit
    axis.hlines(table.index, limit, table.epoch_seconds, color="0.8", zorder=1)
    style.marks(axis, table.epoch_seconds, table.index, "green", "measured (median)", sure=table.share == 1)
    style.marks(axis, limit, table.index, "orange", "roofline bound", "D")
    axis.set_yticks(table.index, [style.LOOKS["RBM", version].name for version in table.version])
    axis.set(xlabel=f"seconds an epoch, {style.data_name(frame.data.iloc[0])}")
    style.log_scale(axis.xaxis)
    style.legend(figure, axis, 2)
    return figure


def figure_updates(frame):
    """Draw the thesis's Figure 4.5: seconds of an epoch and of its updates, the weights moved or resident."""
    table = summary(frame).set_index("version")
    parts = {"epoch_seconds": "epoch"} | {part: part for part in (*UPDATES, BATCHES)}
    figure, ((axis,),) = style.panels(height=3.8)
    place = np.arange(len(parts))
    for version, marker in (("thesis, transfer", "s"), ("thesis, batches", "o")):
        label, colour, _ = style.LOOKS["RBM", version]
        style.marks(axis, table.loc[version, list(parts)].astype(float), place, colour, label, marker)
    axis.set_yticks(place, parts.values())
    title = f"{style.data_name(frame.data.iloc[0])}, {frame.factors.iloc[0]} hidden units"
    axis.set(xlabel="seconds an epoch", title=title)
    style.log_scale(axis.xaxis)
    style.legend(figure, axis, 2)
    return figure


_PUBLISHED = _published.value("Figure 4.5", "speed-up of weights in device memory")
CLAIMS = [
    Claim("-".join(["thesis-fig-4.5", *part.split()[:-1]]), "thesis", "Figure 4.5",
          f"Speed-up of {what} of the RBM with weights that stay on the GPU over weights moved for every update.",
          published, "ratio",
          {"column": "x_epoch_seconds", "where": {"solver": "thesis", "x_batches": "transfer", "x_part": part},
           "over": {"x_weights": "transfer"}, "under": {"x_weights": "device"}},
          None if published is None else near(published, 1.5), "synthetic")
    for part, what, published in [
        ("epoch", "an epoch", _PUBLISHED),
        *((part, f"the {part}s", None) for part in UPDATES),  # "similar improvements", without a number
    ]
]  # fmt: skip
