"""What drawings are made of: panels as wide as a phone, two abreast where there is room, one below another elsewhere.

Lengths are CSS pixels, y goes down. Nothing is told by colour alone, and no text is smaller than `SMALL`.
"""

import io
import xml.etree.ElementTree as ET
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

import matplotlib
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from gpumf_study import figure_style as style

WIDTH, GAP, HEADING = 340, 24, 30
SMALL, TEXT = 11, 12
HUES = ("blue", "orange", "green", "purple", "sky", "red", "sand", "wine")
"""Colours of the first, second, .. of those who share out work; each also has its number written beside it."""

_INCH = 96  # pixels
_SVG = "{http://www.w3.org/2000/svg}"
ET.register_namespace("", _SVG[1:-1])
_BREAK = 760  # pixels of a page below which panels stand one below another


def tint(colour, share=0.25):
    """A name of figure_style.COLOURS, or 'white', mixed with white: an RGB tuple."""
    return tuple(1 - share * (1 - part) for part in to_rgb(style.COLOURS.get(colour, colour)))


def _ink(fill):
    """Black or white, whichever is read better on a colour (WCAG's relative luminance)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(fill)]
    luminance = sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return "white" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "black"


class Canvas:
    """Where a panel is drawn. `axis` is Matplotlib's."""

    def __init__(self, axis):
        self.axis = axis

    def box(self, x, y, width, height, fill="white", edge="0.35", text="", size=SMALL, key=None, **look):
        """A rectangle with a text in its middle; `key` is the id that it has in the SVG, for tests too."""
        fill = style.COLOURS.get(fill, fill)
        look = {"linewidth": 0.8} | look
        self.axis.add_patch(Rectangle((x, y), width, height, facecolor=fill, edgecolor=edge, gid=key, **look))
        if text != "":
            self.text(x + width / 2, y + height / 2, text, size, ha="center", va="center", color=_ink(fill))

    def place(self, x, y, width, height, name, colour="grey", note=""):
        """A rounded frame with a name: a memory, a multiprocessor, a GPU. The note stands at its right."""
        shape = "round,pad=0,rounding_size=6"
        look = {"facecolor": tint(colour, 0.12), "edgecolor": style.COLOURS[colour], "linewidth": 1.2}
        self.axis.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=shape, **look))
        self.text(x + 8, y + 13, name, TEXT, weight="bold", va="center")
        if note:
            self.text(x + width - 8, y + 13, note, SMALL, ha="right", va="center")

    def text(self, x, y, text, size=TEXT, **look):
        """A text, by default with its left end at x, and centred on y."""
        assert size >= SMALL
        self.axis.text(x, y, text, **{"fontsize": size * 72 / _INCH, "va": "center", "color": "black"} | look)

    def lines(self, x, y, texts, size=TEXT, step=16, **look):
        """Texts one below another."""
        for k, text in enumerate(texts):
            self.text(x, y + k * step, text, size, **look)

    def line(self, xs, ys, colour="grey", width=1.2, **look):
        """A polyline."""
        self.axis.plot(xs, ys, color=style.COLOURS.get(colour, colour), linewidth=width, **look)

    def arrow(self, start, end, colour="black", width=1.4, both=False):
        """An arrow between two (x, y)."""
        look = {"arrowstyle": "<|-|>" if both else "-|>", "mutation_scale": 10, "shrinkA": 0, "shrinkB": 0}
        self.axis.add_patch(FancyArrowPatch(start, end, color=style.COLOURS[colour], linewidth=width, **look))

    def legend(self, y, entries, x=0, step=17):
        """Squares of colours with what they mean, one below another: (fill, text) each."""
        for k, (fill, text) in enumerate(entries):
            self.box(x, y + k * step, 11, 11, fill)
            self.text(x + 17, y + k * step + 6, text, SMALL)


@dataclass(frozen=True)
class Panel:
    """A part of a drawing: its heading, its height without it, and what draws it on a `Canvas`."""

    heading: str
    height: float
    draw: Callable[[Canvas], None]


def _arranged(heights, columns):
    """Where panels stand, so many abreast: (left and top of each, width and height of all)."""
    tops, places = [2] * columns, []
    for height in heights:
        column = tops.index(min(tops))  # the shortest one
        places.append((2 + column * (WIDTH + GAP), tops[column]))
        tops[column] += height + GAP
    return places, columns * (WIDTH + GAP) - GAP + 4, max(tops) - GAP + 2


class _Shown:
    """What a notebook shows: `svg` for pages and for phones, and `alt`, in words, for those who do not see it."""

    def __repr__(self):
        return self.alt

    def _repr_html_(self):
        two = min(2, len(self.panels))
        one, two = (f"data:image/svg+xml;base64,{b64encode(self.svg(k).encode()).decode()}" for k in (1, two))
        return (
            f'<picture><source media="(max-width: {_BREAK}px)" srcset="{one}">'
            f'<img src="{two}" alt="{escape(self.alt)}"></picture>'
        )


@dataclass(frozen=True, repr=False)
class Drawing(_Shown):
    """Panels, and in words what they show: `alt`, for those who do not see them."""

    panels: tuple[Panel, ...]
    alt: str

    def figure(self, columns=1):
        """A Matplotlib Figure with so many panels abreast."""
        places, width, height = _arranged([HEADING + panel.height for panel in self.panels], columns)
        figure = Figure(figsize=(width / _INCH, height / _INCH))
        for panel, (left, top) in zip(self.panels, places, strict=True):
            size = HEADING + panel.height
            # In shares of the figure, from below.
            axis = figure.add_axes((left / width, 1 - (top + size) / height, WIDTH / width, size / height))
            axis.set(xlim=(0, WIDTH), ylim=(panel.height, -HEADING))
            axis.axis("off")
            canvas = Canvas(axis)
            canvas.text(0, -HEADING / 2 - 3, panel.heading, 13, weight="bold")
            panel.draw(canvas)
        return figure

    def svg(self, columns=1):
        """The drawing as SVG, in which text is text: the same str every time."""
        file = io.StringIO()
        with matplotlib.rc_context():
            matplotlib.rcdefaults()  # whatever a notebook has set
            matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "gpumf"})
            figure = self.figure(columns)
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")
        return file.getvalue()


@dataclass(frozen=True, repr=False)
class Plain(_Shown):
    """A drawing that is kept as a plain SVG file.

    path : of the file: a <desc> in words, then panels, each an <svg class="panel"> of `WIDTH`, one below another
    """

    path: Path

    @cached_property
    def _root(self):
        return ET.parse(self.path).getroot()

    @property
    def alt(self) -> str:
        """What it shows, in words."""
        return self._root.findtext(f"{_SVG}desc")

    @property
    def panels(self) -> list[ET.Element]:
        """The elements of its panels."""
        return self._root.findall(f"{_SVG}svg[@class='panel']")

    def svg(self, columns=1):
        """The drawing as SVG, with so many panels abreast."""
        places, width, height = _arranged([float(panel.get("height")) for panel in self.panels], columns)
        for panel, (left, top) in zip(self.panels, places, strict=True):
            panel.attrib |= {"x": f"{left:g}", "y": f"{top:g}"}
        self._root.attrib |= {"width": f"{width:g}", "height": f"{height:g}", "viewBox": f"0 0 {width:g} {height:g}"}
        return ET.tostring(self._root, encoding="unicode")
