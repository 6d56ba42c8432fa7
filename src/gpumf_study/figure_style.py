"""How figures look: one palette, and every scheme called and drawn as it declares it, in every figure.

An experiment draws its own frame; here is what all of them share. `save` says below a figure where its numbers were
measured, and writes the figures of recorded results to figures/<source>/.
"""

import io
import pickle
import re
from itertools import pairwise
from textwrap import fill
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import AutoLocator, FixedLocator, LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from gpumf import ALS, RBM, SGD
from gpumf_study import results

# Okabe and Ito's palette, and Tol's muted one for what is left: told apart by readers with any colour vision.
COLOURS = {
    "black": "#000000", "orange": "#E69F00", "sky": "#56B4E9", "green": "#009E73", "blue": "#0072B2",
    "red": "#D55E00", "purple": "#CC79A7", "indigo": "#332288", "teal": "#44AA99", "olive": "#999933",
    "wine": "#882255", "rose": "#CC6677", "sand": "#DDCC77", "forest": "#117733", "magenta": "#AA4499",
    "grey": "#777777",
}  # fmt: skip


class Look(NamedTuple):
    """What a scheme is called, its colour (a name of COLOURS), and Matplotlib's format of its line."""

    name: str
    colour: str
    line: str


LOOKS = {(model.__name__, name): Look(version.label, version.colour, version.line)
         for model in (ALS, SGD, RBM) for name, (_, version) in model.versions().items()}  # fmt: skip
"""By model and scheme; a variant of a scheme has its colour and a line of its own."""

MODELS = {"ALS": ("green", "-o"), "SGD": ("purple", "-s"), "RBM": ("orange", "-^")}
"""Colour and line of a model, where its schemes are not told apart."""

_WORDS = {"ml": "MovieLens", "yahoomusic": "Yahoo! Music", "msd": "Million Song Dataset", "1": "part 1"}
_WORDS |= {"monti": "(Monti)", "latest": "latest", "small": "small", "synthetic": "(synthetic)"}

WIDTH = 7.5  # inches; as wide as a page of the book, where its text is 12 px
NARROW = 3.7  # inches; as wide as a phone
SMALL = 9  # points; the smallest text of a figure, 11 px on a page and on a phone
_PANELS = "panels"  # the label of figures that this module lays out, and may lay out anew
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


def setup():
    """Draw in the study's style, as SVG, and show tables whole. Call it once, at the top of a chapter."""
    from IPython import get_ipython
    from IPython.core.pylabtools import print_figure
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    pd.set_option("display.max_colwidth", None)
    matplotlib.rcParams.update(_STYLE)
    set_matplotlib_formats("svg")

    def svg(figure):
        # The book takes the title for those who do not see the figure, and offers the source as a download.
        facts = {"Title": description(figure), "Source": figure.get_url(), "Date": None, "Creator": None}
        wide = print_figure(figure, "svg", metadata=facts)
        if figure.get_label() != _PANELS:
            return wide
        return wide, {"narrow": print_figure(narrow(figure), "svg", metadata={"Date": None, "Creator": None})}

    get_ipython().display_formatter.formatters["image/svg+xml"].for_type(Figure, svg)


def save(figure, result, suffix=""):
    """Say below a figure where its result was measured; write it to figures/<source>/ if the result is recorded.

    A file that is `alike` stays as it is: another CPU would write it anew.

    figure : Figure; one with a line of its own below keeps that
    result : results.Result that it shows
    suffix : of the file's name behind that of the experiment, where it has several figures

    Return the same figure
    """
    path = result.path.relative_to(results.repository()) if result.path.is_relative_to(results.repository()) else None
    figure.set_url(path and path.as_posix())
    if not figure.get_supxlabel():
        figure.supxlabel(result.where, fontsize=SMALL, color="0.35")
    if not result.live:
        file, drawn = results.repository() / "figures" / result.source / f"{result.name}{suffix}.svg", io.StringIO()
        with matplotlib.rc_context(_STYLE):
            _move_apart(figure)
            figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
        file.parent.mkdir(parents=True, exist_ok=True)
        if not (file.is_file() and alike(file.read_text(encoding="utf-8"), drawn.getvalue())):
            file.write_text(drawn.getvalue(), encoding="utf-8")
    return figure


def alike(one, other):
    """Whether two SVG files of matplotlib differ at most in the sixth decimal of numbers, and names made of those."""
    (texts, numbers), (other_texts, other_numbers) = map(_texts_and_numbers, (one, other))
    return texts == other_texts and np.allclose(numbers, other_numbers, rtol=0, atol=5e-6)


def _texts_and_numbers(svg):
    names, name, number = {}, r"(?<=[\"#])[a-z][0-9a-f]{10}\b", r"-?\d+(?:\.\d+)?"
    named = re.sub(name, lambda found: names.setdefault(found[0], f"name {len(names)}"), svg)
    return re.split(number, named), np.array(re.findall(number, named), float)


def digits(value):
    """Return a number as a cell of a table or a label shows it, "–" for NaN."""
    return "–" if pd.isna(value) else f"{value:,.0f}" if abs(value) >= 1e3 else f"{value:.3g}"


def significant(value, count=3):
    """Return a number with so many significant digits, zeros at the end among them, so that labels are alike.

    >>> [significant(value) for value in (0.3, 12.46, 594.2, 1148)]
    ['0.300', '12.5', '594', '1,148']
    """
    return digits(value) if pd.isna(value) or abs(value) >= 1e3 else f"{value:#.{count}g}".removesuffix(".")


def narrow(figure):
    """A copy of a drawn figure of `panels` for narrow screens: one panel below another, long texts broken."""
    figure = pickle.loads(pickle.dumps(figure))
    axes = [axis for axis in figure.axes if axis.get_visible() and axis.get_subplotspec()]
    of_place = {}  # the axes of each place in the grid: more than one where they share a panel
    for axis in axes:
        _label_alone(axis, axes)
        of_place.setdefault(axis.get_subplotspec().num1, []).append(axis)
    heights = []
    for of in of_place.values():
        before = of[0].get_position().height * figure.get_figheight()
        heights.append(max(_break_texts(axis, before) for axis in of))
    grid = figure.add_gridspec(len(of_place), 1, height_ratios=heights)
    for place, of in zip(grid, of_place.values(), strict=True):
        for axis in of:
            axis.set_subplotspec(place)
    lines = sum(_in_fewer_columns(figure, legend) for legend in list(figure.legends))
    below = figure.get_supxlabel().replace("commit ", "commit\N{NO-BREAK SPACE}")
    figure.supxlabel(fill(below, 50), fontsize=SMALL, color="0.35")
    figure.set_size_inches(NARROW, sum(heights) + 0.8 * len(heights) + 0.2 * lines)
    _move_apart(figure)
    return figure


def _move_apart(figure):
    """Move labels that are centered above or below their marks sideways until none covers another."""
    movable = {axis: [text for text in axis.texts if _centered(text)] for axis in figure.axes}
    if not any(len(texts) > 1 for texts in movable.values()):
        return
    for text in (text for texts in movable.values() for text in texts):
        text.xyann = (0, text.xyann[1])
    figure.draw_without_rendering()
    for texts in movable.values():
        boxes = [text.get_window_extent().padded(1) for text in texts]
        moves = np.zeros(len(texts))
        order = sorted(range(len(texts)), key=lambda k: boxes[k].x0 + boxes[k].x1)
        pairs = [(a, b) for n, a in enumerate(order) for b in order[n + 1 :]]
        pairs = [(a, b) for a, b in pairs if boxes[a].y0 < boxes[b].y1 and boxes[b].y0 < boxes[a].y1]
        for _ in range(20):
            for a, b in pairs:
                over = boxes[a].x1 + moves[a] - boxes[b].x0 - moves[b]
                if over > 0:
                    moves[[a, b]] += -over / 2, over / 2
        for text, move in zip(texts, moves, strict=True):
            text.xyann = (72 * move / figure.dpi, text.xyann[1])


def _centered(text):
    beside = isinstance(text, Annotation) and text.anncoords == "offset points"
    return beside and text.get_horizontalalignment() == "center" and text.get_verticalalignment() != "center"


def _label_alone(axis, axes):
    """Give a panel the labels that it leaves to those beside and below it."""
    rows, columns = axis.get_subplotspec().rowspan, axis.get_subplotspec().colspan
    for other in axes:
        place = other.get_subplotspec()
        if not axis.get_ylabel() and place.rowspan == rows and axis.get_shared_y_axes().joined(axis, other):
            axis.set_ylabel(other.get_ylabel())
        if not axis.get_xlabel() and place.colspan == columns and axis.get_shared_x_axes().joined(axis, other):
            axis.set_xlabel(other.get_xlabel())
    axis.tick_params(labelbottom=True, labelleft=axis.yaxis.get_ticks_position() != "right")


def _break_texts(axis, height):
    """Break the texts around a panel of a height in inches; return that which it needs then."""
    named = bool(_row_names(axis))  # names of rows leave less width to the panel
    if type(axis.xaxis.get_major_locator()) is AutoLocator:  # whose ticks come close where their numbers are long
        axis.xaxis.set_major_locator(MaxNLocator(4 if named else 6, steps=[1, 2, 5, 10]))
    across, up = 30 if named else 44, max(16, int(12 * height))
    for text, most in ((axis.title, across), (axis.xaxis.label, across), (axis.yaxis.label, up)):
        text.set_text(_broken(text.get_text(), most))
    if not named:
        return height
    names = [_broken(text.get_text(), 22) for text in axis.get_yticklabels()]
    lines = [name.count("\n") + 1 for name in names]
    axis.set_yticks(axis.get_yticks(), names, fontsize=10 if max(lines) == 1 else SMALL)
    pitch = max([1, *((one + other) / 2 for one, other in pairwise(lines))])
    return max(height, len(names) * pitch * 0.17)


def _broken(text, most):
    """Break the lines of a text that have more characters."""
    return "\n".join(fill(line, most) for line in text.split("\n"))


def _in_fewer_columns(figure, legend):
    """Put a figure's legend into one column or two, whichever fits; return its number of lines."""
    named = [axis.get_legend_handles_labels() for axis in figure.axes]
    drawn = {label: handle for handles, names in named for handle, label in zip(handles, names, strict=True)}
    labels = [text.get_text() for text in legend.get_texts()]
    handles = [drawn.get(label, sample) for label, sample in zip(labels, legend.legend_handles, strict=True)]
    columns = 1 if max(map(len, labels)) > 20 else 2
    legend.remove()
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)
    return -(-len(labels) // columns)


def description(figure):
    """What a figure shows, in words: of each of its axes the title, what stands against what, and who is drawn."""
    shown, before = [], []
    for axis in figure.axes:
        sides = [(axis.yaxis, axis.get_ylabel()), (axis.xaxis, axis.get_xlabel())]
        labels = [label + ", logarithmic" * (side.get_scale() == "log") for side, label in sides if label]
        if not (axis.get_visible() and labels):
            continue
        words = [": ".join(filter(None, [axis.get_title(), " against ".join(labels)]))]
        for name, listed in (("Rows", _row_names(axis)), ("Drawn", axis.get_legend_handles_labels()[1])):
            if listed and listed not in before:
                words.append(f"{name}: {'; '.join(dict.fromkeys(listed))}")
                before.append(listed)
        shown.append(" ".join(". ".join(words).replace("$", "").split()))
    several = f"{len(shown)} panels. " if len(shown) > 1 else ""
    return several + ". ".join(shown) + "."


def _row_names(axis):
    """What the rows of an axis are called, where they have names instead of numbers."""
    if not isinstance(axis.yaxis.get_major_locator(), FixedLocator):
        return []
    return [text.get_text() for text in axis.get_yticklabels() if any(map(str.isalpha, text.get_text()))][::-1]


def panels(columns=1, rows=1, height=3.6, width=WIDTH, **options):
    """(figure, array of rows x columns axes) of a size in inches."""
    # Not pyplot, whose open figures a notebook shows once more than asked.
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained", label=_PANELS)
        return figure, figure.subplots(rows, columns, squeeze=False, **options)


def legend(figure, axis, columns):
    """That of an axis above all axes, where it cannot cover data."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)


def marks(axis, values, place, colours, label=None, marker="o", sure=None, spread=None):
    """One mark a row: on a logarithmic axis the length of a bar would say nothing.

    values, place : where the marks stand, by x and by y; there is none where a value is missing
    colours : a name of COLOURS, or one for each
    sure : bool each; marks are hollow where it is False
    spread : half the width of a line through each
    """
    colours = [COLOURS[name] for name in ([colours] * len(place) if isinstance(colours, str) else colours)]
    filled = np.ones(len(place), bool) if sure is None else np.asarray(sure, bool)
    faces = [colour if full else "white" for colour, full in zip(colours, filled, strict=True)]
    if spread is not None:
        axis.errorbar(values, place, xerr=spread, fmt="none", ecolor="0.4", capsize=2)
    axis.scatter(values, place, 40, faces, marker=marker, edgecolors=colours, linewidths=1.5, label=label, zorder=3)


def log_scale(axis):
    """Make a drawn axis (x or y) logarithmic, with labels that do not run into each other: powers of ten where plain
    numbers would be long."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    axis.set_minor_formatter(NullFormatter())
    if high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1, 3)))
    if low > 5e-4 and high < 2e4:
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))


def data_name(name: str) -> str:
    """Return what readers call a data set.

    >>> [data_name(name) for name in ("ml-10m-synthetic", "netflix-synthetic, 500 x 20", "jester-1")]
    ['MovieLens 10M (synthetic)', 'Netflix (synthetic), 500 x 20', 'Jester part 1']
    """
    name, *part = name.split(", ", 1)
    words = [_WORDS.get(word, word.upper() if word[0].isdigit() else word.title()) for word in name.split("-")]
    return ", ".join([" ".join(words), *part])


def curve(axis, series, model, scheme, label=None):
    """One line of a scheme, as it looks everywhere; called `label`, or what the scheme is called."""
    look = LOOKS[model, scheme]
    axis.plot(series.index, series, look.line, color=COLOURS[look.colour], label=label or look.name, markersize=4)


def dots(series, xlabel, log=True):
    """A figure of one labelled dot a row of a series, from top to bottom."""
    figure, ((axis,),) = panels(height=1.0 + 0.28 * len(series))
    place = np.arange(len(series))[::-1]
    axis.plot(series, place, "o", color=COLOURS["blue"])
    axis.set_yticks(place, [name if isinstance(name, str) else ", ".join(map(str, name)) for name in series.index])
    axis.set(xlabel=xlabel)
    if log:
        log_scale(axis.xaxis)
    return figure


def convergence(frame, data, metric, schemes, with_model):
    """Test error against epochs (left) and against seconds of training (right), one line a scheme.

    frame : DataFrame with a row an epoch: data, model, scheme, repeat, epoch, seconds, and the metric
    data : names of data sets, one row of axes each
    metric : 'mae' or 'rmse'
    schemes : (model, scheme) of the lines, in the order of the legend
    with_model : whether the legend names the models
    """
    figure, axes = panels(columns=2, rows=len(data), height=1 + 2.7 * len(data), sharey="row")
    for (by_epoch, by_time), name in zip(axes, data, strict=True):
        runs = frame[(frame.data == name) & (frame.epoch > 0)]
        for model, scheme in schemes:
            run = runs[(runs.model == model) & (runs.scheme == scheme)]
            if run.empty:
                continue
            label = f"{model}, {LOOKS[model, scheme].name}" if with_model else None
            median = run.groupby("epoch")[["seconds", metric]].median()
            curve(by_epoch, median[metric], model, scheme, label)
            curve(by_time, median.set_index("seconds")[metric], model, scheme, label)
        # The first epochs of SGD are far above everything worth seeing.
        shown = runs[metric].dropna()  # without what diverged
        by_epoch.set_ylim(shown.min() - 0.02 * np.ptp(shown), np.quantile(shown, 0.95))
        by_epoch.set(xlabel="epochs", ylabel=f"test {metric.upper()} on {data_name(name)}")
        by_epoch.xaxis.set_major_locator(MaxNLocator(integer=True))
        by_time.set(xlabel="seconds of training")
        log_scale(by_time.xaxis)
    legend(figure, axes[0, 0], 3)
    return figure
