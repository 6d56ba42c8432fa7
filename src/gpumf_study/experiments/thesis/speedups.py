"""How many times as fast as one core: sequential and parallel ALS and SGD to the same test error.

After the thesis, section 6.5, Table 6.3 and Figures 6.11 and 6.12: 16 factors, the best parameters of each model, the
published ones and those that were tuned on these sets, the time of training to a test MAE of 0.5732 on Douban and of
0.71 on Jester. On the GPU ALS runs in the thesis's configuration of 32 blocks of 128 threads, SGD in the same and in
its own of 128 blocks; beside them, what the thesis has not: as many threads as this GPU asks for, all cores, cores
that take each rating once where the thesis's draw with replacement, and the fastest versions of this package.
"""

from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD
from gpumf_study import figure_style as style
from gpumf_study.experiments import _published, identity, load_ratings, trained, usable_devices
from gpumf_study.experiments.thesis import parameter_search
from gpumf_study.experiments.tuning import PARAMETERS, chosen
from gpumf_study.findings import Finding, Holds, Near, ratio

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
    "SGD, one core, each once": (SGD, "ordered", None),
    "SGD, all cores, each once": (SGD, "ordered_parallel", None),
    "SGD (32/128)": (SGD, "hogwild", ALS_THREADS),
    "SGD (128/128)": (SGD, "hogwild", SGD_THREADS),
    "SGD, 4 times the threads": (SGD, "hogwild", 4 * SGD_THREADS),
    "SGD, 16 times the threads": (SGD, "hogwild", 16 * SGD_THREADS),
    "SGD, safe threads": (SGD, "hogwild", None),
    "SGD, fast": (SGD, "fast", None),
}
_TRIED = "SGD, 4 times the threads", "SGD, 16 times the threads"  # with which updates may be lost in numbers
_EACH_ONCE = {version: f"{version}, each once" for version in ("SGD, one core", "SGD, all cores")}
"""The cores that draw ratings with replacement, and the same that take each once."""

SETTINGS = "tuned", "published"
COLUMNS = {"ALS": "ALS (32/128)", "SGD, 32/128": "SGD (32/128)", "SGD, 128/128": "SGD (128/128)"}
"""The columns of Table 6.3 as `published.csv` calls them, and the versions that they are measured with."""

PROFILES = {
    "quick": {
        "data": ["ml-100k-synthetic"],
        "als_epochs": 10,
        "updates": 1e6,
        "repeats": 1,
        "cpu_repeats": 1,
        "drawing_repeats": 1,
        "parameters": PARAMETERS,
    },
    "full": {
        "data": ["douban-synthetic", "jester-synthetic", "jester-1"],
        "als_epochs": 20,
        "updates": 7.6e8,
        "repeats": 3,
        "cpu_repeats": 3,
        "drawing_repeats": 2,
        "parameters": PARAMETERS,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "als_epochs": 2, "updates": 1e5}


def run(data, als_epochs, updates, repeats, cpu_repeats, drawing_repeats, parameters):
    """Train every version that this machine has until it reaches the threshold.

    Parameters
    ----------
    data : names of data sets
    als_epochs : int, of ALS at the most
    updates : float, of SGD at the most
    repeats, cpu_repeats, drawing_repeats : int, runs of each version on the GPU, on the CPU, and on the CPU where SGD
        draws with replacement, which takes longest (on the CPU with the published parameters one); run k has the
        training set and the initial factors of seed k
    parameters : dict, data set -> model -> arguments of the model, see `tuning`

    Returns
    -------
    DataFrame with a row an epoch: data, setting (of the parameters, one of SETTINGS; 'published' are those of
    Figures 6.1 to 6.3, of one core, all cores and the published configurations), version, model, kernel, device,
    threads (missing where the model chooses), repeat, regularization, learning_rate (missing for ALS), epoch, seconds
    (of training alone, summed up), wall (of preparing, moving and training until then), rmse, mae (both on the test
    set)
    """
    usable = usable_devices()
    frames, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        threshold = _published.threshold(ratings.name)
        for repeat in range(repeats):
            train, test = ratings.split(0.2, seed=repeat)
            for setting, version in tqdm(_runs(), desc=f"speedups {ratings.name}", leave=False):
                model, kernel, threads = VERSIONS[version]
                device = model.solvers()[kernel]
                cpu_runs = 1 if setting == "published" else drawing_repeats if version in _EACH_ONCE else cpu_repeats
                arguments = _arguments(setting, name, model, parameters)
                if device not in usable or (device == "cpu" and repeat >= cpu_runs) or arguments is None:
                    continue
                fitted = model(
                    FACTORS, biases=False, clip=False, solver=kernel, threads=threads, seed=repeat, **arguments
                )
                epochs = als_epochs if model is ALS else int(np.ceil(updates / train.nnz))
                # What one fit has ordered of a set the next one would not have to.
                fresh = train.select(np.arange(train.nnz))
                history = trained(fitted, fresh, epochs, test, stop=_Stop(threshold)).history
                before = fitted.times.prepare + fitted.times.transfer
                what = {"data": ratings.name, "setting": setting, "version": version, "model": model.__name__}
                what |= {"kernel": kernel, "device": device, "threads": np.nan if threads is None else threads}
                what |= {"repeat": repeat, "learning_rate": np.nan, **arguments, "wall": before + history.seconds}
                frames.append(history.assign(**what))
    frame = pd.concat(frames, ignore_index=True)
    first = ["data", "setting", "version", "model", "kernel", "device", "threads", "repeat"]
    frame = frame[[*first, "regularization", "learning_rate", "epoch", "seconds", "wall", "rmse", "mae"]]
    frame.attrs["datasets"] = identities
    return frame


def _runs():
    """(setting, version) of all that run."""
    both = [v for v in VERSIONS if v in COLUMNS.values() or v.endswith(("one core", "all cores", "each once"))]
    return [*(("tuned", version) for version in VERSIONS), *(("published", version) for version in both)]


def _arguments(setting, data, model, parameters):
    """The parameters of a model on a data set; None where the thesis has none."""
    if setting == "tuned":
        return chosen(parameters, data, model.__name__)
    found = {
        varied: _published.value(artefact, quantity, data)
        for (name, varied), (artefact, quantity) in parameter_search.FIGURES.items()
        if name == model.__name__
    }
    return None if None in found.values() else found


def of_setting(frame, setting="tuned"):
    """The runs with these parameters; where a frame does not tell, all are tuned."""
    return frame[frame.get("setting", pd.Series("tuned", frame.index)) == setting]


def each_once(frame):
    """The frame of `run` in which SGD's cores that draw and those that take each rating once have each other's names.

    What compares versions with the ones that draw then compares them with the others, to the same errors.
    """
    names = _EACH_ONCE | {once: drawing for drawing, once in _EACH_ONCE.items()}
    return frame.assign(version=frame.version.replace(names))


class _Stop(parameter_search.OverfittingStop):
    def __init__(self, threshold):
        super().__init__()
        self._threshold = -np.inf if threshold is None else threshold

    def __call__(self, row):
        return row["mae"] <= self._threshold or super().__call__(row)


def levels(frame, setting="tuned"):
    """The errors to which times of runs with the parameters of a setting are compared, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a level: data, level ('published', and 'reached by all' where not every version reaches that,
    or the thesis has none), mae. More threads than published, which are tried alone, need not reach it.
    """
    rows = []
    for data, runs in of_setting(frame, setting).groupby("data", sort=False):
        published = _published.threshold(data)
        reached = runs[(runs.epoch > 0) & ~runs.version.isin(_TRIED)].groupby(["version", "repeat"]).mae.min().max()
        if published is not None:
            rows.append((data, "published", published))
        if published is None or reached > published:
            rows.append((data, "reached by all", np.ceil(reached * 1e4) / 1e4))
    return pd.DataFrame(rows, columns=["data", "level", "mae"])


def summary(frame, setting="tuned"):
    """What each version takes to each level with the parameters of a setting, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a data set, level and version: data, level, mae, version, model, epochs, seconds (medians
    over the repeats; missing where one did not reach it), wall, speedup (over one core, same model; of SGD one that
    draws with replacement, or with `each_once` takes each rating once), over_all_cores (the same), speedup_wall and
    over_all_cores_wall (the same of `wall`)
    """
    frame = of_setting(frame, setting)
    frame = frame.reindex(columns=[*frame, *({"wall"} - set(frame))])
    rows = []
    for level in levels(frame, setting).itertuples():
        for version, runs in frame[frame.data == level.data].groupby("version", sort=False):
            there = runs[(runs.epoch > 0) & (runs.mae <= level.mae)]
            reached = there.groupby("repeat")[["epoch", "seconds", "wall"]].first()
            times = reached.median() if len(reached) == runs.repeat.nunique() else reached.median() * np.nan
            rows.append((*level[1:], version, runs.model.iloc[0], *times))
    table = pd.DataFrame(rows, columns=["data", "level", "mae", "version", "model", "epochs", "seconds", "wall"])
    for column, where in (("speedup", "one core"), ("over_all_cores", "all cores")):
        baseline = table[table.version == table.model + f", {where}"].set_index(["data", "level", "model"])
        for of, suffix in (("seconds", ""), ("wall", "_wall")):
            table[column + suffix] = [
                baseline[of].get((row.data, row.level, row.model), np.nan) / getattr(row, of)
                for row in table.itertuples()
            ]
    return table


def table(frame, setting="tuned"):
    """Table 6.3, from the frame of `run`: its speed-ups beside those measured here with the parameters of a setting.

    Returns
    -------
    DataFrame with a row a data set, level and column of the table: data, level, mae, column, published, speedup,
    speedup_wall, over_all_cores, over_all_cores_wall
    """
    rows = summary(frame, setting).set_index(["data", "level", "version"])
    shown = ["speedup", "speedup_wall", "over_all_cores", "over_all_cores_wall"]
    result = []
    for level in levels(frame, setting).itertuples():
        for column, version in COLUMNS.items():
            if (*level[1:3], version) in rows.index:
                row = rows.loc[(*level[1:3], version)]
                published = _published.value("Table 6.3", "speed-up", level.data, column)
                result.append((*level[1:], column, published, *row[shown]))
    return pd.DataFrame(result, columns=["data", "level", "mae", "column", "published", *shown])


PUBLISHED_KERNELS = "thesis_shared", "hogwild"


def fastest(frame, model, kernels=None):
    """Of a model's versions on the GPU the one that is soonest at each level: the rows of `summary`.

    kernels : of which it is to be; all by default
    """
    frame = of_setting(frame)
    versions = frame[(frame.device == "cuda") & (frame.kernel.isin(kernels or frame.kernel))].version
    rows = summary(frame)
    rows = rows[(rows.model == model) & rows.version.isin(versions)].dropna(subset="seconds")
    return rows.loc[rows.groupby(["data", "level"], sort=False).seconds.idxmin()]


def figure(frame, level=None, on_gpu=False):
    """Seconds of training to the same test MAE, a mark a version, an axis a data set.

    level : 'published' or 'reached by all'; for each set the last one that it has by default
    on_gpu : the versions on the GPU alone (Figure 6.12), on a linear scale
    """
    frame = of_setting(frame)
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
        colours = [style.MODELS[version[:3]][0] for version in versions_]
        style.marks(axis, rows.seconds, np.arange(len(rows)), colours)
        for place, seconds in enumerate(
            rows.seconds.dropna().map("{:.3g}".format).reindex(rows.index, fill_value="")
        ):
            at = rows.seconds.iloc[place], place
            axis.annotate(seconds, at, (7, 0), textcoords="offset points", va="center", size=8)
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


def _times(frame, data, slower, faster, setting="tuned"):
    """How many times as long one version takes as another, to the last error at which those of a set are compared."""
    frame = of_setting(frame, setting)
    mae = levels(frame, setting).query("data == @data").mae
    if mae.empty:
        return np.nan, np.nan, "x"
    seconds = [_seconds(frame, data, mae.iloc[-1], version) for version in (slower, faster)]
    if any(runs.empty for runs in seconds):
        return np.nan, np.nan, "x"
    return *ratio(*seconds), f"x, to MAE {mae.iloc[-1]:g}"


def _lost(frame):
    """Of the published configurations on all sets, how many take longer than all cores, beyond the spread."""
    found = [
        _times(frame, data, f"{column[:3]}, all cores", version)
        for data in frame.data.unique()
        for column, version in COLUMNS.items()
    ]
    found = [(value, np.nan_to_num(spread)) for value, spread, _ in found if not np.isnan(value)]
    if not found:
        return np.nan, np.nan, "of them"
    return sum(value + spread < 1 for value, spread in found), 0.0, f"of {len(found)}"


def _least(frame, model, baseline):
    """The least speed-up of the published configurations of a model, over all sets: that of the worst of them."""
    found = [
        _times(frame, data, f"{model}, {baseline}", version)
        for data in frame.data.unique()
        for column, version in COLUMNS.items()
        if column.startswith(model)
    ]
    return min((f for f in found if not np.isnan(f[0])), default=(np.nan, np.nan, "x"))


def _over_each_once(frame, of):
    """The tuned runs by `each_once`, timed by a column; empty where all cores ran fewer than three times."""
    frame = each_once(of_setting(frame))
    runs = frame.groupby(["data", "version"]).repeat.nunique().unstack(fill_value=0)
    fewest = runs.reindex(columns=["ALS, all cores", "SGD, all cores"], fill_value=0).min(axis=None)
    return frame.assign(seconds=frame[of]) if fewest >= 3 else frame.iloc[:0]


def _lost_each_once(frame, of):
    """Of the published configurations on all sets, how many take longer than all cores that take each rating once."""
    return _lost(_over_each_once(frame, of))


def _least_each_once(frame, of):
    """The least speed-up of the published configurations of SGD over all cores that take each rating once."""
    return _least(_over_each_once(frame, of), "SGD", "all cores")


def _findings():
    sets = [("douban", "douban-synthetic"), ("jester", "jester-synthetic"), ("jester", "jester-1")]
    for family, data in sets:
        for column, version in COLUMNS.items():
            published = _published.value("Table 6.3", "speed-up", family, column)
            baseline = f"{column[:3]}, one core"
            for setting, suffix, which in (("tuned", "", "tuned"), ("published", "-published", "the published")):
                yield Finding(
                    f"thesis-table-6.3-{column.lower().replace(', ', '-').replace('/', '-')}-{data}{suffix}",
                    "thesis",
                    "Table 6.3",
                    f"{version} on {data}, {which} parameters: {published:g} times as fast as one core to the same "
                    f"test MAE, {_published.threshold(data):g} or, where not all do, the least that all reach.",
                    partial(_times, data=data, slower=baseline, faster=version, setting=setting),
                    Near(published, within=2),
                )
    yield Finding(
        "thesis-fig-6.11-lost",
        "thesis",
        "Figure 6.11",
        "No published configuration on the GPU loses to all cores, of SGD all cores that draw with replacement, on "
        "any set: how many do.",
        _lost,
        Holds(below=1),
    )
    for model in ("ALS", "SGD"):
        for baseline, draw in (("one core", "draws"), ("all cores", "draw")):
            cores = baseline + f" that {draw} with replacement" * (model == "SGD")
            yield Finding(
                f"thesis-fig-6.11-{model.lower()}-{baseline.replace(' ', '-')}",
                "thesis",
                "Figure 6.11",
                f"{model} in its published configurations is faster on the GPU than on {cores}: the least factor.",
                partial(_least, model=model, baseline=baseline),
                Holds(above=1),
            )
    once = "all cores that take each rating once"
    for of, suffix, what in (("seconds", "", "in training"), ("wall", "-wall", "as a whole fit")):
        yield Finding(
            f"thesis-fig-6.11-lost-each-once{suffix}",
            "thesis",
            "Figure 6.11",
            f"No published configuration on the GPU loses {what} to all cores, of SGD {once}, on any set: how "
            "many do.",
            partial(_lost_each_once, of=of),
            Holds(below=0.5),  # one is enough to contradict it
        )
        yield Finding(
            f"thesis-fig-6.11-sgd-all-cores-each-once{suffix}",
            "thesis",
            "Figure 6.11",
            f"SGD in its published configurations is faster {what} on the GPU than on {once}: the least factor.",
            partial(_least_each_once, of=of),
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
