"""What figures have in common: dots, and a look for each scheme."""

from types import SimpleNamespace

import matplotlib
import pandas as pd
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gpumf import ALS, RBM, SGD, ImplicitALS
from gpumf_study import figure_style as style


def test_dots_are_drawn_from_top_to_bottom():
    (axis,) = style.dots(pd.Series([3.0, 5.0], index=["one", ("two", 2)]), "things", log=False).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["one", "two, 2"]
    assert list(axis.lines[0].get_xdata()) == [3, 5] and list(axis.lines[0].get_ydata()) == [1, 0]
    assert axis.get_xlabel() == "things"


def test_dots_have_their_spread_in_the_colour_of_all_that_stands_alone():
    series, spread = pd.Series([3.0, 5.0], index=["one", "two"]), [[1.0, 0.5], [2.0, 4.0]]
    (axis,) = style.dots(series, "things", log=False, spread=spread).axes
    (dots, caps, (bars,)) = axis.containers[0]
    assert [segment[:, 0].tolist() for segment in bars.get_segments()] == [[2, 5], [4.5, 9]]
    assert len(caps) == 2
    for drawn in (dots, *caps, bars):
        assert same_color(drawn.get_color(), style.COLOURS["blue"])


@pytest.mark.parametrize("model", [ALS, ImplicitALS, SGD, RBM])
def test_no_two_schemes_of_a_model_look_alike(model):
    versions = [version for _, version in model.versions().values()]
    assert {solver for solver, _ in model.versions().values()} == set(model.solvers())
    _, ((axis,),) = style.panels()
    assert len({version.label for version in versions}) == len(versions)
    assert len({(version.colour, version.line) for version in versions}) == len(versions)
    for version in versions:
        axis.plot([0], [0], version.line, color=style.COLOURS[version.colour])


@pytest.mark.parametrize("model", [ALS, ImplicitALS, SGD])
def test_one_colour_a_scheme_and_its_variants_share_it(model):
    of_schemes = {
        name: {version.colour for version in s.versions.values()} for name, s in model.solver_classes().items()
    }
    assert {len(colours) for colours in of_schemes.values()} == {1}
    assert len(set.union(*of_schemes.values())) == len(of_schemes)


def test_figures_draw_schemes_as_they_declare_it():
    assert style.LOOKS["SGD", "fast, FP32"] == ("fast, FP32", "black", "--")
    assert [name for model, name in style.LOOKS if model == "RBM"] == list(RBM.versions())


def test_panels_are_as_wide_as_a_page_and_share_it():
    figure, axes = style.panels(rows=2, columns=3, height=5)
    assert figure.get_size_inches().tolist() == [9, 5] and axes.shape == (2, 3)
    assert style.panels(width=4)[0].get_size_inches().tolist() == [4, 3.6]


@pytest.mark.parametrize("log", [True, False])
def test_dots_are_on_the_scale_that_is_asked_for(log):
    (axis,) = style.dots(pd.Series([3.0, 5.0], index=["one", "two"]), "things", log=log).axes
    assert axis.get_xscale() == ("log" if log else "linear") and axis.get_yscale() == "linear"
    (axis,) = style.dots(pd.Series([3.0, 5.0], index=["one", "two"]), "things").axes
    assert axis.get_xscale() == "log"


@pytest.mark.parametrize(
    ("highest", "labels"), [(50.0, {"1", "3", "10", "30"}), (5000.0, {"1", "10", "100", "1000"}), (1e6, None)]
)
def test_a_logarithmic_axis_has_plain_numbers_where_they_are_short_and_more_of_them_in_few_decades(highest, labels):
    figure, ((axis,),) = style.panels()
    axis.plot([1, 2], [1, highest])
    style.log_scale(axis.yaxis)
    figure.draw_without_rendering()
    low, high = axis.get_ylim()
    shown = {text.get_text() for at, text in zip(axis.get_yticks(), axis.get_yticklabels(), strict=True)
             if low <= at <= high}  # fmt: skip
    assert axis.get_xscale() == "linear" and axis.get_yscale() == "log"
    assert shown == labels if labels else all("10^" in text for text in shown)
    assert not any(text.get_text() for text in axis.get_yticklabels(minor=True))


def test_convergence_starts_after_the_first_epoch_and_is_drawn_by_epochs_and_by_seconds():
    rows = [
        (data, "SGD", scheme, repeat, epoch, epoch * seconds, 900.0 if epoch == 0 else 2 + repeat + 1 / epoch)
        for data in ("a", "b")
        for scheme, seconds in (("fast", 0.5), ("hogwild", 2.0))
        for repeat in (0, 1, 5)
        for epoch in (0, 1, 2)
    ]
    frame = pd.DataFrame(rows, columns=["data", "model", "scheme", "repeat", "epoch", "seconds", "rmse"])
    frame.loc[(frame.scheme == "fast") & (frame.repeat == 5) & (frame.epoch == 1), "rmse"] = 108
    schemes = [("SGD", "hogwild"), ("SGD", "fast"), ("ALS", "parallel")]
    figure = style.convergence(frame, ["b", "a"], "rmse", schemes, with_model=True)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["SGD, Hogwild", "SGD, fast"]
    for left, right, name in zip(figure.axes[::2], figure.axes[1::2], "ba", strict=True):
        for (seconds, look), by_epoch, by_time in zip(
            ((2.0, style.LOOKS["SGD", "hogwild"]), (0.5, style.LOOKS["SGD", "fast"])), left.lines, right.lines,
            strict=True,
        ):  # fmt: skip
            assert by_epoch.get_xydata().tolist() == [[1, 4], [2, 3.5]]
            assert by_time.get_xydata().tolist() == [[seconds, 4], [2 * seconds, 3.5]]
            assert same_color(by_epoch.get_color(), style.COLOURS[look.colour])
        # From 2.5 less 2 % of what all cover, to the value that 5 % of the twelve are above.
        assert left.get_ylim() == pytest.approx((2.5 - 0.02 * 105.5, 8 + 0.45 * 100))
        assert left.get_ylabel() == f"test RMSE on {name}" and left.get_xlabel() == "epochs"
        assert right.get_xlabel() == "seconds of training" and right.get_xscale() == "log"


def test_marks_that_are_less_sure_are_hollow():
    _, ((axis,),) = style.panels()
    style.marks(axis, [1, 2, 4], [0, 1, 2], ["blue", "green", "red"], "times", sure=[True, False, True])
    (marks,) = axis.collections
    faces, edges = marks.get_facecolor(), marks.get_edgecolor()
    assert [same_color(face, "white") for face in faces] == [False, True, False]
    assert all(
        same_color(edge, style.COLOURS[name]) for edge, name in zip(edges, ("blue", "green", "red"), strict=True)
    )
    assert marks.get_offsets().tolist() == [[1, 0], [2, 1], [4, 2]] and marks.get_label() == "times"


def test_marks_may_have_a_spread():
    _, ((axis,),) = style.panels()
    style.marks(axis, [1, 2], [0, 1], "blue", spread=[0.5, 0])
    lines, marks = axis.collections
    assert [segment[:, 0].tolist() for segment in lines.get_segments()] == [[0.5, 1.5], [2, 2]]
    assert len(marks.get_offsets()) == 2


def test_a_figure_is_told_in_words():
    figure, (axes,) = style.panels(columns=2)
    for axis, data in zip(axes, ("one set", "another"), strict=True):
        axis.plot([1, 2], [0, 1], label="ALS")
        axis.set_yticks([0, 1], ["slow", "fast"])
        axis.set(title=data, xlabel="seconds")
        style.log_scale(axis.xaxis)
    assert style.description(figure) == (
        "2 panels. one set: seconds, logarithmic. Rows: fast; slow. Drawn: ALS. another: seconds, logarithmic."
    )
    figure, ((axis,),) = style.panels()
    axis.set(xlabel="epochs", ylabel="error")
    assert style.description(figure) == "error against epochs."


def two_panels():
    """Two panels that share an axis, drawn, with a legend and a name that is long."""
    figure, (axes,) = style.panels(columns=2, sharey=True)
    for axis, title in zip(axes, ("left", "right"), strict=True):
        for label in ("one", "two"):
            axis.plot([1, 2], [0, 1], label=label)
        axis.set(title=title, xlabel=f"things {title}")
    axes[0].set_ylabel("who")
    axes[0].set_yticks([0, 1], ["a", "a name that is far too long"])
    style.legend(figure, axes[0], 2)
    figure.draw_without_rendering()
    return figure


def test_on_a_narrow_screen_panels_stand_one_below_another_with_labels_of_their_own():
    wide = two_panels()
    narrow = style.narrow(wide)
    narrow.draw_without_rendering()
    places = [axis.get_position() for axis in narrow.axes]
    assert narrow.get_figwidth() == style.NARROW and narrow.get_figheight() > wide.get_figheight()
    assert places[0].y0 > places[1].y1 and places[0].x0 == pytest.approx(places[1].x0)
    for axis, title in zip(narrow.axes, ("left", "right"), strict=True):
        assert (axis.get_ylabel(), axis.get_xlabel(), axis.get_title()) == ("who", f"things {title}", title)
        names = [label for label in axis.get_yticklabels() if label.get_visible()]
        assert [name.get_text() for name in names] == ["a", "a name that is far\ntoo long"]
    (legend,) = narrow.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two"]


def test_the_wide_figure_stays_as_it_is():
    wide = two_panels()
    before = wide.get_size_inches().tolist(), [axis.get_position().bounds for axis in wide.axes]
    style.narrow(wide)
    assert before == (wide.get_size_inches().tolist(), [axis.get_position().bounds for axis in wide.axes])
    assert wide.axes[1].get_ylabel() == "" and wide.axes[0].get_yticklabels()[1].get_text().count("\n") == 0


def test_a_legend_of_long_words_has_one_column_and_keeps_its_samples():
    figure, ((axis,),) = style.panels()
    axis.plot([1], [1], color="red", label="b")
    patch = Patch(color="green", label="of no axis, and longer than half of a phone")
    figure.legend(handles=[axis.lines[0], patch], loc="outside upper center", ncols=2)
    narrow = style.narrow(figure)
    narrow.draw_without_rendering()
    (legend,) = narrow.legends
    line, other = legend.legend_handles
    low, high = (text.get_window_extent().y0 for text in reversed(legend.get_texts()))
    assert same_color(line.get_color(), "red") and same_color(other.get_facecolor(), "green")
    assert low < high


def test_a_panel_grows_with_the_names_of_its_rows():
    heights = []
    for name in ("short", "as many words as take three lines of a phone, no fewer"):
        figure = style.dots(pd.Series(1.0, index=[f"{name} {k}" for k in range(12)]), "things")
        figure.draw_without_rendering()
        heights.append(style.narrow(figure).get_figheight())
    assert heights[1] > 1.3 * heights[0]


def test_a_notebook_gets_both_forms_of_what_is_laid_out_here(monkeypatch):
    formatters = pytest.importorskip("IPython.core.formatters")
    shell = SimpleNamespace(display_formatter=formatters.DisplayFormatter())
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr("matplotlib_inline.backend_inline.set_matplotlib_formats", lambda kind: None)
    with matplotlib.rc_context(), pd.option_context("display.max_colwidth", None):
        style.setup()
        shown = shell.display_formatter.formatters["image/svg+xml"]
        wide, beside = shown(two_panels())
        assert "<dc:title>2 panels. left: who against things left." in wide and "<svg" in beside["narrow"]
        foreign = Figure(figsize=(9, 3))
        foreign.subplots().xaxis.set_major_formatter(lambda value, place: "no copy of this can be made")
        assert isinstance(shown(foreign), str)
