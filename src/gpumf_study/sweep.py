"""Trainings as rows of the schema, and what is read off them: time to an error, last and best epochs, seconds.

Functions that read a frame return one row a run (see `gpumf_study.schema`), with the columns of the run and `epoch`,
`seconds` and `value` of what they look for. They fit `table=` of a Claim.
"""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import Ratings
from gpumf.models import Model
from gpumf_study import schema
from gpumf_study.experiments import load_ratings, trained
from gpumf_study.experiments._kept import once


def sweep(
    models: Callable[[Ratings, int], Iterable[tuple[dict[str, Any], Model]]],
    data: Iterable[str],
    epochs: int,
    repeats: int,
    *,
    held_out: float = 0.1,
    part: tuple[int, int] | None = None,
    official: bool = False,
    one_split: bool = False,
    metrics: tuple[str, ...] = ("rmse",),
) -> pd.DataFrame:
    """Train models on data sets, once a repeat.

    models : function (training ratings, repeat) -> pairs of (columns, unfitted model); 'epochs' among the columns
        replaces `epochs`, 'stop' is that of `fit`, and neither is a column of the result
    repeats : int; repeat k splits the ratings with seed k
    held_out : share of the ratings that are for testing; 0 trains on all, and then there are no metrics
    part : (users, items) of each that are taken, or None for all
    official : split a data set that has a split of its own so instead
    one_split : split with seed 0 in every repeat
    metrics : of 'rmse' and 'mae', those kept; with none, epochs have seconds alone

    Return a DataFrame with the rows of `rows`, and x_nnz, the training ratings. Each training is a piece of a
    recording, see `experiments._kept.once`
    """
    frames = []
    here, before = set[str](), set[str]()  # models, but for their seeds, that this run and one before have trained
    for name in data:
        loaded = load_ratings(name)  # or what stands in for it
        ratings = corner(loaded, part)
        published = official and ratings.test_mask is not None
        train, test = ratings.official_split() if published else (ratings, None)
        for repeat in range(repeats):
            if held_out and not published and not (one_split and repeat):
                train, test = ratings.split(held_out, seed=repeat)
            running = tqdm(models(train, repeat), desc=f"{name}, repeat {repeat}", unit=" trainings", leave=False)
            for number, (columns, model) in enumerate(running):
                labels = {"data": loaded.name, **columns, "repeat": repeat, "x_nnz": train.nnz}
                length, options = labels.pop("epochs", epochs), {"stop": labels.pop("stop", None)}
                parameters = model.get_params()
                kind = f"{type(model).__name__} {parameters | {'seed': None}}"

                def training(model=model, train=train, test=test, length=length, options=options, kind=kind):
                    if kind in before - here:  # its first repeat was the first training of another process
                        warm(model, replace(train, test_mask=None))
                    here.add(kind)
                    # Ratings of its own, as what one training has put in order the next one would find.
                    own = replace(train, test_mask=None)
                    return rows(trained(model, own, length, test, **options), metrics)

                facts = loaded.sha256, labels, kind, parameters.get("seed"), length
                key = f"{loaded.name}-{repeat}-{number}-{sha256(repr(facts).encode()).hexdigest()[:16]}"
                frames.append(once(key, training).assign(**labels))
                before.add(kind)
    return pd.concat(frames, ignore_index=True)


def combinations(grid: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Return all combinations of lists of parameters, each a dict."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def rows(model: Model, metrics: tuple[str, ...] = ("rmse",)) -> pd.DataFrame:
    """Return a fitted model's history and times as rows: task, model, solver, device, factors, epoch, phase, ..."""
    history = model.history[["epoch", "seconds", *metrics]]
    if metrics:
        history = history.melt(["epoch", "seconds"], list(metrics), "metric", "value")
    history = history.assign(phase="train")
    times = pd.DataFrame(list(asdict(model.times).items()), columns=["phase", "seconds"])
    size = getattr(model, "factors", None) or getattr(model, "hidden", None)
    labels = {"task": "fit", "model": type(model).__name__, "solver": model.solver, "device": model.device}
    return pd.concat([history, times], ignore_index=True).assign(**labels, factors=size)


def corner(ratings: Ratings, part: tuple[int, int] | None) -> Ratings:
    """Return the ratings of the first users and items as a data set of its own; all of them where `part` is None."""
    if part is None:
        return ratings
    users, items = (int(min(most, n)) for most, n in zip(part, (ratings.n_users, ratings.n_items), strict=True))
    inside = ratings.select((ratings.users < users) & (ratings.items < items), f"{ratings.name}, {users} x {items}")
    return replace(inside, n_users=users, n_items=items, user_ids=ratings.user_ids[:users],
                   item_ids=ratings.item_ids[:items])  # fmt: skip


def warm(model: Model, train: Ratings) -> None:
    """Train a copy for an epoch, so that a timed training pays for nothing that a process does once."""
    trained(copy(model), train, 1, None)


def median_epoch(model: Model, ratings: Ratings, epochs: int) -> float:
    """Return the median of the seconds of single epochs, after a fit that compiles and warms up."""
    model.fit(ratings, 2)
    return float(np.median(np.diff(model.fit(ratings, epochs).history.seconds)))


def course(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the rows that a metric has after each epoch."""
    return frame[(frame.metric == metric) & frame.epoch.notna()]


def diverged(frame: pd.DataFrame) -> pd.Series:
    """Return whether the run of each row diverged: a metric is missing after one of its epochs."""
    missing = frame.metric.notna() & frame.value.isna() if "metric" in frame else pd.Series(False, frame.index)
    return missing.groupby(_runs(frame)).transform("any")


def converged(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of runs that did not diverge."""
    return frame[~diverged(frame)]


def real_data(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of real data sets: on synthetic ones the epochs to an error were calibrated."""
    return frame[~frame.data.str.endswith("-synthetic")]


def last_epoch(frame: pd.DataFrame, metric: str = "rmse") -> pd.DataFrame:
    """Return the last epoch of each run that converged."""
    return _one_a_run(course(converged(frame), metric), lambda runs: runs.tail(1))


def best_epoch(frame: pd.DataFrame, metric: str = "rmse") -> pd.DataFrame:
    """Return of each run that converged the epoch of the lowest value."""
    taken = course(converged(frame), metric)
    return taken.loc[taken.groupby(_runs(taken)).value.idxmin(), _kept(frame)].reset_index(drop=True)


def time_to_error(frame: pd.DataFrame, error: float | pd.Series, metric: str = "rmse") -> pd.DataFrame:
    """Return the first epoch of each run that reaches an error; a run that never does has no row.

    error : float, or Series of data set -> float
    """
    taken = course(converged(frame), metric)
    taken = taken[taken.epoch > 0]
    bound = taken.data.map(error) if isinstance(error, pd.Series) else error
    return _one_a_run(taken[taken.value <= bound], lambda runs: runs.head(1))


def end_to_end(found: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Return epochs of a frame's runs with `end_to_end`, their seconds with those of preprocessing and transfer."""
    columns = schema.run_columns(frame)
    before = (
        frame[frame.phase.isin(["preprocess", "transfer"])].groupby(columns, dropna=False, sort=False).seconds.sum()
    )
    added = found[columns].merge(before.reset_index(), how="left").seconds.to_numpy()
    return found.assign(end_to_end=found.seconds + added)


def epoch_seconds(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what each epoch but the first recorded added to the seconds of its run; a row an epoch."""
    taken = converged(frame).dropna(subset="epoch")
    taken = taken.drop_duplicates([*schema.run_columns(frame), "epoch"])  # as each metric has a row
    added = taken.seconds - taken.groupby(_runs(taken)).seconds.shift()
    return taken.assign(seconds=added)[_kept(taken)].dropna(subset="seconds").reset_index(drop=True)


def phase_seconds(frame: pd.DataFrame, phase: str = "end_to_end", without: tuple[str, ...] = ()) -> pd.DataFrame:
    """Return the seconds of a phase of each run that converged, less those of other phases, as 'compile'."""
    taken = converged(frame)
    taken = taken[taken.epoch.isna()] if "epoch" in taken else taken
    runs = _runs(taken)
    seconds = {
        name: taken[taken.phase == name].set_index(runs[taken.phase == name]).seconds for name in (phase, *without)
    }
    found = taken[taken.phase == phase]
    less = sum((seconds[name] for name in without), start=0.0 * seconds[phase]).reindex(runs[found.index])
    found = found.assign(seconds=found.seconds - less.to_numpy())
    return found[[*schema.run_columns(frame), "seconds"]].reset_index(drop=True)


def _runs(frame):
    """A number for the run of each row."""
    return frame.groupby(schema.run_columns(frame), dropna=False, sort=False).ngroup()


def _kept(frame):
    return [*schema.run_columns(frame), *(name for name in ("epoch", "seconds", "value") if name in frame)]


def _one_a_run(rows, take):
    return take(rows.groupby(_runs(rows), sort=False))[_kept(rows)].reset_index(drop=True)
