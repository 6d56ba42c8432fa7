"""Test RMSE against seconds, and the seconds until the acceptable error: ALS and SGD, on the GPU and on the CPU.

Source: Tan et al. 2018, section 5.3, Table 4 and Figure 6, and section 5.5, Figure 8: 100 factors, no biases, lambda
of Table 2, the official test sets. NOMAD is a program of others; ALS by LU stands for GPU-ALS. LIBMF is run where it
is installed (see `peers_sgd`), anew for each number of epochs, with the rate that is there in the fewest. It does not
tell its seconds of training: those of n epochs are a third of what 4 n epochs take more than n, end to end.
Synthetic data sets were calibrated so that their errors fall to the acceptable one after some epochs: what is
measured are ratios of times of one model. How ALS compares with SGD, LIBMF's too, is built in. Hugewiki, which
fills the memory of a GPU, is in `als_hugewiki`.
"""

from functools import cache, partial

import numpy as np
import pandas as pd

from gpumf import ALS, SGD, backends
from gpumf.solvers import schedules
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, above, below, near
from gpumf_study.experiments import _kept, load_ratings, official
from gpumf_study.experiments.gpumf import peers_sgd

OURS, LU = ("ALS", "cumf_cg_fp16"), ("ALS", "cumf_lu")
SGD_GPU, LIBMF = ("SGD", "cumf_sgd"), ("LIBMF", "fpsgd")
POWER = {"name": "Power", "beta": 0.1, "power": 1.5}
# Rates of SGD, whose step is as long as the ratings' spread: 1 of Netflix, 27 of Yahoo! Music. Of 0.02, 0.03, 0.04,
# 0.05 and 0.07, that of Netflix (synthetic) takes `ordered_parallel` the fewest epochs to the acceptable error.
RATES = {"netflix": 0.03, "yahoomusic": 0.001, "ml": 0.02}
LAMBDA = {"netflix": 0.05, "yahoomusic": 1.4, "ml": 0.05}
TARGETS = {"netflix": 0.92, "yahoomusic": 22.0, "ml": 0.95}

_GPU = ["ALS cumf_lu", "ALS cumf_cg", "ALS cumf_cg_fp16", "ALS tensor_core", "SGD cumf_sgd", "SGD fast"]
_CPU = ["ALS parallel_cg", "SGD ordered_parallel"]
PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "factors": 16, "epochs": {"ALS": 8, "SGD": 20}, "repeats": [1, 1]},
    "full": {"data": ["netflix-synthetic", "yahoomusic-synthetic"], "factors": 100, "epochs": {"ALS": 10, "SGD": 25},
             "repeats": [5, 3]},
}  # fmt: skip
PROFILES = {name: profile | {"solvers": _GPU + _CPU, "libmf": {}} for name, profile in PROFILES.items()}
PROFILES["full"]["libmf"] = {"epochs": [4, 15], "rates": [0.1, 0.05, 0.2]}
PROFILES["smoke"] = PROFILES["quick"] | {"factors": 4, "epochs": {"ALS": 2, "SGD": 2}}


def run(data, solvers, factors, epochs, repeats, libmf):
    """Train each of `solvers`, 'model solver', until the acceptable error; `repeats` on the GPU and on the CPU.

    libmf : dict of the rates that LIBMF tries and of its epochs: those from which the fewest are looked for, and the
        most; empty to leave it out
    """

    def models(train, repeat):
        for kind, solver in map(str.split, solvers):
            model = {"ALS": ALS, "SGD": SGD}[kind]
            on_gpu = model.solvers()[solver] == "cuda"
            if (on_gpu and not backends.available()) or repeat >= repeats[not on_gpu]:
                continue
            options = {"weighted": True, "cg_steps": 6 if solver.startswith("cumf_") else None}
            if kind == "SGD":
                options = {"learning_rate": RATES[family], "schedule": schedules.from_dict(POWER)}
            fitted = model(factors, LAMBDA[family], solver=solver, biases=False, clip=False, seed=repeat, **options)
            yield {"epochs": epochs[kind], "stop": _arrived, "x_columns": fitted.columns}, fitted

    def _arrived(row):
        return row["rmse"] <= TARGETS[family]

    frames = []
    for name in data:
        family = name.split("-")[0]
        frames.append(sweep.sweep(models, [name], 1, max(repeats), held_out=0.2, official=True))
        if libmf and not peers_sgd.why_unavailable():
            rows = _libmf(name, factors, LAMBDA[family], TARGETS[family], repeats[1], **libmf)
            frames[-1] = pd.concat([frames[-1], rows], ignore_index=True)
    return pd.concat(frames, ignore_index=True)


def _libmf(data, factors, regularization, target, repeats, epochs, rates):
    """The rows of LIBMF with the rate that reaches the target in the fewest epochs; none where no rate does."""
    ratings = load_ratings(data)
    train, test = official(ratings)
    mean = float(train.values.mean(dtype=np.float64))
    labels = {"data": ratings.name, "task": "fit", "device": "cpu", "factors": factors, "x_columns": factors}
    labels |= dict(zip(("model", "solver"), LIBMF, strict=True)) | {"x_nnz": train.nnz}
    rows = []
    with peers_sgd.taken(peers_sgd.PEER, train) as file:

        @cache
        def fit(n, rate, repeat):
            made = partial(peers_sgd.libmf, factors, file, mean, test, n, regularization, rate)
            return _kept.once(f"libmf-{data}-{n}-{rate}-{repeat}", made)

        def rate_there(n):
            """The first rate that reaches the target in n epochs, or None."""
            return next((rate for rate in rates if fit(n, rate, 0)["rmse"] <= target), None)

        n, most = epochs
        rate = rate_there(n)
        while rate is not None and n > 1 and (earlier := rate_there(n - 1)) is not None:
            n, rate = n - 1, earlier
        while rate is None and n < most:
            n += 1
            rate = rate_there(n)
        if rate is None:
            return pd.DataFrame()
        for repeat in range(repeats):
            once, longer = fit(n, rate, repeat), fit(4 * n, rate, repeat)
            seconds = (longer["wall"] - once["wall"]) / 3
            of_run = labels | {"repeat": repeat, "x_learning_rate": rate}
            error = {"epoch": n, "metric": "rmse", "value": once["rmse"]}
            rows.append(of_run | error | {"phase": "train", "seconds": seconds})
            rows.append(of_run | {"phase": "preprocess", "seconds": once["wall"] - seconds})
    return pd.DataFrame(rows)


def reached(frame):
    """Return when each run reaches the acceptable error: `train`, and `wall` with preprocessing and transfer."""
    error = pd.Series({name: TARGETS[name.split("-")[0]] for name in frame.data.unique()})
    found = sweep.end_to_end(sweep.time_to_error(frame, error), frame)
    return found.rename(columns={"seconds": "train", "end_to_end": "wall"})


def figure(frame):
    """Draw test RMSE against epochs and against seconds of training, a line a solver; LIBMF has wall times alone."""
    frame = frame[frame.model != LIBMF[0]]
    course = sweep.course(frame, "rmse").rename(columns={"solver": "scheme", "value": "rmse"})
    schemes = list(dict.fromkeys(zip(course.model, course.scheme, strict=True)))
    return style.convergence(course, frame.data.unique(), "rmse", schemes, with_model=True)


def _lot(solver):
    return dict(zip(("model", "solver"), solver, strict=True))


def _over(name, figure_or_table, statement, data, other, column="train", evidence="synthetic", **options):
    """The claim on the time of another solver over that of ALS by CG in FP16."""
    return Claim(f"cumf-{name}", "cumf", figure_or_table, statement, metric="ratio",
                 select={"column": column, "where": {"data": data, "x_columns": 100}, "over": _lot(other),
                         "under": _lot(OURS)}, table=reached, evidence=evidence, **options)  # fmt: skip


def _missing(name, figure_or_table, statement, published, missing):
    metric = None if published is None else "ratio"
    return Claim(f"cumf-{name}", "cumf", figure_or_table, statement, published, metric, missing=missing)


_SETS = ("netflix", "Netflix (synthetic)", 7.0), ("yahoomusic", "Yahoo! Music (synthetic)", 5.6)
GPU_ALS = {"netflix": 28 / 6.5, "yahoomusic": 42 / 13.2, "hugewiki": 400 / 166}
"""The published speed-up of cuMF_ALS over it, on the same GPUs (Table 4)."""

CLAIMS = [
    *(_over(f"table-4-{data}-libmf", "Table 4",
            f"Speed-up in training time of ALS by CG in FP16 over LIBMF, to the acceptable RMSE, {name}.",
            f"{data}-synthetic", LIBMF, published=libmf, criterion=near(libmf, 2.0), evidence="built in")
      for data, name, libmf in _SETS),
    *(_over(f"table-4-{data}-libmf-wall", "Table 4",
            f"Speed-up in end-to-end time of ALS by CG in FP16 over LIBMF, to the acceptable RMSE, {name}.",
            f"{data}-synthetic", LIBMF, "wall", "built in")
      for data, name, *_ in _SETS),
    *(_over(f"table-4-{data}-gpu-als", "Table 4",
            f"Speed-up of CG in FP16 over our LU, in the place of GPU-ALS, to the acceptable RMSE, {name}.",
            f"{data}-synthetic", LU)
      for data, name, *_ in _SETS),
    *(Claim(f"cumf-fig-5-convergence-{data}", "cumf", "Figure 5",
            f"Iterations to the acceptable RMSE by six steps of CG in FP16 over those by LU, {name}.", metric="ratio",
            select={"column": "epoch", "where": {"data": f"{data}-synthetic", "x_columns": 100}, "over": _lot(OURS),
                    "under": _lot(LU)}, table=reached, criterion=below(1.1), evidence="synthetic")
      for data, name, *_ in _SETS),
    *(_over(f"fig-6-{data}", "Figure 6",
            f"Speed-up of ALS by CG in FP16 over LIBMF on all CPU threads, to the acceptable RMSE, {name}.",
            f"{data}-synthetic", LIBMF, criterion=above(1.0), evidence="built in")
      for data, name, *_ in _SETS),
    *(Claim(f"cumf-fig-6-{data}-own", "cumf", "Figure 6",
            f"Speed-up of ALS by CG in FP16 over our ALS on all CPU threads, {name}.", metric="ratio",
            select={"column": "train", "where": {"x_columns": 100, "data": f"{data}-synthetic"},
                    "over": {"solver": "parallel_cg"}, "under": _lot(OURS)}, table=reached, evidence="synthetic")
      for data, name, *_ in _SETS),
    _over("fig-8-netflix", "Figure 8",
          "Time of SGD over that of ALS to the acceptable RMSE, one GPU, Netflix (synthetic).", "netflix-synthetic",
          SGD_GPU, evidence="built in"),
    _over("fig-8-yahoomusic", "Figure 8",
          "Time of SGD over that of ALS to the acceptable RMSE, one GPU, Yahoo! Music (synthetic).",
          "yahoomusic-synthetic", SGD_GPU, evidence="built in"),
    *(Claim(f"cumf-fig-8-{data}-iteration", "cumf", "Figure 8",
            f"Time of an iteration of ALS by CG in FP16 over that of SGD, one GPU, {name}.", metric="ratio",
            select={"column": "seconds", "where": {"data": f"{data}-synthetic", "factors": 100}, "over": _lot(OURS),
                    "under": _lot(SGD_GPU)}, table=sweep.epoch_seconds, criterion=above(1.0), evidence="synthetic")
      for data, name, *_ in _SETS),
    _missing("table-4-hugewiki-gpu-als", "Table 4", "Speed-up over GPU-ALS to RMSE 0.52, four GPUs, Hugewiki.",
             GPU_ALS["hugewiki"], "GPU-ALS"),
    *(_missing(f"table-4-{data}-nomad", "Table 4", f"Speed-up over NOMAD to the acceptable RMSE, {name}.", published,
               "NOMAD and a cluster")
      for data, name, published in (("netflix", "Netflix", 9.6 / 3.3), ("yahoomusic", "Yahoo! Music", 109 / 6.8))),
    _missing("table-4-hugewiki-libmf", "Table 4", "Speed-up over LIBMF to RMSE 0.52, Hugewiki.", 44.4,
             "LIBMF on a CPU with room for the ratings"),
    _missing("table-4-hugewiki-nomad", "Table 4", "Speed-up over NOMAD on 64 machines to RMSE 0.52, Hugewiki.", 6.7,
             "NOMAD and 64 machines"),
    _missing("hpc-als", "Section 5.3", "Speed-up of an iteration over HPC-ALS on a Kepler K40.", 2.0,
             "HPC-ALS, whose source is not public"),
    _missing("bidmach", "Section 5.3", "The ALS of BIDMach does not reach the acceptable RMSE.", None,
             "a build of BIDMach"),
]  # fmt: skip
