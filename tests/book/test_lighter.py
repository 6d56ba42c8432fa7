"""What a finished page is made lighter by, and easier to read on narrow screens."""

import importlib
import re
from types import SimpleNamespace

import pytest
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from support import ROOT


@pytest.fixture
def lighter(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book")
    return importlib.import_module("lighter")


def test_two_forms_of_a_figure_are_one_picture(lighter):
    wide, narrow = '<img alt="a &lt; b" src="_images/a.svg" />', '<img alt="a" class="narrow" src="_images/n.svg" />'
    picture = '<picture><source media="(max-width: 40rem)" srcset="_images/n.svg">{}</picture>'
    assert lighter.one_picture(f"<p>{wide}\n{narrow}</p>") == f"<p>{picture.format(wide)}</p>"
    assert lighter.one_picture(f"{wide}\n{wide}") == f"{wide}\n{wide}"


def test_long_lines_know_their_indentation_and_code_stays_what_it_is(lighter):
    code = 'def f():\n    """A text of more than one line, the first one\n    of which is long."""\n    return 1\n'
    html = highlight(code, PythonLexer(), HtmlFormatter())
    hung = lighter.hang(html)
    assert re.findall(r'class="long" style="--indent:(\d+)"', hung) == ["4"]
    text = [re.sub("<[^>]*>", "", page) for page in (html, hung)]
    assert text[0] == text[1] and hung.count("<span") == hung.count("</span")
    assert lighter.hang(hung) == hung, "a page that did not change is finished again"
    assert lighter.hang(f"<p>{'long ' * 20}</p>") == f"<p>{'long ' * 20}</p>"


def test_tables_look_alike_and_images_wait(lighter):
    page = '<table id="T_a1"><td>1</td></table><img alt="a" src="a.svg" />'
    once = lighter.finished(page)
    assert once == '<table class="dataframe" id="T_a1"><td>1</td></table><img loading="lazy" alt="a" src="a.svg" />'
    assert lighter.finished(once) == once


def test_of_mathjax_what_is_loaded_stays(lighter, tmp_path):
    config = SimpleNamespace()
    lighter.choose_mathjax(None, config)
    loaded = [f"{part}.js" for part in config.mathjax3_config["loader"]["load"]] + ["startup.js", "core.js"]
    for name in [*loaded, "output/chtml/fonts/tex.js", "output/svg.js", "sre/mathmaps/en.json", "tex-svg.js"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    lighter.prune_mathjax(tmp_path)
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*loaded, "output/chtml/fonts/tex.js"}


def test_what_earlier_builds_left_is_deleted(lighter, tmp_path):
    for name in ("_images/a.svg", "_images/old.svg", "_downloads/1/a.csv", "_downloads/2/a.csv", "old/page.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    pages = {tmp_path / "intro.html": '<img src="_images/a.svg"><a href="_downloads/1/a.csv">'}
    for name in ("old/page.html", "notation.html", "genindex.html"):
        pages[tmp_path / name] = '<img src="../_images/old.svg">' if "old" in name else ""
        (tmp_path / name).touch()
    lighter.forget_unused(tmp_path, pages, {"intro"})
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"_images/a.svg", "_downloads/1/a.csv", "genindex.html"}
    assert list(pages) == [tmp_path / "intro.html", tmp_path / "genindex.html"]
