"""The driver: places the workers' tasks, watches them, and starts them anew when one is lost."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from copy import copy
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from gpumf._util.validation import brief, flag, integer, number
from gpumf.distributed import sgd
from gpumf.distributed.als import way_of
from gpumf.distributed.checkpoints import digest_of
from gpumf.distributed.communicator import MailboxPlugin, PeerLost
from gpumf.distributed.program import Job, train_together
from gpumf.distributed.sources import Source
from gpumf.distributed.together import POLL_SECONDS, at_once, may_pass
from gpumf.models.als import ALS, ImplicitALS
from gpumf.models.checks import DivergedError, check_finite, check_training
from gpumf.models.factorization import Factorization
from gpumf.models.sgd import SGD
from gpumf.models.times import Clock
from gpumf.ratings.convert import check_ids
from gpumf.ratings.ratings import Ratings

_Trained = TypeVar("_Trained", bound=Factorization)


class TrainingLost(RuntimeError):
    """Workers were lost more often in a row than `attempts` allows, or none is left."""


def fit(
    model: _Trained,
    train: Any,
    epochs: int = 20,
    validation: Any = None,
    *,
    client: Any = None,
    workers: int | Sequence[str] | None = None,
    keep: Literal["last", "best"] = "last",
    stop: Callable[[dict[str, float]], Any] | None = None,
    warm_start: bool = False,
    item_update: Literal["auto", "gather", "reduce"] = "auto",
    max_rows: int | None = None,
    shape: tuple[int, int] | None = None,
    scale: tuple[float, float] | None = None,
    checkpoint: str | os.PathLike | None = None,
    every: int = 1,
    attempts: int = 3,
    restart_seconds: float = 30.0,
    timeout: float = 600.0,
) -> _Trained:
    """Train a model on several workers; it learns what it would learn on one.

    ALS gives the factors of one worker but for rounding. SGD trains on workers x workers blocks, item blocks going
    round a ring: ratings are met in another order than on one worker, which changes the factors, and errors by
    little. A worker that dies is noticed, the others give up what they were at, and training goes on from the last
    checkpoint, without one from the start, on the workers that there are then. The same workers then give the same
    result as without the fault.

    `ImplicitALS` without `regularization` tries some on a part of `Ratings` as its `fit` does, here and not on the
    workers; for a folder or a DataFrame it takes one without a trial.

    One training at a time on a worker: each takes a thread of it from start to end. Interrupting (KeyboardInterrupt)
    leaves the model as it was; the checkpoint stays.

    Parameters
    ----------
    model : ALS, ImplicitALS or SGD, whose device is that of all workers
    train : Ratings, on the host or a device; the path of a folder of Parquet files with the columns user, item and
        rating, which every worker reads its part of; or a Dask DataFrame with these columns. Ids are integers or
        strings, each pair comes once. The fitted model has them as `user_ids` and `item_ids`, by position, and
        speaks of users and items as after `Model.fit`: by ids after a folder or a DataFrame without `shape`
    epochs : int from 0, in all; with warm_start, how many to add
    validation : as train; its users and items have to be in the training set. `Ratings` go with a folder or a
        DataFrame only where ids are positions
    client : `distributed.Client`; by default the current one
    workers : int, how many, or a list of their addresses; by default all
    keep, stop : as of `Model.fit`; `stop` is called on one of the workers
    warm_start : bool, go on from what the model has learned, as of `Model.fit`; of `Ratings` alone
    item_update : of ALS, 'gather', 'reduce' or 'auto', see `gpumf.distributed.als.way_of`
    max_rows : int, of ALS on the CPU: each worker keeps the factors of its own users and items alone, and
        fetches at most so many rows of the other side at a time (and the items that it tests with). By default every
        worker has all factors
    shape : (users, items), where the ids of a folder or a DataFrame are positions already
    scale : (lowest, highest) possible rating of a folder or a DataFrame
    checkpoint : path of a file that all workers see. Written whole or not at all every so many epochs and removed at
        the end. Where it is there already, training goes on from it, which has to be the same but for its epochs, of
        which there may be more: the same model, ratings, validation set, `keep` and start
    every : int, epochs between two checkpoints
    attempts : int, how many in a row may come to nothing without a newer checkpoint
    restart_seconds : how long to wait for a lost worker to be started again before going on without it
    timeout : seconds that a worker waits for the others before the attempt counts as lost. More than the slowest one
        takes for half an epoch

    Returns
    -------
    model. Of its `times`, transfer is what ratings take to the workers, and what was learned back from them

    Raises
    ------
    TypeError : another model, ratings that are none of these
    ValueError : no client, no workers, a parameter out of range, a solver that cannot be shared out, a checkpoint of
        another training, warm_start with a folder, a DataFrame, or ratings of another shape than before
    gpumf.NotFittedError : warm_start without a training before
    gpumf.ratings.DataError : ratings that cannot be used; of a part it names the file and the worker. `Ratings` with
        other ids at the same positions than the training set, or than the model that goes on
    OSError : the checkpoint cannot be written, which is tried before training
    DivergedError : as of `Model.fit`; the model keeps the last epoch whose numbers were finite
    TrainingLost : too many faults
    """
    if not isinstance(model, ALS | ImplicitALS | SGD):
        raise TypeError(f"ALS, ImplicitALS and SGD train on several workers, not {type(model).__name__}")
    if keep not in ("last", "best"):
        raise ValueError(f"keep must be 'last' or 'best', not {keep!r}")
    if keep == "best" and validation is None:
        raise ValueError("keep='best' needs a validation set to say which epoch that is")
    attempts, warm_start = integer("attempts", attempts, 1), flag("warm_start", warm_start)
    restart_seconds = number("restart_seconds", restart_seconds, least=0)
    timeout = number("timeout", timeout, above=0)
    cluster = _Cluster(_client(client), workers)
    _check_model(model, item_update, max_rows)
    if isinstance(train, Ratings):
        judged = validation if isinstance(validation, Ratings) else None
        check_training(train, judged)
        check_finite(train, judged)
        if judged is not None:
            check_ids(judged, "validation", train.user_ids, train.item_ids)
        shape, scale = (train.n_users, train.n_items), train.scale
    elif warm_start:
        raise ValueError(
            "warm_start needs Ratings: who has which position in a folder or a DataFrame is not known before"
        )
    _check_named_alike(train, validation, shape)
    sources = Source(train, "train"), None if validation is None else Source(validation, "validation")
    epochs, every = integer("epochs", epochs, 0), integer("every", every, 1)
    with model._as_before_if_it_fails(), ExitStack() as stack:
        for source in filter(None, sources):
            stack.callback(source.close)
        clock, learned = Clock(None), None
        ids: tuple[Any, ...] = ()  # of a model that goes on: of its users, of its items
        if epochs and not warm_start:
            model._find_defaults(train)
        job = Job(
            model=_blank(model),
            epochs=epochs,
            begun=None,
            start=None,
            keep=keep,
            stop=stop,
            shape=shape,
            scale=scale,
            unique=not isinstance(train, Ratings),
            validated=validation is not None,
            item_update=item_update,
            max_rows=max_rows,
            checkpoint=str(Path(checkpoint).resolve()) if checkpoint else None,
            every=every,
        )
        if warm_start:
            job, learned = _continued(model, job, train)
            ids = model.user_ids, model.item_ids
        outcome = _trained(cluster, job, (*sources, learned), clock, attempts, restart_seconds, timeout)
        model.ids = shape is None or (warm_start and model.ids)
        _keep(model, outcome, clock, train, ids)
    if job.checkpoint:
        Path(job.checkpoint).unlink(missing_ok=True)
    if outcome.diverged is not None:
        raise DivergedError(outcome.diverged, model._remedy)
    return model


def _client(client):
    from distributed import get_client

    try:
        return client or get_client()
    except ValueError as error:
        raise ValueError(
            "there is no Dask client; start one, as with gpumf.distributed.local_cluster, or pass client="
        ) from error


def _check_model(model, item_update, max_rows):
    """Raise where this model cannot be shared out, before anything is sent."""
    if max_rows is not None:
        integer("max_rows", max_rows, 1)
        if not isinstance(model, ALS) or model.device != "cpu" or item_update != "auto":
            raise ValueError(
                "max_rows is for ALS on the CPU, without item_update: implicit feedback needs a sum "
                "over all items, and kernels of the GPU all factors"
            )
    if isinstance(model, SGD):
        sgd.check(model.hyperparameters)
        if item_update != "auto":
            raise ValueError("item_update is of ALS; SGD passes its items round a ring")
        return
    chosen = copy(model)
    if not model._solver_given:
        chosen.solver = model.choose(None)
    way_of(chosen, item_update, 1, 1, 1)


def _check_named_alike(train, validation, shape):
    """Raise ValueError where one set counts positions and the other names ids, unless these are positions, too."""
    counted = [ratings for ratings in (train, validation) if isinstance(ratings, Ratings)]
    if validation is None or len(counted) != 1:
        return
    ids = counted[0].user_ids, counted[0].item_ids
    if shape is None or not all(np.array_equal(side, np.arange(len(side))) for side in ids):
        raise ValueError(
            "of train and validation one is Ratings, which count positions, and one names users and items by ids; "
            "give both as Ratings, or neither"
        )


def _blank(model):
    """The model without what it has learned and its ratings."""
    model = copy(model)
    for name in (*model._arrays, "_training", "_user_known", "_item_counts", "history", "times", "epoch"):
        vars(model).pop(name, None)
    model._forget_copies()
    return model


def _continued(model, job, train):
    """The job that goes on where the model is, and the arrays with which it does."""
    model._check_warm(train)
    check_ids(train, "train", model.user_ids, model.item_ids)
    known, rows = (model._user_known, model._item_known), model.history.to_dict("records")
    model._go_on_with(train)
    job = replace(job, epochs=rows[-1]["epoch"] + job.epochs, begun=(rows, model.epoch))
    learned = model._continued(train, *known)
    if job.checkpoint:
        judged = model.history[["epoch", "rmse", "mae"]].to_numpy(float)
        job = replace(job, start=[model.epoch, digest_of((*learned, judged))])
    return job, learned


def _keep(model, outcome, clock, train, ids):
    """Have the model know what was learned.

    ids : (of users, of items) of a model that goes on, which `Ratings` that count positions do not have, or ()
    """
    model._set_training(outcome.facts)
    model._training, model._seen_rows = None, None
    if isinstance(train, Ratings):
        model._training = train
        model._keep_ids(train, *ids)
    model._solver = outcome.solver
    for phase, seconds in outcome.seconds.items():
        clock.add(phase, seconds)
    model._finish(clock, None, outcome.rows, (outcome.arrays, outcome.kept))


class _Cluster:
    """The workers that a training runs on, which change as they die and are started again."""

    def __init__(self, client, workers):
        self.client, self._at_first = client, sorted(client.ncores())
        if isinstance(workers, list | tuple):
            if missing := sorted(set(workers) - set(self._at_first)):
                raise ValueError(f"the client's scheduler has no worker {', '.join(missing)}")
            if not workers or len(set(workers)) < len(workers):
                raise ValueError(f"workers must name one or more, each once, not {brief(workers)}")
            self._preferred = list(workers)
        else:
            if not self._at_first:
                raise ValueError("the client's scheduler has no workers; start some")
            there = len(self._at_first)
            wanted = there if workers is None else integer("workers", workers, 1)
            if wanted > there:
                raise ValueError(f"there are {there} workers, not {wanted}")
            self._preferred = self._at_first[:wanted]
        self._wanted = len(self._preferred)

    def place(self, seconds):
        """As many addresses as were wanted: those from before, and others in the place of lost ones.

        Waits so many seconds until there are as many as at first; TrainingLost where there are none.
        """
        with suppress(TimeoutError):
            self.client.wait_for_workers(len(self._at_first), timeout=seconds or POLL_SECONDS)
        alive = set(self.client.ncores())
        found = [address for address in self._preferred if address in alive]
        found = (found + sorted(alive - set(self._at_first) - set(found)))[: self._wanted]
        if not found:
            raise TrainingLost("no worker is left")
        self._preferred = found
        return found


def _trained(cluster, job, given, clock, attempts, restart_seconds, timeout):
    """The `Outcome` of the first attempt that comes to its end.

    given : (Source to train on, Source to validate with or None, arrays to go on from or None)
    """
    cluster.client.register_plugin(MailboxPlugin())
    failed, training = 0, uuid.uuid4().hex
    for attempt in count():
        addresses, before = cluster.place(restart_seconds), _written(job.checkpoint)
        try:
            given_out = _given_out(cluster.client, addresses, given, clock)
            arguments = [(job, *own) for own in given_out]
            running = at_once(cluster.client, training, attempt, addresses, timeout, train_together, arguments)
            with running as futures, clock.spent_on("transfer"):
                # Directly from the worker where ratings went to it: by the scheduler takes several times as long.
                return cluster.client.gather(futures[0], direct=None if job.unique else True)
        except Exception as error:
            if not may_pass(error):
                raise
            failed = 1 if _written(job.checkpoint) != before else failed + 1
            if failed >= attempts:
                raise TrainingLost(
                    f"{failed} attempts in a row came to nothing, the last one as {error}; "
                    + ("the checkpoint stays" if job.checkpoint else "with checkpoint= less is lost each time")
                ) from error


def _given_out(client, addresses, given, clock):
    """[(what to train on, to validate with, arrays to go on from)] by rank, sent to the workers."""
    *sources, learned = given
    try:
        with clock.spent_on("transfer"):
            parts = [source.parts(client, addresses) if source else [None] * len(addresses) for source in sources]
            if learned is not None:
                everywhere = {"workers": addresses, "broadcast": True, "hash": False, "direct": True}
                (learned,) = client.scatter([learned], **everywhere)
    except Exception as error:
        if set(addresses) - set(client.ncores()):
            raise PeerLost("a worker was lost before it had its ratings") from error
        raise
    return [(*own, learned) for own in zip(*parts, strict=True)]


def _written(path):
    """When a file was written, in nanoseconds; None where there is none."""
    with suppress(FileNotFoundError):
        return os.stat(path).st_mtime_ns if path else None
