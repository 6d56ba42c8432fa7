"""What comes out of an experiment, as tests look at it: verdicts of its claims, and what its figures show."""

import re

import numpy as np
from matplotlib import rcParamsDefault
from matplotlib.colors import same_color
from matplotlib.container import Container
from matplotlib.lines import Line2D

from gpumf_study import experiments
from gpumf_study.claims import verdict

NOT_CHOSEN = rcParamsDefault["axes.prop_cycle"].by_key()["color"]
CLAIMS = {claim.id: claim for _, claim in experiments.claims()}


def word(name, frame):
    """Return the verdict of the claim of this name for a frame."""
    return verdict(CLAIMS[name], CLAIMS[name].estimate(frame))


def labelled(figure):
    """Whether a saved figure says that it was measured, and each axis what it shows."""
    return figure.get_supxlabel().startswith("Measured") and all(
        axis.get_xlabel() for axis in figure.axes if axis.get_visible()
    )


def lines(axis):
    """What is drawn under each label: (x, y)."""
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axis.lines}


# How labels of axes begin, and the column of a frame that they name, unless they say 'above' what.
NAMED = {"CUDA threads": "threads", "test MAE": "mae", "test RMSE": "rmse", "epochs": "epoch", "factors": "factors"}


def assert_shows(figure, frame):
    """What is drawn along an axis that names a column of the frame lies among the column's values."""
    for axis in figure.axes:
        of_data = [line for line in axis.lines if line.get_transform() == axis.transData]
        of_data = [line for line in of_data if line.get_marker() not in ("_", "|")]  # the ends of error bars
        for label, along in ((axis.get_xlabel(), "get_xdata"), (axis.get_ylabel(), "get_ydata")):
            named = {column for words, column in NAMED.items() if label.startswith(words)} & set(frame)
            for column in named if " above " not in label else ():
                low, high = frame[column].min(), frame[column].max()
                for line in of_data:
                    drawn = np.asarray(getattr(line, along)(), float)
                    assert ((drawn > low - 1e-9) & (drawn < high + 1e-9) | np.isnan(drawn)).all(), label


def assert_whole(figure):
    """Axes say what they show, and of several things under a label a legend says which is which."""
    axes = [axis for axis in figure.axes if axis.get_visible()]
    explained = {text.get_text() for legend in legends(figure) for text in legend.get_texts()}
    for axis in axes:
        assert axis.has_data() and axis.get_xlabel()
        beside = axis.get_shared_y_axes().get_siblings(axis)
        assert any(map(says_what_is_up, beside)), f"nothing says what is up above {axis.get_xlabel()!r}"
        handles, labels = axis.get_legend_handles_labels()
        if len(labels) > 1:
            assert set(labels) <= explained
        for handle, label in zip(handles, labels, strict=True):
            # Figures choose their colours; Matplotlib's own are those of whoever forgot to.
            assert not any(same_color(a, b) for a in colours_of(handle) for b in NOT_CHOSEN), label


def legends(figure):
    """Those of the figure and those of its axes."""
    return [*figure.legends, *(axis.get_legend() for axis in figure.axes if axis.get_legend())]


def says_what_is_up(axis):
    """A label, or a word at a tick, or no ticks at all; the bar of a colour map says it below."""
    ticks = [text.get_text() for text in axis.get_yticklabels()]
    words = any(re.sub(r"\$.*\$", "", tick).strip("0123456789.−-") for tick in ticks)  # $..$: a power of ten
    return axis.get_ylabel() or axis.get_label() == "<colorbar>" or words or not len(axis.get_yticks())


def colours_of(artist):
    """The colours, without their opacity, of a line, of bars, or of what there are several of."""
    if isinstance(artist, Container):
        return [colour for child in artist.get_children() for colour in colours_of(child)]
    if isinstance(artist, Line2D):
        return [artist.get_color()]
    return [face[:3] for face in np.atleast_2d(artist.get_facecolor()) if len(face)]
