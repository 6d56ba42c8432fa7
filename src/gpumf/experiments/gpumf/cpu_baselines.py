"""One core as an engineer would write it: the baseline of speed-ups, beside a plain C loop in the same run.

The versions take turns, an epoch each, so that what slows the machine down slows all of them. Seconds are those that
the process has the core for. All versions of a model start from the same factors.
"""

from ctypes import c_float, c_int64
from functools import partial
from time import process_time

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD, native
from gpumf import figure_style as style
from gpumf.cpu import als
from gpumf.experiments import identity, load_ratings
from gpumf.experiments.thesis import first_comparison
from gpumf.findings import Finding, Holds, Target, ratio
from gpumf.models.evaluation import Errors
from gpumf.models.sgd.ordered import shuffled_diagonals
from gpumf.models.sgd.partition import shuffled_blocks

_RATES = {"als_regularization": 0.05, "sgd_regularization": 0.03, "learning_rate": 0.01}
PROFILES = {
    "quick": {"data": "ml-100k-twin", "epochs": 30, **_RATES},
    "full": {"data": "douban-twin", "epochs": 12, **_RATES},
}
PROFILES["smoke"] = PROFILES["quick"] | {"epochs": 3}

_FACTORS = 16  # of plain.cpp


def why_unavailable():
    """A compiler, or None where there is one."""
    return None if native.library("plain.cpp", FACTORS=_FACTORS) else "native C++ does not compile on this machine"


def run(data, epochs, als_regularization, sgd_regularization, learning_rate):
    """Train every version on one core for so many epochs, an epoch of each at a time.

    Returns
    -------
    DataFrame with a row an epoch: data, nnz, model, version ('plain C', 'numba' or the name of a kernel), epoch,
    seconds (of this epoch), mae (on the test set), threshold (of the MAE; NaN where the data have none)
    """
    ratings = load_ratings(data)
    train, test = ratings.split(0.2)
    models = {
        "ALS": ALS(_FACTORS, als_regularization, solver="sequential", device="cpu", biases=False),
        "SGD": SGD(
            _FACTORS, sgd_regularization, learning_rate=learning_rate, solver="ordered", device="cpu", biases=False
        ),
    }
    drawn = SGD(
        _FACTORS, sgd_regularization, learning_rate=learning_rate, solver="sequential", device="cpu", biases=False
    )
    numba_als = models["ALS"].trainer(train)
    numba_als._half_sweep = als.numba_half_sweep(_FACTORS, parallel=False)
    versions = {
        ("ALS", "plain C"): _PlainALS(models["ALS"], train),
        ("ALS", "sequential"): models["ALS"].trainer(train),
        ("ALS", "numba"): numba_als,
        ("SGD", "plain C"): _PlainSGD(models["SGD"], train),
        ("SGD", "ordered"): models["SGD"].trainer(train),
        ("SGD", "sequential"): drawn.trainer(train),
    }
    known = (np.bincount(train.users, minlength=train.n_users) > 0)[test.users]
    known &= (np.bincount(train.items, minlength=train.n_items) > 0)[test.items]
    errors = Errors(test, known, train.mean, _FACTORS, "cpu")
    rows = []
    for epoch in tqdm(range(epochs), desc="cpu_baselines", leave=False):
        for (model, version), trainer in versions.items():
            started = process_time()
            trainer.epoch(epoch)
            seconds = process_time() - started
            rows.append((model, version, epoch + 1, seconds, errors(*trainer.factors())[1]))
    frame = pd.DataFrame(rows, columns=["model", "version", "epoch", "seconds", "mae"])
    frame = frame.assign(data=ratings.name, nnz=train.nnz, threshold=first_comparison.threshold(ratings.name))
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


class _PlainALS:
    """The ALS of plain.cpp, as a trainer."""

    def __init__(self, model, train):
        self._run, floats = native.library("plain.cpp", FACTORS=_FACTORS).half_sweep, native.array(np.float32)
        self._run.argtypes = [
            native.array(np.int64),
            native.array(np.int32),
            floats,
            floats,
            floats,
            c_int64,
            c_float,
        ]
        self._train, self._regularization = train, model.regularization
        self._p, self._q = map(native.aligned, model.initial_factors(train))

    def epoch(self, number):
        for rows, fixed, solved in ((self._train.by_user, self._q, self._p), (self._train.by_item, self._p, self._q)):
            arrays = rows.indptr, rows.indices, rows.values, fixed, solved
            self._run(*arrays, rows.n_rows, self._regularization)

    def factors(self):
        return self._p, self._q


class _PlainSGD:
    """The SGD of plain.cpp in the order of `ordered`, as a trainer."""

    def __init__(self, model, train):
        self._run, floats = native.library("plain.cpp", FACTORS=_FACTORS).updates, native.array(np.float32)
        positions = native.array(np.int32)
        self._run.argtypes = [positions, positions, floats, c_int64, floats, floats, c_float, c_float]
        self._side, self._seed = model.options["side"], model.seed
        *self._ratings, self._offsets = shuffled_blocks(train, self._side, self._seed)
        self._steps = model.learning_rate, model.regularization
        self._p, self._q = map(native.aligned, model.initial_factors(train))

    def epoch(self, number):
        for diagonal in shuffled_diagonals(self._side, self._seed, number):
            first, end = self._offsets[[diagonal * self._side, (diagonal + 1) * self._side]]
            part = (column[first:end] for column in self._ratings)
            self._run(*part, end - first, self._p, self._q, *self._steps)

    def factors(self):
        return self._p, self._q


def summary(frame):
    """A row a version: model, version, seconds (of an epoch, median), times_plain (of plain C's), epochs and
    seconds_to_threshold (NaN where the MAE was not reached), mae (after the last epoch)."""
    rows = []
    for (model, version), run_ in frame.groupby(["model", "version"], sort=False):
        plain = frame[(frame.model == model) & (frame.version == "plain C")].seconds.median()
        reached = (run_.mae <= run_.threshold).to_numpy()
        done = int(reached.argmax()) + 1 if reached.any() else np.nan
        spent = run_.seconds.iloc[:done].sum() if reached.any() else np.nan
        seconds = run_.seconds.median()
        rows.append((model, version, seconds, seconds / plain, done, spent, run_.mae.iloc[-1]))
    columns = ["model", "version", "seconds", "times_plain", "epochs", "seconds_to_threshold", "mae"]
    return pd.DataFrame(rows, columns=columns)


def figure(frame):
    """Seconds of an epoch of each version, median."""
    return style.dots(
        frame.groupby(["model", "version"], sort=False).seconds.median(), "seconds of an epoch, one core"
    )


def _times(frame, model, version, other):
    of = frame[frame.model == model]
    return *ratio(of[of.version == version].seconds, of[of.version == other].seconds), "x"


FINDINGS = [
    Finding(
        "als-cpu-baseline",
        "gpumf",
        None,
        "ALS, one core | Douban twin | 16 factors | seconds of an epoch over a plain C loop's",
        partial(_times, model="ALS", version="sequential", other="plain C"),
        Target(1.25, 1.0),
    ),
    Finding(
        "sgd-cpu-baseline",
        "gpumf",
        None,
        "SGD, one core, each rating once | Douban twin | 16 factors | seconds of an epoch over a plain C loop's",
        partial(_times, model="SGD", version="ordered", other="plain C"),
        Target(1.25, 1.0),
    ),
    Finding(
        "sgd-cpu-once-each",
        "gpumf",
        None,
        "SGD, one core | Douban twin | 16 factors | seconds of an epoch that draws over one in an order that caches",
        partial(_times, model="SGD", version="sequential", other="ordered"),
        Holds(above=5),
    ),
]
