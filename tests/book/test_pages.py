"""What STYLE.md asks of every page: the answer first, and no more words than the table of contents gives."""

import ast
import importlib
import json
import re
from types import ModuleType, SimpleNamespace

import pytest

from support import ROOT

BOOK = ROOT / "book"
_ENTRY = re.compile(r"^ *(?:- file|root): (\S+)(?: # ([\d,]+) words)?$", re.MULTILINE)
BUDGETS = {
    page: words and int(words.replace(",", ""))
    for page, words in _ENTRY.findall((BOOK / "_toc.yml").read_text(encoding="utf-8"))
}


# Rows of tables, names of figures, ends and options of directives, addresses, formulas.
_NO_PROSE = [r"^\|.*$", r"^\(.*\)=$", r"^:{3,}.*$", r"^:[\w-]+:.*$", r"\]\([^)]*\)", r"\$[^$]*\$"]


def markdown(page):
    """The text of a page without its code."""
    path = BOOK / f"{page}.ipynb"
    if not path.is_file():
        return (BOOK / f"{page}.md").read_text(encoding="utf-8")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def words(text):
    """The words of a page's prose: without code, tables, formulas, markers and addresses."""
    text = _without_code(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    for marked in _NO_PROSE:
        text = re.sub(marked, "", text, flags=re.MULTILINE)
    text = re.sub(r"\{[\w:-]+\}`[^`]*`", "1", text)
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def _without_code(text):
    """Text without fences, and without what is between them, unless it belongs to a directive."""
    kept, inside = [], None
    for line in text.splitlines():
        fence = re.match(r"(`{3,})(.*)", line)
        if fence:
            inside = None if inside else fence[2] or "code"
        elif not inside or inside.startswith("{"):
            kept.append(line)
    return "\n".join(kept)


def test_words_are_those_of_the_prose():
    text = "# A title\n\n(fig-a)=\n*Two words,* {glue:text}`n:.1f` [link](to/it) $x y$.\n\n"
    text += "| a | b |\n\n```python\nx = 1\n```\n\n```{figure} a.svg\n:name: a\n\n"
    text += "Its caption.\n```\n\n```\nmake book\n```"
    assert words(text) == 8


@pytest.mark.parametrize("page", BUDGETS)
def test_a_page_keeps_to_its_budget_of_words(page):
    budget = BUDGETS[page]
    assert budget or page in ("api", "references")
    assert not budget or words(markdown(page)) <= budget


@pytest.mark.parametrize("page", [page for page in BUDGETS if page.startswith(("learn/", "results/"))])
def test_the_answer_comes_first(page):
    assert re.match(r"# [^\n]+\n\n:::\{admonition\} \S", markdown(page))


@pytest.mark.parametrize("page", [page for page in BUDGETS if (BOOK / f"{page}.ipynb").is_file()])
def test_a_number_is_kept_where_the_prose_has_it(page):
    cells = json.loads((BOOK / f"{page}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [ast.parse("".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"]
    calls = [node for tree in code for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "numbers"]
    kept = {keyword.arg for call in calls for keyword in call.keywords if keyword.arg}
    assert kept <= set(re.findall(r"\{glue:text\}`(\w+)", markdown(page)))


@pytest.mark.parametrize("page", BUDGETS)
def test_links_to_other_pages_lead_to_one(page):
    there = {
        f"{name}{ending}" for name in BUDGETS for ending in (".md", ".ipynb") if (BOOK / f"{name}{ending}").is_file()
    }
    here = (BOOK / page).parent
    linked = re.findall(r"\]\(([^):#]+\.(?:md|ipynb))[)#]", markdown(page))
    missing = {to for to in linked if (here / to).resolve().relative_to(BOOK).as_posix() not in there}
    assert not missing, missing


def test_pages_open_in_colab_and_binder_where_the_repository_has_an_address(monkeypatch):
    pytest.importorskip("sphinx")
    yaml = pytest.importorskip("yaml")
    monkeypatch.syspath_prepend(BOOK)
    captions = importlib.import_module("captions")
    config = yaml.safe_load((BOOK / "_config.yml").read_text(encoding="utf-8"))
    options = config["sphinx"]["config"]["html_theme_options"]
    options["repository_url"] = ""
    captions.offer_launch(None, SimpleNamespace(html_theme_options=options))
    assert "launch_buttons" not in options
    options["repository_url"] = "https://github.com/owner/name"
    captions.offer_launch(None, SimpleNamespace(html_theme_options=options))
    assert {"colab_url", "binderhub_url"} <= options["launch_buttons"].keys() and options["path_to_docs"] == "book"


def test_pages_of_kernels_link_to_what_they_name(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(BOOK)
    captions = importlib.import_module("captions")
    words, _ = captions._highlighted("kernels/sgd/fast.cu")
    assert '<a href="../sgd/geometry.cuh.html">sgd/geometry.cuh</a>' in words and 'id="line-1"' in words
    words, _ = captions._rendered("kernels/README.md")
    links = re.findall('href="([^"]*)"', words)
    assert "als/tensor_core.cu.html" in links and all(link.endswith((".cu.html", ".cuh.html")) for link in links)
    assert captions._is_kernel("kernels/README.md") and not captions._is_kernel("kernels/../README.md")


@pytest.mark.parametrize("path", sorted(BOOK.rglob("*.ipynb")), ids=lambda path: path.stem)
def test_a_page_uses_names_that_there_are(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    tree = ast.parse("\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"))
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("gpumf"):
            for name in node.names:
                found = getattr(importlib.import_module(node.module), name.name, None)
                found = found or importlib.import_module(f"{node.module}.{name.name}")
                if isinstance(found, ModuleType):
                    modules[name.asname or name.name] = found
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    of_modules = [(modules[node.value.id], node.attr) for node in used if node.value.id in modules]
    missing = [f"{module.__name__}.{name}" for module, name in of_modules if not hasattr(module, name)]
    assert not missing
