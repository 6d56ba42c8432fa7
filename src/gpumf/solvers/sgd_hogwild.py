"""Launches kernels/sgd/hogwild.cu."""

from typing import ClassVar

import numpy as np

from gpumf._util.counter_rng import random_positions
from gpumf.solvers.base import Publication, Version, launch_shape
from gpumf.solvers.sgd_base import Descent, DescentKernel, Updates, draw_key, in_turn


def safe_updates(train, rounds):
    """How many updates may be in flight: so few that one meets, on average, at most one with its user or its item.

    Two draws share the user with probability sum_u (n_u / nnz)^2, and likewise the item: n updates at once make an
    expected n (sum_u + sum_i) meetings each. Few popular rows, not the number of rows, set the limit. A small set has
    too few updates to make up for lost ones, and a lower limit: an epoch is at least `rounds` times so many updates.
    """
    shares = (counts / train.nnz for counts in (train.user_counts, train.item_counts))
    meet_one = int(np.ceil(1 / sum((share**2).sum() for share in shares)))
    return max(min(meet_one, train.nnz // rounds), 1)


class Hogwild(Updates, DescentKernel, Descent):
    """kernels/sgd/hogwild.cu: a group of lanes an update, no locks."""

    source, entry = "sgd/hogwild.cu", "hogwild"
    publication = Publication("thesis", "section 4.1.1, Algorithm 4.1")
    versions: ClassVar = {"": Version("Hogwild", "purple", "-")}
    races: ClassVar = {"hogwild": {"user_factors", "item_factors"}}
    streams = False
    rounds = 1000

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        super().__init__(hyper, user_factors, item_factors)
        self._ratings = {name: self._device.array(getattr(train, name)) for name in ("users", "items", "values")}
        self._nnz = train.nnz
        self._key = draw_key(hyper)
        lanes = self.geometry(hyper).lanes
        self._shape = launch_shape(hyper.threads, safe_updates(train, self.rounds), lanes, self._device)

    @staticmethod
    def order(hyper, train, epoch=0, blocks=1, members=1):
        first = epoch * train.nnz
        drawn = random_positions(draw_key(hyper), np.arange(first, first + train.nnz), train.nnz)
        return in_turn(drawn, blocks, members)

    def updates(self, first, count):
        given = {"nnz": self._nnz, "key": self._key, "first_update": first, "n_updates": count}
        self._kernel(*self._shape, **self._ratings, **self.learned(), **given)
