"""Every speed-up of ALS and SGD to an error that the book shows, in one table: over what, how trained, how timed.

The same kernel stands on several pages with several factors. They differ by what they are over, by the model (biases,
rates, schedule), by its CUDA threads, by the error that ends the training, and by what is timed. Where cores ran ALS
in Numba, as in all results that are older than its C++, their label says so.
"""

import numpy as np
import pandas as pd

from gpumf import results
from gpumf.experiments import _published
from gpumf.experiments.thesis import first_comparison, speedups
from gpumf.models.sgd import schedules

# Of `first_comparison` and `speedups`; `sgd_douban` has a schedule and biases of its own.
_PLAIN = "constant rate, no biases"
COLUMNS = ["page", "data", "model", "version", "threads", "training", "mae", "baseline", "train", "wall"]
COLUMNS += ["machine", "commit"]


def table(device=None):
    """All of them, as recorded on a machine; by default on `results.reference`'s.

    Returns
    -------
    DataFrame with a row a page, data set, version on the GPU and baseline: page (the experiment), data, model,
    version, threads (text), training (of SGD schedule and biases; whether parameters are the published ones), mae
    (that ends the training), baseline, train and wall (the baseline's seconds over the version's, of training and of
    the whole fit; NaN where it was not measured), machine, commit
    """
    rows = [*_first("first_comparison", device), *_first("sgd_douban", device), *_speedups(device), *_of_thesis()]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame[frame.train.notna() | frame.wall.notna()].reset_index(drop=True)


def native_als(result):
    """Whether the cores of a result ran the ALS that is C++, by the code that its provenance lists."""
    return "src/gpumf/cpu/native/als.cpp" in result.provenance.get("code", {})


def _core(label, model, result):
    """The label of a baseline, with Numba's name where it was that."""
    return label if model != "ALS" or native_als(result) else f"{label}, Numba"


def _first(name, device):
    """The rows of `first_comparison`, or of `sgd_douban`, whose frame is the same."""
    result = results.recorded(name, device)
    if result is None:
        return
    summary = first_comparison.summary(result.frame)
    seconds = summary.set_index(["data", "model", "kernel"])[["seconds_to_threshold", "wall_to_threshold"]]
    for row in summary[summary.device == "cuda"].itertuples():
        for label, kernel in _baselines(row.model).items():
            if (row.data, row.model, kernel) not in seconds.index:
                continue
            train, wall = seconds.loc[(row.data, row.model, kernel)]
            ratios = train / row.seconds_to_threshold, wall / row.wall_to_threshold
            what = name, row.data, row.model, row.kernel, "its own choice", _training(result, row.model)
            yield (*what, row.threshold, _core(label, row.model, result), *ratios, *_where(result))


def _baselines(model):
    """Label -> kernel of what speed-ups of a model are over; the thesis's core under its own name."""
    found = dict(first_comparison.BASELINES[model])
    return found | ({"one core, drawing with replacement": "sequential"} if model == "SGD" else {})


def _training(result, model):
    if model == "ALS":
        return ""
    parameters = result.provenance["parameters"]
    if "schedule" not in parameters:
        return _PLAIN
    schedule = schedules.from_dict(parameters["schedule"])
    return f"{type(schedule).__name__.lower()} schedule, biases"


def _speedups(device):
    """The rows of `speedups`, whose cores draw with replacement where their kernel is `sequential` or `parallel`."""
    result = results.recorded("speedups", device)
    if result is None:
        return
    for setting in speedups.SETTINGS:
        yield from _of_setting(result, speedups.of_setting(result.frame, setting), setting)


def _of_setting(result, frame, setting):
    """The rows of `speedups` with the parameters of a setting."""
    kernels = frame.groupby("version").kernel.first()
    summary = speedups.summary(frame, setting)
    on_cpu = frame[frame.device == "cpu"].version.unique()
    seconds = summary.set_index(["data", "mae", "version"])
    for row in summary[~summary.version.isin(on_cpu)].itertuples():
        for version in on_cpu:
            if not version.startswith(row.model) or (row.data, row.mae, version) not in seconds.index:
                continue
            drawn = row.model == "SGD" and kernels[version] in ("sequential", "parallel")
            label = version.removeprefix(f"{row.model}, ").removesuffix(", each once")
            label = _core(label, row.model, result) + ", drawing with replacement" * drawn
            theirs, own = seconds.loc[(row.data, row.mae, version)], seconds.loc[(row.data, row.mae, row.version)]
            wall = theirs.get("wall", np.nan) / own.get("wall", np.nan)
            threads = frame[frame.version == row.version].threads.iloc[0]
            text = "its own choice" if pd.isna(threads) else f"{threads:,.0f}"
            parts = [*[_PLAIN] * (row.model == "SGD"), *["published parameters"] * (setting == "published")]
            training = ", ".join(parts)
            what = "speedups", row.data, row.model, row.version, text, training, row.mae, label
            yield (*what, theirs.seconds / row.seconds, wall, *_where(result))


def _of_thesis():
    """Table 6.3 itself."""
    values = _published.table()
    values = values[(values.source == "thesis") & (values.artefact == "Table 6.3") & (values.quantity == "speed-up")]
    for row in values.itertuples():
        threads = speedups.VERSIONS[speedups.COLUMNS[row.model]][2]
        training = "" if row.model == "ALS" else _PLAIN
        what = "Table 6.3 of the thesis", row.data, row.model[:3], row.model, f"{threads:,}", training
        baseline = "one core" if row.model == "ALS" else "one core, drawing with replacement"
        yield (*what, _published.threshold(row.data), baseline, row.value, np.nan, "the thesis's", "")


def _where(result):
    """The machine and the commit."""
    return result.provenance["gpu"], result.provenance["commit"][:9]
