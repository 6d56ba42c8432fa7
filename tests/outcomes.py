"""What comes out of an experiment, as tests look at it: words of its findings, and what its figures show."""

import pandas as pd

from gpumf import experiments
from gpumf import figure_style as style
from gpumf.findings import MISSING

FINDINGS = {finding.id: finding for _, finding in experiments.findings()}


def word(name, *frames):
    """That the finding of this name has for frames, one a device; a value that is no number is missing."""
    finding = FINDINGS[name]
    value, spread, unit = finding.value(*frames)
    assert isinstance(unit, str), name
    return MISSING if pd.isna(value) else finding.rule.word(value, 0.0 if pd.isna(spread) else spread)


def promise_words(name, columns, rows, *others):
    """`word` of rows with these columns."""
    return word(name, *(pd.DataFrame(r, columns=columns) for r in (rows, *others)))


def labelled(figure):
    """Whether a saved figure says that it was measured, and each axis what it shows."""
    return figure.get_supxlabel().startswith("Measured") and all(
        axis.get_xlabel() for axis in figure.axes if axis.get_visible()
    )


def lines(axis):
    """What is drawn under each label: (x, y)."""
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axis.lines}


def assert_drawn(figure, result, axes):
    """That a figure has so many axes, with labels and data, and says once it is saved where it was recorded."""
    figure = style.save(figure, result)
    assert len(figure.axes) == axes and figure.get_supxlabel().startswith("Recorded on a GPU")
    assert all(axis.get_xlabel() and axis.has_data() for axis in figure.axes)
