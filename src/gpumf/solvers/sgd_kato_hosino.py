"""Launches kernels/sgd/kato_hosino.cu."""

from itertools import pairwise
from typing import ClassVar

import numpy as np

from gpumf.solvers.base import Publication, Version, launch_shape
from gpumf.solvers.chunks import Chunks
from gpumf.solvers.options import Option
from gpumf.solvers.sgd_base import ROWS, SHAPE, Descent, DescentKernel
from gpumf.solvers.sgd_ordered import row_rates


class KatoHosino(DescentKernel, Descent):
    """kernels/sgd/kato_hosino.cu: all users for all ratings, then all items; a group of lanes a row."""

    source, entry = "sgd/kato_hosino.cu", "kato_hosino"
    publication = Publication("thesis", "section 2.3.3, Algorithm 2.2")
    layout: ClassVar = ("by_user", "by_item")
    versions: ClassVar = {"": Version("Kato and Hosino", "olive", "-")}
    cases: ClassVar = ({}, {"row_rates": True})
    # row_rates : whether each user and each item has a rate of its own, see `gpumf.solvers.sgd_ordered.row_rates`
    options: ClassVar = {"row_rates": Option(False, choices=(True, False))}

    @classmethod
    def sources(cls, hyper, train):
        return [(cls.source, cls.defines(hyper)), (SHAPE, {"FACTORS": hyper.columns}), (ROWS, {})]

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        super().__init__(hyper, user_factors, item_factors)
        self._users, self._items = (
            (
                Chunks(self._device, (rows.indices, rows.values), rows.indptr, hyper.chunk),
                self._device.array(rows.indptr),
            )
            for rows in (train.by_user, train.by_item)
        )
        self._factors, self._by_rows = hyper.factors, hyper.options["row_rates"]
        self.set_counts(train.user_counts, train.item_counts)
        lanes = self.geometry(hyper).lanes
        self._shape = [launch_shape(hyper.threads, len(rows), lanes, self._device) for rows in self.factors()]

    @staticmethod
    def order(hyper, train, epoch=0, blocks=1, members=1):
        begin, workers = 0, blocks * members
        for moves, rows, columns, n_rows in (
            ("user", train.users, train.items, train.n_users),
            ("item", train.items, train.users, train.n_items),
        ):
            order, turns = np.lexsort((columns, rows)), [begin] * workers
            offsets = np.searchsorted(rows[order], np.arange(n_rows + 1))
            for row, (first, end) in enumerate(pairwise(offsets)):
                worker = row % workers
                for rating in order[first:end]:
                    yield *divmod(worker, members), turns[worker], int(rating), moves
                    turns[worker] += 1
            begin = max(turns)

    def set_counts(self, users, items):
        self._counts = users, items

    def epoch(self, number):
        of_user, of_item = (
            {"rates": self._device.array(self._rates(of, number + 0.5)), "by_rows": int(self._by_rows)}
            for of in self._counts
        )
        self._descend(self._users, self._shape[0], moved=self._p, fixed=self._q, users_move=1, **of_user)
        self._descend(self._items, self._shape[1], moved=self._q, fixed=self._p, users_move=0, **of_item)

    def _rates(self, counts, epochs):
        return row_rates(counts, self._factors, epochs) if self._by_rows else np.ones(1, np.float32)

    def _descend(self, rows, shape, **given):
        chunks, indptr = rows
        given |= {"steps_now": self.steps(), "indptr": indptr}
        for first_row, end_row, first_rating, (indices, values) in chunks:
            part = {"first_row": first_row, "end_row": end_row, "first_rating": first_rating}
            self._kernel(*shape, **given, **part, indices=indices, values=values)
