"""What figures have in common: dots, and a look for each scheme."""

import re
from itertools import pairwise
from types import SimpleNamespace

import matplotlib
import pandas as pd
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.text import Text

from gpumf import ALS, RBM, SGD, ImplicitALS
from gpumf_study import figure_style as style
from gpumf_study import results
from gpumf_study.experiments.cumf import als_versions
from gpumf_study.experiments.gpumf import sgd_netflix


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
        assert [name.get_text() for name in names] == ["a", "a name that is far too\nlong"]
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
    assert heights[1] < 12 * 0.8, "three lines take less than an inch"


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


@pytest.mark.parametrize("inside", [True, False])
def test_a_figure_leads_to_its_result_where_the_repository_has_it(inside, tmp_path, monkeypatch):
    monkeypatch.setattr(style.results, "repository", lambda: tmp_path / "here")
    path = tmp_path / ("here" if inside else "elsewhere") / "data" / "x.csv"
    figure, _ = style.panels()
    shown = style.save(figure, SimpleNamespace(path=path, where="Measured live", live=True))
    assert shown.get_url() == ("data/x.csv" if inside else None)
    assert shown.get_supxlabel() == "Measured live" and not (tmp_path / "here").exists()


def test_a_figure_of_another_cpu_is_kept_and_a_changed_one_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "repository", lambda: tmp_path)
    result = SimpleNamespace(path=tmp_path / "a.csv", where="Recorded", live=False, source="thesis", name="a")
    file = tmp_path / "figures/thesis/a.svg"

    def drawn(values, label="seconds"):
        figure, ((axis,),) = style.panels()
        axis.plot(values, marker="o", label=label)
        axis.set_ylabel(label)
        style.save(figure, result)
        return file.read_text(encoding="utf-8")

    first = drawn([1, 2, 3])
    (coordinate,) = set(re.findall(r"(?<=M )(\d+\.\d{5})\d(?= )", first)[:1])
    names = re.findall(r'(?<=id=")[a-z][0-9a-f]{10}(?=")', first)
    other = first.replace(coordinate, coordinate[:-1] + str((int(coordinate[-1]) + 1) % 10))
    rounded = re.sub(re.escape(coordinate) + r"\d", lambda found: f"{float(found[0]) + 1e-6:.6f}", first)
    assert names and rounded != first
    renamed = rounded.replace(names[0], names[0][0] + "0123456789")
    file.write_text(renamed, encoding="utf-8")
    assert drawn([1, 2, 3]) == renamed
    file.write_text(other, encoding="utf-8")
    assert drawn([1, 2, 3]) == first and drawn([1, 2, 4]) != first
    assert drawn([1, 2, 3]) == first and drawn([1, 2, 3], "minutes") != first


def test_labels_of_marks_have_as_many_digits_each():
    shown = {0.3: "0.300", 12.46: "12.5", 594.2: "594", 1148.0: "1,148", 0.00329: "0.00329"}
    assert {value: style.significant(value) for value in shown} == shown
    assert [style.significant(value, 2) for value in (3.0, 12.5, float("nan"))] == ["3.0", "12", "–"]


def test_on_a_narrow_screen_no_label_above_a_mark_covers_another():
    figure, ((axis,),) = style.panels()
    axis.plot([1, 97, 131, 200], [0] * 4, "o")
    for value in (1, 97, 131, 200):
        axis.annotate(f"{value}.00", (value, 0), (0, 9), textcoords="offset points", ha="center")
    for drawn in (figure, style.narrow(figure), style.narrow(style.narrow(figure))):
        drawn.draw_without_rendering()
        boxes = [text.get_window_extent() for text in drawn.axes[0].texts]
        assert drawn is figure or all(one.x1 < other.x0 for one, other in pairwise(boxes))
    alone = [text.xyann[0] for text in style.narrow(figure).axes[0].texts]
    assert alone[0] == 0 > alone[1], "what is free stays where it is"


def test_breaks_of_names_stay_and_no_text_is_smaller_than_the_smallest():
    figure = style.dots(
        pd.Series(1.0, index=["MovieLens 100K\n64 x 64, f = 16", "MovieLens 10M (synthetic)\nf = 2"]), "x"
    )
    figure.supxlabel("Recorded on NVIDIA H200, 2026-11-26, commit 45137f3c7.", fontsize=style.SMALL)
    narrow = style.narrow(figure)
    names = [text.get_text() for text in narrow.axes[0].get_yticklabels()]
    assert names == ["MovieLens 100K\n64 x 64, f = 16", "MovieLens 10M\n(synthetic)\nf = 2"]
    assert all(text.get_fontsize() >= style.SMALL for text in narrow.findobj(Text) if text.get_text())
    assert narrow.get_supxlabel().endswith("\ncommit\N{NO-BREAK SPACE}45137f3c7.")


@pytest.mark.parametrize("name", ["ladder", "roofline"])
def test_on_a_phone_labels_beside_marks_stand_apart(name):
    """And inside the figure, and so do the numbers of its axes."""
    if name == "ladder":
        limits = results.load("sgd_limits").frame
        bound = (limits.x_nnz / limits.x_limit_seconds).iloc[0]
        figure = sgd_netflix.figure_ladder(results.load("sgd_netflix").frame, bound)
    else:
        frames = (results.load(of).frame for of in ("als_versions", "ceilings"))
        figure = als_versions.figure_roofline(*frames, "netflix-synthetic", 100)
    narrow = style.narrow(figure)
    narrow.draw_without_rendering()
    (axis,) = narrow.axes
    low, high = axis.get_xlim()
    numbers = [text for text in axis.get_xticklabels() if low <= text.get_position()[0] <= high]
    boxes = [text.get_window_extent() for text in [*axis.texts, *numbers]]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    assert max(box.x1 for box in boxes) <= narrow.bbox.x1 + 2
