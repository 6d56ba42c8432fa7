"""What is drawn of the recorded results: every line, bar, dot, colour and word is that of the kept figure."""

import io
import re
import xml.etree.ElementTree as ET

import matplotlib
import numpy as np
import pytest

from gpumf_study import experiments, results
from gpumf_study import figure_style as style
from gpumf_study.experiments.gpumf import sgd_schemes
from outcomes import assert_shows
from support import ROOT

pytestmark = pytest.mark.slow


def part(attribute="figure", *arguments, **named):
    """How an experiment's module draws a result where it is told more than the frame."""
    return lambda module, result: getattr(module, attribute)(result.frame, *arguments, **named)


def cost(module, result):
    ended = sgd_schemes.summary(results.load("sgd_schemes").frame)
    ended = ended[(ended.data == "jester-1") & (ended.device == "cuda") & ~ended.scheme.isin(module.APART)]
    return module.figure_cost(module.cost(result.frame, ended), "jester-1")


def ladder(module, result):
    limits = results.load("sgd_limits").frame
    return module.figure_ladder(result.frame, (limits.x_nnz / limits.x_limit_seconds).iloc[0])


# What chapters tell the figures that are not of the frame alone.
TOLD = {
    "cumf/als_versions": part("figure", "ALS", [("douban-synthetic", 16), ("netflix-synthetic", 100)]),
    "cumf/als_versions_implicit": part(
        "figure", "ImplicitALS", [("netflix-synthetic", 64), ("netflix-synthetic", 128)]
    ),
    "cumf/als_versions_phases": part("figure_phases", "netflix-synthetic", 100),
    "cumf/als_versions_roofline": lambda module, result: module.figure_roofline(
        result.frame, results.load("ceilings", result.device).frame, "netflix-synthetic", 100
    ),
    "gpumf/lost_updates_cost": cost,
    "gpumf/sgd_netflix_ladder": ladder,
    "gpumf/all_schemes_seconds": part("figure_seconds"),
    "thesis/parameter_search_als": part("figure", "ALS", "regularization"),
    "thesis/parameter_search_rbm": part("figure", "RBM, thesis", "learning_rate"),
    "thesis/parameter_search_sgd": part("figure", "SGD", "regularization"),
    "thesis/parameter_search_sgd_rate": part("figure", "SGD", "learning_rate"),
    "thesis/rbm_speed_updates": part("figure_updates"),
    "thesis/rbm_tuning": part("figure", "jester-1"),
    "thesis/thread_scaling_blocks": lambda module, result: module.figure_blocks(result.frame, result.provenance),
}
FIGURES = [path for path in ROOT.glob("figures/*/*.svg") if path.parent.name != "drawings"]
# Read before a test of the same run builds the book, whose pages write their figures.
KEPT = {
    path.relative_to(ROOT / "figures").with_suffix("").as_posix(): path.read_text(encoding="utf-8")
    for path in FIGURES
}
SVG, NUMBER = "{http://www.w3.org/2000/svg}", re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")


def artists(svg):
    """What an SVG of Matplotlib shows: a list of (kind, style, or axes and text, positions as shares of its axes)."""
    found = []

    def walk(node, frame, axes=""):
        name = node.get("id", "")
        if name.startswith("axes_"):
            axes = name
            box = next(path for path in node.iter(f"{SVG}path") if path.get("d"))
            corners = np.array(NUMBER.findall(box.get("d")), float).reshape(-1, 2)
            frame = corners.min(axis=0), np.ptp(corners, axis=0)
        look = "; ".join(sorted(part.strip() for part in node.get("style", "").split(";") if "font" not in part))
        if node.tag == f"{SVG}text":
            found.append(("text", f"{axes} {''.join(''.join(node.itertext()).split())}", None))
        if node.tag == f"{SVG}path" and frame is not None and node.get("d"):
            places = np.array(NUMBER.findall(node.get("d")), float)
            if len(places) % 2 == 0:
                found.append(("path", look, (places.reshape(-1, 2) - frame[0]) / frame[1]))
        if node.tag == f"{SVG}use" and frame is not None and node.get("x"):
            place = np.array([[float(node.get("x")), float(node.get("y"))]])
            found.append(("marker", look, (place - frame[0]) / frame[1]))
        for child in node:
            if child.tag != f"{SVG}defs":  # shapes of markers
                walk(child, frame, axes)

    walk(ET.fromstring(svg), None)
    return found


def size(svg):
    """(width, height) of an SVG, in points."""
    root = ET.fromstring(svg)
    return root.get("width"), root.get("height")


def result_of(kept):
    """The recorded result that a kept figure says below it to be of."""
    source, stem = kept.split("/")
    text = KEPT[kept]
    name = max((name for name in experiments.names() if stem.startswith(name)), key=len)
    for path in sorted((ROOT / "data/results").glob(f"*/{source}/{name}.csv")):
        result = results.load(name, path.parents[1].name)
        if result.where in text or "not measured" in text:
            return result, text
    raise AssertionError(f"{kept} is of no recorded result")


def test_figures_that_are_told_more_are_kept():
    assert set(TOLD) <= set(KEPT)


@pytest.mark.parametrize("kept", sorted(KEPT))
def test_a_kept_figure_shows_what_is_drawn_of_its_result(kept):
    result, text = result_of(kept)
    file = io.BytesIO()
    with matplotlib.rc_context(style._STYLE):  # as style.setup, once in a chapter
        figure = TOLD.get(kept, part())(experiments.module(result.name), result)
        if not figure.get_supxlabel():
            figure.supxlabel(result.where, fontsize=style.SMALL, color="0.35")
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    made = file.getvalue().decode()
    drawn, expected = artists(made), artists(text)
    assert size(made) == size(text)
    assert [part[:2] for part in drawn] == [part[:2] for part in expected]
    assert sum(kind != "text" for kind, *_ in drawn) > 10
    for (kind, look, places), (*_, there) in zip(drawn, expected, strict=True):
        if kind != "text":
            assert places.shape == there.shape, look
            np.testing.assert_allclose(places, there, atol=0.002, err_msg=f"{kind} {look}")


# Recorded results whose figures are drawn of the frame alone; that of sparsity has no steps, so an empty summary.
DRAWN = [
    (path.stem, path.parts[-3])
    for path in sorted((ROOT / "data/results").glob("*/*/*.csv"))
    if f"{path.parent.name}/{path.stem}" not in {*TOLD, "thesis/sparsity"}
    and path.stem in experiments.names()
    and hasattr(experiments.module(path.stem), "figure")
]


@pytest.mark.parametrize(("name", "device"), DRAWN)
def test_an_axis_that_names_a_column_shows_it(name, device):
    frame = results.load(name, device).frame
    assert_shows(experiments.module(name).figure(frame), frame)
