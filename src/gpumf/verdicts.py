"""What became of each figure and table of the thesis: artefacts, and verdicts computed from recorded results.

    reproduced  measured here, what the thesis concludes is found again
    changed     it is found in part, or only where the GPU is limited as the thesis's was
    refuted     the contrary is found
    answered    a question that the thesis leaves open (section 7.1)
    not recorded  no full run of its experiment is kept

Nothing is measured here. Each verdict is a function of the frame of one experiment that returns it and one line why.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gpumf import results
from gpumf.experiments import _published
from gpumf.experiments.thesis import (
    als_sgd_rbm,
    crossover,
    elementwise_cube,
    parameter_search,
    picture_completion,
    sparsity,
    speedups,
    thread_scaling,
)

WORDS = "reproduced", "changed", "refuted", "answered"
NOT_RECORDED = "not recorded"
COLUMNS = ["artefact", "what", "chapter", "experiment", "figure", "thesis", "verdict", "why"]

SLIGHTLY, MUCH = 0.01, 0.05  # shares of an MAE
_SIMILAR = 2  # factor between two speed-ups


@dataclass(frozen=True)
class Artefact:
    """A figure or table of the thesis, or a question that it leaves open.

    name : as the thesis calls it
    what : what it shows
    thesis : what the thesis found, after 'The thesis found that', or asks, after 'The thesis asks'
    chapter : the notebook that shows it again
    experiment : whose recorded result holds the measurements
    verdict : function of that result's frame that returns one of WORDS and one line why
    figure : its file in figures/, less .svg; None where it is shown as a table
    """

    name: str
    what: str
    thesis: str
    chapter: str
    experiment: str
    verdict: Callable[[pd.DataFrame], tuple[str, str]]
    figure: str | None = None


# Verdicts, as functions of frames


def times(factor):
    """A factor, to three digits."""
    return f"{factor:,.0f}" if factor >= 100 else f"{factor:.3g}"


def _flops(frame):
    single = frame[frame.precision == "single"].groupby(["year", "kind"]).gflops.max().unstack()
    best = single.cummax().ffill().dropna()
    ahead = best.GPU / best.CPU
    first, last = ahead.iloc[[0, -1]]
    word = "reproduced" if last > first else "changed" if ahead.min() > 1 else "refuted"
    return word, (
        f"by data sheets the fastest GPU is {ahead.min():.1f} to {ahead.max():.1f} times ahead of the fastest CPU of "
        f"its year, {first:.1f} in {ahead.index[0]} and {last:.1f} in {ahead.index[-1]}"
    )


def _cube(frame):
    found = elementwise_cube.summary(frame)
    word = "reproduced" if found["gpu"] > found["all_cores"] > 0 and found["gpu"] > 1 else "refuted"
    return word, (
        f"without transfers the GPU is {found['gpu']:.0f} times as fast as one core, all cores "
        f"{found['all_cores']:.1f} times"
    )


def _cube_with_transfers(frame):
    found = elementwise_cube.summary(frame)
    word = "reproduced" if found["gpu_transfer"] < found["gpu"] / 2 else "refuted"
    more = "" if found["gpu_transfer"] > 1 else ": less than one core"
    return word, f"with transfers {found['gpu_transfer']:.2g} times instead of {found['gpu']:.0f}{more}"


def _strided(frame):
    found = elementwise_cube.summary(frame)
    ratios = f"strided takes {found['strided_transfer']:.2f} times as long with transfers"
    ratios += f", {found['strided']:.1f} times without"
    if found["strided_transfer"] > 1.1:
        return "reproduced", ratios
    return ("changed" if found["strided"] > 1.1 else "refuted"), ratios


def _residency(frame):
    epochs = frame[(frame.kernel == "thesis") & (frame.part == "epoch")].groupby("weights").epoch_seconds.median()
    gain = epochs["transfer"] / epochs["device"]
    published = _published.value("Figure 4.5", "speed-up of weights in device memory")
    similar = published / _SIMILAR < gain < published * _SIMILAR
    word = "refuted" if gain < 1 else "reproduced" if similar else "changed"
    return word, f"an epoch takes {times(gain)} times as long where the weights are moved for every update"


def _statistics(data):
    def verdict(frame):
        rows = frame[frame.data == data].set_index("source")
        counts = ["users", "items", "ratings"]
        counts += [f"{side}_{of}" for side in ("user", "item") for of in ("min", "mean", "max")]
        apart = (rows.loc["twin", counts] / rows.loc["published", counts] - 1).abs().max()
        word = "reproduced" if apart < 0.1 else "changed" if apart < 0.3 else "refuted"
        return word, f"a synthetic twin, made to that end, is within {apart:.1%} of all published counts"

    return verdict


def _optimum(model, varied):
    """The published optimum, judged by the error that it costs here."""

    def verdict(frame):
        table = parameter_search.optima(frame)
        table = table[(table.model == model) & (table.varied == varied)].dropna(subset="published")
        costs = (table.published_mae / table.mae - 1).max()
        word = "reproduced" if costs < SLIGHTLY else "changed" if costs < MUCH else "refuted"
        best = ", ".join(f"{row.value:g} on {row.data} (published {row.published:g})" for row in table.itertuples())
        return word, f"best here {best}; the published ones cost at most {costs:.1%} of the MAE"

    return verdict


def _density(column, what):
    def verdict(frame):
        steep = sparsity.steepness(frame)
        densities = frame.density.agg(["max", "min"])
        word = "reproduced" if steep[column] > 1 else "refuted"
        ends = f"from {densities['max']:.0%} to {densities['min']:.0%} of the matrix"
        return word, f"{ends} the {what} of ALS grows {steep[column]:.2g} times"

    return verdict


def _threads_shared(frame):
    end = int(_published.value("Figure 6.7", "linear up to"))
    linear = thread_scaling.linearity(frame, thread_scaling.KEPLER_LIKE, "thesis_shared", end)
    like, own = (
        thread_scaling.drops(frame, machine, "thesis_shared")
        for machine in (thread_scaling.KEPLER_LIKE, thread_scaling.OWN)
    )
    where = f"with 8 multiprocessors of 48 kB the speed is {linear:.0%} of linear at {end:,} threads"
    if end not in like:
        return "refuted", f"{where}, and " + (f"drops after {like[0]:,}" if like else "nowhere drops")
    return ("reproduced" if linear > 0.8 and end in own else "changed"), (
        f"{where} and drops there; the whole GPU " + (f"first drops after {own[0]:,}" if own else "has no such drop")
    )


def _blocks(frame):
    rows = frame.drop_duplicates(["kernel", "machine", "asked_bytes", "threads"])
    rows = rows[rows.threads >= thread_scaling.BLOCK]
    agree = (rows.active_blocks_computed == rows.active_blocks_driver).all()
    here = rows[rows.machine == thread_scaling.OWN].groupby("kernel").active_blocks_driver.first()
    like = rows[rows.machine == thread_scaling.KEPLER_LIKE].groupby("kernel").active_blocks_driver.first()
    published = _published.value("Figure 6.8", "active blocks", model="ALS thesis_shared")
    word = "refuted" if not agree else "reproduced" if like.get("thesis_shared") == published else "changed"
    return word, (
        f"computed and driver {'agree' if agree else 'disagree'}: {like['thesis_shared']:.0f} blocks with 48 kB, "
        f"{here['thesis_shared']:.0f} here; in global memory registers allow {here['thesis_global']:.0f}"
    )


def _threads_global(frame):
    like = thread_scaling.KEPLER_LIKE
    ends = {
        kernel: next(iter(thread_scaling.drops(frame, like, kernel)), np.inf)
        for kernel in ("thesis_shared", "thesis_global")
    }
    further = ends["thesis_global"] > ends["thesis_shared"]
    words = [f"after {end:,.0f} threads" if np.isfinite(end) else "nowhere" for end in ends.values()]
    published = _published.value("Figure 6.9", "linear up to")
    word = "refuted" if not further else "reproduced" if ends["thesis_global"] >= published else "changed"
    return word, f"with 8 multiprocessors of 48 kB shared memory first drops {words[0]}, global memory {words[1]}"


def _threads_both(frame):
    points = thread_scaling.summary(frame)
    gaps = {}
    for machine in (thread_scaling.KEPLER_LIKE, thread_scaling.OWN):
        curves = points[points.machine == machine].pivot(index="threads", columns="kernel", values="speedup")
        gaps[machine] = (curves.thesis_shared / curves.thesis_global).dropna().iloc[[0, -1]]
    few, many = gaps[thread_scaling.KEPLER_LIKE]
    own = gaps[thread_scaling.OWN].iloc[-1]
    word = "refuted" if few < 1 else "reproduced" if many < few and own >= 1 else "changed"
    return word, (
        f"with 8 multiprocessors shared memory is {few:.2f} times as fast with few threads and {many:.2f} with "
        f"{gaps[thread_scaling.KEPLER_LIKE].index[-1]:,}; on the whole GPU {own:.2f} in the end"
    )


def _speedup_table(frame):
    table = speedups.table(frame).dropna(subset="speedup")
    table = table.drop_duplicates(["data", "column"]).dropna(subset="published")
    ratio = table.speedup / table.published
    if (table.speedup < 1).any():
        word = "refuted"
    else:
        word = "reproduced" if ratio.between(1 / _SIMILAR, _SIMILAR).all() else "changed"
    return word, (
        f"in the published configurations {times(table.speedup.min())} to {times(table.speedup.max())} times one "
        "core, "
        f"{table.over_all_cores.min():.2g} to {table.over_all_cores.max():.2g} times all cores"
    )


def _gpu_against_cpu(frame):
    table = speedups.summary(frame)
    published = table[table.version.isin(speedups.COLUMNS.values())].dropna(subset="speedup")
    best = pd.concat([speedups.fastest(frame, model) for model in ("ALS", "SGD")])
    slower = published[published.over_all_cores < 1]
    word = "refuted" if (published.speedup < 1).any() else "changed" if len(slower) else "reproduced"
    return word, (
        f"every published version beats one core; {len(slower)} of {len(published)} lose to all cores; the fastest "
        f"here are {times(best.speedup.min())} to {times(best.speedup.max())} times one core"
        if word != "refuted"
        else f"{(published.speedup < 1).sum()} of {len(published)} published versions lose to one core"
    )


def _orders(frame):
    """The four comparisons of the thesis: ALS before SGD, but for SGD's own configuration on Douban."""
    times = speedups.summary(frame)
    held = total = 0
    for data in times.data.unique():
        rows = times[times.data == data]
        common = rows[rows.level == rows.level.iloc[-1]].set_index("version").seconds
        als, same, own = (common.get(version, np.nan) for version in speedups.COLUMNS.values())
        claims = [als < same, own < als if _published.family(data) == "douban" else als < own]
        known = ~np.isnan([als + same, als + own])
        held, total = held + sum(c and k for c, k in zip(claims, known, strict=True)), total + known.sum()
    word = "reproduced" if held == total else "refuted" if not held else "changed"
    return word, f"{held} of {total} of its comparisons of ALS with SGD hold in the published configurations"


def _machine(frame):
    published, fastest = (als_sgd_rbm.factors(frame, suffix).set_index("data").min() for suffix in ("", ", fastest"))
    certain = als_sgd_rbm.summary(frame).certain
    slower = published.min() > 1, fastest.min() > 1
    word = "reproduced" if all(slower) else "changed" if any(slower) else "refuted"
    return word, (
        f"ALS gains at least {times(published.ALS)}, SGD {times(published.SGD)} times as much in a second as the "
        f"machine; the package's own versions {times(fastest.ALS)} and {times(fastest.SGD)}"
        + ("" if certain.all() else f" ({(~certain).sum()} of {len(certain)} may have ended before they converged)")
    )


def _when_sgd(frame):
    table = crossover.summary(frame).dropna(subset="ratio")
    table = table[table.pair == "fastest"]
    low, high = (table[table.factors == f].ratio for f in table.factors.agg(["min", "max"]))
    return "answered", (
        f"of {len(table)} settings SGD is sooner in {(table.ratio < 1).sum()}: in {(low < 1).mean():.0%} with "
        f"{table.factors.min()} factors and in {(high < 1).mean():.0%} with {table.factors.max()}"
    )


def _newer_gpus(frame):
    best = thread_scaling.summary(frame)
    best = best[best.machine == thread_scaling.OWN].groupby("kernel").speedup.max().sort_values(ascending=False)
    names = {"thesis_shared": "shared memory", "thesis_hybrid": "the hybrid", "thesis_global": "global memory"}
    listed = ", ".join(f"{names[kernel]} {speed:,.0f}" for kernel, speed in best.items())
    return "answered", f"times one half-warp at best: {listed}"


def _stale(frame):
    squares = frame.assign(squares=frame.nnz * frame.rmse**2).groupby(["every", "shown"], dropna=False)
    rmse = np.sqrt(squares.squares.sum() / squares.nnz.sum()).reset_index(name="rmse")
    alone = rmse[rmse.every == 0].rmse.item()
    by_age = rmse[rmse.shown == "all so far"].set_index("every").rmse
    fresh, stale = by_age[by_age.index.min()], by_age[by_age.index.max()]
    return "answered", (
        f"trained on every {by_age.index.max()}th chunk of ratings alone, but shown all, the machine keeps "
        f"{(alone - stale) / (alone - fresh):.0%} of the {alone - fresh:.4f} that it takes off the RMSE"
    )


def _picture(frame):
    decibels = picture_completion.summary(frame).set_index("filling").psnr
    return "answered", (
        f"a picture with {frame.known.mean():.0%} of its pixels: {decibels['ALS']:.1f} dB by ALS, "
        f"{decibels['row and column means']:.1f} by the means of rows and columns"
    )


def _best(artefact, symbol, parameter):
    """What the thesis found best, in words."""
    found = {data: _published.value(artefact, f"best {parameter}", data) for data in ("douban", "jester")}
    return f"the best {symbol} is " + " and ".join(
        f"{value:g} on {data.title()}" for data, value in found.items() if value is not None
    )


_LINEAR = {
    memory: _published.value(artefact, "linear up to")
    for memory, artefact in (("shared", "Figure 6.7"), ("global", "Figure 6.9"))
}
_SPEEDUPS = _published.table().query("quantity == 'speed-up'").value.agg(["min", "max"])

ARTEFACTS = [
    Artefact(
        "Figure 1.2", "theoretical FLOP/s over the years", "GPUs pull away from CPUs",
        "why_gpus", "theoretical_flops", _flops, "theoretical_flops",
    ),
    Artefact(
        "Figure 3.3", "an element-wise cube, computation alone", "the GPU is much faster than the CPU",
        "why_gpus", "elementwise_cube", _cube, "elementwise_cube_computation",
    ),
    Artefact(
        "Figure 3.4", "the same with transfers", "transfers take most of the gain",
        "why_gpus", "elementwise_cube", _cube_with_transfers, "elementwise_cube_transfer",
    ),
    Artefact(
        "Figure 3.11", "coalesced and strided accesses", "strided access is slower, even with transfers",
        "why_gpus", "elementwise_cube", _strided, "elementwise_cube_strided",
    ),
    Artefact(
        "Figure 4.5", "an epoch of the Boltzmann machine, its weights moved or resident",
        "weights that stay on the GPU halve the time",
        "rbm", "rbm_speed", _residency, "rbm_speed_updates",
    ),
    Artefact(
        "Table 6.1", "ratings per user and item of Douban", "counts are heavy-tailed",
        "data", "data_sets", _statistics("douban"),
    ),
    Artefact(
        "Table 6.2", "ratings per user and item of Jester", "the matrix is unusually dense",
        "data", "data_sets", _statistics("jester"),
    ),
    Artefact(
        "Figure 6.1", "MAE against lambda, Hogwild", _best("Figure 6.1", "λ", "regularization"),
        "parameter_search", "parameter_search", _optimum("SGD", "regularization"), "parameter_search_sgd",
    ),
    Artefact(
        "Figure 6.2", "MAE against the learning rate, Hogwild", _best("Figure 6.2", "μ", "learning rate"),
        "parameter_search", "parameter_search", _optimum("SGD", "learning_rate"), "parameter_search_sgd_rate",
    ),
    Artefact(
        "Figure 6.3", "MAE against lambda, ALS", _best("Figure 6.3", "λ", "regularization"),
        "parameter_search", "parameter_search", _optimum("ALS", "regularization"), "parameter_search_als",
    ),
    Artefact(
        "Figure 6.4", "MAE against the learning rate, RBM", _best("Figure 6.4", "μ", "learning rate"),
        "parameter_search", "parameter_search", _optimum("RBM", "learning_rate"), "parameter_search_rbm",
    ),
    Artefact(
        "Figure 6.5", "the best lambda against density, ALS", "sparser ratings need a larger lambda",
        "sparsity", "sparsity", _density("regularization", "best lambda"), "sparsity",
    ),
    Artefact(
        "Figure 6.6", "MAE against density, ALS", "sparser ratings give a larger error",
        "sparsity", "sparsity", _density("mae", "MAE"), "sparsity",
    ),
    Artefact(
        "Figure 6.7", "speed-up against CUDA threads, shared memory",
        f"the speed-up is linear up to {_LINEAR['shared']:,.0f} threads and drops there",
        "thread_scaling", "thread_scaling", _threads_shared, "thread_scaling",
    ),
    Artefact(
        "Figure 6.8", "active blocks against shared memory",
        "shared memory allows few active blocks, and global memory as many as there may be",
        "thread_scaling", "thread_scaling", _blocks, "thread_scaling_blocks",
    ),
    Artefact(
        "Figure 6.9", "speed-up against CUDA threads, global memory",
        f"the speed-up is linear up to {_LINEAR['global']:,.0f} threads",
        "thread_scaling", "thread_scaling", _threads_global, "thread_scaling",
    ),
    Artefact(
        "Figure 6.10", "shared against global memory", "shared memory is faster, the gap narrows with more threads",
        "thread_scaling", "thread_scaling", _threads_both, "thread_scaling",
    ),
    Artefact(
        "Table 6.3", "speed-ups over one core",
        "the GPU is {:.0f} to {:.0f} times as fast as one core".format(*_SPEEDUPS),
        "speedups", "speedups", _speedup_table,
    ),
    Artefact(
        "Figure 6.11", "seconds to the threshold, CPU and GPU", "the GPU gains much for both models on both sets",
        "speedups", "speedups", _gpu_against_cpu, "speedups",
    ),
    Artefact(
        "Figure 6.12", "seconds to the threshold on the GPU",
        "ALS beats SGD but for SGD's own configuration on Douban",
        "speedups", "speedups", _orders, "speedups_gpu",
    ),
    Artefact(
        "Figure 6.13", "reduction of MAE a second", "the Boltzmann machine is considerably slower than both",
        "als_sgd_rbm", "als_sgd_rbm", _machine, "als_sgd_rbm",
    ),
    Artefact(
        "Section 7.1: SGD or ALS?", "when SGD is sooner at the same error",
        "when SGD is better than ALS, and when ALS is better",
        "crossover", "crossover", _when_sgd, "crossover",
    ),
    Artefact(
        "Section 7.1: newer GPUs", "the versions of ALS with all that a newer GPU has",
        "what more shared memory will bring, and a hybrid of the two memories",
        "thread_scaling", "thread_scaling", _newer_gpus, "thread_scaling",
    ),
    Artefact(
        "Section 7.1: stale machines", "a hybrid whose Boltzmann machine is trained less often",
        "what a hybrid loses whose slower half is updated less often",
        "rbm", "stale_rbm", _stale, "stale_rbm",
    ),
    Artefact(
        "Section 7.1: other uses", "ALS beyond recommending", "what ALS does where nothing is recommended",
        "als_uses", "picture_completion", _picture, "picture_completion",
    ),
]  # fmt: skip


def evaluate(artefact):
    """A row of the table, a dict of COLUMNS."""
    row = {"artefact": artefact.name, **{key: getattr(artefact, key) for key in COLUMNS[1:6]}}
    result = results.recorded(artefact.experiment)
    if result is None:
        return row | {"verdict": NOT_RECORDED, "why": ""}
    verdict, why = artefact.verdict(result.frame)
    return row | {"verdict": verdict, "why": why}


def table(artefacts=ARTEFACTS):
    """Every artefact and what the recorded results of the reference GPU say of it: a DataFrame of COLUMNS."""
    return pd.DataFrame([evaluate(artefact) for artefact in artefacts], columns=COLUMNS)


def of(*names):
    """The rows of `table` of these artefacts, by name."""
    return (
        table([artefact for artefact in ARTEFACTS if artefact.name in names]).set_index("artefact").loc[list(names)]
    )


def sentence(name, because):
    """What the thesis found, what is found here, and why: Markdown for a chapter.

    Parameters
    ----------
    name : of an artefact
    because : the reason, or a dict verdict -> reason where it depends on that
    """
    row = of(name).iloc[0]
    says = "**The thesis asks**" if name.startswith("Section") else "**The thesis found** that"
    found = f"{says} {row.thesis} ({name}). "
    if row.verdict == NOT_RECORDED:
        return found + "No full run of this is recorded yet: what is shown was measured on this machine alone."
    reason = because.get(row.verdict, "") if isinstance(because, dict) else because
    return f"{found}**Here** {row.why}: *{row.verdict}*." + (f" **Because** {reason}" if reason else "")
