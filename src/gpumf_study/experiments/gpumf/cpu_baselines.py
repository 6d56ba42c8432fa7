"""One core as an engineer would write it: the baseline of speed-ups, beside a plain C loop in the same run.

The versions take turns, an epoch each, so that what slows the machine down slows all of them. Seconds are those that
the process has the core for. All versions of a model start from the same factors; SGD is there with biases too.
"""

from ctypes import c_float, c_int64
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
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings
from gpumf_study.experiments.thesis import first_comparison
from gpumf_study.findings import Finding, Holds, Target, median, ratio

_RATES = {"als_regularization": 0.05, "sgd_regularization": 0.03, "learning_rate": 0.01}
PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "epochs": 30, **_RATES},
    "full": {"data": "douban-synthetic", "epochs": 12, **_RATES},
}
PROFILES["smoke"] = PROFILES["quick"] | {"epochs": 3}

_FACTORS = 16  # of plain.cpp
_WITH_BIASES = ", biases"  # ends the names of versions that learn them


def why_unavailable():
    """A compiler, or None where there is one."""
    return None if compile.library("plain.cpp", FACTORS=_FACTORS) else "native C++ does not compile on this machine"


def run(data, epochs, als_regularization, sgd_regularization, learning_rate):
    """Train every version on one core for so many epochs, an epoch of each at a time.

    Returns
    -------
    DataFrame with a row an epoch: data, nnz, model, version ('plain C', 'numba' or the name of a kernel; with
    ', biases' where it learns them), epoch, seconds (of this epoch), mae (on the test set), threshold (of the MAE;
    NaN where the data have none)
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
    numba_als._half_sweep = als.numba_half_sweep(_FACTORS, parallel=False)
    versions = {
        ("ALS", "plain C"): _PlainALS(models["ALS"], train),
        ("ALS", "sequential"): models["ALS"].make_solver(train),
        ("ALS", "numba"): numba_als,
        ("SGD", "plain C"): _PlainSGD(models["SGD"], train),
        ("SGD", "ordered"): models["SGD"].make_solver(train),
        ("SGD", "sequential"): drawn.make_solver(train),
        ("SGD", f"plain C{_WITH_BIASES}"): _PlainSGD(biased, centred),
        ("SGD", f"ordered{_WITH_BIASES}"): biased.make_solver(centred),
    }
    known = train.user_counts > 0, train.item_counts > 0
    errors = Errors(test, known, train.mean, _FACTORS, "cpu")
    # Where a user or an item has no training ratings, the other one's bias is predicted.
    everyone = tuple(np.ones(n, bool) for n in (train.n_users, train.n_items))
    errors_with_biases = Errors(test.less(train.mean), everyone, 0.0, _FACTORS + 2, "cpu")
    rows = []
    for epoch in tqdm(range(epochs), desc="cpu_baselines", leave=False):
        for (model, version), trainer in versions.items():
            started = process_time()
            trainer.epoch(epoch)
            seconds = process_time() - started
            of = errors_with_biases if version.endswith(_WITH_BIASES) else errors
            rows.append((model, version, epoch + 1, seconds, of(*trainer.factors())[1]))
    frame = pd.DataFrame(rows, columns=["model", "version", "epoch", "seconds", "mae"])
    frame = frame.assign(data=ratings.name, nnz=train.nnz, threshold=first_comparison.threshold(ratings.name))
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


class _PlainALS:
    """The ALS of plain.cpp, as a trainer."""

    def __init__(self, model, train):
        self._run, floats = compile.library("plain.cpp", FACTORS=_FACTORS).half_sweep, compile.array(np.float32)
        self._run.argtypes = [
            compile.array(np.int64),
            compile.array(np.int32),
            floats,
            floats,
            floats,
            c_int64,
            c_float,
        ]
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
        library, floats = compile.library("plain.cpp", FACTORS=_FACTORS), compile.array(np.float32)
        positions = compile.array(np.int32)
        self._side, self._seed, self._train = model.options["side"], model.seed, train
        *self._ratings, self._offsets = shuffled_blocks(train, self._side, self._seed)
        self._steps = model.learning_rate, model.regularization
        p, q = model.initial_factors(train)
        biases = (p[:, -2], q[:, -1]) if model.biases else ()
        self._learned = [compile.aligned(array) for array in (p[:, :_FACTORS], q[:, :_FACTORS], *biases)]
        self._run = library.updates_with_biases if model.biases else library.updates
        self._run.argtypes = [positions, positions, floats, c_int64, *[floats] * len(self._learned), c_float, c_float]

    def epoch(self, number):
        for diagonal in shuffled_diagonals(self._side, self._seed, number):
            first, end = self._offsets[[diagonal * self._side, (diagonal + 1) * self._side]]
            part = (column[first:end] for column in self._ratings)
            self._run(*part, end - first, *self._learned, *self._steps)

    def factors(self):
        p, q, *biases = self._learned
        return with_bias_columns(self._train, *zip((p, q), biases, strict=True)) if biases else (p, q)


def summary(frame):
    """A row a version: model, version, seconds (of an epoch, median), times_plain (of plain C's, which has biases if
    the version has), epochs and seconds_to_threshold (NaN where the MAE was not reached), mae (after the last
    epoch)."""
    rows = []
    for (model, version), run_ in frame.groupby(["model", "version"], sort=False):
        like = "plain C" + _WITH_BIASES * version.endswith(_WITH_BIASES)
        plain = frame[(frame.model == model) & (frame.version == like)].seconds.median()
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


def _paired_times(frame, model, version, other):
    """A version's epoch over the other's, which came just before it: median of all epochs, half their range."""
    seconds = frame[frame.model == model].pivot(index="epoch", columns="version", values="seconds")
    if not {version, other} <= set(seconds):
        return np.nan, np.nan, "x"
    return *median(seconds[version] / seconds[other]), "x"


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
        "sgd-cpu-baseline-biases",
        "gpumf",
        None,
        "SGD with biases, one core, each rating once | Douban twin | 16 factors | seconds of an epoch over a plain C "
        "loop's, epoch by epoch",
        partial(_paired_times, model="SGD", version=f"ordered{_WITH_BIASES}", other=f"plain C{_WITH_BIASES}"),
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
