"""What is drawn of the recorded results: every line, bar, dot, colour and word is that of the kept figure."""

import io
import re
import xml.etree.ElementTree as ET
from functools import partial

import matplotlib
import numpy as np
import pytest

from gpumf import experiments, results
from gpumf import figure_style as style
from support import ROOT

# Kept figures that an experiment's `figure` draws without being told what of, and those drawn otherwise.
PLAIN = [
    "thesis/als_sgd_rbm", "thesis/crossover", "thesis/first_comparison", "thesis/picture_completion",
    "thesis/rbm_speed", "thesis/sparsity", "thesis/speedups", "thesis/stale_rbm", "thesis/theoretical_flops",
    "thesis/thread_scaling", "cumf/als_netflix", "cumf/implicit_quality", "esgd/sgd_conflicts",
    "gpumf/als_convergence", "gpumf/als_scaling", "gpumf/blend_ml100k", "gpumf/kernel_limits", "gpumf/rating_counts",
    "gpumf/sgd_spread",
]  # fmt: skip


def drawn_by(name, attribute, *arguments, **named):
    return partial(getattr(experiments.module(name), attribute), *arguments, **named)


OTHERS = {
    "cumf/als_versions": lambda f: drawn_by("als_versions", "figure")(
        f, "ALS", [("douban-twin", 16), ("netflix-twin", 100)]
    ),
    "cumf/als_versions_implicit": lambda f: drawn_by("als_versions", "figure")(
        f, "ImplicitALS", [("netflix-twin", 64), ("netflix-twin", 128)]
    ),
    "cumf/als_versions_phases": lambda f: drawn_by("als_versions", "figure_phases")(f, "netflix-twin", 100),
    "cumf/als_versions_roofline": lambda f: drawn_by("als_versions", "figure_roofline")(
        f, results.load("ceilings").frame, "netflix-twin", 100
    ),
    "thesis/parameter_search_als": lambda f: drawn_by("parameter_search", "figure")(f, "ALS", "regularization"),
    "thesis/parameter_search_rbm": lambda f: drawn_by("parameter_search", "figure")(f, "RBM", "learning_rate"),
    "thesis/parameter_search_sgd": lambda f: drawn_by("parameter_search", "figure")(f, "SGD", "regularization"),
    "thesis/parameter_search_sgd_rate": lambda f: drawn_by("parameter_search", "figure")(f, "SGD", "learning_rate"),
    "thesis/rbm_speed_updates": lambda f: drawn_by("rbm_speed", "figure_updates")(f),
    "thesis/rbm_tuning": lambda f: drawn_by("rbm_tuning", "figure")(f, "jester-1"),
    "thesis/rbm_tuning_ml100k": lambda f: drawn_by("rbm_tuning", "figure")(f, "ml-100k"),
    "thesis/speedups_gpu": lambda f: drawn_by("speedups", "figure")(f, on_gpu=True),
}
SVG, NUMBER = "{http://www.w3.org/2000/svg}", re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")


def artists(svg):
    """What an SVG of Matplotlib shows: a list of (kind, style or text, positions as shares of its axes)."""
    found = []

    def walk(node, frame):
        name = node.get("id", "")
        if name.startswith("axes_"):
            box = next(path for path in node.iter(f"{SVG}path") if path.get("d"))
            corners = np.array(NUMBER.findall(box.get("d")), float).reshape(-1, 2)
            frame = corners.min(axis=0), np.ptp(corners, axis=0)
        look = "; ".join(sorted(part.strip() for part in node.get("style", "").split(";") if "font" not in part))
        if node.tag == f"{SVG}text":
            found.append(("text", "".join("".join(node.itertext()).split()), None))
        if node.tag == f"{SVG}path" and frame is not None and node.get("d"):
            places = np.array(NUMBER.findall(node.get("d")), float)
            if len(places) % 2 == 0:
                found.append(("path", look, (places.reshape(-1, 2) - frame[0]) / frame[1]))
        if node.tag == f"{SVG}use" and frame is not None and node.get("x"):
            place = np.array([[float(node.get("x")), float(node.get("y"))]])
            found.append(("marker", look, (place - frame[0]) / frame[1]))
        for child in node:
            if child.tag != f"{SVG}defs":  # shapes of markers
                walk(child, frame)

    walk(ET.fromstring(svg), None)
    return found


def result_of(kept):
    """The recorded result that a kept figure says below it to be of."""
    source, stem = kept.split("/")
    text = (ROOT / f"figures/{kept}.svg").read_text(encoding="utf-8")
    name = max((name for name in experiments.names() if stem.startswith(name)), key=len)
    for path in sorted((ROOT / "data/results").glob(f"*/{source}/{name}.csv")):
        result = results.load(name, path.parents[1].name)
        if result.where in text or "not measured" in text:
            return result, text
    raise AssertionError(f"{kept} is of no recorded result")


@pytest.mark.parametrize("kept", [*PLAIN, *OTHERS])
def test_a_kept_figure_shows_what_is_drawn_of_its_result(kept):
    result, text = result_of(kept)
    file = io.BytesIO()
    with matplotlib.rc_context(style._STYLE):  # as style.setup, once in a chapter
        figure = OTHERS.get(kept, drawn_by(result.name, "figure"))(result.frame)
        if not figure.get_supxlabel():
            figure.supxlabel(result.where, fontsize=8, color="0.35")
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    drawn, expected = artists(file.getvalue().decode()), artists(text)
    assert [part[:2] for part in drawn] == [part[:2] for part in expected]
    assert sum(kind != "text" for kind, *_ in drawn) > 10
    for (kind, look, places), (*_, there) in zip(drawn, expected, strict=True):
        if kind != "text":
            assert places.shape == there.shape, look
            np.testing.assert_allclose(places, there, atol=0.02, err_msg=f"{kind} {look}")
