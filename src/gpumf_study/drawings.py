"""Drawings that explain what CUDA's words mean, and how kernels share out their work: SVG files in figures/drawings.

Who does what in a drawing of a kernel is what that kernel does, traced on the CPU: tests/study/test_drawings.py.
"""

import xml.etree.ElementTree as ET
from base64 import b64encode
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

from gpumf_study import results

WIDTH, GAP = 340, 24  # of a panel, which is as wide as a phone, in CSS pixels
_BREAK = 760  # pixels of a page below which panels stand one below another
_SVG = "{http://www.w3.org/2000/svg}"
ET.register_namespace("", _SVG[1:-1])


def names() -> list[str]:
    """Return the names of all drawings."""
    return sorted(path.stem for path in (results.repository() / "figures/drawings").glob("*.svg"))


def drawing(name: str) -> "Drawing":
    """Return the drawing of this name; a notebook shows it.

    Raise ValueError where there is none of this name.
    """
    if name not in names():
        raise ValueError(f"there is no drawing {name!r}; there are {', '.join(names())}")
    return Drawing(results.repository() / f"figures/drawings/{name}.svg")


@dataclass(frozen=True, repr=False)
class Drawing:
    """A drawing: two panels abreast where there is room, one below another elsewhere.

    path : of the file: a <desc> in words, then panels, each an <svg class="panel"> of `WIDTH`, one below another
    """

    path: Path

    @cached_property
    def _root(self) -> ET.Element:
        return ET.parse(self.path).getroot()

    @property
    def alt(self) -> str:
        """What it shows, in words, for those who do not see it."""
        return self._root.findtext(f"{_SVG}desc", "")

    @property
    def panels(self) -> list[ET.Element]:
        """The elements of its panels."""
        return self._root.findall(f"{_SVG}svg[@class='panel']")

    def svg(self, columns: int = 1) -> str:
        """The drawing as SVG, with so many panels abreast."""
        tops = [2.0] * columns
        for panel in self.panels:
            column = tops.index(min(tops))  # the shortest one
            panel.attrib |= {"x": f"{2 + column * (WIDTH + GAP):g}", "y": f"{tops[column]:g}"}
            tops[column] += float(panel.get("height", 0)) + GAP
        width, height = columns * (WIDTH + GAP) - GAP + 4, max(tops) - GAP + 2
        self._root.attrib |= {"width": f"{width:g}", "height": f"{height:g}", "viewBox": f"0 0 {width:g} {height:g}"}
        return ET.tostring(self._root, encoding="unicode")

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        one, two = (
            f"data:image/svg+xml;base64,{b64encode(self.svg(columns).encode()).decode()}"
            for columns in (1, min(2, len(self.panels)))
        )
        return (
            f'<picture><source media="(max-width: {_BREAK}px)" srcset="{one}">'
            f'<img src="{two}" alt="{escape(self.alt)}"></picture>'
        )
