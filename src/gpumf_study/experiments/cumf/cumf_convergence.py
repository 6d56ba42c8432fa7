"""Test RMSE against seconds, and the seconds until the acceptable error: ALS and SGD, on the GPU and on all cores.

After Tan et al. 2018, section 5.3, Table 4 and Figure 6, and section 5.5, Figure 8: 100 factors, lambda of Table 2,
the official test sets. LIBMF and NOMAD are programs of others; here SGD on all cores, each rating once, stands for
the former. That a twin's errors fall to the acceptable one, and after how many iterations of ALS, was calibrated:
what is measured are ratios of times. Hugewiki, which fills the memory of a GPU, is in `als_hugewiki`.
"""

from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD, backends
from gpumf.solvers import schedules
from gpumf_study import figure_style as style
from gpumf_study.experiments import _fits, _published, identity, load_ratings
from gpumf_study.findings import Finding, Holds, Near, Open, ratio

OURS, LIBMF = ("ALS", "cumf_cg_fp16"), ("SGD", "ordered_parallel")
MODELS = {"ALS": ALS, "SGD": SGD}
POWER = {"name": "Power", "beta": 0.1, "power": 1.5}
# Rates of SGD, whose step is as long as the ratings' spread: 1 of Netflix, 27 of Yahoo! Music.
RATES = {"netflix": 0.03, "yahoomusic": 0.001, "ml": 0.02}
LAMBDA = {"netflix": 0.05, "yahoomusic": 1.4, "ml": 0.05}
TARGETS = {"netflix": 0.92, "yahoomusic": 22.0, "ml": 0.95}

_GPU = ["ALS cumf_lu", "ALS cumf_cg", "ALS cumf_cg_fp16", "ALS tensor_core", "SGD cumf_sgd", "SGD fast"]
_CPU = ["ALS parallel_cg", "SGD ordered_parallel"]
PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "factors": 16, "epochs": {"ALS": 8, "SGD": 20}, "repeats": 1},
    "full": {
        "data": ["netflix-synthetic", "yahoomusic-synthetic"],
        "factors": 100,
        "epochs": {"ALS": 10, "SGD": 25},
        "repeats": 3,
    },
}
PROFILES = {name: profile | {"schemes": _GPU + _CPU} for name, profile in PROFILES.items()}
PROFILES["smoke"] = PROFILES["quick"] | {"factors": 4, "epochs": {"ALS": 2, "SGD": 2}}


def run(data, schemes, factors, epochs, repeats):
    """Train each scheme that this machine has until the acceptable error.

    Parameters
    ----------
    data : names of data sets
    schemes : list of 'model solver'
    factors : int
    epochs : dict, model -> the most epochs
    repeats : int, of the schemes of the GPU, with seeds of their own; the processor's train once

    Returns
    -------
    DataFrame with a row an epoch: data, model, scheme, device, target (RMSE), repeat, and what `_fits.history` has
    """
    frames, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        family = _published.family(name)
        target = TARGETS[family]
        train, test = ratings.split(0.2) if ratings.test_mask is None else ratings.official_split()
        for text in tqdm(schemes, desc=f"cumf_convergence {ratings.name}", leave=False):
            kind, scheme = text.split()
            on_gpu = MODELS[kind].solvers()[scheme] == "cuda"
            if on_gpu and not backends.available():
                continue
            options = {"regularization": LAMBDA[family], "solver": scheme}
            if kind == "SGD":
                options |= {"learning_rate": RATES[family], "schedule": schedules.from_dict(POWER)}
            for repeat in range(repeats if on_gpu else 1):
                model = MODELS[kind](factors, clip=False, seed=repeat, **options)
                reached = partial(_reached, target=target)
                history = _fits.history(model, train, epochs[kind], test, stop=reached)
                what = {"data": ratings.name, "model": kind, "scheme": scheme, "device": model.device}
                frames.append(history.assign(**what, target=target, repeat=repeat))
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs["datasets"] = identities
    return frame


def _reached(row, target):
    return row["rmse"] <= target


def reached(frame):
    """Trainings that came to the acceptable error: a row each, with epoch, train and wall (without compiling)."""
    last = frame.groupby(["data", "model", "scheme", "repeat"], sort=False).tail(1)
    last = last[last.rmse <= last.target]
    last = last.assign(wall=last["wall"] - last["compile"])
    return last[["data", "model", "scheme", "device", "repeat", "epoch", "train", "wall"]]


def summary(frame):
    """Epochs and seconds until the acceptable error, with the published seconds on a P100 beside them.

    Returns
    -------
    DataFrame with the index (data, model, scheme): epochs, train, wall (medians; missing where it was not reached),
    rmse (at the end), published (seconds of cuMF_ALS and of LIBMF)
    """
    by = ["data", "model", "scheme"]
    rmse = frame.groupby([*by, "repeat"], sort=False).tail(1).groupby(by, sort=False).rmse.median()
    times = reached(frame).groupby(by)[["epoch", "train", "wall"]].median().rename(columns={"epoch": "epochs"})
    programs = {OURS: "cuMF_ALS, Pascal", LIBMF: "LIBMF"}
    stated = [
        _published.value("Table 4", "time to the acceptable error", data, programs.get(tuple(scheme)), "cumf")
        if tuple(scheme) in programs
        else np.nan
        for data, *scheme in rmse.index
    ]
    return pd.DataFrame({"rmse": rmse}).join(times).assign(published=np.array(stated, float))


def figure(frame):
    """Test RMSE against epochs and against seconds of training, a line a scheme."""
    schemes = list(dict.fromkeys(zip(frame.model, frame.scheme, strict=True)))
    return style.convergence(frame, frame.data.unique(), "rmse", schemes, with_model=True)


def _times(frame, data, scheme, what):
    rows = reached(frame)
    rows = rows[(rows.data == data) & (rows.model == scheme[0]) & (rows.scheme == scheme[1])]
    return rows[what]


def _over(frame, data, other, what="train"):
    """What another scheme takes to the acceptable error over what CG in FP16 takes."""
    lots = [_times(frame, data, scheme, what) for scheme in (other, OURS)]
    return (*ratio(*lots), "x") if all(map(len, lots)) else (np.nan, np.nan, "x")


def _least_over_cpu(frame):
    """What the processor's soonest scheme takes over CG in FP16, on the set where that is least."""
    on_cpu = dict.fromkeys(tuple(s.split()) for s in _CPU)
    found = [_over(frame, data, scheme) for data in frame.data.unique() for scheme in on_cpu]
    found = [of for of in found if not np.isnan(of[0])]
    return min(found) if found else (np.nan, np.nan, "x")


FINDINGS = [
    *(
        Finding(
            f"cumf-table-4-{data}-{what}",
            "cumf",
            "Table 4",
            f"ALS by CG in FP16 is {factor} times as soon at its error on {name} as SGD on all cores ({what}).",
            partial(_over, data=f"{data}-synthetic", other=LIBMF, what=what),
            Near(factor, 2.0),
        )
        for data, name, factor in (("netflix", "Netflix", 7.0), ("yahoomusic", "Yahoo! Music", 5.6))
        for what in ("train", "wall")
    ),
    Finding(
        "cumf-fig-6",
        "cumf",
        "Figure 6",
        "ALS by CG in FP16 is sooner at the acceptable error than everything on the processor, on both sets.",
        _least_over_cpu,
        Holds(above=1.0),
    ),
    Finding(
        "cumf-fig-8-netflix",
        "cumf",
        "Figure 8",
        "On one GPU ALS is sooner at the acceptable error than SGD on Netflix.",
        partial(_over, data="netflix-synthetic", other=("SGD", "cumf_sgd")),
        Holds(above=1.0),
    ),
    Finding(
        "cumf-fig-8-yahoomusic",
        "cumf",
        "Figure 8",
        "On one GPU ALS is later at the acceptable error than SGD on Yahoo! Music.",
        partial(_over, data="yahoomusic-synthetic", other=("SGD", "cumf_sgd")),
        Holds(below=1.0),
    ),
    Finding(
        "cumf-fig-8-four",
        "cumf",
        "Figure 8",
        "On four GPUs ALS is sooner than SGD on Hugewiki.",
        rule=Open(missing="a recording on four GPUs"),
    ),
]
