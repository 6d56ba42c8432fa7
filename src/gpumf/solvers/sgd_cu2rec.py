"""Launches kernels/sgd/cu2rec.cu."""

from typing import ClassVar

import numpy as np

from gpumf._util.counter_rng import random_positions
from gpumf.solvers.base import Publication, Version, launch_shape
from gpumf.solvers.options import Option
from gpumf.solvers.schedules import Patience
from gpumf.solvers.sgd_base import Descent, DescentKernel, draw_key

_LOSS_BLOCKS = 128
_EARLY_BIRD = ["early_bird_gets", "early_bird_loses"]  # gets the gradient, loses it
_CONFLICTS = [*_EARLY_BIRD, "atomic"]
_GOLDEN = 0.6180339887498949
_MOST_RECORDED = 1024  # steps


def first_user(step, n_users):
    """Who begins a step: far from where the steps before began."""
    return int(step * _GOLDEN % 1 * n_users)


class Cu2rec(DescentKernel, Descent):
    """kernels/sgd/cu2rec.cu: every user once a step, of an item's updates in a step one counts.

    An epoch is as many steps as make about nnz updates. As published with `biases=True`, `initial="normal"` and a
    `patience`, which looks at the loss of all training ratings every few steps; the publication looks at that of its
    test ratings, which no training may see. `schedules.Patience` is the same on a validation set, once an epoch.
    """

    source, entry = "sgd/cu2rec.cu", "cu2rec"
    publication = Publication("cu2rec", "How it works to Advanced techniques")
    layout: ClassVar = ("by_user",)
    versions: ClassVar = {
        "": Version("cu2rec", "teal", "-"),
        "early bird loses": Version("cu2rec, early bird loses", "teal", "--", {"conflict": "early_bird_loses"}),
        "atomic": Version("cu2rec, atomic", "teal", ":", {"conflict": "atomic"}),
        "no striding": Version("cu2rec, no striding", "teal", "-.", {"striding": False}),
    }
    cases: ClassVar = ({}, {"conflict": "early_bird_loses"}, {"conflict": "atomic", "striding": False})
    variants: ClassVar = DescentKernel.variants | {"CONFLICT": _CONFLICTS}
    races: ClassVar = {"cu2rec": {"item_factors": {}, "newest": {"CONFLICT": _EARLY_BIRD}}}
    streams = False
    # conflict : which of an item's updates in a step count: 'early_bird_gets', 'early_bird_loses', or all ('atomic')
    # striding : whether each step begins with another user
    # initial : 'normal', with mean 0 and standard deviation 1, factors divided by their number, biases not
    #     ("Overview"); 'small', as the other schemes
    # patience : losses without a lower one after which the learning rate is halved (the publication gives neither
    #     number); by default the rate is left to the schedule
    # loss_every : steps from one loss to the next, where there is a patience
    options: ClassVar = {
        "conflict": Option("early_bird_gets", choices=tuple(_CONFLICTS)),
        "striding": Option(True, choices=(True, False)),
        "initial": Option("small", choices=("small", "normal")),
        "patience": Option(None),
        "loss_every": Option(100),
    }

    @classmethod
    def chosen(cls, hyper, given):
        options = super().chosen(hyper, given)
        if options["initial"] == "normal" and not hyper.biases:
            raise ValueError("initial='normal' draws ratings from mean and biases: it wants biases=True")
        return options

    @classmethod
    def draw(cls, hyper, train):
        if hyper.options["initial"] == "small":
            return None
        rng, f = np.random.default_rng(hyper.seed), hyper.factors
        sides = train.n_users, train.n_items
        return tuple(
            (rng.standard_normal((rows, f), np.float32) / np.float32(f), rng.standard_normal(rows, np.float32))
            for rows in sides
        )

    @classmethod
    def defines(cls, hyper):
        return super().defines(hyper) | {"CONFLICT": hyper.options["conflict"]}

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        super().__init__(hyper, user_factors, np.repeat(item_factors[:, None], 2, axis=1))
        device, rows = self._device, train.by_user
        self._rows = {name: device.array(getattr(rows, name)) for name in ("indptr", "indices", "values")}
        self._n_users, self._nnz = train.n_users, train.nnz
        self._newest = device.array(np.full(train.n_items, -2, np.int32))  # of step -1
        self._all_items = device.array(np.arange(train.n_items))
        self._steps_an_epoch = self.steps_an_epoch(train)
        self._striding, self._key = hyper.options["striding"], draw_key(hyper)
        shape = self.geometry(hyper)
        self._shape = launch_shape(hyper.threads, train.n_users, shape.lanes, device)
        self._loss_threads = shape.loss_threads
        self._loss, self._total_loss = self.kernel(hyper, "loss"), self.kernel(hyper, "total_loss")
        patience = hyper.options["patience"]
        self._patience = patience and Patience(patience)
        self._loss_every, self._losses = hyper.options["loss_every"], []
        self._recorded = {}

    @staticmethod
    def steps_an_epoch(train):
        """How many steps make about as many updates as there are ratings."""
        return max(round(train.nnz / max((train.by_user.counts > 0).sum(), 1)), 1)

    @classmethod
    def order(cls, hyper, train, epoch=0, blocks=1, members=1):
        rows, n, steps, workers = train.by_user, train.n_users, cls.steps_an_epoch(train), blocks * members
        by_user, key = np.lexsort((train.items, train.users)), draw_key(hyper)
        for turn, step in enumerate(range(epoch * steps, (epoch + 1) * steps)):
            first, taken = first_user(step, n) if hyper.options["striding"] else 0, set()
            for g, user in enumerate(np.roll(np.arange(n), -first)):
                if not rows.counts[user]:
                    continue
                draw = random_positions(key, step * n + int(user), rows.counts[user])
                rating = int(by_user[rows.indptr[user] + draw])
                item = train.items[rating]
                moves = "user" if item in taken else "both"
                taken.add(item)
                yield *divmod(g % workers, members), turn * -(-n // workers) + g // workers, rating, moves

    def epoch(self, number):
        self.take_steps(number * self._steps_an_epoch, self._steps_an_epoch)

    def first_user(self, step):
        """Who begins a step of this solver: always the same where there is no striding."""
        return first_user(step, self._n_users) if self._striding else 0

    def take_steps(self, first, count):
        """Start the steps first, first + 1, ..., first + count - 1: an update of each user with ratings.

        They are launches that are recorded once, by powers of two: else Python would take longer than a short step.
        """
        end = first + count
        while first < end:
            together = min(end - first, _MOST_RECORDED)
            if self._patience:
                if first % self._loss_every == 0:
                    self._losses.append(np.nan_to_num(self.training_errors()[0], nan=np.inf))
                together = min(together, self._loss_every - first % self._loss_every)
            together = 1 << together.bit_length() - 1
            self.steps()
            launches, now = self._launches(together)
            steps = range(first, first + together)
            now[...] = self._device.array(np.array([(step, self.first_user(step)) for step in steps], np.int32))
            launches()
            first += together

    def _launches(self, count):
        """(so many steps, recorded, int32 (count, 2) that they read: their numbers and first users)."""
        if count not in self._recorded:
            now = self._device.empty((count, 2), np.int32)
            arrays = self._rows | self._learned | {"newest": self._newest}
            of_all = {"n_users": self._n_users, "key": self._key}

            def work():
                for k in range(count):
                    self._kernel(*self._shape, **arrays, **of_all, now=now[k])

            self._recorded[count] = self._device.recorded(work), now
        return self._recorded[count]

    def rate(self):
        return self._patience.rate(self.learning_rate, self._losses) if self._patience else self.learning_rate

    def training_errors(self):
        """(rmse, mae) on the training set, by the publication's loss and total-loss kernels."""
        errors = self._device.empty(self._nnz, np.float32)
        sums = self._device.empty((_LOSS_BLOCKS, 2), np.float64)
        given = {"n_users": self._n_users, "user_factors": self._p, "item_factors": self._q, "newest": self._newest}
        self._loss(*self._shape, **self._rows, **given, errors=errors)
        self._total_loss(_LOSS_BLOCKS, self._loss_threads, errors=errors, n=self._nnz, sums=sums)
        absolute, squared = self._device.to_numpy(sums).sum(axis=0)
        return float(np.sqrt(squared / self._nnz)), float(absolute / self._nnz)

    def factors(self):
        return self._p, self._q[self._all_items, self._newest & 1]
