"""Launches kernels/sgd/cumf_sgd.cu."""

from itertools import pairwise
from typing import ClassVar

import numpy as np

from gpumf.solvers.base import Publication, Version, launch_shape
from gpumf.solvers.options import MAX_BLOCKS_A_SIDE, Option
from gpumf.solvers.sgd_base import Descent, DescentKernel, PieceKernel, with_quads
from gpumf.solvers.sgd_blocks import NewGpuSgd, rectangular_blocks
from gpumf.solvers.sgd_hogwild import safe_updates
from gpumf.solvers.sgd_partition import waves

_ENTRIES = {"batch_hogwild": "cumf_sgd", "wavefront": "cumf_sgd_wavefront", "blocked": "cumf_sgd_blocked"}
_COLUMNS_A_WORKER = 2  # columns of blocks in the wavefront update: half of them are free at a time


class CumfSgd(PieceKernel, DescentKernel, Descent):
    """kernels/sgd/cumf_sgd.cu: half precision, a group of lanes an update; batch-Hogwild or the wavefront update.

    Its schedule is `schedules.Power`.
    """

    source, entry = "sgd/cumf_sgd.cu", "cumf_sgd"
    publication = Publication("cumf", "sections 2 and 6.1")
    versions: ClassVar = {
        "": Version("CuMF_SGD", "blue", "-"),
        "wavefront": Version("CuMF_SGD, wavefront", "blue", ":", {"update": "wavefront"}),
        "blocked": Version("CuMF_SGD, blocked", "blue", "--", {"update": "blocked"}),
    }
    layout: ClassVar = ("diagonal_blocks", "waves")
    cases: ClassVar = ({"run": 2}, {"update": "wavefront", "side": 4}, {"update": "blocked", "side": 4})
    races: ClassVar = {
        "cumf_sgd": {"user_factors", "item_factors"},
        "cumf_sgd_wavefront": {"item_factors"},  # one after another, but who is first is left open
    }
    # update : who updates what when: 'batch_hogwild' or 'wavefront', as published (Xie et al. 2017), or 'blocked',
    #     which is not: blocks that share nothing, as of newgpusgd
    # run : consecutive shuffled ratings that a group takes at a time, of batch-Hogwild
    # side : workers of the wavefront update, with twice as many columns of blocks; l of the l x l blocks of 'blocked'
    options: ClassVar = {
        "update": Option("batch_hogwild", choices=tuple(_ENTRIES)),
        "run": Option(256),
        "side": Option(1024, most=MAX_BLOCKS_A_SIDE),
    }
    rounds = 4000  # more than hogwild's: a group holds its rows for nearly all of the time

    @classmethod
    def chosen(cls, hyper, given):
        options = super().chosen(hyper, given)
        update = options["update"]
        other = "side" if update == "batch_hogwild" else "run"
        if other in given:
            raise ValueError(f"{other} has no meaning with update={update!r} of {hyper.solver!r}; leave it out")
        return options

    @classmethod
    def compile(cls, hyper):
        return cls.kernel(hyper, _ENTRIES[hyper.options["update"]])

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        shape = self.geometry(hyper)
        super().__init__(hyper, *(with_quads(rows, shape.quads, np.float16) for rows in (user_factors, item_factors)))
        self._update, self._run, self._side = (hyper.options[name] for name in ("update", "run", "side"))
        self._columns, groups = hyper.columns, self._side
        if self._update == "blocked":
            blocks = rectangular_blocks(train, self._side)
            order, pieces = blocks.order, blocks.tags
            self._offsets = self._device.array(blocks.offsets)
        elif self._update == "wavefront":
            self._waves = _COLUMNS_A_WORKER * self._side
            order, offsets, sequence = waves(train, self._side, self._waves, hyper.seed)
            pieces = offsets[:: self._waves]
            self._blocks = {
                "offsets": self._device.array(offsets),
                "columns": self._device.array(sequence),
                "locks": self._device.zeros(self._waves, np.int32),
            }
        else:
            order = train.random_order(train.nnz, hyper.seed)
            pieces = np.append(np.arange(0, train.nnz, self._run), train.nnz)
            groups = min(safe_updates(train, self.rounds), len(pieces) - 1)
        self._shape = launch_shape(hyper.threads, groups, shape.quad_lanes, self._device)
        arrays = train.users[order], train.items[order], train.values[order]
        self.set_pieces(arrays, pieces, hyper.chunk)

    @staticmethod
    def order(hyper, train, epoch=0, blocks=1, members=1):
        """As of `DescentKernel`; of the wavefront update without what its workers wait for each other."""
        if hyper.options["update"] == "blocked":
            yield from NewGpuSgd.order(hyper, train, epoch, blocks, members)
            return
        workers, side, columns = blocks * members, hyper.options["side"], _COLUMNS_A_WORKER * hyper.options["side"]
        if hyper.options["update"] == "wavefront":
            order, offsets, _ = waves(train, side, columns, hyper.seed)
            pieces = offsets[::columns]
        else:
            order = train.random_order(train.nnz, hyper.seed)
            pieces = np.append(np.arange(0, train.nnz, hyper.options["run"]), train.nnz)
        turns = [0] * workers
        for number, (first, end) in enumerate(pairwise(pieces.tolist())):
            worker = number % workers
            for turn, rating in enumerate(order[first:end], turns[worker]):
                yield *divmod(worker, members), turn, int(rating), "both"
            turns[worker] += end - first

    def launch(self, pieces, first_rating, arrays):
        if self._update == "blocked":
            for tag in pieces:
                first_block = tag * self._side
                blocks = {"offsets": self._offsets, "first_block": first_block, "n_blocks": self._side}
                self._kernel(*self._shape, **blocks, **arrays, first_rating=first_rating)
        elif self._update == "wavefront":
            workers = {"first_worker": pieces.start, "end_worker": pieces.stop, "n_waves": self._waves}
            self._kernel(*self._shape, **self._blocks, **workers, **arrays, first_rating=first_rating)
        else:
            self._kernel(*self._shape, **arrays, n_ratings=len(arrays["values"]), run=self._run)

    def factors(self):
        return tuple(rows[:, : self._columns].astype(np.float32) for rows in (self._p, self._q))
