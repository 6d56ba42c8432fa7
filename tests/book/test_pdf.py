"""The PDF of the book: all pages on one, with links that lead within it, printed by a browser."""

import importlib.util
import sys

import pytest

from support import ROOT

pytest.importorskip("papermill")  # which build.py imports


@pytest.fixture
def pdf(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book")
    spec = importlib.util.spec_from_file_location("pdf", ROOT / "book/pdf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for name in ("build", "chapter"):
        sys.modules.pop(name, None)


PAGE = (
    '<html><head><title>{0}</title><link href="{up}_static/a.css" rel="stylesheet"></head><body>'
    '<script src="{up}_static/mathjax/startup.js"></script><article class="bd-article"><h1>{0}</h1>'
    '<img loading="lazy" src="{up}_images/{0}.svg"><a href="{to}">there</a><details><p>folded</p></details>'
    "</article></body></html>"
)


def test_pages_are_joined_in_order_and_lead_to_each_other(pdf, tmp_path):
    (tmp_path / "results").mkdir()
    intro = PAGE.format("intro", up="", to="results/one.html#deep")
    (tmp_path / "intro.html").write_text(intro, encoding="utf-8")
    one = PAGE.format("one", up="../", to="../intro.html")
    (tmp_path / "results/one.html").write_text(one, encoding="utf-8")
    joined = pdf.joined(tmp_path, ["intro", "results/one"])
    assert joined.index("<h1>intro</h1>") < joined.index("<h1>one</h1>")
    assert 'href="#deep"' in joined and 'href="#page-intro"' in joined and 'id="page-results/one"' in joined
    assert 'src="_images/one.svg"' in joined and "../" not in joined and "lazy" not in joined
    assert "<details open>" in joined and joined.count("startup.js") == 1 and joined.count("stylesheet") == 1


@pytest.mark.slow
@pytest.mark.browser
def test_the_book_is_printed(pdf, html, tmp_path):
    assert pdf.main(["--profile", "quick"]) == 0
    printed = (ROOT / "build/quick/book.pdf").read_bytes()
    assert printed.startswith(b"%PDF") and printed.count(b"/Type /Page\n") > 50
    assert not (html / "whole.html").exists()
