"""What each worker runs: one program, of which all workers make the same steps."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpumf import backends
from gpumf.distributed import checkpoints, nccl, sources
from gpumf.distributed.als import ALSWorker, shard_of, way_of
from gpumf.distributed.fetching import FetchingALSWorker
from gpumf.distributed.sgd import SGDWorker, own_blocks
from gpumf.distributed.sources import Parts, balanced_bounds, own_of
from gpumf.models.replacing import check_writable
from gpumf.ratings.damped import Damped


@dataclass(frozen=True)
class Job:
    """What is to be trained, for all workers alike: what of `gpumf.distributed.fit` they need to know.

    model : without anything learned
    begun : (history, epoch whose parameters the model has) to go on from, or None
    start : what tells that from others where there is a checkpoint, as of `checkpoints.training`
    unique : check that no pair comes twice
    validated : whether there is a validation set
    """

    model: Any
    epochs: int
    begun: tuple | None
    start: list | None
    keep: str
    stop: Callable | None
    shape: tuple | None
    scale: tuple | None
    unique: bool
    validated: bool
    item_update: str
    max_rows: int | None
    checkpoint: str | None
    every: int


@dataclass(frozen=True)
class Outcome:
    """What comes of a training: facts and solver, what was learned, the history, and the epoch that diverged."""

    facts: sources.Facts
    solver: str
    arrays: tuple
    kept: dict
    rows: list
    seconds: dict
    diverged: int | None


def train_together(comm, job, train, validation, learned):
    """Train with the other workers. Returns the `Outcome` on rank 0, None on all others.

    train, validation : pieces of this worker's part, as of `Source.parts`
    learned : arrays of all to go on from, or None
    """
    with ExitStack() as stack:
        return _Training(comm, stack, job, train, validation, learned).run()


class _Training:
    def __init__(self, comm, stack, job, train, validation, learned):
        started = time.perf_counter()
        self._comm, self._job, self._model = comm, job, job.model
        model = self._model
        if job.checkpoint and comm.rank == 0:
            check_writable(job.checkpoint)
        loaded = sources.load(train, comm.rank, job.shape, job.scale)
        ids, ratings = sources.numbered(comm, loaded, job.shape)
        held_out = sources.of_known(sources.load(validation, comm.rank), ids) if job.validated else None
        # Before they are on a device.
        digests = [one and checkpoints.digest_of_ratings(comm, one) for one in (ratings, held_out) if job.checkpoint]
        if not model._solver_given:
            model._solver = model.choose(ratings)
        ratings = sources.placed(comm, model, ratings)
        self._facts = facts = sources.facts_of(comm, ratings, ids, job.scale)
        if getattr(model, "_damped", False):
            self._facts = facts = replace(facts, damped=Damped.of(Parts(comm, ratings, facts)))
        model._set_training(facts)
        self._carrier = stack.enter_context(nccl.carrier(comm, model.device))
        bounds = tuple(balanced_bounds(counts, comm.size) for counts in (facts.user_counts, facts.item_counts))
        saved = None
        if job.checkpoint:
            self._of = checkpoints.training(model, facts, *digests, job.keep, job.start)
            saved = checkpoints.read(job.checkpoint, model, self._of, job.epochs)
        arrays, self._rows, self._best = saved or (learned, job.begun[0] if job.begun else [], None)
        self._worker = self._worker_of(arrays, ratings, bounds)
        self._errors = self._errors_of(held_out, bounds) if job.validated else None
        if job.begun and not saved and job.keep == "best":
            # What the model has now may be the best, by this validation set.
            self._best = self._copied(), self._judged(job.begun[1], 0.0)
        comm.barrier()
        self._prepared = time.perf_counter() - started

    def _worker_of(self, arrays, ratings, bounds):
        """The worker, which starts from these arrays of all, or, from None, with factors drawn where they are."""
        comm, model, facts, job = self._comm, self._model, self._facts, self._job
        if job.max_rows is not None:
            own = own_of(bounds, comm.rank)
            counts = (facts.user_counts[own[0]], facts.item_counts[own[1]])
            if arrays is None:
                mine = replace(facts, user_counts=counts[0], item_counts=counts[1])
                if facts.damped:
                    of_user, of_item, *units = facts.damped
                    mine = replace(mine, damped=Damped(of_user[own[0]], of_item[own[1]], *units))
                arrays = model._drawn(mine, tuple(part.start for part in own))
            else:
                arrays = tuple(array[part].copy() for array, part in zip(arrays, own, strict=True))
            shard = shard_of(comm, model, facts, ratings, bounds, "gather", job.unique)
            return FetchingALSWorker(comm, model, shard, arrays, bounds, job.max_rows)
        if arrays is None:
            there = None if model.device == "cpu" else backends.device(model.device)
            arrays = model._initial(replace(facts, device=there))
        if hasattr(model, "learning_rate"):
            blocks = own_blocks(self._carrier, facts, ratings, bounds, job.unique)
            return SGDWorker(self._carrier, model, blocks, arrays, bounds)
        way = way_of(model, job.item_update, facts.n_users, facts.n_items, comm.size)
        shard = shard_of(self._carrier, model, facts, ratings, bounds, way, job.unique)
        return ALSWorker(self._carrier, model, shard, arrays, bounds, way)

    def _errors_of(self, held_out, bounds):
        """The errors of this worker's users in the validation set; None without one of theirs."""
        ratings = sources.placed(self._comm, self._model, held_out)
        return self._worker.errors(sources.shuffled(self._carrier, ratings, bounds[0]))

    def run(self):
        job, worker, seconds, diverged = self._job, self._worker, 0.0, None
        if not self._rows:
            row = self._judged(0, 0.0)
            if row is None:
                diverged = 0
            self._rows = [row or {"epoch": 0, "seconds": 0.0, "rmse": np.nan, "mae": np.nan}]
            self._keep()
        while diverged is None and self._rows[-1]["epoch"] < job.epochs and not self._stopped():
            epoch = self._rows[-1]["epoch"]
            before = tuple(array.copy() for array in worker.own_arrays())
            self._carrier.barrier()
            started = time.perf_counter()
            worker.epoch(epoch, self._rows)
            passed = time.perf_counter() - started
            seconds += passed
            row = self._judged(epoch + 1, self._rows[-1]["seconds"] + passed)
            if row is None:
                worker.set_own(before)
                diverged = epoch + 1
                break
            self._rows.append(row)
            self._keep()
            if job.checkpoint and (epoch + 1) % job.every == 0:
                arrays = worker.complete()
                if self._comm.rank == 0:
                    checkpoints.write(job.checkpoint, self._model, self._of, arrays, self._rows, self._best)
        arrays = worker.complete()
        if self._comm.rank:
            return None
        arrays, kept = self._best or (arrays, self._rows[-1])
        times = {"preprocess": self._prepared, "train": seconds}
        return Outcome(self._facts, self._model.solver, arrays, kept, self._rows, times, diverged)

    def _judged(self, epoch, seconds):
        """The row of the history of this epoch, the same on every worker; None where something is not finite."""
        learned = self._worker.arrays() if self._job.validated else None
        sums = np.zeros(5)
        if self._errors is not None:
            sums[:2], sums[2] = self._errors.totals(*learned), self._errors.nnz
        sums[3] = any(not bool(np.isfinite(array).all()) for array in self._worker.own_arrays())
        sums[4] = seconds / self._comm.size
        self._comm.all_reduce(sums)
        if sums[3] or not np.isfinite(sums).all():
            return None
        rmse, mae = (np.sqrt(sums[1] / sums[2]), sums[0] / sums[2]) if sums[2] else (np.nan, np.nan)
        return {"epoch": epoch, "seconds": float(sums[4]), "rmse": float(rmse), "mae": float(mae)}

    def _keep(self):
        """Keep what is best by now, where that is wanted."""
        row = self._rows[-1]
        if self._job.keep == "best" and (self._best is None or row["rmse"] < self._best[1]["rmse"]):
            self._best = self._copied(), row

    def _copied(self):
        """A copy of what is learned by now, whole on rank 0."""
        return tuple(array.copy() for array in self._worker.complete())

    def _stopped(self):
        """Whether the function `stop`, called on rank 0 alone, says so of the newest epoch."""
        row = self._rows[-1]
        if self._job.stop is None or row["epoch"] == 0:
            return False
        says = bool(self._job.stop(row)) if self._comm.rank == 0 else None
        return self._comm.all_gather_object(says)[0]
