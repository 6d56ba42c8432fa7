"""How many times as fast as one core: sequential and parallel ALS and SGD to the same test error.

After the thesis, section 6.5, Table 6.3 and Figures 6.11 and 6.12: 16 factors, the best parameters of each model, the
time of training to a test MAE of 0.5732 on Douban and of 0.71 on Jester. On the GPU ALS runs in the thesis's
configuration of 32 blocks of 128 threads, SGD in the same and in its own of 128 blocks; beside them, what the thesis
has not: as many threads as this GPU asks for, all cores, and the fastest versions of this package.
"""

from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD
from gpumf import figure_style as style
from gpumf.experiments import _published, identity, load_ratings, usable_devices
from gpumf.experiments.thesis import parameter_search
from gpumf.experiments.tuning import PARAMETERS, chosen
from gpumf.findings import Finding, Holds, Near, ratio

FACTORS = 16
ALS_THREADS, SGD_THREADS = 32 * 128, parameter_search.SGD_THREADS

# A label, and what it stands for: model, kernel, CUDA threads (None: as many as the model takes by itself).
VERSIONS = {
    "ALS, one core": (ALS, "sequential", None),
    "ALS, all cores": (ALS, "parallel", None),
    "ALS (32/128)": (ALS, "thesis_shared", ALS_THREADS),
    "ALS, all threads": (ALS, "thesis_shared", None),
    "ALS, tensor cores": (ALS, "tensor_core", None),
    "SGD, one core": (SGD, "sequential", None),
    "SGD, all cores": (SGD, "parallel", None),
    "SGD (32/128)": (SGD, "hogwild", ALS_THREADS),
    "SGD (128/128)": (SGD, "hogwild", SGD_THREADS),
    "SGD, 4 times the threads": (SGD, "hogwild", 4 * SGD_THREADS),
    "SGD, 16 times the threads": (SGD, "hogwild", 16 * SGD_THREADS),
    "SGD, safe threads": (SGD, "hogwild", None),
    "SGD, fast": (SGD, "fast", None),
}
_TRIED = "SGD, 4 times the threads", "SGD, 16 times the threads"  # with which updates may be lost in numbers
COLUMNS = {"ALS": "ALS (32/128)", "SGD, 32/128": "SGD (32/128)", "SGD, 128/128": "SGD (128/128)"}
"""The columns of Table 6.3 as `published.csv` calls them, and the versions that they are measured with."""

PROFILES = {
    "quick": {
        "data": ["ml-100k-twin"],
        "als_epochs": 10,
        "updates": 2e6,
        "repeats": 1,
        "cpu_repeats": 1,
        "parameters": PARAMETERS,
    },
    "full": {
        "data": ["douban-twin", "jester-twin", "jester-1"],
        "als_epochs": 20,
        "updates": 7.6e8,
        "repeats": 2,
        "cpu_repeats": 1,
        "parameters": PARAMETERS,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-twin"], "als_epochs": 2, "updates": 1e5}


def run(data, als_epochs, updates, repeats, cpu_repeats, parameters):
    """Train every version that this machine has until it reaches the threshold.

    Parameters
    ----------
    data : names of data sets
    als_epochs : int, of ALS at the most
    updates : float, of SGD at the most
    repeats, cpu_repeats : int, runs of each version on the GPU and on the CPU; run k has the training set and the
        initial factors of seed k
    parameters : dict, data set -> model -> arguments of the model, see `tuning`

    Returns
    -------
    DataFrame with a row an epoch: data, version, model, kernel, device, threads (missing where the model chooses),
    repeat, regularization, learning_rate (missing for ALS), epoch, seconds (of training alone, summed up), rmse, mae
    (both on the test set)
    """
    usable = usable_devices()
    frames, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        threshold = _published.threshold(ratings.name)
        for repeat in range(repeats):
            train, test = ratings.split(0.2, seed=repeat)
            for version, (model, kernel, threads) in tqdm(
                VERSIONS.items(), desc=f"speedups {ratings.name}", leave=False
            ):
                device = model.solvers()[kernel]
                if device not in usable or (device == "cpu" and repeat >= cpu_repeats):
                    continue
                arguments = chosen(parameters, name, model.__name__)
                fitted = model(FACTORS, solver=kernel, threads=threads, seed=repeat, **arguments)
                epochs = als_epochs if model is ALS else int(np.ceil(updates / train.nnz))
                history = fitted.fit(train, epochs, test, stop=_Stop(threshold)).history
                what = {"data": ratings.name, "version": version, "model": model.__name__, "kernel": kernel}
                what |= {"device": device, "threads": np.nan if threads is None else threads, "repeat": repeat}
                what |= {"learning_rate": np.nan, **arguments}
                frames.append(history.assign(**what))
    frame = pd.concat(frames, ignore_index=True)
    first = ["data", "version", "model", "kernel", "device", "threads", "repeat", "regularization", "learning_rate"]
    frame = frame[[*first, "epoch", "seconds", "rmse", "mae"]]
    frame.attrs["datasets"] = identities
    return frame


class _Stop(parameter_search.OverfittingStop):
    def __init__(self, threshold):
        super().__init__()
        self._threshold = -np.inf if threshold is None else threshold

    def __call__(self, row):
        return row["mae"] <= self._threshold or super().__call__(row)


def levels(frame):
    """The errors to which times are compared, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a level: data, level ('published', and 'reached by all' where not every version reaches that,
    or the thesis has none), mae. More threads than published, which are tried alone, need not reach it.
    """
    rows = []
    for data, runs in frame.groupby("data", sort=False):
        published = _published.threshold(data)
        reached = runs[(runs.epoch > 0) & ~runs.version.isin(_TRIED)].groupby(["version", "repeat"]).mae.min().max()
        if published is not None:
            rows.append((data, "published", published))
        if published is None or reached > published:
            rows.append((data, "reached by all", np.ceil(reached * 1e4) / 1e4))
    return pd.DataFrame(rows, columns=["data", "level", "mae"])


def summary(frame):
    """What each version takes to each level, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a data set, level and version: data, level, mae, version, model, epochs, seconds (medians
    over the repeats; missing where one did not reach it), speedup (over one core, same model), over_all_cores (the
    same)
    """
    rows = []
    for level in levels(frame).itertuples():
        for version, runs in frame[frame.data == level.data].groupby("version", sort=False):
            reached = runs[(runs.epoch > 0) & (runs.mae <= level.mae)].groupby("repeat")[["epoch", "seconds"]].first()
            times = reached.median() if len(reached) == runs.repeat.nunique() else reached.median() * np.nan
            rows.append((*level[1:], version, runs.model.iloc[0], times.epoch, times.seconds))
    table = pd.DataFrame(rows, columns=["data", "level", "mae", "version", "model", "epochs", "seconds"])
    for column, where in (("speedup", "one core"), ("over_all_cores", "all cores")):
        baseline = table[table.version == table.model + f", {where}"].set_index(["data", "level", "model"]).seconds
        table[column] = [
            baseline.get((row.data, row.level, row.model), np.nan) / row.seconds for row in table.itertuples()
        ]
    return table


def table(frame):
    """Table 6.3, from the frame of `run`: its speed-ups beside those measured here.

    Returns
    -------
    DataFrame with a row a data set, level and column of the table: data, level, mae, column, published, speedup,
    over_all_cores
    """
    rows = summary(frame).set_index(["data", "level", "version"])
    result = []
    for level in levels(frame).itertuples():
        for column, version in COLUMNS.items():
            if (*level[1:3], version) in rows.index:
                row = rows.loc[(*level[1:3], version)]
                published = _published.value("Table 6.3", "speed-up", level.data, column)
                result.append((*level[1:], column, published, row.speedup, row.over_all_cores))
    columns = ["data", "level", "mae", "column", "published", "speedup", "over_all_cores"]
    return pd.DataFrame(result, columns=columns)


PUBLISHED_KERNELS = "thesis_shared", "hogwild"


def fastest(frame, model, kernels=None):
    """Of a model's versions on the GPU the one that is soonest at each level: the rows of `summary`.

    kernels : of which it is to be; all by default
    """
    versions = frame[(frame.device == "cuda") & (frame.kernel.isin(kernels or frame.kernel))].version
    rows = summary(frame)
    rows = rows[(rows.model == model) & rows.version.isin(versions)].dropna(subset="seconds")
    return rows.loc[rows.groupby(["data", "level"], sort=False).seconds.idxmin()]


def figure(frame, level=None, on_gpu=False):
    """Seconds of training to the same test MAE, a bar a version, an axis a data set.

    level : 'published' or 'reached by all'; for each set the last one that it has by default
    on_gpu : the versions on the GPU alone (Figure 6.12), on a linear scale
    """
    table = summary(frame)  # of all versions, which set the errors that are compared
    frame = frame[frame.device == "cuda"] if on_gpu else frame
    table = table[table.version.isin(frame.version)]
    names = table.data.unique()
    figure, (axes,) = style.panels(columns=len(names), height=4.2, sharey=True)
    versions_ = list(frame.version.unique())[::-1]
    for axis, name in zip(axes, names, strict=True):
        rows = table[table.data == name]
        chosen = level if level in rows.level.unique() else rows.level.iloc[-1]
        rows = rows[rows.level == chosen].set_index("version").reindex(versions_)
        colours = [style.COLOURS[style.MODELS[version[:3]][0]] for version in versions_]
        bars = axis.barh(np.arange(len(rows)), rows.seconds, 0.7, color=colours)
        axis.bar_label(bars, rows.seconds.map("{:.3g}".format).where(rows.seconds.notna(), ""), fontsize=8)
        for place in np.flatnonzero(rows.seconds.isna()):
            axis.annotate("not reached", (0.02, place), xycoords=("axes fraction", "data"), va="center", size=8)
        axis.set_yticks(np.arange(len(rows)), versions_)
        axis.set(xlabel=f"seconds to MAE {rows['mae'].dropna().iloc[0]:g}", title=name)
        axis.margins(x=0.25)
        if not on_gpu:
            axis.set_xscale("log")
    return figure


def _seconds(frame, data, mae, version):
    """Of each repeat of a version until it reaches an MAE; empty where one does not."""
    runs = frame[(frame.data == data) & (frame.version == version)]
    reached = runs[(runs.epoch > 0) & (runs.mae <= mae)].groupby("repeat").seconds.first()
    return reached if len(reached) == runs.repeat.nunique() else reached.iloc[:0]


def _times(frame, data, slower, faster):
    """How many times as long one version takes as another, to the last error at which those of a set are compared."""
    mae = levels(frame).query("data == @data").mae
    if mae.empty:
        return np.nan, np.nan, "x"
    seconds = [_seconds(frame, data, mae.iloc[-1], version) for version in (slower, faster)]
    if any(runs.empty for runs in seconds):
        return np.nan, np.nan, "x"
    return *ratio(*seconds), f"x, to MAE {mae.iloc[-1]:g}"


def _least(frame, model, baseline):
    """The least speed-up of the published configurations of a model, over all sets: that of the worst of them."""
    found = [
        _times(frame, data, f"{model}, {baseline}", version)
        for data in frame.data.unique()
        for column, version in COLUMNS.items()
        if column.startswith(model)
    ]
    return min((f for f in found if not np.isnan(f[0])), default=(np.nan, np.nan, "x"))


def _findings():
    sets = [("douban", "douban-twin"), ("jester", "jester-twin"), ("jester", "jester-1")]
    for family, data in sets:
        for column, version in COLUMNS.items():
            published = _published.value("Table 6.3", "speed-up", family, column)
            yield Finding(
                f"thesis-table-6.3-{column.lower().replace(', ', '-').replace('/', '-')}-{data}",
                "thesis",
                "Table 6.3",
                f"{version} on {data}: {published:g} times as fast as one core to the same test MAE.",
                partial(_times, data=data, slower=f"{column[:3]}, one core", faster=version),
                Near(published, within=2),
            )
    for model in ("ALS", "SGD"):
        for baseline in ("one core", "all cores"):
            yield Finding(
                f"thesis-fig-6.11-{model.lower()}-{baseline.replace(' ', '-')}",
                "thesis",
                "Figure 6.11",
                f"{model} in its published configurations is faster on the GPU than on {baseline}: the least factor.",
                partial(_least, model=model, baseline=baseline),
                Holds(above=1),
            )
    als, same, own = COLUMNS.values()
    for family, data in sets:
        yield Finding(
            f"thesis-fig-6.12-{data}",
            "thesis",
            "Figure 6.12",
            f"On {data}, {als} is faster than {same}.",
            partial(_times, data=data, slower=same, faster=als),
            Holds(above=1),
        )
        slower, faster = (als, own) if family == "douban" else (own, als)
        yield Finding(
            f"thesis-fig-6.12-{data}-own",
            "thesis",
            "Figure 6.12",
            f"On {data}, {faster} is faster than {slower}.",
            partial(_times, data=data, slower=slower, faster=faster),
            Holds(above=1),
        )


FINDINGS = list(_findings())
