"""The published programs cuMF_ALS, CuMF_SGD and cu2rec, and ours, on the same GPU, data set and split.

The programs are not part of this repository. Environment variables give the paths of executables; any may be missing:

    GPUMF_CUMF_ALS       cuMF_ALS, conjugate gradient in FP32; github.com/cuMF/cumf_als, commit a5d918a
    GPUMF_CUMF_ALS_FP16  the same with systems in FP16
    GPUMF_CUMF_ALS_LU    the same with the LU solver of cuBLAS
    GPUMF_CUMF_SGD       CuMF_SGD; github.com/cuMF/cumf_sgd, commit d5e429e
    GPUMF_CU2REC         `mf` of cu2rec; github.com/nickgreenquist/cu2rec, commit d99d8ad

Each gets the ratings in its own format, in a temporary folder; arrays are little-endian int32 and float32:

- cuMF_ALS: a row of the matrix is an item, a column a user, as in the authors' command. `R_train_csr.indptr.bin`,
  `.indices.bin` and `.data.bin`, the same of `R_train_csc`, `R_train_coo.row.bin` in the order of the CSR, and
  `R_test_coo.row.bin`, `.col.bin`, `.data.bin`. It makes ten iterations. Its debug build prints the seconds of both
  updates of each. These include copies of the CSR to the GPU, the allocation of its buffers, and a product with a
  sparse matrix by cuSPARSE, whose function for it CUDA has replaced. Its test RMSE leaves up to 256 ratings out of
  the sum, though not out of the mean.
- CuMF_SGD: records (user, item, rating) of 12 bytes, in random order. It prints updates a second of CPU time,
  and writes a model, whose RMSE is computed here: four int32, the second to fourth of them users, items and factors,
  a float32, then the factors of the users and the items. The fewest epochs that reach the error are found by
  bisection, each a new run.
- cu2rec: CSV with a header, user, item and rating, counted from 1, sorted by user; and a file of nine numbers: the
  iteration to begin with, iterations, factors, learning rate, seed, and four times lambda. It prints the test RMSE
  every 500 steps, and the seconds of all steps, with these errors. When the test RMSE has risen twice, it takes a
  fifth of the learning rate; ours takes half when the training RMSE has.

Settings are the authors': lambda 0.05 of both cuMF; alpha 0.08, beta 0.3 and 52 workers a multiprocessor of CuMF_SGD;
`cu2rec.RATES` and 10,000 steps. CuMF_SGD divides the ratings by their standard deviation, so ours has the rate alpha
over it. Users and items without training ratings, which the programs cannot predict, are left out of the test.
"""

import hashlib
import os
import re
import subprocess
import time
from functools import partial
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD, backends
from gpumf._util.counter_rng import random_order
from gpumf.models.evaluation import Errors
from gpumf.solvers import schedules
from gpumf_study import sweep
from gpumf_study.claims import Claim, above, below
from gpumf_study.experiments import _kept, load_ratings, official, trained
from gpumf_study.experiments.cu2rec import RATES
from gpumf_study.experiments.cu2rec.cu2rec_training import PUBLISHED_START

CUMF_ALS, CUMF_SGD, CU2REC = "cuMF_ALS", "CuMF_SGD", "cu2rec"
PROGRAMS = {
    "GPUMF_CUMF_ALS": (CUMF_ALS, "cg"),
    "GPUMF_CUMF_ALS_FP16": (CUMF_ALS, "cg_fp16"),
    "GPUMF_CUMF_ALS_LU": (CUMF_ALS, "lu"),
    "GPUMF_CUMF_SGD": (CUMF_SGD, "batch_hogwild"),
    "GPUMF_CU2REC": (CU2REC, "early_bird"),
}
"""Environment variable -> program and solver, as in the columns model and solver."""

OURS = {
    CUMF_ALS: ["tensor_core", "cumf_cg_fp16", "cumf_cg", "cumf_lu"],
    CUMF_SGD: ["fast", "cumf_sgd"],
    CU2REC: ["cu2rec"],
}
"""Program -> our solvers beside it."""

REGULARIZATION, ALPHA, BETA = 0.05, 0.08, 0.3
_SEED = 42  # the default of cu2rec

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"] * 3, "factors": {CUMF_ALS: 10, CUMF_SGD: 128, CU2REC: 10},
              "epochs": {CUMF_ALS: 10, CUMF_SGD: 4, CU2REC: 1000},
              "error": {CUMF_ALS: 0.92, CUMF_SGD: 0.92, CU2REC: 0.0}, "workers": 52, "repeats": 2},
    # `data` in the order of OURS.
    "full": {"data": ["netflix-synthetic", "netflix-synthetic", "ml-20m-synthetic"],
             "factors": {CUMF_ALS: 100, CUMF_SGD: 128, CU2REC: 50},
             "epochs": {CUMF_ALS: 10, CUMF_SGD: 20, CU2REC: 10_000},
             "error": {CUMF_ALS: 0.92, CUMF_SGD: 0.92, CU2REC: 0.0}, "workers": 52, "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"repeats": 1}


class ProgramError(RuntimeError):
    """A program failed, or printed or wrote something else than it should have."""


def given():
    """Return the programs whose paths the environment gives: a dict of (model, solver) -> path."""
    return {program: os.environ[name] for name, program in PROGRAMS.items() if os.environ.get(name)}


def why_unavailable():
    """One sentence on what is missing, a GPU or a program, or None where nothing is."""
    if not backends.available():
        return backends.why_unavailable()
    if not given():
        return f"no program is given: set one of {', '.join(PROGRAMS)}; see the experiment's first lines"
    return _not_a_program()


def _not_a_program():
    """One sentence on the first path that is no executable, or None."""
    for name in PROGRAMS:
        path = os.environ.get(name)
        if path and not (Path(path).is_file() and os.access(path, os.X_OK)):
            return f"{name} is {path}, which is no executable file"
    return None


def run(data, factors, epochs, error, workers, repeats):
    """Run each program that the environment gives, then our solvers beside it.

    data : list of the names of three data sets, in the order of OURS; their official split, where they have one
    factors, epochs, error : dict, program -> number. `epochs` and the column epoch count what the program calls an
        iteration; of cu2rec and of our solver beside it that is a step, an update of every user
    error : the test RMSE to reach; 0 for the lowest that all reach
    workers : int, of CuMF_SGD, a multiprocessor

    Return a DataFrame with a row an epoch (metric rmse, seconds of training until then), a row for each phase of ours
    and for the phase end_to_end of cuMF_ALS, which has errors on the way as ours has, and a row with the task
    'process' for the whole of each process, reading and writing of files included. x_beside is the program that both
    are compared to, x_iteration the seconds of an epoch: the median of those after the first, or all over their
    number where the program prints no more (of both with cu2rec, see `_trainings`). x_program is the SHA-256 of the
    executable. What each variant of a program gives is a piece of a recording, see `_kept.once`.

    Raise ProgramError where a program is missing, fails, or prints something else than it should.
    """
    if why := _not_a_program():
        raise ProgramError(why)
    programs, frames = given(), []
    for beside, name in zip(OURS, data, strict=True):
        paths = {solver: path for (model, solver), path in programs.items() if model == beside}
        if not paths:
            continue
        ratings = load_ratings(name)
        split = official(ratings)
        task = Comparison(beside, *split, factors[beside], epochs[beside], error[beside], workers)
        with TemporaryDirectory(prefix="gpumf-") as folder:
            made = [_kept.once(key, make) for key, make in task.theirs(Path(folder), paths, repeats)]
        made += [_kept.once(key, make) for key, make in task.ours(repeats)]
        labels = {"data": ratings.name, "factors": factors[beside], "x_nnz": task.train.nnz}
        labels |= {"x_beside": beside, "x_error": float(error[beside])}
        frames.append(pd.concat(made, ignore_index=True).assign(**labels))
    return pd.concat(frames, ignore_index=True)


class Comparison:
    """A program and our solvers on one split.

    Parameters are those of `run` for one program; `test` keeps only users and items that have training ratings.
    """

    def __init__(self, beside, train, test, factors, epochs, error, workers):
        known = (train.user_counts[test.users] > 0) & (train.item_counts[test.items] > 0)
        self.train, self.test = train, test if known.all() else test.select(known)
        self.beside, self.factors, self.epochs, self.error = beside, factors, epochs, error
        self._device = backends.device("cuda" if backends.available() else "emulator")
        self._workers = workers * self._device.facts["multiprocessors"]

    def theirs(self, folder, paths, repeats):
        """Give (key, function that returns rows) of each variant of the program: a dict of solver -> path."""
        write, of = {
            CUMF_ALS: (write_cumf_als, self._cumf_als),
            CUMF_SGD: (write_cumf_sgd, self._cumf_sgd),
            CU2REC: (write_cu2rec, self._cu2rec),
        }[self.beside]
        for solver, path in paths.items():
            digest = _sha256(path)

            def make(solver=solver, path=path, digest=digest):
                if not any(folder.iterdir()):
                    write(folder, self.train, self.test)
                facts = {"model": self.beside, "solver": solver, "device": "cuda", "x_program": digest}
                repeated = tqdm(range(repeats), desc=f"{self.beside} {solver}", leave=False)
                return pd.concat(of(path, folder, repeated), ignore_index=True).assign(**facts)

            yield f"{self.beside}-{solver}-{digest[:16]}", make

    def ours(self, repeats):
        """Give (key, function that returns rows) of each repeat of each of our solvers."""
        for solver in OURS[self.beside]:
            for repeat in tqdm(range(repeats), desc=f"{self.beside}, ours, {solver}", leave=False):
                yield f"{self.beside}-ours-{solver}-{repeat}", partial(self._fitted, solver, repeat)

    def _fitted(self, solver, repeat):
        f, train, each = self.factors, self.train, 1
        options = {"solver": solver, "device": self._device.name, "seed": repeat, "clip": False}
        if self.beside == CUMF_ALS:
            model = ALS(f, REGULARIZATION, weighted=True, biases=False, **options)
        elif self.beside == CUMF_SGD:
            options |= {"learning_rate": ALPHA / float(train.values.std(dtype=np.float64))}
            model = SGD(f, REGULARIZATION, schedule=schedules.Power(BETA), biases=False, **options)
        else:
            each = SGD.solver_classes()[solver].steps_an_epoch(train)
            model = SGD(f, biases=True, **RATES, **PUBLISHED_START, **options)
        # A copy, as what one training has put in order the next one would find.
        trained(model, train.select(np.arange(train.nnz)), ceil(self.epochs / each), self.test)
        frame = sweep.rows(model).assign(repeat=repeat)
        frame["epoch"] *= each
        course = frame[frame.epoch.notna()]
        return frame.assign(x_iteration=(course.seconds.diff() / course.epoch.diff()).iloc[2:].median())

    def _cumf_als(self, path, folder, repeats):
        return [self._cumf_als_run(path, folder).assign(repeat=repeat) for repeat in repeats]

    def _cumf_als_run(self, path, folder):
        n_items, n_users, f, test = self.train.n_items, self.train.n_users, self.factors, self.test.nnz
        # A batch of systems has fewer elements than 2^31; with 100 factors and Netflix the authors' one and three.
        batches = [ceil(f * f * rows / 2**31) for rows in (n_items, n_users)]
        sizes = [n_items, n_users, f, self.train.nnz, test, REGULARIZATION, *batches]
        printed, process = self._output([path, *sizes, folder])
        if "Unable to open file" in printed:
            raise self._wrong("could not open a file", printed)
        n = self.epochs
        update = [self._positive(rf"update {side} run (\S+) seconds", printed, n) for side in ("X", "theta")]
        rmse = self._numbers(r"Test RMSE in iter \d+: (\S+)", printed, n)
        (whole,) = self._positive(r"doALS takes seconds: (\S+)", printed)
        each = np.sum(update, axis=0)
        rows = _course(np.arange(1, n + 1), each.cumsum(), rmse)
        rows += [{"task": "fit", "phase": "end_to_end", "seconds": whole}, _process(process)]
        return pd.DataFrame(rows).assign(x_iteration=np.median(each[1:]))

    def _cumf_sgd(self, path, folder, repeats):
        """Frames of the fewest epochs that reach the error, and in the first repeat of those tried to find them."""
        tried = {}

        def reaches(n):
            tried[n] = self._cumf_sgd_run(path, folder, n)
            return tried[n].value.min() <= self.error

        found = []
        for repeat in repeats:
            if repeat == 0:
                n = fewest(reaches, self.epochs)
                found += [frame.assign(repeat=0) for frame in tried.values()]
            else:
                found.append(self._cumf_sgd_run(path, folder, n).assign(repeat=repeat))
        return found

    def _cumf_sgd_run(self, path, folder, n):
        model = folder / "model"
        model.unlink(missing_ok=True)
        options = {"-g": 0, "-l": REGULARIZATION, "-k": self.factors, "-t": n, "-a": ALPHA, "-b": BETA}
        options |= {"-s": self._workers, "-u": 1, "-v": 1, "-x": 1, "-y": 1}
        words = [word for option in options.items() for word in option]
        printed, process = self._output([path, *words, folder / "train.bin", model])
        (rate,) = self._positive(r"update_per_sec:(\S+)", printed)
        try:
            users, items = read_cumf_sgd(model, self.factors)
        except (OSError, ValueError) as error:
            raise self._wrong(f"wrote no model that can be read ({error})", printed) from error
        if len(users) > self.train.n_users or len(items) > self.train.n_items:
            raise self._wrong(f"wrote factors of {len(users)} users and {len(items)} items", printed)
        known = np.ones(self.train.n_users, bool), np.ones(self.train.n_items, bool)
        rmse = Errors(self.test, known, self.train.mean, self.factors, "cpu")(users, items)[0]
        seconds = self.train.nnz * n / rate
        rows = [*_course([n], [seconds], [rmse]), _process(process) | {"epoch": n}]
        return pd.DataFrame(rows).assign(x_iteration=seconds / n)

    def _cu2rec(self, path, folder, repeats):
        return [self._cu2rec_run(path, folder).assign(repeat=repeat) for repeat in repeats]

    def _cu2rec_run(self, path, folder):
        rate, weight = RATES["learning_rate"], RATES["regularization"]
        setting = [0, self.epochs, self.factors, rate, _SEED, *[weight] * 4]
        (folder / "setting.cfg").write_text(" ".join(map(str, setting)) + "\n", encoding="utf-8")
        printed, process = self._output([path, "-c", *(folder / x for x in ("setting.cfg", "train.csv", "test.csv"))])
        steps = sorted({1, *range(500, self.epochs + 1, 500), self.epochs})
        rmse = self._numbers(r"TEST: Iteration \d+ GPU MAE: \S+ RMSE: (\S+)", printed, len(steps))
        (seconds,) = self._positive(rf"Time taken for {self.epochs} of iterations is (\S+)", printed)
        each = seconds / self.epochs
        rows = [*_course(steps, each * np.array(steps), rmse), _process(process)]
        return pd.DataFrame(rows).assign(x_iteration=each)

    def _output(self, command):
        """(what a program prints, seconds of its process)."""
        started = time.perf_counter()
        try:
            done = subprocess.run([*map(str, command)], capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise ProgramError(f"{self.beside} could not be started: {error}") from error
        seconds = time.perf_counter() - started
        if done.returncode:
            raise self._wrong(f"ended with status {done.returncode}", done.stdout + done.stderr)
        return done.stdout, seconds

    def _numbers(self, pattern, printed, n):
        """The n numbers that a pattern finds in what a program printed; NaN and infinite where training diverged."""
        found = re.findall(pattern, printed)
        if len(found) != n:
            raise self._wrong(f"printed {len(found)} lines like {pattern!r}, not {n}", printed)
        try:
            return np.array(found, float)
        except ValueError:
            raise self._wrong(f"printed {found} for {pattern!r}, which are no numbers", printed) from None

    def _positive(self, pattern, printed, n=1):
        """As `_numbers`, of seconds and rates."""
        found = self._numbers(pattern, printed, n)
        if not (np.isfinite(found) & (found > 0)).all():
            raise self._wrong(f"printed {found.tolist()} for {pattern!r}, which are no times", printed)
        return found

    def _wrong(self, what, printed):
        lines = [line.strip() for line in printed.splitlines() if line.strip()]
        return ProgramError(f"{self.beside} {what}; its last line is {(lines or [''])[-1]!r}")


def _course(epochs, seconds, rmse):
    common = {"task": "fit", "phase": "train", "metric": "rmse"}
    of = zip(epochs, seconds, np.where(np.isfinite(rmse), rmse, np.nan), strict=True)
    return [common | {"epoch": int(n), "seconds": float(s), "value": float(e)} for n, s, e in of]


def _process(seconds):
    return {"task": "process", "phase": "end_to_end", "seconds": seconds}


def _sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def fewest(reaches, most):
    """Return the fewest epochs that reach an error, by bisection, or `most` where these do not.

    reaches : function of a number of epochs, which is called once for each that is tried; more epochs reach what
        fewer do
    """
    low, high = 0, most
    if not reaches(most):
        return most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def write_cumf_als(folder, train, test):
    """Write the files of cuMF_ALS; a row is an item."""
    for kind, compressed in (("csr", train.by_item), ("csc", train.by_user)):
        for part, values, dtype in (
            ("indptr", compressed.indptr, "<i4"),
            ("indices", compressed.indices, "<i4"),
            ("data", compressed.values, "<f4"),
        ):
            np.asarray(values, dtype).tofile(folder / f"R_train_{kind}.{part}.bin")
    rows = np.repeat(np.arange(train.n_items, dtype="<i4"), train.item_counts)
    rows.tofile(folder / "R_train_coo.row.bin")
    for part, values, dtype in (("row", test.items, "<i4"), ("col", test.users, "<i4"), ("data", test.values, "<f4")):
        np.asarray(values, dtype).tofile(folder / f"R_test_coo.{part}.bin")


def write_cumf_sgd(folder, train, test):
    """Write the file of CuMF_SGD, of the training ratings alone, in random order."""
    order = random_order(train.nnz, seed=0)
    records = np.empty(train.nnz, [("user", "<i4"), ("item", "<i4"), ("rating", "<f4")])
    for column, values in zip(records.dtype.names, (train.users, train.items, train.values), strict=True):
        records[column] = values[order]
    records.tofile(folder / "train.bin")


def read_cumf_sgd(path, factors):
    """Return the factors of the users and items in a model file of CuMF_SGD, float32 (n, factors) each.

    Raise ValueError where the file has another number of factors, or is cut off.
    """
    header = np.fromfile(path, "<i4", 4)
    if len(header) < 4 or header[3] != factors:
        raise ValueError(f"its header is {header.tolist()}")
    n_users, n_items = (int(n) for n in header[1:3])
    values = np.fromfile(path, "<f4", offset=20)
    if min(n_users, n_items) < 1 or len(values) != (n_users + n_items) * factors:
        raise ValueError(f"it has {len(values)} numbers for {n_users} users and {n_items} items")
    users, items = np.split(values.astype(np.float32).reshape(-1, factors), [n_users])
    return users, items


def write_cu2rec(folder, train, test):
    """Write the CSV files of cu2rec."""
    import pyarrow as pa
    from pyarrow import csv

    for name, ratings in (("train", train), ("test", test)):
        rows = ratings.by_user
        columns = [np.repeat(np.arange(ratings.n_users), ratings.user_counts) + 1, rows.indices + 1, rows.values]
        table = pa.table(dict(zip(("userId", "itemId", "rating"), columns, strict=True)))
        csv.write_csv(table, folder / f"{name}.csv", csv.WriteOptions(quoting_style="none"))


_BY = ["x_beside", "model", "solver"]


def _trainings(frame):
    """The rows of trainings that converged, with an error each.

    x_iteration of cu2rec and of ours beside it is all of the clock over the steps: both compute errors on the way to
    set the learning rate, the program of the test ratings, ours of the training ratings.
    """
    course = sweep.course(sweep.converged(frame), "rmse")
    course = course[course.epoch > 0]
    runs = course.groupby([*_BY, "repeat"])
    whole = runs.seconds.transform("max") / runs.epoch.transform("max")
    return course.assign(x_iteration=course.x_iteration.mask(course.x_beside == CU2REC, whole))


def reached(frame):
    """Return a row a program or solver and repeat: seconds to the error that all programs of a comparison reach.

    That is x_error, or where the best of a program or of ours does not reach it, the lowest that it reaches. Columns
    are x_beside, model, solver, repeat, epoch (the first whose median RMSE over the repeats is there), seconds (that
    many times x_iteration), x_iteration, x_rmse (the error that is reached) and device. A solver that does not reach
    the error has no row.
    """
    runs = _trainings(frame)
    medians = runs.groupby([*_BY, "epoch"]).value.median()
    lowest = medians.groupby(["x_beside", "model"]).min().groupby("x_beside").max()
    level = np.maximum(lowest, runs.groupby("x_beside").x_error.max())
    there = medians[medians <= level.reindex(medians.index, level="x_beside")].reset_index("epoch")
    first = there.groupby(_BY).epoch.min()
    found = runs.groupby([*_BY, "repeat"], as_index=False, sort=False)
    found = found.agg(x_iteration=("x_iteration", "median"), device=("device", "first"))
    found = found.merge(first.reset_index()).assign(x_rmse=lambda of: of.x_beside.map(level))
    return found.assign(seconds=found.epoch * found.x_iteration)


def fastest(frame):
    """Return `reached` of ours, and of the fastest solver of each program, as the solver 'fastest'."""
    found = reached(frame)
    theirs = found[found.model.isin(OURS)]
    median = theirs.groupby(_BY).seconds.median()
    best = median[median == median.groupby(["x_beside", "model"]).transform("min")].reset_index()[_BY]
    return pd.concat([theirs.merge(best).assign(solver="fastest"), found[~found.model.isin(OURS)]], ignore_index=True)


def _beside(program, frame):
    """`fastest` of one program; a frame without columns where it is not compared to the first of OURS."""
    found = fastest(frame)
    found = found[found.x_beside == program]
    return found if {"fastest", OURS[program][0]} <= set(found.solver) else pd.DataFrame()


beside_cumf_als, beside_cumf_sgd, beside_cu2rec = (partial(_beside, program) for program in OURS)


def iterations(frame):
    """Return the seconds of an iteration of each repeat of each program and solver."""
    of = _trainings(frame).groupby([*_BY, "repeat"], as_index=False, sort=False)
    return of.agg(seconds=("x_iteration", "median"), device=("device", "first"))


def last(frame):
    """Return the test RMSE after the most epochs that both a program and ours made, a row a repeat."""
    runs = _trainings(frame)
    most = runs.groupby(_BY).epoch.max().groupby("x_beside").min()
    return runs[runs.epoch <= runs.x_beside.map(most)].sort_values("epoch").groupby([*_BY, "repeat"]).tail(1)


def _claim(name, statement, over, under, table, metric="ratio", criterion=None, column="seconds"):
    sides = [dict(zip(("model", "solver"), side, strict=True)) for side in (over, under)]
    return Claim(f"programs-{name}", "gpumf", None, statement, metric=metric,
                 select={"column": column, "over": sides[0], "under": sides[1]},
                 criterion=criterion, evidence="synthetic", table=table)  # fmt: skip


_NETFLIX_100 = "Netflix (synthetic), 100 factors"
_NETFLIX_128 = "Netflix (synthetic), 128 factors"
_ML_20M = "MovieLens 20M (synthetic), 50 factors"

CLAIMS = [
    _claim("als-time",
           f"Training time of the fastest solver of cuMF_ALS over that of tensor_core, to RMSE 0.92, {_NETFLIX_100}.",
           (CUMF_ALS, "fastest"), ("ALS", "tensor_core"), fastest, criterion=above(1.0)),
    *(_claim(f"als-iteration-{theirs.replace('_', '-')}",
             f"An iteration of cuMF_ALS, {what}, over one of {ours}, {_NETFLIX_100}.",
             (CUMF_ALS, theirs), ("ALS", ours), iterations)
      for theirs, ours, what in (("cg", "cumf_cg", "conjugate gradient in FP32"),
                                 ("cg_fp16", "cumf_cg_fp16", "conjugate gradient in FP16"),
                                 ("lu", "cumf_lu", "LU"))),
    _claim("als-rmse", f"Test RMSE of cumf_cg above that of cuMF_ALS in FP32, after ten iterations, {_NETFLIX_100}.",
           ("ALS", "cumf_cg"), (CUMF_ALS, "cg"), last, "difference", below(0.005), "value"),
    _claim("sgd-time", f"Training time of CuMF_SGD over that of fast, same rates, to RMSE 0.92, {_NETFLIX_128}.",
           (CUMF_SGD, "fastest"), ("SGD", "fast"), fastest, criterion=above(1.0)),
    _claim("sgd-epoch", f"An epoch of CuMF_SGD over one of cumf_sgd, {_NETFLIX_128}.",
           (CUMF_SGD, "batch_hogwild"), ("SGD", "cumf_sgd"), iterations),
    _claim("cu2rec-time", f"Training time of the program cu2rec over that of the solver, to equal RMSE, {_ML_20M}.",
           (CU2REC, "fastest"), ("SGD", "cu2rec"), fastest, criterion=above(1.0)),
    _claim("cu2rec-step",
           f"A step of the program cu2rec over one of the solver, each with the errors for its rate, {_ML_20M}.",
           (CU2REC, "early_bird"), ("SGD", "cu2rec"), iterations),
    _claim("cu2rec-rmse", f"Test RMSE of the solver cu2rec above that of the program, after 10,000 steps, {_ML_20M}.",
           ("SGD", "cu2rec"), (CU2REC, "early_bird"), last, "difference", below(0.01), "value"),
]  # fmt: skip
