"""Every speed-up of ALS and SGD on a GPU over cores of a processor that the book shows, in one table.

The same kernel stands on several pages with several speed-ups. They differ by what they are over, by the model (how
many factors, biases, rates, schedule), by its CUDA threads, by what ends the training, an error or a number of
epochs, and by what is timed. Where cores ran ALS in Numba, as in all results that are older than its C++, their label
says so.

Left out are ratios of two versions on a GPU, or of two on cores, and of one epoch or one step; those over programs of
others, and over what publications state of their machines; and those of other models.
"""

import numpy as np
import pandas as pd

from gpumf.solvers import schedules
from gpumf_study import results
from gpumf_study.experiments import _published
from gpumf_study.experiments.cumf import cumf_convergence
from gpumf_study.experiments.gpumf import all_schemes, fit_seconds
from gpumf_study.experiments.thesis import first_comparison, speedups

COLUMNS = ["page", "data", "model", "factors", "version", "threads", "training", "until", "baseline", "train", "wall"]
COLUMNS += ["machine", "commit"]

# (model, kernel) of what speed-ups are over -> its label; the thesis's core has its own name.
_CORES = {(model, kernel): label for model, of in first_comparison.BASELINES.items() for label, kernel in of.items()}
_CORES["SGD", "sequential"] = "one core, drawing with replacement"
_CHOICE = "its own choice"


def table(device=None):
    """All of them, as recorded on a machine; by default on `results.reference`'s.

    Returns
    -------
    DataFrame with a row a page, data set, version on the GPU, end of the training and baseline: page (the
    experiment), data, model, factors, version, threads (text), training (of SGD schedule and biases; whether ALS has
    biases, whether parameters are the published ones), until (what ends the training: a test error, as 'MAE 0.5732',
    or '10 epochs'), baseline, train and wall (the baseline's seconds over the version's, of training and of the whole
    fit; NaN where the page has none), machine (the GPU, and how many cores all are), commit
    """
    pages = {
        "first_comparison": _first,
        "sgd_douban": _first,  # whose frame is the same
        "speedups": _speedups,
        "cumf_convergence": _cumf,
        "all_schemes": _all_schemes,
        "fit_seconds": _fits,
    }
    found = ((rows_of, results.recorded(name, device)) for name, rows_of in pages.items())
    rows = [row for rows_of, result in found if result is not None for row in rows_of(result)]
    rows += _of_thesis()
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame[frame.train.notna() | frame.wall.notna()].reset_index(drop=True)


def _sgd(schedule, biases):
    """How SGD trained, of a schedule, also as a dict, and of whether it has biases."""
    name = type(schedules.from_dict(schedule)).__name__.lower()
    return f"{'constant rate' if name == 'constant' else f'{name} schedule'}, {'' if biases else 'no '}biases"


_PLAIN = _sgd({"name": "Constant"}, biases=False)  # of the thesis


def _error(measure, value):
    """An error that ends the training."""
    return f"{measure} {value:.4g}"


def _pairs(result, seconds, cores=_CORES, across=False):
    """The rows of each version on the GPU over each scheme of the cores that trained until the same.

    Parameters
    ----------
    seconds : DataFrame with a row a training: data, model, factors, kernel, device, training, until, train, wall
    cores : (model, kernel) -> label
    across : whether a version is held to the cores of the other model, too
    """
    on_cores = seconds[seconds.device == "cpu"].set_index(["data", "until", "model", "kernel"])[["train", "wall"]]
    for row in seconds[seconds.device == "cuda"].itertuples():
        for (model, kernel), label in cores.items():
            if (row.data, row.until, model, kernel) not in on_cores.index or not (across or model == row.model):
                continue
            train, wall = on_cores.loc[(row.data, row.until, model, kernel)]
            what = result.name, row.data, row.model, row.factors, row.kernel, _CHOICE, row.training, row.until
            over = f"{model}, " * (model != row.model) + label
            yield (*what, over, train / row.train, wall / row.wall, *_where(result))


def _first(result):
    """The rows of `first_comparison`, or of `sgd_douban`."""
    given = result.provenance["parameters"]
    of_sgd = _sgd(given["schedule"], biases=True) if "schedule" in given else _PLAIN
    seconds = first_comparison.summary(result.frame)
    seconds = seconds.assign(
        factors=given.get("factors", first_comparison.FACTORS),
        training=seconds.model.map({"ALS": "", "SGD": of_sgd}),
        until=[_error("MAE", mae) for mae in seconds.threshold],
        train=seconds.seconds_to_threshold,
        wall=seconds.wall_to_threshold,
    )
    yield from _pairs(result, seconds)


def _cumf(result):
    """The rows of `cumf_convergence`, where ALS is held to cores with SGD, and SGD to cores with ALS."""
    frame = result.frame
    what = frame[["data", "model", "scheme", "device", "target"]].drop_duplicates()
    seconds = cumf_convergence.summary(frame).reset_index().merge(what).rename(columns={"scheme": "kernel"})
    # Biases are the default of both models.
    trainings = {"ALS": "biases", "SGD": _sgd(cumf_convergence.POWER, biases=True)}
    seconds = seconds.assign(
        factors=result.provenance["parameters"]["factors"],
        training=seconds.model.map(trainings),
        until=[_error("RMSE", rmse) for rmse in seconds.target],
    )
    cores = _CORES | {("ALS", "parallel_cg"): "all cores, conjugate gradient"}
    yield from _pairs(result, seconds, cores, across=True)


def _all_schemes(result):
    """The rows of `all_schemes`."""
    given = result.provenance["parameters"]
    of_sgd = given["parameters"]["SGD"]
    seconds = all_schemes.summary(result.frame).reset_index().rename(columns={"scheme": "kernel"})
    seconds = seconds.assign(
        data=result.frame["data"].iloc[0],
        factors=given["factors"],
        training=seconds.model.map({"ALS": "", "SGD": _sgd(of_sgd["schedule"], of_sgd["biases"])}),
        until=[_error("RMSE", rmse) for rmse in seconds["level"]],
    )
    yield from _pairs(result, seconds)


def _fits(result):
    """The rows of `fit_seconds`, which end after so many epochs."""
    of_sgd = fit_seconds.PARAMETERS["SGD"]
    seconds = fit_seconds.summary(result.frame).merge(result.frame[["kernel", "device"]].drop_duplicates())
    seconds = seconds.assign(
        training=seconds.model.map({"ALS": "", "SGD": _sgd(of_sgd["schedule"], of_sgd["biases"])}),
        until=[f"{epochs} epochs" for epochs in seconds.epochs],
    )
    yield from _pairs(result, seconds)


def _speedups(result):
    """The rows of `speedups`, whose cores draw with replacement where their kernel is `sequential` or `parallel`."""
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
            label += ", drawing with replacement" * drawn
            theirs, own = seconds.loc[(row.data, row.mae, version)], seconds.loc[(row.data, row.mae, row.version)]
            wall = theirs.get("wall", np.nan) / own.get("wall", np.nan)
            threads = frame[frame.version == row.version].threads.iloc[0]
            text = _CHOICE if pd.isna(threads) else f"{threads:,.0f}"
            parts = [*[_PLAIN] * (row.model == "SGD"), *["published parameters"] * (setting == "published")]
            training = ", ".join(parts)
            what = "speedups", row.data, row.model, speedups.FACTORS, row.version, text, training
            what = (*what, _error("MAE", row.mae), label)
            yield (*what, theirs.seconds / row.seconds, wall, *_where(result))


def _of_thesis():
    """Table 6.3 itself."""
    values = _published.table()
    values = values[(values.source == "thesis") & (values.artefact == "Table 6.3") & (values.quantity == "speed-up")]
    for row in values.itertuples():
        model, threads = row.model[:3], speedups.VERSIONS[speedups.COLUMNS[row.model]][2]
        training, until = "" if model == "ALS" else _PLAIN, _error("MAE", _published.threshold(row.data))
        what = "Table 6.3 of the thesis", row.data, model, speedups.FACTORS, row.model, f"{threads:,}", training
        yield (*what, until, _CORES[model, "sequential"], row.value, np.nan, "the thesis's", "")


def _where(result):
    """The machine and the commit."""
    facts = result.provenance
    return f"{facts['gpu']}, {facts['cpu_count']} cores", facts["commit"][:9]
