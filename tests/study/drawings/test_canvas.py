"""Every drawing is whole: nothing sticks out, text is text and large enough to read, and words say what it shows."""

import re
import xml.etree.ElementTree as ET

import matplotlib
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from gpumf_study import drawings
from gpumf_study import figure_style as style
from gpumf_study.drawings.canvas import GAP, HEADING, HUES, SMALL, WIDTH, Drawing, Panel, Plain, _ink, tint
from support import ROOT

MADE = (*drawings.TRACED, *drawings.RECORDED)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_all_of_a_drawing_is_on_the_page_and_its_text_can_be_read(host, name):
    drawing = drawings.drawing(name)
    figure = drawing.figure(1)
    assert figure.get_figwidth() * 96 <= 350, "a phone of 390 px has less than 360 for a figure"
    canvas = FigureCanvasAgg(figure)
    page = figure.bbox.padded(1)
    for axis, panel in zip(figure.axes, drawing.panels, strict=True):
        boxes = {}
        for text in axis.texts:
            box = text.get_window_extent(canvas.get_renderer())
            assert page.contains(box.x0, box.y0) and page.contains(box.x1, box.y1), f"{text.get_text()!r} sticks out"
            assert text.get_fontsize() * 96 / 72 >= SMALL - 1e-9
            if text.get_text() and not text.get_rotation():
                boxes[text] = box.padded(-1.5)
        for one, box in boxes.items():
            across = [other.get_text() for other, there in boxes.items() if other is not one and box.overlaps(there)]
            assert not across, f"{panel.heading}: {one.get_text()!r} runs into {across}"
        low, high = axis.get_ylim()[::-1]
        for patch in axis.patches:
            area = patch.get_window_extent()
            assert page.contains(area.x0, area.y0) and page.contains(area.x1, area.y1), patch
        assert (low, high) == (-HEADING, panel.height)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thesis_als", "roofline"])
def test_as_svg_it_is_the_same_every_time_and_text_stays_text(host, name):
    drawing = drawings.drawing(name)
    svg = drawing.svg(2)
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "svg.fonttype": "path", "lines.linewidth": 9}):
        assert svg == drawings.drawing(name).svg(2)
    said = ["".join(node.itertext()) for node in ET.fromstring(svg).iter(f"{SVG}text")]
    assert all(panel.heading in said for panel in drawing.panels)


def test_panels_stand_abreast_where_there_is_room_and_below_each_other_elsewhere():
    heights = 100, 40, 30
    drawing = Drawing(tuple(Panel("x", height, lambda canvas: None) for height in heights), 'a "word"')

    def places(columns):
        figure = drawing.figure(columns)
        width, height = figure.get_size_inches() * 96
        boxes = [axis.get_position() for axis in figure.axes]
        return width, height, [(round(b.x0 * width), round((1 - b.y1) * height)) for b in boxes]

    one, below = HEADING + 100 + GAP, HEADING + 40 + GAP
    assert places(1)[2] == [(2, 2), (2, 2 + one), (2, 2 + one + below)]
    assert places(1)[0] == pytest.approx(WIDTH + 4)
    assert places(2)[2] == [(2, 2), (2 + WIDTH + GAP, 2), (2 + WIDTH + GAP, 2 + below)]
    html = drawing._repr_html_()
    assert 'alt="a &quot;word&quot;"' in html and html.count("data:image/svg+xml;base64,") == 2
    assert repr(drawing) == 'a "word"'


@pytest.mark.parametrize("name", drawings.plain())
def test_a_plain_drawing_is_whole_and_says_in_words_what_it_shows(name):
    drawing = drawings.drawing(name)
    assert len(drawing.alt.split()) > 20 and repr(drawing) == drawing.alt
    sizes = {float(node.get("font-size", 12)) for node in ET.parse(drawing.path).iter(f"{SVG}text")}
    assert min(sizes) >= SMALL
    for panel in drawing.panels:
        assert float(panel.get("width")) == WIDTH
        left, top, width, height = map(float, panel.get("viewBox").split())
        assert (left, top, width) == (0, -HEADING, WIDTH) and height == float(panel.get("height"))
        for node in panel.iter(f"{SVG}rect"):
            x, y, across, down = (float(node.get(key)) for key in ("x", "y", "width", "height"))
            assert x >= -1 and x + across <= width + 1 and y >= top and y + down <= top + height + 1


def test_panels_of_a_plain_drawing_are_arranged_as_those_of_others(tmp_path):
    heights = 100, 40, 30
    panels = "".join(f'<svg class="panel" width="{WIDTH}" height="{HEADING + height}"/>' for height in heights)
    path = tmp_path / "a.svg"
    path.write_text(f'<svg xmlns="{SVG[1:-1]}"><desc>a "word"</desc>{panels}</svg>')
    drawing = Plain(path)
    for columns in (2, 1):
        root = ET.fromstring(drawing.svg(columns))
        made = Drawing(tuple(Panel("x", height, lambda canvas: None) for height in heights), "").figure(columns)
        assert [float(root.get(key)) for key in ("width", "height")] == pytest.approx(made.get_size_inches() * 96)
        tops = [(1 - axis.get_position().y1) * float(root.get("height")) for axis in made.axes]
        assert [float(panel.get("y")) for panel in root.findall(f"{SVG}svg")] == pytest.approx(tops)
    html = drawing._repr_html_()
    assert 'alt="a &quot;word&quot;"' in html and html.count("data:image/svg+xml;base64,") == 2


def test_ink_is_read_on_every_colour():
    assert _ink("white") == "black" and _ink("black") == "white"

    def luminance(colour):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    for hue in HUES:
        for share in (0.2, 0.45, 1):
            light = luminance(tint(hue, share))
            contrast = 1.05 / (light + 0.05) if _ink(tint(hue, share)) == "white" else (light + 0.05) / 0.05
            assert contrast > 4.5, (hue, share)
    assert set(HUES) <= set(style.COLOURS) and len(set(HUES)) == len(HUES)


def test_an_unknown_drawing_is_refused_with_the_names_that_there_are():
    with pytest.raises(ValueError, match="no drawing 'warps'; there are banks, coalescing"):
        drawings.drawing("warps")


def test_every_drawing_is_shown_in_the_book_and_every_module_is_listed():
    shown = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("book/**/*.ipynb"))
    assert set(re.findall(r'drawings\.drawing\(\\"(\w+)\\"\)', shown)) == {*MADE, *drawings.plain()}
    modules = {path.stem for path in (ROOT / "src/gpumf_study/drawings").glob("*.py")}
    assert modules == {*MADE, "__init__", "canvas", "probes"}
