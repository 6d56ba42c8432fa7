"""Launches kernels/sgd/esgd.cu; and how likely it is that ratings meet."""

from typing import ClassVar

import numpy as np

from gpumf import backends
from gpumf._util.counter_rng import random_order
from gpumf.solvers.base import Publication, Version
from gpumf.solvers.chunks import Chunks
from gpumf.solvers.options import MAX_THREADS, Option
from gpumf.solvers.sgd_base import SMALL, Descent, DescentKernel

_RATING_BYTES = 12  # in shared memory
_RESERVED_BYTES = 1024  # of it, by the system, for every block


def _threads(th_size, columns):
    return max(th_size // columns, 1) * columns


class Esgd(DescentKernel, Descent):
    """kernels/sgd/esgd.cu: ratings as they lie, in a random order out of shared memory, atomic additions.

    As published with `biases="baseline"`: the baseline predictors are subtracted from the ratings, and what is left
    is factorized in k columns, uniform at first (section 4, which does not say how wide: here with mean 0 and the
    standard deviation of the other solvers). The order is that of the data set: where it is sorted, the updates in
    flight are of few users, and add up to too large a step.
    """

    source, entry = "sgd/esgd.cu", "esgd"
    publication = Publication("esgd", "section 3, Algorithms 1 and 2")
    versions: ClassVar = {
        "": Version("ESGD", "wine", "-"),
        "shuffled": Version("ESGD, shuffled", "wine", "--", {"shuffle": True}),
    }
    cases: ClassVar = ({"th_size": 10},)
    # Baseline predictors are subtracted before: the kernel's rows have biases that move, or none.
    variants: ClassVar = DescentKernel.variants | {"BIASES": range(2), "MAX_THREADS": [MAX_THREADS]}
    races: ClassVar = {"esgd": {"user_factors", "item_factors"}}
    # th_size : threads of a block, taken down to a multiple of the columns
    # st : steps in which they load the ratings of a block
    # shuffle : lay the ratings in a random order first, which is not published
    options: ClassVar = {
        "th_size": Option(1000, most=MAX_THREADS),
        "st": Option(2),
        "shuffle": Option(False, choices=(True, False)),
    }

    @staticmethod
    def columns(hyper):
        """Columns of the rows that the kernel works on."""
        return hyper.factors if hyper.biases == "baseline" else hyper.columns

    @classmethod
    def defines(cls, hyper):
        biases = 0 if hyper.biases == "baseline" else hyper.bias_kind
        return {"FACTORS": cls.columns(hyper), "BIASES": biases, "MAX_THREADS": MAX_THREADS}

    @classmethod
    def draw(cls, hyper, train):
        if hyper.biases != "baseline":
            return None
        rng, width = np.random.default_rng(hyper.seed), SMALL * np.sqrt(12)
        sides = (train.n_users, hyper.factors), (train.n_items, hyper.factors)
        return tuple(((rng.random(shape, np.float32) - np.float32(0.5)) * width, 0) for shape in sides)

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        k = self.columns(hyper)
        super().__init__(hyper, user_factors[:, :k], item_factors[:, :k])
        self._with_biases = None
        values = train.values
        if hyper.biases == "baseline":
            self._with_biases = self._device.array(user_factors), self._device.array(item_factors)
            values = values - user_factors[train.users, -2] - item_factors[train.items, -1]
        self._block = self.block(hyper)
        self._ratings_a_block = self._block * hyper.options["st"]
        pieces = np.append(np.arange(0, train.nnz, self._ratings_a_block), train.nnz)
        order = train.random_order(train.nnz, hyper.seed) if hyper.options["shuffle"] else slice(None)
        arrays = train.users[order], train.items[order], values[order]
        self._chunks = Chunks(self._device, arrays, pieces, hyper.chunk)
        self._rand = self._device.array(self.permutation(hyper))

    @classmethod
    def chosen(cls, hyper, given):
        options = super().chosen(hyper, given)
        facts = backends.device(hyper.device).facts
        most = facts["shared_bytes_per_multiprocessor"] - facts.get("reserved_shared_bytes", _RESERVED_BYTES)
        columns = cls.columns(hyper)
        most -= 4 * (MAX_THREADS // columns)  # the sums of all groups that a block may have
        steps = most // (_RATING_BYTES * _threads(options["th_size"], columns))
        Option(1, most=steps).check(hyper.solver, f"st (with th_size={options['th_size']})", options["st"])
        return options

    @classmethod
    def block(cls, hyper):
        """Threads of a block: a multiple of the columns, at least one of it."""
        return _threads(hyper.options["th_size"], cls.columns(hyper))

    @classmethod
    def permutation(cls, hyper):
        """Rand: the order in which a block takes its ratings, int32 (sh_size,)."""
        return random_order(cls.block(hyper) * hyper.options["st"], hyper.seed).astype(np.int32)

    @classmethod
    def order(cls, hyper, train, epoch=0, blocks=1, members=1):
        rand, shuffle = cls.permutation(hyper), hyper.options["shuffle"]
        order = random_order(train.nnz, hyper.seed) if shuffle else np.arange(train.nnz)
        for number, first in enumerate(range(0, train.nnz, len(rand))):
            wave, block = divmod(number, blocks)
            for j, chosen in enumerate(rand):
                if first + chosen < train.nnz:
                    turn = wave * -(-len(rand) // members) + j // members
                    yield block, j % members, turn, int(order[first + chosen]), "both"

    def epoch(self, number):
        size = self._ratings_a_block
        for first, end, _, (users, items, values) in self._chunks:
            given = {"users": users, "items": items, "values": values, "n_ratings": len(values)}
            given |= {"rand": self._rand, "sh_size": size, "shared": _RATING_BYTES * size}
            self._kernel(end - first, self._block, **self.learned(), **given)

    def factors(self):
        if self._with_biases is None:
            return super().factors()
        for rows, learned in zip(self._with_biases, super().factors(), strict=True):
            rows[:, :-2] = learned
        return self._with_biases
