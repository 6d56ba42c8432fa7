"""Settings of a model, trained and scored on folds: what `search` counts on, shares, and keeps in a file."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpumf import backends
from gpumf._util.memory import free_bytes
from gpumf._util.threads import count, limited_to, one_blas_thread
from gpumf._util.validation import path_of
from gpumf.models.batch import alike, bytes_alike, most_alike, trained_together
from gpumf.models.checks import DivergedError, check_finite, check_training
from gpumf.models.early_stopping import ERRORS, of_lists
from gpumf.models.ranking import METRICS, Limits
from gpumf.models.replacing import open_file, replacing
from gpumf.ratings.convert import check_ids
from gpumf.solvers.als_base import ALSHyperparameters
from gpumf.solvers.als_dense import DenseSystems
from gpumf.solvers.als_settings import full_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from os import PathLike
    from typing import Any

    from gpumf.models.estimator import Model
    from gpumf.ratings import Ratings

_VERSION = 2  # of files
_SECONDS = 1.0  # between two times that the file is written
_OBJECTS = 1 << 15  # bytes of Python's own objects, about
_COPIES = 4.5
"""Of what a model learns, while it trains: the start, the solver's, two of the newest finite epoch, part of one."""
_HELD_OUT = 120  # bytes a rating while an RBM with damped biases is trained without those held out
_WITHOUT, _SPLITTING = 30, 44  # and while `fit` trains without those it holds out, and takes them apart


class Trial(NamedTuple):
    """A setting, by its number, on a fold, after so many epochs from the start."""

    setting: int
    fold: int
    epochs: int


class Trials:
    """Trains candidates on folds and scores them: several at a time on the CPU, or on a GPU that one does not fill.

    What depends on the ratings alone, as orders, centered ratings, copies on a device and the order of test ratings,
    is made once for all candidates. A candidate goes on from where an earlier trial of its fold ended if the memory
    held that model and training goes on as if it had not been interrupted; otherwise it starts anew. Either gives the
    same scores.

    Parameters
    ----------
    candidates : models that differ in parameters alone
    folds : pairs (train, test) of Ratings
    metric : 'rmse', 'mae', or as 'ndcg@10'
    n_jobs : int, the most candidates at a time on the CPU that train each by itself; None for one a thread
    memory : int, bytes that all that train take at most, and on the CPU with them, else on the host, all that wait;
        None for half of what is free
    again : whether trials with more epochs follow, for which models are to be kept
    every : whether the epochs of a trial have scores, too, of trials of so many; then candidates train each by itself
    path : file that scores are read from and written to, or None

    Attributes
    ----------
    scores : dict Trial -> dict of metrics, NaN where training diverged, and seconds

    Raises
    ------
    ValueError : a test set of other users or items than its training set, as of `fit`; memory that is not enough for
        one candidate; a file of something else
    """

    def __init__(
        self,
        candidates: list[Model],
        folds: Iterable[tuple[Ratings, Ratings]],
        metric: str,
        *,
        n_jobs: int | None = None,
        memory: int | None = None,
        again: bool = False,
        every: bool = False,
        path: str | PathLike | None = None,
    ) -> None:
        self.candidates, self._of_lists = candidates, of_lists("metric", metric)
        self._again, self._every = again, every
        self._metrics = [f"{name}@{self._of_lists[1]}" for name in METRICS] if self._of_lists else list(ERRORS)
        self._lock, self._stopped = threading.Lock(), threading.Event()
        folds = list(folds)
        for train, test in folds:
            check_training(train, test)
            check_ids(test, "validation", train.user_ids, train.item_ids)
        self.scores: dict[Trial, dict[str, float]] = {}
        self._path, self._written = None if path is None else path_of(path), time.monotonic()
        if self._path is not None:
            self._of = _digest(candidates, folds, metric, every)
            held = _held(self._path)
            self._ours: tuple[bytes | None, ...] = (held,)  # what the file may hold that is ours to replace
            if held is not None:
                self.scores = _read(self._path, held, self._of, self._metrics)
        self.write()  # raises now where it cannot be written
        self._folds = [self._prepared(*fold) for fold in folds]
        largest = max((train for train, _ in self._folds), key=lambda train: train.nnz)
        self._cpu, sizes = all(one.device == "cpu" for one in candidates), _bytes(candidates, largest, every)
        self._kinds = [
            alike(one, largest) if not every and (self._cpu or one.device != "cpu") else None for one in candidates
        ]
        kinds = {kind: one for kind, one in zip(self._kinds, candidates, strict=True) if kind}
        if not self._cpu:
            of_kinds = {kind: bytes_alike(one, largest, 1, again) for kind, one in kinds.items()}
            sizes = [of_kinds[kind] if kind else size for kind, size in zip(self._kinds, sizes, strict=True)]
        free = free_bytes if self._cpu or not kinds else backends.device(candidates[0].device).free_bytes
        bound = free() / 2 if memory is None else memory
        if memory is not None and max(sizes) > bound:
            raise ValueError(f"memory must be at least {max(sizes):,} bytes, which one setting takes, not {memory:,}")
        threads = count()
        wanted = min(threads if n_jobs is None else n_jobs, threads, bound / max(sizes)) if self._cpu else 1
        self.jobs = max(int(wanted), 1)
        self._training = self.jobs * max(sizes) if self._cpu else max(bound / 2, max(sizes))
        if self._cpu:
            most = ((one, most_alike(one, largest, bound, again)) for one in kinds.values())
            together = (bytes_alike(one, largest, n, again) for one, n in most if n > 1)
            self._training = max(self._training, *together, 0)
        self._left = bound - self._training  # for models that wait
        self._models: dict[tuple[int, int], Model] = {}

    def _prepared(self, train, test):
        """A fold where the solvers want it, with the orders that they take."""
        first = self.candidates[0]
        train, test = (first._placed(ratings)._shared() for ratings in (train, test))
        check_finite(train, test)
        for name in {side for one in self.candidates for side in one.solver_class.layout} & {"by_user", "by_item"}:
            getattr(train, name)
        _ = train.user_counts, train.item_counts, train.bounds
        if self._of_lists:
            _ = train.by_user, test.by_user
        return train, test

    def run(self, trials: list[Trial], told: Callable[[Trial], Any]) -> None:
        """Train what has no score yet, and call `told` after each; models of other settings than these are dropped.

        Raises
        ------
        KeyboardInterrupt : after the candidates at work have ended their epoch; scores so far stay
        """
        settings = {trial.setting for trial in trials}
        for key in [key for key in self._models if key[0] not in settings]:
            self._left += _learned_bytes(self._models.pop(key))
        missing = [trial for trial in trials if trial not in self.scores]
        for trial in self.scores.keys() & trials:
            told(trial)
        # Of all trials on the CPU: after an interrupt the same settings train together, and are rounded as before.
        batches = [one for one in self._batches(trials if self._cpu else missing) if not self.scores.keys() >= {*one}]
        together = [one for one in batches if len(one) > 1 or (not self._cpu and self._kinds[one[0].setting])]
        alone = [one[0] for one in batches if len(one) == 1 and (self._cpu or not self._kinds[one[0].setting])]
        # The longest first: no thread is left alone with one at the end.
        alone.sort(key=lambda trial: -_size(self.candidates[trial.setting]))
        jobs = max(min(self.jobs, len(alone)), 1)
        train = partial(self._train, told=told, threads=max(count() // jobs, 1))
        try:
            with one_blas_thread():  # whose results may depend on its threads
                for batch in together:
                    self._train_together(batch, told)
                self._each(train, alone, jobs)
        finally:
            self.write()

    def _each(self, work, items, jobs):
        """Do a piece of work for each item, so many at a time; an interrupt ends what does not begin."""
        if jobs == 1:
            for item in items:
                work(item)
            return
        from concurrent.futures import ThreadPoolExecutor, as_completed

        with ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(work, item) for item in items]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self._stopped.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _batches(self, trials):
        """Lists of the trials that train together; of one where they do not."""
        found = defaultdict(list)
        for trial in trials:
            kept, common = self._models.get(trial[:2]), self._kinds[trial.setting] or trial
            found[trial.fold, trial.epochs, None if self._cpu else kept and kept.epoch, common].append(trial)
        for (fold, *_), batch in found.items():
            model, train = self.candidates[batch[0].setting], self._folds[fold][0]
            step = most_alike(model, train, self._training, self._again) if len(batch) > 1 else 1
            for first in range(0, len(batch), step):
                part = batch[first : first + step]
                few = self._cpu and step > 1 and len(part) <= full_share(model._solved_columns) * step
                yield from [[one] for one in part] if few else [part]

    def _train_together(self, batch, told):
        """Train and score these trials of a fold together."""
        (train, test), started = self._folds[batch[0].fold], time.perf_counter()
        models = [self._taken(trial)[0] for trial in batch]
        if len({model.epoch for model in models}) > 1:  # not all of them were kept
            models = [fresh(self.candidates[trial.setting], {}) for trial in batch]
        epochs, found = batch[0].epochs - (models[0].epoch or 0), [{} for _ in batch]

        def score(k, learned):
            model = models[k]
            if self._of_lists or self._again:
                model._set_learned(learned)
                model.epoch = batch[0].epochs
            with limited_to(1):
                found[k] = self._scored(model, test, learned)

        learned = trained_together(models, train, epochs)
        if self._cpu:
            finite = [(k, arrays) for k, arrays in enumerate(learned) if arrays is not None]
            self._each(lambda one: score(*one), finite, min(self.jobs, len(finite)))
        else:
            for k, arrays in enumerate(learned):
                if arrays is not None:
                    score(k, arrays)
        seconds = (time.perf_counter() - started) / len(batch)
        for trial, model, scores in zip(batch, models, found, strict=True):
            self._keep(trial, model, scores, seconds, told)

    def _taken(self, trial):
        """(model, warm): that which waits to be continued, or a new one."""
        with self._lock:
            model = self._models.pop(trial[:2], None)
            self._left += 0 if model is None else _learned_bytes(model)
        return model or fresh(self.candidates[trial.setting], {}), model is not None

    def _train(self, trial, told, threads):
        if self._stopped.is_set():
            return
        (train, test), started = self._folds[trial.fold], time.perf_counter()
        model, warm = self._taken(trial)
        epochs = trial.epochs - (model.epoch if warm else 0)

        def note(of, row):
            nonlocal started
            if row["epoch"] < trial.epochs:
                found = self._finite(self._scored(of, test, of._learned)) | {"seconds": time.perf_counter() - started}
                with self._lock:
                    self.scores.setdefault(trial._replace(epochs=row["epoch"]), found)
                started = time.perf_counter()

        if warm and model.history is None:  # it trained together with others
            model._learns(model._learned, model.epoch)
        with limited_to(threads):
            try:
                follows = {"stop": lambda _: self._stopped.is_set(), "callbacks": [note] * self._every}
                model.fit(train, epochs, warm_start=warm, ids=False, **follows)
                if model.epoch < trial.epochs:
                    return  # interrupted
                scores = self._scored(model, test, model._learned)
            except DivergedError:
                scores = {}
            except Exception as error:
                error.add_note(f"This was setting {trial.setting}, {model!r}.")
                raise
        self._keep(trial, model, scores, time.perf_counter() - started, told)

    def _keep(self, trial, model, scores, seconds, told):
        """Keep the scores of a trial, none where it diverged, and its model if it is to be continued."""
        scores = self._finite(scores)
        finite = np.isfinite(scores[self._metrics[0]])
        with self._lock:
            if trial not in self.scores:
                self.scores[trial] = scores | {"seconds": seconds}
                told(trial)
            if finite and self._again and _continues(model) and _learned_bytes(model) <= self._left:
                self._left -= _learned_bytes(model)
                self._models[trial[:2]] = model
            if time.monotonic() - self._written > _SECONDS:
                self.write()

    def _finite(self, scores):
        """The scores, or all NaN where one of them is not finite or missing."""
        finite = len(scores) > 0 and all(np.isfinite(list(scores.values())))
        return {name: scores[name] if finite else np.nan for name in self._metrics}

    def _scored(self, model, test, learned):
        """Metrics on a test set, whose order is made once for all models that know the same users and items."""
        if self._of_lists:
            k = min(self._of_lists[1], test.n_items)
            rows = model._rows(test, k)
            users = test._once("tested", lambda: np.flatnonzero(rows.counts > 0))
            if not len(users):
                raise ValueError("none of the users has a test item")
            found = model._ranking(None, k, Limits(model._item_counts > 0)).metrics(rows, users, k).mean(axis=0)
            return {f"{name}@{self._of_lists[1]}": value for name, value in zip(METRICS, found.tolist(), strict=True)}
        names = "biases", "clip", "hidden", "n_levels"
        names += () if model.device == "cpu" else ("columns",)
        key = "errors", *(getattr(model, name, None) for name in names)
        errors = test._once(key, lambda: model._errors(test))
        if model.device != "cpu":
            learned = map(backends.device(model.device).array, learned)
        return dict(zip(ERRORS, errors(*learned), strict=True))

    def write(self) -> None:
        """Write the scores to the file, if there is one.

        Raises
        ------
        ValueError : the file has become something else, and stays as it is; the scores are in a new one beside it
        """
        if self._path is None:
            return
        columns = [*self._metrics, "seconds"]
        rows = [
            [*trial, *(None if np.isnan(found[name]) else found[name] for name in columns)]
            for trial, found in sorted(self.scores.items())
        ]
        content = {"gpumf_search": _VERSION, "of": self._of, "columns": columns, "scores": rows}
        content["sha256"] = _sum(content)
        made, given = json.dumps(content).encode(), self._path
        held = self._there()
        changed = held not in (None, *self._ours)
        if not changed:
            self._ours = held, made  # of which an interrupt leaves either there
            try:
                self._replace(made)
            except OSError:
                changed = self._there() not in (None, *self._ours)  # since then
                if not changed:
                    raise
        if changed:
            self._path, self._ours = given.with_name(f"{given.name}.{secrets.token_hex(4)}"), (made,)
            self._replace(made)
            raise ValueError(
                f"resume: {given} has become another file during the search, and stays as it is; the scores so far "
                f"are in {self._path}: pass that to go on"
            )

    def _there(self):
        """The bytes of the file, None where there is none; b"" of what is no file, or not for this user to read."""
        with suppress(OSError):
            return _held(self._path)
        return b""

    def _replace(self, made):
        with replacing(self._path) as file:
            file.write(made)
        self._written = time.monotonic()


def _digest(candidates, folds, metric, every):
    """What scores are of: parameters but threads, and ratings."""
    told = [(type(one).__name__, {**one.get_params(), "seed": one.seed, "threads": None}) for one in candidates]
    digest = hashlib.sha256(repr((told, metric, *["every epoch"] * every)).encode())
    for ratings in (one.on_host() for fold in folds for one in fold):
        digest.update(repr((ratings.n_users, ratings.n_items, ratings.nnz, ratings.scale)).encode())
        for column in (ratings.users, ratings.items, ratings.values):
            digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()


def _held(path):
    """The bytes of a file, or None where there is no file."""
    try:
        with open_file(path) as file:
            return file.read()
    except FileNotFoundError:
        return None


def _read(path, held, of, metrics):
    """The scores in the bytes of a file; ValueError where they are of something else."""
    try:
        content = json.loads(held)
        if content.pop("sha256") != _sum(content):
            raise ValueError("its bytes are not those of their checksum")
        version, theirs, columns, rows = (content[name] for name in ("gpumf_search", "of", "columns", "scores"))
        scores = {Trial(*map(int, row[:3])): dict(zip(columns, map(_score, row[3:]), strict=True)) for row in rows}
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(
            f"{path} is not the file of a search, or is damaged; name another one, or remove it"
        ) from error
    if (version, theirs, columns) != (_VERSION, of, [*metrics, "seconds"]):
        raise ValueError(
            f"{path} belongs to another search: its model, parameters, ratings, folds, metric or seed differ; name "
            "another file, or remove it"
        )
    return scores


def _sum(content):
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _score(value):
    return float("nan") if value is None else float(value)


def fresh(model: Model, changed: dict[str, Any]) -> Model:
    """Return a model that is not fitted, with the parameters of another, the seed that it drew, and these changes."""
    given = model._given | model._assigned()
    seed = {"seed": model.seed} if given.get("seed", 0) is None else {}
    return type(model)(**given | seed | changed)


def _continues(model):
    """Whether going on with what was learned gives what a longer training would have given, bit for bit."""
    return not getattr(model, "momentum", 0) and getattr(model, "options", {}).get("precision") != 64


def _size(model):
    """Factors of a user, biases or samples among them, or hidden units."""
    if hasattr(model, "samples"):
        return model.samples * model.factors
    return model.hidden if hasattr(model, "hidden") else model.columns


def _learned_bytes(model):
    return sum(array.nbytes for array in model._learned)


def _bytes(candidates, train, every=False):
    """What each candidate takes at most while it trains and is scored, without what all share.

    every : whether it is scored after each epoch, as a copy
    """
    machine = hasattr(candidates[0], "hidden")
    levels = candidates[0]._scale_and_levels(train)[1] if machine else 0
    sizes = []
    for one in candidates:
        if machine:
            users, items = train.n_users * one.hidden, train.n_items * (one.levels or levels) * (one.hidden + 1)
            second = users + (items if one.momentum else 0)  # p(h | v'), and the last changes
            counting = 4 * (users + items) + 24 * train.nnz  # of levels, for the initial biases
            held_out = _HELD_OUT * train.nnz if one.biases else 0
            sizes.append(max(int(4 * ((_COPIES + every) * (users + items) + second) + held_out), counting))
        elif hasattr(one, "samples"):
            sizes.append(one._most_bytes(train))
        else:
            learned = (train.n_users + train.n_items) * _size(one)
            targets = train.nnz if issubclass(one._hyperparameters, ALSHyperparameters) and one.biases is True else 0
            work = 0
            if issubclass(one.solver_class, DenseSystems):
                work = (
                    5 * one.columns**2 + max(train.n_users, train.n_items) * one.columns + 3 * one.solver_class.floats
                )
            sizes.append(int(4 * ((_COPIES + every) * learned + targets + work)) + _OBJECTS)
            if one._chooses(train):
                sizes[-1] = max(sizes[-1] + _WITHOUT * train.nnz, _SPLITTING * train.nnz)
    return sizes
