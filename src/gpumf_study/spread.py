"""The spread of times between runs: of the runs of `run_spread`, and of results in which two runs timed the same.

Repeats of one process share its clock rates, its memory and its machine. What two runs differ by comes on top of what
repeats differ by, and is in the intervals of all ratios of times. It depends on the solver: one that `run_spread` has
timed has its own, the others that of all on their device. All that the same two runs timed counts as one observation,
since it shares what made them differ; pairs that share a run count less than others, see `freedom`.
"""

from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd

from gpumf_study import metrics, results, sweep

NETFLIX = "netflix-synthetic"
_OF = ["device", "model", "solver"]  # what a spread is of


def _phases(frame):
    """The phases of CG in FP32 on Netflix (synthetic), 100 factors."""
    frame = frame[(frame.data == NETFLIX) & (frame.factors == 100) & (frame.solver == "cumf_cg")]
    side = frame.x_side + " " if "x_side" in frame else ""
    return frame.groupby([*_OF, side + frame.x_step]).seconds.median()


def _iterations(frame):
    """An iteration of ALS on Netflix (synthetic), 100 factors, by solver, without the steps of `als_ladder`."""
    frame = frame[(frame.data == NETFLIX) & (frame.factors == 100) & (frame.model == "ALS")]
    if "x_step" not in frame:
        seconds = sweep.epoch_seconds(frame)
    else:
        usual = frame.variant.isna() | (frame.variant == "coalesced") | (frame.solver == "warpgroups")
        seconds = frame[(frame.x_step == "iteration") & usual]
    return seconds.groupby(_OF).seconds.median()


def _updates(frame):
    """An epoch of SGD on Netflix (synthetic), 128 factors, by solver, each in its usual version."""
    frame = frame[(frame.data == NETFLIX) & (frame.factors == 128) & (frame.model == "SGD")]
    frame = frame[frame.variant.isna()] if "variant" in frame else frame
    seconds = sweep.epoch_seconds(frame) if "epoch" in frame else frame
    return seconds.groupby(_OF).seconds.median()


def _blocks(frame):
    """An epoch of NewGPUSGD on MovieLens 10M (synthetic), by factors, precision and side of the grid of blocks."""
    frame = frame[(frame.data == "ml-10m-synthetic") & (frame.solver == "newgpusgd")]
    return sweep.epoch_seconds(frame).groupby([*_OF, "factors", "x_precision", "x_side"]).seconds.median()


def _epochs(frame):
    """An epoch on Douban (synthetic), 16 factors, by model and solver."""
    frame = frame[frame.data == "douban-synthetic"]
    if "variant" in frame:
        frame = frame[frame.variant.isna() | frame.variant.isin(["all threads", "no biases"])]
    seconds = sweep.epoch_seconds(frame) if "epoch" in frame else frame
    return seconds.groupby(_OF).seconds.median()


def _on_cpus(frame):
    """An epoch of ALS on Jester part 1 on the CPU, 16 factors, by solver; on a GPU it is too short."""
    frame = frame[(frame.data == "jester-1") & (frame.model == "ALS") & (frame.device == "cpu")]
    return sweep.epoch_seconds(frame).groupby(_OF).seconds.median()


PAIRS = [
    ("als_versions", "cumf_phases", _phases),
    ("als_versions", "als_netflix", _iterations),
    ("als_versions", "als_ladder", _iterations),
    ("als_versions", "original_programs", _iterations),
    ("als_versions", "cumf_convergence", _iterations),
    ("sgd_netflix", "original_programs", _updates),
    ("sgd_netflix", "sgd_limits", _updates),
    ("block_times", "gpusgd_comparison", _blocks),
    ("speedups", "first_comparison", _epochs),
    ("first_comparison", "cpu_baselines", _epochs),
    ("first_comparison", "als_convergence", _on_cpus),
]
"""Two experiments, and what reads from the frame of either the seconds of what both time, by `_OF` and more.

No pair follows from others: as a graph of experiments they are a forest.
"""


def table() -> pd.DataFrame:
    """Return the seconds of all that two runs timed on a kind of machine: `_OF`, pair (of PAIRS), first, second.

    Runs of different versions of the package are no pair: the code may differ.
    """
    frames = []
    for pair, (first, second, read) in enumerate(PAIRS):
        device = results.reference(first)
        one, other = (results.recorded(name, device) for name in (first, second))
        if one and other and _version(one) == _version(other):
            seconds = {"first": read(one.frame), "second": read(other.frame)}
            frame = pd.DataFrame(seconds).dropna().reset_index(_OF).reset_index(drop=True)
            frames.append(frame.assign(pair=pair))
    if not frames:
        return pd.DataFrame(columns=[*_OF, "first", "second", "pair"], dtype=float)
    return pd.concat(frames, ignore_index=True)


def _version(result):
    return result.provenance["packages"]["gpumf"]


def freedom(pairs: list[tuple[str, str]]) -> float:
    """Return the degrees of freedom of the mean of squared differences of these pairs of runs, by Satterthwaite.

    With a normal effect of variance s² on the logarithms of a run, the square of a difference has the mean 2 s² and
    the variance 8 s⁴; two that share a run have the covariance 2 s⁴. Of n pairs, of which S pairs of pairs share one,
    the mean has 2 mean² / variance = n / (1 + S / 2n) degrees.
    """
    sharing = sum(not set(one).isdisjoint(other) for one, other in combinations(pairs, 2))
    return len(pairs) / (1 + sharing / (2 * len(pairs)))


def between_runs() -> metrics.Spread:
    """Return the variance of the logarithm of a time between runs, and its degrees of freedom.

    Keys are devices, for all that is timed there, and (device, model, solver), for the solvers of `run_spread`.
    """
    return _of_results_in(results.repository())


@cache
def _of_results_in(repository):
    pairs = table()
    pairs = pairs.assign(square=np.log(pairs["first"] / pairs["second"]) ** 2)
    found = {device: [_of_pairs(of)] for device, of in pairs.groupby("device")}
    if runs := results.recorded("run_spread"):
        freedom_of_runs = runs.frame.repeat.nunique() - 1
        for device, variance in of_runs(runs.frame).items():
            found.setdefault(device, []).append((variance, freedom_of_runs))
        for key, variance in of_work(runs.frame).groupby(_OF).mean().items():
            own = pairs[(pairs[_OF] == list(key)).all(axis=1)]
            found[key] = [(variance, freedom_of_runs), *map(_of_pairs, [own] if len(own) else [])]
    return {key: pooled(of) for key, of in found.items()}


def _of_pairs(pairs):
    """The variance that pairs of runs have by their squared differences, and its degrees of freedom."""
    squares = pairs.groupby("pair").square.mean()
    return float(squares.mean() / 2), freedom([PAIRS[pair][:2] for pair in squares.index])


def of_work(frame: pd.DataFrame) -> pd.Series:
    """Return by device, data, model and solver the variance of a time's logarithm between runs of `run_spread`."""
    return np.log(frame.seconds).groupby([frame.device, frame.data, frame.model, frame.solver]).var()


def of_runs(frame: pd.DataFrame) -> pd.Series:
    """Return by device the mean of `of_work`."""
    return of_work(frame).groupby("device").mean()


def pooled(variances: list[tuple[float, float]]) -> tuple[float, float]:
    """Return one variance of several that estimate the same, and its degrees of freedom, of pairs of these two."""
    values, freedoms = np.transpose(variances)
    return float(np.average(values, weights=freedoms)), float(freedoms.sum())
