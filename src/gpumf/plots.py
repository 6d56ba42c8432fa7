"""One function a kind of figure: takes a `results.Result`, says where that was measured, returns the figure."""

import re
from dataclasses import replace
from itertools import cycle

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from gpumf import experiments, results
from gpumf.experiments import _published
from gpumf.experiments.cumf import als_versions as versions
from gpumf.experiments.gpumf import als_convergence as convergences
from gpumf.experiments.gpumf import blend_ml100k as blends
from gpumf.experiments.gpumf import sgd_schemes as descents
from gpumf.experiments.gpumf import sgd_spread as spreads
from gpumf.experiments.thesis import als_sgd_rbm as rates
from gpumf.experiments.thesis import crossover as maps
from gpumf.experiments.thesis import parameter_search as searches
from gpumf.experiments.thesis import picture_completion as pictures
from gpumf.experiments.thesis import rbm_speed, rbm_tuning
from gpumf.experiments.thesis import sparsity as sparsities
from gpumf.experiments.thesis import speedups as gains
from gpumf.experiments.thesis import stale_rbm as stale
from gpumf.experiments.thesis import thread_scaling as threads
from gpumf.gpu import occupancy

# Okabe and Ito's palette: told apart by readers with any colour vision.
_COLOURS = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "blue": "#0072B2",
    "red": "#D55E00",
    "purple": "#CC79A7",
}
_STYLE = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.alpha": 0.3,
    "lines.linewidth": 1.8,
    # The same figure gives the same file, and its text stays text.
    "svg.fonttype": "none",
    "svg.hashsalt": "gpumf",
}
_WIDTH = 9.0  # inches; as wide as a page of the book


def setup():
    """Draw in the study's style, as SVG, and show tables whole. Call it once, at the top of a chapter."""
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    pd.set_option("display.max_colwidth", None)
    matplotlib.rcParams.update(_STYLE)
    set_matplotlib_formats("svg")


def keep(figure, name, result=None):
    """Write a figure of recorded results to figures/<source>/<name>.svg, and return it; of a live result only return.

    name : that of the experiment, and more where it has several figures
    """
    if result is not None and result.live:
        return figure
    source = next(source for experiment, source in experiments.names().items() if name.startswith(experiment))
    to = results.repository() / "figures" / source
    to.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(_STYLE):
        figure.savefig(to / f"{name}.svg", metadata={"Date": None, "Creator": None})
    return figure


def _axes(result, columns=1, height=3.6, rows=1, width=_WIDTH, **options):
    """A figure that says below where its data was measured."""
    # Not pyplot, whose open figures a notebook shows once more than asked.
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **options)
    figure.supxlabel(result.where, fontsize=8, color="0.35")
    return figure, axes


def _legend_below(figure, axis, columns):
    """Below the axes, where it cannot cover data."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)


def _hatch(bars, which):
    """Mark those of the bars that are measured less surely."""
    for bar, marked in zip(bars, which, strict=True):
        if marked:
            bar.set(hatch="///", edgecolor="white")


def _log_scale(axis):
    """Tell a drawn axis (x or y) to be logarithmic, with labels that do not run into each other."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    axis.set_minor_formatter(NullFormatter())
    if high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1, 3)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))


def theoretical_flops(result):
    """FLOP/s by equation A.1 against the year, GPUs and CPUs, single and double precision."""
    figure, ((axis,),) = _axes(result, height=4.4)
    colours = {"GPU": _COLOURS["green"], "CPU": _COLOURS["blue"]}
    for (kind, precision), group in result.frame.groupby(["kind", "precision"], sort=False):
        single = precision == "single"
        axis.plot(
            group.year,
            group.gflops,
            "o" if single else "^",
            color=colours[kind],
            markerfacecolor=colours[kind] if single else "white",
            label=f"{kind}, {precision} precision",
        )
        best = group.groupby("year").gflops.max().cummax()
        axis.plot(best.index, best, "-" if single else ":", color=colours[kind], linewidth=1)
    axis.set(xlabel="year of release", ylabel="theoretical GFLOP/s")
    _log_scale(axis.yaxis)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend_below(figure, axis, 4)
    figure.supxlabel("Computed from data sheets, not measured; a line follows the fastest so far.", fontsize=8)
    return figure


_CUBE_SERIES = {
    ("one core", "coalesced", False): ("CPU, one core", "blue", "-o"),
    ("all cores", "coalesced", False): ("CPU, all cores", "sky", "-s"),
    ("gpu", "coalesced", False): ("GPU, coalesced", "green", "-o"),
    ("gpu", "strided", False): ("GPU, strided", "orange", "-s"),
    ("gpu", "coalesced", True): ("GPU, coalesced, with transfers", "green", "--^"),
    ("gpu", "strided", True): ("GPU, strided, with transfers", "orange", "--v"),
}


def elementwise_cube(result, series=tuple(_CUBE_SERIES)):
    """Median seconds of an element-wise cube against the side of the matrix, the spread of the repeats shaded."""
    figure, ((axis,),) = _axes(result, height=4.2)
    groups = dict(list(result.frame.groupby(["device", "access", "transfer"])))
    for key in series:
        if key in groups:
            label, colour, style = _CUBE_SERIES[key]
            times = groups[key].groupby("side").seconds
            axis.plot(times.median(), style, color=_COLOURS[colour], label=label, markersize=5)
            axis.fill_between(times.min().index, times.min(), times.max(), color=_COLOURS[colour], alpha=0.2)
    for device, colour in (("one core", "blue"), ("gpu", "green")):
        if (device, "coalesced", False) in series and (device, "coalesced", False) in groups:
            limit = groups[device, "coalesced", False].groupby("side").limit_seconds.first()
            what = "GPU" if device == "gpu" else "CPU"
            axis.plot(limit, ":", color=_COLOURS[colour], linewidth=1.2, label=f"limit of the {what}'s memory")
    axis.set(xlabel="side of the matrix (elements)", ylabel="seconds")
    _log_scale(axis.yaxis)
    axis.set_xscale("log", base=2)
    _legend_below(figure, axis, 3)
    return figure


_KERNELS = {
    ("ALS", "sequential"): ("ALS, one core", "blue", "--"),
    ("ALS", "parallel"): ("ALS, all cores", "sky", "--"),
    ("ALS", "thesis_global"): ("ALS, thesis, global memory", "orange", ":"),
    ("ALS", "thesis_hybrid"): ("ALS, thesis, hybrid", "purple", ":"),
    ("ALS", "thesis_shared"): ("ALS, GPU as in the thesis", "green", "-"),
    ("ALS", "cumf_lu"): ("ALS, cuMF, LU", "red", "-s"),
    ("ALS", "cumf_cholesky"): ("ALS, cuMF, Cholesky", "blue", "-D"),
    ("ALS", "cumf_cg"): ("ALS, cuMF, CG in FP32", "orange", "-^"),
    ("ALS", "cumf_cg_fp16"): ("ALS, cuMF, CG in FP16", "purple", "-v"),
    ("ALS", "tensor_core"): ("ALS, GPU tensor cores", "black", "-"),
    ("SGD", "sequential"): ("SGD, one core", "red", "--"),
    ("SGD", "parallel"): ("SGD, all cores", "orange", "--"),
    ("SGD", "hogwild"): ("SGD, GPU Hogwild", "purple", "-"),
    ("SGD", "cumf_sgd"): ("SGD, GPU cuMF_SGD", "blue", "-"),
    ("SGD", "fast"): ("SGD, GPU fast", "black", "-"),
}


def convergence(result, data, metric="mae"):
    """Test error against epochs (left) and against seconds of training (right), one line a kernel.

    data : names of data sets, one row of axes each; metric : 'mae' or 'rmse'
    """
    lines = [
        ({"model": model, "kernel": kernel}, label, colour, style)
        for (model, kernel), (label, colour, style) in _KERNELS.items()
    ]
    return _errors_by_epoch_and_time(result, data, metric, lines)


def schemes(result, data, metric="rmse", labels=None):
    """As `convergence`, one line a scheme of SGD, in the order of the frame.

    labels : of the schemes; all by default
    """
    colours, styles = list(_COLOURS), ("-", "--", ":")
    result = replace(result, frame=result.frame[result.frame.scheme.isin(labels or result.frame.scheme)])
    lines = [
        ({"scheme": label}, label, colours[k % len(colours)], styles[k // len(colours)])
        for k, label in enumerate(result.frame.scheme.unique())
    ]
    return _errors_by_epoch_and_time(result, data, metric, lines)


def _errors_by_epoch_and_time(result, data, metric, lines):
    """A row of two axes for each data set; lines : (values of columns, label, colour, style) of each line."""
    figure, axes = _axes(result, columns=2, rows=len(data), height=1 + 2.7 * len(data), sharey="row")
    for (by_epoch, by_time), name in zip(axes, data, strict=True):
        runs = result.frame[(result.frame.data == name) & (result.frame.epoch > 0)]
        for chosen, label, colour, style in lines:
            run = runs[(runs[list(chosen)] == pd.Series(chosen)).all(axis=1)]
            if run.empty:
                continue
            median = run.groupby("epoch")[["seconds", metric]].median()
            by_epoch.plot(median.index, median[metric], style, color=_COLOURS[colour], label=label)
            by_time.plot(median.seconds, median[metric], style, color=_COLOURS[colour], label=label)
        # The first epochs of SGD are far above everything worth seeing.
        shown = runs[metric].dropna()  # without what diverged
        by_epoch.set_ylim(shown.min() - 0.02 * np.ptp(shown), np.quantile(shown, 0.95))
        by_epoch.set(xlabel="epochs", ylabel=f"test {metric.upper()} on {name}")
        by_epoch.xaxis.set_major_locator(MaxNLocator(integer=True))
        by_time.set(xlabel="seconds of training")
        _log_scale(by_time.xaxis)
    _legend_below(figure, axes[0, 0], 3)
    return figure


def kernel_limits(result):
    """Seconds of every kernel beside the limit that bytes and operations set on this machine."""
    frame = result.frame.assign(what=lambda f: f.kernel + ", " + f.step)
    names = frame.data.unique()
    figure, axes = _axes(result, columns=len(names), height=4.6, sharey=True)
    for axis, name in zip(axes[0], names, strict=True):
        medians = frame[frame.data == name].groupby("what", sort=False)[["seconds", "limit_seconds"]].median()[::-1]
        place = np.arange(len(medians))
        axis.barh(place + 0.2, medians.seconds, 0.38, color=_COLOURS["green"], label="measured (median)")
        axis.barh(place - 0.2, medians.limit_seconds, 0.38, color=_COLOURS["orange"], label="limit")
        axis.set_yticks(place, medians.index)
        axis.set(xlabel="seconds", title=name)
        _log_scale(axis.xaxis)
    _legend_below(figure, axes[0, 0], 2)
    return figure


def rating_counts(result, pairs):
    """Ratings per user (left) and per item (right), from the least to the most active, real set and twin.

    pairs : (real, twin) names of data sets; one that was not on the machine is left out
    """
    figure, axes = _axes(result, columns=2, height=4.0)
    colours = iter(("blue", "red", "green", "purple"))
    for pair in pairs:
        colour = _COLOURS[next(colours)]
        for name, style in zip(pair, ("-", "--"), strict=True):
            for axis, side in zip(axes[0], ("users", "items"), strict=True):
                counts = result.frame[(result.frame.data == name) & (result.frame.side == side)]
                if len(counts):
                    axis.plot(counts["rank"], counts["count"], style, color=colour, label=name)
    for axis, side in zip(axes[0], ("users", "items"), strict=True):
        axis.set(xlabel=f"share of the {side}", ylabel=f"ratings of one of the {side}")
        _log_scale(axis.yaxis)
    _legend_below(figure, axes[0, 0], 4)
    return figure


def race_demonstration(result):
    """What races do, against the number of groups that update at a time; a point a run, a line the medians."""
    figure, axes = _axes(result, columns=2, height=3.6)
    labels = {"lost_share": "share of updates lost", "distance": "distance from one after another"}
    for axis, (column, label) in zip(axes[0], labels.items(), strict=True):
        axis.plot(result.frame.groups, result.frame[column], "o", color=_COLOURS["sky"], alpha=0.4, label="an order")
        axis.plot(result.frame.groupby("groups")[column].median(), color=_COLOURS["blue"], label="median")
        axis.set(xlabel="groups that update at a time", ylabel=label)
        axis.set_xscale("log", base=2)
    _legend_below(figure, axes[0, 0], 2)
    return figure


_THESIS = {
    "thesis_shared": ("shared memory", "green"),
    "thesis_hybrid": ("hybrid", "purple"),
    "thesis_global": ("global memory", "orange"),
}


_MACHINES = {threads.KEPLER_LIKE: "-", threads.OWN: "--", threads.SHARED: ":"}


def thread_scaling(result):
    """Speed-up over one half-warp against CUDA threads: the published range (left), and all that the GPU holds.

    Solid lines have 8 multiprocessors and 48 kB of shared memory on each, dashed ones the whole GPU, dotted ones 48
    kB on each of its multiprocessors. Vertical are the numbers up to which the thesis found linear scaling.
    """
    points = threads.speedups(result.frame)
    figure, (axes,) = _axes(result, columns=2, height=4.8)
    published_range = points[points.machine == threads.KEPLER_LIKE].threads.max()
    left = points[points.threads <= published_range] if published_range == published_range else points
    machines = (threads.KEPLER_LIKE, threads.OWN), (threads.OWN, threads.SHARED)
    for axis, shown, of in zip(axes, (left, points), machines, strict=True):
        for machine in of:
            for kernel, (label, colour) in _THESIS.items():
                curve = shown[(shown.machine == machine) & (shown.kernel == kernel)].set_index("threads").speedup
                if len(curve):
                    what = {"color": _COLOURS[colour], "label": f"{label}, {machine}", "linewidth": 1.3}
                    axis.plot(curve.sort_index(), _MACHINES[machine], **what)
        axis.set(xlabel="CUDA threads", ylabel="speed-up over one half-warp", xlim=(0, None), ylim=(0, None))
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    lines = {line.get_label(): line for axis in axes for line in axis.lines}
    for kernel, artefact in (("thesis_shared", "Figure 6.7"), ("thesis_global", "Figure 6.9")):
        colour = _COLOURS[_THESIS[kernel][1]]
        axes[0].axvline(_published.value(artefact, "linear up to"), linestyle=":", linewidth=1, color=colour)
    figure.legend(lines.values(), lines, loc="outside upper center", ncols=3, frameon=False)
    return figure


def active_blocks(result):
    """Active blocks of a multiprocessor against the shared memory of a block: computed, of the driver, published."""
    frame, facts = result.frame, result.provenance
    figure, ((axis,),) = _axes(result, height=4.0)
    size = np.arange(128, 16 << 10, 128)
    machines = {"thesis's GPU": (occupancy.KEPLER, "sky")}
    if "shared_bytes_per_multiprocessor" in facts:
        machines[facts["gpu"]] = facts, "black"
    for name, (machine, colour) in machines.items():
        blocks = [occupancy.active_blocks(machine, threads.BLOCK, shared_bytes=int(s)) for s in size]
        axis.step(size / 1000, blocks, where="mid", color=_COLOURS[colour], label=f"computed, {name}", linewidth=1.2)
    for kernel, (label, colour) in _THESIS.items():
        rows = frame[(frame.kernel == kernel) & (frame.machine == threads.OWN) & (frame.threads >= threads.BLOCK)]
        row = rows.iloc[0]
        here = row.active_blocks_computed if np.isnan(row.active_blocks_driver) else row.active_blocks_driver
        axis.plot(row.shared_bytes / 1000, here, "o", color=_COLOURS[colour], label=f"{label}, with its registers")
        stated = {
            quantity: _published.value("Figure 6.8", quantity, model=f"ALS {kernel}")
            for quantity in ("shared memory of a block", "active blocks")
        }
        if all(stated.values()):
            x, y = stated.values()
            axis.plot(x / 1000, y, "D", color=_COLOURS[colour], markerfacecolor="white", label=f"{label}, published")
    axis.set(xlabel="shared memory of a block (kB)", ylabel="active blocks of a multiprocessor", xlim=(0, None))
    axis.set_ylim(0, None)
    _legend_below(figure, axis, 3)
    return figure


_VARIED = {"regularization": "regularization λ", "learning_rate": "learning rate μ"}


def parameter_search(result, model, varied):
    """Test MAE against one parameter, an axis a data set; the standard deviation over the repeats shaded.

    model : 'ALS', 'SGD' or 'RBM'; varied : 'regularization' or 'learning_rate'
    """
    points = searches.summary(result.frame)
    points = points[(points.model == model) & (points.varied == varied)]
    best = searches.optima(result.frame).set_index(["data", "model", "varied"])
    names = points.data.unique()
    figure, (axes,) = _axes(result, columns=len(names), height=3.6)
    for axis, name in zip(axes, names, strict=True):
        curve = points[points.data == name].sort_values("value").dropna(subset="mae")
        found = best.loc[(name, model, varied)]
        axis.plot(curve.value, curve.mae, "-o", color=_COLOURS["blue"], label="mean", markersize=4)
        if curve.deviation.notna().all():
            band = curve.mae - curve.deviation, curve.mae + curve.deviation
            axis.fill_between(curve.value, *band, color=_COLOURS["blue"], alpha=0.2, label="standard deviation")
        axis.plot(found.value, found.mae, "*", color=_COLOURS["black"], markersize=13, label="best here")
        if found.published == found.published:
            axis.axvline(found.published, linestyle="--", color=_COLOURS["orange"], label="best in the thesis")
        axis.set(xlabel=_VARIED[varied], ylabel=f"test MAE on {name}")
        if curve.value.max() > 20 * curve.value.min():
            _log_scale(axis.xaxis)
    _legend_below(figure, axes[0], 4)
    return figure


_MODELS = {"ALS": ("green", "-o"), "SGD": ("purple", "-s"), "RBM": ("orange", "-^")}


def sparsity(result):
    """The best lambda (left) and its test MAE (right) against the density of the training set.

    The machine's weight decay is in other units than lambda and is left out.
    """
    curves = sparsities.summary(result.frame)
    figure, (axes,) = _axes(result, columns=2, height=3.8)
    for axis, column in zip(axes, ("regularization", "mae"), strict=True):
        for model, (colour, style) in _MODELS.items():
            curve = curves[curves.model == model].sort_values("density")
            if len(curve) and (model, column) != ("RBM", "regularization"):
                what = {"color": _COLOURS[colour], "label": model, "markersize": 4, "capsize": 2}
                axis.errorbar(100 * curve.density, curve[column], curve[f"{column}_deviation"], fmt=style, **what)
        axis.set(xlabel="density of the training set (%)")
        _log_scale(axis.xaxis)
    axes[0].set(ylabel="best λ", ylim=(0, None))
    axes[1].set(ylabel="test MAE")
    _legend_below(figure, axes[1], 3)
    return figure


def speedups(result, level=None, on_gpu=False):
    """Seconds of training to the same test MAE, a bar a version, an axis a data set.

    level : 'published' or 'reached by all'; for each set the last one that it has by default
    on_gpu : the versions on the GPU alone (Figure 6.12), on a linear scale
    """
    frame = result.frame[result.frame.device == "cuda"] if on_gpu else result.frame
    table = gains.summary(result.frame)
    table = table[table.version.isin(frame.version)]
    names = table.data.unique()
    figure, (axes,) = _axes(result, columns=len(names), height=4.2, sharey=True)
    versions_ = list(frame.version.unique())[::-1]
    for axis, name in zip(axes, names, strict=True):
        rows = table[table.data == name]
        chosen = level if level in rows.level.unique() else rows.level.iloc[-1]
        rows = rows[rows.level == chosen].set_index("version").reindex(versions_)
        colours = [_COLOURS[_MODELS[version[:3]][0]] for version in versions_]
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


def als_sgd_rbm(result):
    """What each model takes off the test MAE in a second until it converges, an axis a data set.

    Hatched: the run may have ended before it had converged.
    """
    table = rates.summary(result.frame)
    names = table.data.unique()
    figure, (axes,) = _axes(result, columns=len(names), height=3.4, sharey=True)
    order = list(table.version.unique())[::-1]
    for axis, name in zip(axes, names, strict=True):
        rows = table[table.data == name].set_index("version").reindex(order)
        colours = [_COLOURS[_MODELS[version[:3]][0]] for version in order]
        spread = rows.deviation.where(rows.deviation.notna(), 0)
        place = np.arange(len(rows))
        bars = axis.barh(place, rows.reduction_per_second, 0.6, color=colours, xerr=spread, error_kw={"capsize": 2})
        _hatch(bars, ~rows.certain)
        axis.set_yticks(place, order)
        axis.set(xlabel="reduction in MAE a second", title=name)
        axis.set_xscale("log")
    return figure


def crossover(result):
    """Which of ALS and SGD is sooner at the same error, against the ratings of a row and the factors.

    A mark is a part of a data set; purple ones have SGD sooner, green ones ALS, by the factor that stands beside it.
    """
    table = maps.summary(result.frame).dropna(subset="ratio")
    pairs = [pair for pair in maps.PAIRS if pair in set(table.pair)]
    names = table.data.unique()
    markers = dict(zip(names, "osD^v"[: len(names)], strict=True))
    # Sets whose marks come close have their numbers on different sides.
    sides = dict(zip(names, cycle((9, -15))))
    figure, (axes,) = _axes(result, columns=len(pairs), height=4.6, sharey=True)
    for axis, pair in zip(axes, pairs, strict=True):
        rows = table[table.pair == pair]
        for row in rows.itertuples():
            colour = _COLOURS["green" if row.ratio > 1 else "purple"]
            strength = min(0.25 + abs(np.log10(row.ratio)) / 1.5, 1)
            axis.plot(row.row_ratings, row.factors, markers[row.data], color=colour, alpha=strength, markersize=11)
            by, place = max(row.ratio, 1 / row.ratio), (row.row_ratings, row.factors)
            label = f"{by:.{0 if by > 10 else 1}f}"
            axis.annotate(label, place, (0, sides[row.data]), textcoords="offset points", ha="center", size=7)
        axis.set(xlabel="ratings of a row", ylabel="factors", title=f"{pair} versions")
        axis.set_xscale("log")
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.margins(0.12)
    for name, marker in markers.items():
        axes[0].plot([], [], marker, color="0.6", label=name, markersize=8)
    axes[0].plot([], [], "s", color=_COLOURS["green"], label="ALS sooner", markersize=8)
    axes[0].plot([], [], "s", color=_COLOURS["purple"], label="SGD sooner", markersize=8)
    _legend_below(figure, axes[0], 5)
    return figure


def picture_completion(result):
    """The picture, its known pixels with their mean for the rest, and what ALS makes of them."""
    frame = result.frame
    filled = pictures.fillings(frame)
    decibels = pictures.summary(frame).set_index("filling").psnr
    panels = {
        "original": frame.original,
        f"{frame.known.mean():.0%} of the pixels, else their mean\nPSNR {decibels['mean']:.1f} dB": filled["mean"],
        f"completed by ALS\nPSNR {decibels['ALS']:.1f} dB": filled["ALS"],
    }
    figure, axes = _axes(result, columns=len(panels), height=4.2, sharey=True)
    for axis, (title, values) in zip(axes[0], panels.items(), strict=True):
        image = values.to_numpy(float).reshape(frame.row.max() + 1, -1)
        axis.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        axis.grid(False)
        axis.set(title=title, xlabel="column (pixels)")
    axes[0, 0].set_ylabel("row (pixels)")
    return figure


def _curve(axis, series, kernel, model="ALS"):
    """One line of a kernel, in its own style."""
    label, colour, style = _KERNELS[model, kernel]
    axis.plot(series.index, series, style, color=_COLOURS[colour], label=label, markersize=4)


def als_versions(result, model, settings):
    """Seconds of an iteration of every version beside the limit and beside what the gathers alone would take.

    model : 'ALS' or 'ImplicitALS'; settings : (name of a data set, factors) of each of the axes
    """
    table = versions.summary(result.frame)
    iterations = result.frame[result.frame.step == "iteration"]
    figure, (axes,) = _axes(result, columns=len(settings), height=4.4)
    for axis, (name, factors) in zip(axes, settings, strict=True):
        shown = {"data": name, "model": model, "factors": factors}
        rows, of_setting = (f[(f[list(shown)] == shown).all(axis=1)] for f in (table, iterations))
        rows = rows[::-1]
        place = np.arange(len(rows))
        limit = rows.seconds * rows.fraction_of_limit
        axis.barh(place + 0.2, rows.seconds, 0.38, color=_COLOURS["green"], label="measured (median)")
        axis.barh(place - 0.2, limit, 0.38, color=_COLOURS["orange"], label="limit")
        gathers = rows.version.str.split(",").str[0].map(of_setting.groupby("kernel").gather_seconds.first())
        axis.plot(gathers, place, "|", color=_COLOURS["black"], markersize=16, label="gathers, without caches")
        axis.set_yticks(place, rows.version)
        axis.set(xlabel="seconds an iteration", title=f"{name}, {factors} factors")
        _log_scale(axis.xaxis)
    _legend_below(figure, axes[0], 3)
    return figure


_LOADS = {
    "coalesced": ("coalesced", "blue"),
    "l1": ("non-coalesced, L1", "green"),
    "no_l1": ("non-coalesced, no L1", "orange"),
}
_SOLVERS = {"cumf_lu": "LU", "cumf_cholesky": "Cholesky", "cumf_cg": "CG, FP32", "cumf_cg_fp16": "CG, FP16"}


def cumf_phases(result, data, factors):
    """get_hermitian by its ways to load (left; Tan et al. 2018, Figure 4), and the solvers (right; Figure 5)."""
    frame = result.frame
    frame = frame[(frame.data == data) & (frame.factors == factors) & (frame.model == "ALS")]
    median = frame.groupby(["kernel", "load", "step"]).seconds.median()
    figure, (axes,) = _axes(result, columns=2, height=3.8)
    for k, (load, (label, colour)) in enumerate(_LOADS.items()):
        seconds = [median["cumf_cholesky", load, f"{side} get_hermitian"] for side in ("users", "items")]
        axes[0].bar(np.arange(2) + 0.27 * (k - 1), seconds, 0.25, color=_COLOURS[colour], label=label)
    axes[0].set_xticks([0, 1], ["users (update X)", "items (update Θ)"])
    place = np.arange(len(_SOLVERS))
    of_sides = [[median[kernel, "coalesced", f"{side} solve"] for kernel in _SOLVERS] for side in ("users", "items")]
    axes[1].bar(place, of_sides[0], 0.6, color=_COLOURS["sky"], label="solve, users")
    axes[1].bar(place, of_sides[1], 0.6, bottom=of_sides[0], color=_COLOURS["purple"], label="solve, items")
    hermitian = sum(median["cumf_cholesky", "coalesced", f"{side} get_hermitian"] for side in ("users", "items"))
    axes[1].axhline(hermitian, linestyle="--", color=_COLOURS["black"], label="get_hermitian, both")
    axes[1].set_xticks(place, _SOLVERS.values())
    axes[0].set(ylabel="seconds", xlabel=f"get_hermitian, {data}, {factors} factors")
    axes[1].set(ylabel="seconds", xlabel="solver, an iteration")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


_ROOFS = {"fp16_flops": ("FP16 products", "--"), "fp32_flops": ("FP32 products", "-")}
_STEPS = {
    ("cumf_cholesky", "users get_hermitian"): ("get_hermitian, users", "blue", "o"),
    ("cumf_cholesky", "items get_hermitian"): ("get_hermitian, items", "blue", "s"),
    ("cumf_cholesky", "users solve"): ("Cholesky, users", "green", "o"),
    ("cumf_cg", "users solve"): ("CG in FP32, users", "orange", "o"),
    ("cumf_cg_fp16", "users solve"): ("CG in FP16, users", "purple", "o"),
    ("tensor_core", "users"): ("tensor_core, users", "black", "o"),
    ("tensor_core", "items"): ("tensor_core, items", "black", "s"),
}


def roofline(result, ceilings, data, factors):
    """FLOP/s against operations a byte, under the roofs that were measured (Williams et al. 2009).

    Filled marks count the bytes that cannot be avoided, open ones a row of factors for each rating too, as if no
    cache answered any.

    ceilings : Result of the experiment of that name, of the same device
    """
    roofs = ceilings.frame[ceilings.frame.device == "cuda"].set_index("ceiling").value
    frame = result.frame
    frame = frame[(frame.data == data) & (frame.factors == factors) & (frame.model == "ALS")]
    frame = frame[frame.load.isna() | (frame.load == versions.LOADS[0])]
    figure, ((axis,),) = _axes(result, height=4.8)
    intensity = np.logspace(-1, 4, 100)
    bandwidth = roofs["copy_bytes_per_second"]
    for roof, (label, style) in _ROOFS.items():
        reach = np.minimum(intensity * bandwidth, roofs[roof])
        axis.plot(intensity, reach, style, color="0.4", label=f"device copy, {label}")
    for (kernel, step), (label, colour, marker) in _STEPS.items():
        runs = frame[(frame.kernel == kernel) & (frame.step == step)]
        if runs.empty:
            continue
        runs = runs[(runs.cg_steps == runs.cg_steps.max()) | runs.cg_steps.isna()]
        flops, least, rate = runs.flops.iloc[0], runs.bytes.iloc[0], (runs.flops / runs.seconds).median()
        axis.plot(flops / least, rate, marker, color=_COLOURS[colour], label=label)
        gathered = runs.gather_seconds.iloc[0] * bandwidth
        if gathered > 0:
            axis.plot(flops / (least + gathered), rate, marker, color=_COLOURS[colour], markerfacecolor="white")
    axis.set(xlabel="operational intensity (FLOP/byte)", ylabel="FLOP/s")
    _log_scale(axis.xaxis)
    _log_scale(axis.yaxis)
    _legend_below(figure, axis, 3)
    return figure


def als_scaling(result):
    """Seconds of an iteration against the factors (left) and against the ratings (right); dotted, the limits."""
    figure, (axes,) = _axes(result, columns=2, height=4.6)
    for axis, varied in zip(axes, ("factors", "nnz"), strict=True):
        runs = result.frame[result.frame.varied == varied]
        for kernel in runs.kernel.unique():
            _curve(axis, runs[runs.kernel == kernel].groupby(varied).seconds.median(), kernel)
        for kernel, colour in (("cumf_cholesky", "blue"), ("tensor_core", "black")):
            limit = runs[runs.kernel == kernel].groupby(varied).limit_seconds.first()
            axis.plot(limit, ":", color=_COLOURS[colour], linewidth=1)
        of = runs.iloc[0]
        axis.set(xlabel="factors" if varied == "factors" else f"ratings ({of.factors} factors)")
        axis.set(ylabel="seconds an iteration", title=of.data)
        _log_scale(axis.xaxis)
        _log_scale(axis.yaxis)
    _legend_below(figure, max(axes, key=lambda axis: len(axis.get_legend_handles_labels()[1])), 3)
    return figure


def als_convergence(result):
    """Test RMSE against seconds of training (left), and how far it is from the exact one after each epoch (right)."""
    names = result.frame.data.unique()
    figure, axes = _axes(result, columns=2, rows=len(names), height=1.2 + 2.8 * len(names))
    for (by_time, differences), name in zip(axes, names, strict=True):
        runs = result.frame[(result.frame.data == name) & (result.frame.epoch > 0)]
        exact = runs[runs.kernel == convergences.EXACT].set_index("epoch").rmse
        for kernel in runs.kernel.unique():
            run = runs[runs.kernel == kernel]
            _curve(by_time, run.set_index("seconds").rmse, kernel)
            # A logarithmic axis has no place for a difference of nothing.
            apart = (run.set_index("epoch").rmse - exact).abs().clip(lower=1e-9)
            if kernel != convergences.EXACT:
                _curve(differences, apart, kernel)
        differences.axhline(1e-3, color="0.4", linewidth=1)
        by_time.set(xlabel="seconds of training", ylabel=f"test RMSE on {name}")
        differences.set(xlabel="epochs", ylabel="difference to the exact one")
        differences.xaxis.set_major_locator(MaxNLocator(integer=True))
        _log_scale(by_time.xaxis)
        _log_scale(differences.yaxis)
    _legend_below(figure, axes[0, 0], 3)
    return figure


def implicit_quality(result, metrics=("ndcg", "recall")):
    """Ranking metrics against epochs, the exact version and the tensor cores."""
    names = result.frame.data.unique()
    figure, axes = _axes(result, columns=len(metrics), rows=len(names), height=1 + 2.6 * len(names))
    for row, name in zip(axes, names, strict=True):
        for axis, metric in zip(row, metrics, strict=True):
            runs = result.frame[result.frame.data == name]
            for kernel, style in zip(runs.kernel.unique(), ("-o", "--x"), strict=False):
                values = runs[runs.kernel == kernel].set_index("epoch")[metric]
                label, colour, _ = _KERNELS["ALS", kernel]
                axis.plot(values, style, color=_COLOURS[colour], label=label.removeprefix("ALS, "), markersize=5)
            axis.set(xlabel="epochs", ylabel=f"{metric} on {name}", ylim=(0, None))
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend_below(figure, axes[0, 0], 2)
    return figure


def als_netflix(result):
    """Test RMSE against iterations (left) and against seconds of training (right), one line a kernel."""
    figure, (axes,) = _axes(result, columns=2, height=3.8, sharey=True)
    runs = result.frame[result.frame.epoch > 0]
    for kernel in runs.kernel.unique():
        median = runs[runs.kernel == kernel].groupby("epoch")[["seconds", "rmse"]].median()
        _curve(axes[0], median.rmse, kernel)
        _curve(axes[1], median.set_index("seconds").rmse, kernel)
    axes[0].set(xlabel="iterations", ylabel="test RMSE")
    axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[1].set(xlabel="seconds of training")
    _log_scale(axes[1].xaxis)
    _legend_below(figure, axes[0], 3)
    return figure


# Of members 0 and 1 of both thread blocks, and of the numbers on them.
_WORKERS = {
    (0, 0): ("blue", "white"),
    (0, 1): ("sky", "black"),
    (1, 0): ("red", "white"),
    (1, 1): ("orange", "black"),
}


def sgd_assignment(result):
    """A small matrix for each scheme: the colour says who takes a rating, the number in which turn.

    A frame instead of a filled square: the update moves the user's vector alone. A plus: the rating is drawn again. A
    grey square: it is not drawn at all.
    """
    figure, axes = _axes(result, columns=3, rows=3, width=5.2, height=8.7)
    frame = result.frame
    ratings = frame[["user", "item"]].drop_duplicates()

    def square(axis, user, item, **style):
        axis.add_patch(Rectangle((item + 0.06, user + 0.06), 0.88, 0.88, linewidth=2, **style))

    for axis, (scheme, updates) in zip(axes.ravel(), frame.groupby("scheme", sort=False), strict=True):
        for user, item in ratings.itertuples(index=False):
            square(axis, user, item, color="0.9")
        for (user, item), here in updates.groupby(["user", "item"]):
            first = here.iloc[0]
            colour, number = _WORKERS[first.block, first.member]
            both = first.moves == "both"
            square(axis, user, item, facecolor=_COLOURS[colour] if both else "white", edgecolor=_COLOURS[colour])
            turn = f"{first.turn + 1}{'+' if len(here) > 1 else ''}"
            colour = number if both else "black"
            axis.text(item + 0.5, user + 0.54, turn, ha="center", va="center", fontsize=8, color=colour)
        axis.set(xlim=(0, frame.item.max() + 1), ylim=(frame.user.max() + 1, 0), aspect="equal", xticks=[], yticks=[])
        axis.set(xlabel="items", ylabel="users")
        axis.set_title(scheme, fontsize=10, family="monospace")
        axis.spines[:].set_visible(False)
        axis.grid(False)
    handles = [
        Patch(color=_COLOURS[colour], label=f"thread block {block}, member {member}")
        for (block, member), (colour, _) in _WORKERS.items()
    ]
    handles.append(Patch(facecolor="white", edgecolor="0.3", label="moves the user alone"))
    handles.append(Patch(color="0.9", label="not drawn"))
    figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    figure.supxlabel("Computed from the package's partitions and orders, not measured.", fontsize=8)
    return figure


def sgd_updates(result):
    """Updates a second of every scheme (medians over epochs), a data set each."""
    table = descents.summary(result.frame)
    names = table.data.unique()
    height = 1.4 + 0.22 * table.scheme.nunique()
    figure, (axes,) = _axes(result, columns=len(names), height=height, sharey=True)
    order = list(table.scheme.unique())[::-1]
    for axis, name in zip(axes, names, strict=True):
        speeds = table[table.data == name].set_index("scheme").updates_per_second.reindex(order)
        on_gpu = table.set_index("scheme").device.groupby("scheme").first().reindex(order) == "cuda"
        for where, colour, label in ((on_gpu, "green", "GPU"), (~on_gpu, "blue", "CPU")):
            if where.any():
                place = np.flatnonzero(where)
                axis.plot(speeds[where], place, "o", color=_COLOURS[colour], label=label)
                axis.hlines(place, speeds.min() / 2, speeds[where], color=_COLOURS[colour], alpha=0.4)
        axis.set_yticks(np.arange(len(order)), order)
        axis.set(xlabel="updates a second", title=name)
        _log_scale(axis.xaxis)
    _legend_below(figure, axes[0], 2)
    return figure


_MEETINGS = {
    "published": ("formula as published", "black", "--"),
    "true shape": ("formula, true shape", "sky", "-"),
    "drawn": ("ratings drawn", "blue", "-o"),
    "overwritten": ("writes overwritten", "red", "-s"),
}


def sgd_conflicts(result):
    """How often updates meet, against how many are made at a time: by formula, as drawn, and overwritten."""
    names = result.frame.data.unique()
    figure, (axes,) = _axes(result, columns=len(names), height=3.8, sharey=True)
    for axis, name in zip(axes, names, strict=True):
        shares = result.frame[result.frame.data == name].groupby(["how", "at_once"]).share.mean()
        for how, (label, colour, style) in _MEETINGS.items():
            # A logarithmic axis has no place for a share of nothing.
            of = shares[how].where(shares[how] > 0)
            axis.plot(of, style, color=_COLOURS[colour], label=label, markersize=4)
        axis.set(xlabel="updates at a time", ylabel="share", title=name)
        axis.set_xscale("log", base=2)
        _log_scale(axis.yaxis)
    _legend_below(figure, axes[0], 4)
    return figure


def sgd_spread(result, bound=0.005):
    """How far the RMSE of every scheme is above that of `sequential` from the same seed, a point a seed.

    bound : a distance that is marked
    """
    gaps = spreads.by_seed(result.frame)
    order = list(gaps.scheme.unique())[::-1]
    figure, ((axis,),) = _axes(result, height=1.2 + 0.24 * len(order))
    axis.axvspan(-bound, bound, color=_COLOURS["sky"], alpha=0.15, label=f"within {bound:g} of sequential")
    axis.plot(gaps.gap, gaps.scheme.map(order.index), "o", color=_COLOURS["blue"], alpha=0.4, label="a seed")
    means = gaps.groupby("scheme").gap.mean()
    axis.plot(means, means.index.map(order.index), "|", color=_COLOURS["black"], markersize=14, label="mean")
    axis.set_yticks(np.arange(len(order)), order)
    axis.set(xlabel="test RMSE above that of sequential, mean of the folds")
    _legend_below(figure, axis, 3)
    return figure


def rbm_updates(result):
    """The thesis's Figure 4.5: seconds of an epoch and of its updates, the weights moved (left) or resident."""
    table = rbm_speed.summary(result.frame).set_index("version")
    parts = {"epoch_seconds": "epoch"} | {update: update for update in rbm_speed.UPDATES}
    figure, ((axis,),) = _axes(result, height=3.8)
    place = np.arange(len(parts))
    for shift, version, colour, label in (
        (-0.2, "thesis, transfer", "orange", "weights moved for every update"),
        (0.2, "thesis", "green", "weights kept on the device"),
    ):
        seconds = table.loc[version, list(parts)].astype(float)
        axis.bar(place + shift, seconds, 0.38, color=_COLOURS[colour], label=label)
    axis.set_xticks(place, parts.values())
    axis.set(
        ylabel="seconds an epoch", xlabel=f"{result.frame.data.iloc[0]}, {result.frame.hidden.iloc[0]} hidden units"
    )
    _log_scale(axis.yaxis)
    _legend_below(figure, axis, 2)
    return figure


_RBM_VERSIONS = {
    "sequential": "one core",
    "parallel": "all cores",
    "thesis, transfer": "thesis, weights moved",
    "thesis": "thesis, weights on the device",
    "fast": "fast",
}


def rbm_epochs(result):
    """Seconds of an epoch of every version beside the limit; hatched where few batches were timed."""
    table = rbm_speed.summary(result.frame)[::-1].reset_index(drop=True)
    figure, ((axis,),) = _axes(result, height=1.4 + 0.5 * len(table))
    bars = axis.barh(table.index + 0.2, table.epoch_seconds, 0.38, color=_COLOURS["green"], label="measured (median)")
    _hatch(bars, table.share < 1)
    limit = table.epoch_seconds * table.fraction_of_limit
    axis.barh(table.index - 0.2, limit, 0.38, color=_COLOURS["orange"], label="limit")
    axis.set_yticks(table.index, table.version.map(_RBM_VERSIONS))
    axis.set(xlabel=f"seconds an epoch of {result.frame.data.iloc[0]}")
    _log_scale(axis.xaxis)
    _legend_below(figure, axis, 2)
    return figure


_PARAMETERS = {
    "learning_rate": "learning rate",
    "momentum": "momentum",
    "average": "average over",
    "hidden": "hidden units",
    "gibbs_steps": "Gibbs steps",
    "weight_decay": "weight decay",
}


def rbm_tuning_curves(result, data, metric, threshold=None):
    """Errors on held-out ratings against epochs, each parameter changed alone; black, the thesis's setting."""
    varied = []
    for parameter in _PARAMETERS:
        runs = rbm_tuning.changed_alone(result.frame, data, parameter)
        if runs[parameter].nunique() > 1:
            varied.append((parameter, runs[runs.epoch > 0]))
    rows = -(-len(varied) // 3)
    figure, axes = _axes(result, columns=min(3, len(varied)), rows=rows, height=0.8 + 3.1 * rows, sharey=True)
    for axis in axes.ravel()[len(varied) :]:
        axis.set_visible(False)
    everything = pd.concat([runs[metric] for _, runs in varied])
    for axis, (parameter, runs) in zip(axes.ravel(), varied, strict=False):
        colours = iter(("blue", "red", "green", "purple", "sky", "orange"))
        for value, run in runs.groupby(parameter, sort=True):
            own = value == rbm_tuning.IN_FRAMES[parameter]
            colour, style = ("black", "-") if own else (next(colours), "--")
            label = f"{value:g}" if isinstance(value, float) else str(value)
            # A schedule is told as shortly as a legend needs it.
            label = re.sub(r"from epoch (\d+) on (\d+)", r"\2 from \1", label)
            axis.plot(run.epoch, run[metric], style, color=_COLOURS[colour], label=label)
        if threshold is not None:
            axis.axhline(threshold, color="0.4", linewidth=1, linestyle=":")
        axis.set(xlabel="epochs", ylim=(everything.min() - 0.005, everything.quantile(0.95)))
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.legend(
            title=_PARAMETERS[parameter],
            fontsize=8,
            title_fontsize=9,
            loc="lower center",
            bbox_to_anchor=(0.5, 1),
            ncols=3,
            columnspacing=1,
            handlelength=1.6,
        )
    for axis in axes[:, 0]:
        axis.set_ylabel(f"held-out {metric.upper()}, {data}")
    return figure


def blend_errors(result, aims):
    """Test RMSE (left) and MAE (right) of each model and blend: means over the folds, a point a seed.

    aims : dict of errors that are marked, by measure
    """
    table = blends.summary(result.frame)
    order = list(table.model.unique())[::-1]
    figure, (axes,) = _axes(result, columns=2, height=1.4 + 0.3 * len(order), sharey=True)
    for axis, measure in zip(axes, blends.METRICS, strict=True):
        tests = blends.errors_of(result.frame, measure)
        seeds = tests.groupby(["model", "seed"])[measure].mean().reset_index()
        means = table[table.measure == measure].set_index("model")["mean"]
        axis.plot(
            seeds[measure], seeds.model.map(order.index), "o", color=_COLOURS["blue"], alpha=0.4, label="a seed"
        )
        axis.plot(means, means.index.map(order.index), "|", color=_COLOURS["black"], markersize=14, label="mean")
        axis.axvline(aims[measure], color=_COLOURS["orange"], linewidth=1, label="SVD++ of Surprise")
        axis.set_yticks(np.arange(len(order)), order)
        axis.set(xlabel=f"test {measure.upper()}, mean of {tests.fold.nunique()} folds")
        axis.xaxis.set_major_locator(MaxNLocator(5))
    _legend_below(figure, axes[0], 3)
    return figure


_SHOWN = {
    "trained on": ("shown what it was trained on", "blue", "-o"),
    "all so far": ("shown all so far", "red", "--s"),
}


def stale_rbm(result):
    """RMSE of the blend against the chunks between two trainings of its Boltzmann machine, for each order."""
    table = stale.summary(result.frame)
    orders = table.order.unique()
    figure, (axes,) = _axes(result, columns=len(orders), height=3.8)
    for axis, order in zip(axes, orders, strict=True):
        runs = table[table.order == order]
        axis.axhline(runs[runs.every == 0].rmse.mean(), color=_COLOURS["black"], label="factorization alone")
        for shown, (label, colour, style) in _SHOWN.items():
            means = runs[runs.shown == shown].groupby("every").rmse.mean()
            axis.plot(means, style, color=_COLOURS[colour], label=label)
        axis.set(xlabel="chunks between two trainings of the RBM", ylabel="RMSE of the next chunks")
        axis.set_title(f"ratings arrive in {'random order' if order == 'random' else 'order of time'}", fontsize=10)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    _legend_below(figure, axes[0], 3)
    return figure
