"""Whether the single-threaded CPU baseline of speed-ups is a good one: beside a plain C loop in the same run.

The programs take turns, an epoch each, so that what slows the machine down slows all of them: an epoch is a repeat.
Seconds are those that the process has a core for. All programs of a model start from the same factors; SGD is there
with biases too.
"""

from functools import partial
from time import process_time

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD
from gpumf.backends import compile
from gpumf.backends.cpu import als
from gpumf.models.evaluation import Errors
from gpumf.models.initial import with_bias_columns
from gpumf.solvers.sgd_ordered import shuffled_diagonals
from gpumf.solvers.sgd_partition import shuffled_blocks
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import load_ratings

_RATES = {"als_regularization": 0.05, "sgd_regularization": 0.03, "learning_rate": 0.01}
PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "epochs": 30, **_RATES},
    "full": {"data": "douban-synthetic", "epochs": 12, **_RATES},
}
PROFILES["smoke"] = PROFILES["quick"] | {"epochs": 3}

_FACTORS = 16  # of plain.cpp
PLAIN = "no biases"


def why_unavailable():
    """A compiler, or None where there is one."""
    return None if compile.library("plain.cpp", FACTORS=_FACTORS) else "native C++ does not compile on this machine"


def run(data, epochs, als_regularization, sgd_regularization, learning_rate):
    """Train every program on one thread for so many epochs, an epoch of each at a time.

    Return a DataFrame with a row an epoch: seconds of it, and the test MAE after it. solver is 'plain C', 'numba' or
    a solver, variant PLAIN or 'biases'
    """
    ratings = load_ratings(data)
    train, test = ratings.split(0.2)
    sgd = partial(SGD, _FACTORS, sgd_regularization, learning_rate=learning_rate, device="cpu", clip=False)
    models = {
        "ALS": ALS(_FACTORS, als_regularization, solver="sequential", device="cpu", biases=False, clip=False),
        "SGD": sgd(solver="ordered", biases=False),
    }
    drawn, biased = sgd(solver="sequential", biases=False), sgd(solver="ordered", biases=True)
    centred = train.less(train.mean)  # as biases count
    numba_als = models["ALS"].make_solver(train)
    numba_als._update = als.numba_update(_FACTORS, parallel=False)
    programs = {
        ("ALS", "plain C", PLAIN): _PlainALS(models["ALS"], train),
        ("ALS", "sequential", PLAIN): models["ALS"].make_solver(train),
        ("ALS", "numba", PLAIN): numba_als,
        ("SGD", "plain C", PLAIN): _PlainSGD(models["SGD"], train),
        ("SGD", "ordered", PLAIN): models["SGD"].make_solver(train),
        ("SGD", "sequential", PLAIN): drawn.make_solver(train),
        ("SGD", "plain C", "biases"): _PlainSGD(biased, centred),
        ("SGD", "ordered", "biases"): biased.make_solver(centred),
    }
    known = train.user_counts > 0, train.item_counts > 0
    # Where a user or an item has no training ratings, the other one's bias is predicted.
    everyone = tuple(np.ones(n, bool) for n in (train.n_users, train.n_items))
    errors = {
        PLAIN: Errors(test, known, train.mean, _FACTORS, "cpu"),
        "biases": Errors(test.less(train.mean), everyone, 0.0, _FACTORS + 2, "cpu"),
    }
    rows = []
    for epoch in tqdm(range(epochs), desc="cpu_baselines", leave=False):
        for program, solver in programs.items():
            started = process_time()
            solver.epoch(epoch)
            seconds = process_time() - started
            rows.append((*program, epoch, seconds, errors[program[2]](*solver.factors())[1]))
    frame = pd.DataFrame(rows, columns=["model", "solver", "variant", "repeat", "seconds", "value"])
    frame = frame.assign(data=ratings.name, task="epoch", phase="train", metric="mae", device="cpu", threads=1)
    return frame.assign(factors=_FACTORS, x_nnz=train.nnz)


class _PlainALS:
    """The ALS of plain.cpp, as a trainer."""

    def __init__(self, model, train):
        kinds = "int64* int32* float32* float32* float32* int64 float32"
        self._run = compile.function("plain.cpp", "side_update", kinds, FACTORS=_FACTORS)
        self._train, self._regularization = train, model.regularization
        self._p, self._q = map(compile.aligned, model.initial_factors(train))

    def epoch(self, number):
        for rows, fixed, solved in ((self._train.by_user, self._q, self._p), (self._train.by_item, self._p, self._q)):
            arrays = rows.indptr, rows.indices, rows.values, fixed, solved
            self._run(*arrays, rows.n_rows, self._regularization)

    def factors(self):
        return self._p, self._q


class _PlainSGD:
    """The SGD of plain.cpp in the order of `ordered`, as a trainer; with biases in arrays of their own."""

    def __init__(self, model, train):
        self._side, self._seed, self._train = model.options["side"], model.seed, train
        *self._ratings, self._offsets = shuffled_blocks(train, self._side, self._seed)
        self._steps = model.learning_rate, model.regularization
        p, q = model.initial_factors(train)
        biases = (p[:, -2], q[:, -1]) if model.biases else ()
        self._learned = [compile.aligned(array) for array in (p[:, :_FACTORS], q[:, :_FACTORS], *biases)]
        name = "updates_with_biases" if model.biases else "updates"
        kinds = f"int32* int32* float32* int64 {'float32* ' * len(self._learned)} float32 float32"
        self._run = compile.function("plain.cpp", name, kinds, FACTORS=_FACTORS)

    def epoch(self, number):
        for diagonal in shuffled_diagonals(self._side, self._seed, number):
            first, end = self._offsets[[diagonal * self._side, (diagonal + 1) * self._side]]
            part = (column[first:end] for column in self._ratings)
            self._run(*part, end - first, *self._learned, *self._steps)

    def factors(self):
        p, q, *biases = self._learned
        return with_bias_columns(self._train, *zip((p, q), biases, strict=True)) if biases else (p, q)


def _claim(name, statement, model, over, under, **options):
    return Claim(name, "gpumf", None, f"{statement}, single-threaded CPU, 16 factors, Douban (synthetic).",
                 metric="ratio",
                 select={"column": "seconds", "where": {"model": model, "variant": PLAIN}, "over": {"solver": over},
                         "under": {"solver": under}}, evidence="synthetic", **options)  # fmt: skip


_OVER = "Time of an epoch of {} over that of a plain C loop"
CLAIMS = [
    _claim("als-cpu-baseline", _OVER.format("ALS"), "ALS", "sequential", "plain C"),
    _claim("sgd-cpu-baseline", _OVER.format("SGD in shuffled blocks"), "SGD", "ordered", "plain C"),
    _claim("sgd-cpu-once-each", "Time of an epoch of SGD that samples with replacement over one in shuffled blocks",
           "SGD", "sequential", "ordered", criterion=above(5.0)),
]  # fmt: skip
