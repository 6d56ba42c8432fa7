"""Opens every page of the rendered book in headless Chromium, with no network, and looks for what is broken."""

import gzip
import re
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

import pytest

from gpumf_study import results
from support import ROOT

# A machine that only runs the GPU tests may lack it.
nbformat = pytest.importorskip("nbformat")

MAX_BYTES = 600_000  # of a page when it is first opened, as a server sends them, text compressed
PHONE, DESK = {"width": 375, "height": 812}, {"width": 1440, "height": 900}


@pytest.mark.parametrize("path", sorted(ROOT.glob("book/**/*.ipynb")), ids=lambda path: path.stem)
def test_notebook_is_kept_without_outputs_and_with_parameters(path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    (parameters,) = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    assert re.search(r"^profile\b.*=", parameters.source, re.MULTILINE), "build.py sets the parameter `profile`"


def _failure(request):
    """What a failed request is told as; nothing where the test itself went to the next page before an image came."""
    return [] if "ERR_ABORTED" in request.failure else [f"{request.failure}: {request.url}"]


@pytest.fixture
def page(browser):
    """A page without a network that keeps, in `problems`, what it could not load and what its scripts complain of."""
    with browser.new_context(offline=True, viewport=DESK) as context:
        context.set_default_timeout(120_000)
        page = context.new_page()
        page.problems, page.loaded = [], []
        page.on("requestfinished", lambda request: page.loaded.append(request.url))
        page.route(re.compile("^(?!file:)"), lambda route: (page.problems.append(route.request.url), route.abort()))
        page.on("requestfailed", lambda request: page.problems.extend(_failure(request)))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda message: message.type == "error" and page.problems.append(message.text))
        yield page


def rendered(html):
    """Every page of the book but index.html, which only leads to the first one, and what is printed just now."""
    others = "index.html", "whole.html"
    return sorted(path for path in html.rglob("*.html") if path.name not in others and "_static" not in path.parts)


# Scrolled into view, images that load late are loaded; then those that did not load are named.
BROKEN_IMAGES = """async () => {
  const broken = [];
  for (const image of document.images) {
    image.scrollIntoView();
    await image.decode().catch(() => {});
    if (!image.naturalWidth) broken.push(image.src);
  }
  return broken;
}"""

# MathJax is done when its start-up promise is; pages without formulas do not load it.
RAW_MATH = r"""async () => {
  if (window.MathJax) await MathJax.startup.promise;
  const bare = [...document.querySelectorAll('.math')].filter(node => !node.querySelector('mjx-container'));
  const errors = [...document.querySelectorAll('mjx-merror, [data-mjx-error]')];
  const article = document.querySelector('main').cloneNode(true);
  article.querySelectorAll('pre, code, script, mjx-container').forEach(node => node.remove());
  const raw = article.textContent.match(/\$\$|\\[([]|\\(frac|lambda|sum|hat|left)\b/g) || [];
  return [...bare, ...errors].map(node => node.textContent).concat(raw);
}"""

# What sticks out of the page, less what lies in a box that scrolls by itself.
TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const scrolls = node => node && (getComputedStyle(node).overflowX !== 'visible' || scrolls(node.parentElement));
  const boxed = node => scrolls(node.parentElement.closest('article *'));
  return [...document.querySelectorAll('article *')]
    .filter(node => node.getBoundingClientRect().right > width + 1 && !boxed(node))
    .map(node => `wider than a page of ${width} px: ${node.outerHTML.slice(0, 120)}`)
    .concat(`the page is ${document.documentElement.scrollWidth} px wide on a screen of ${width} px`);
}"""

# Pictures without words, or whose words are the name of their file, and figures of cells without a caption.
WORDLESS = r"""() => [...document.querySelectorAll('main img')].flatMap(image => {
  const words = image.alt.trim(), figure = image.closest('figure');
  if (!words || /[0-9a-f]{16}|\.svg|\.png/.test(words)) return [`says nothing: ${image.outerHTML.slice(0, 120)}`];
  const bare = image.closest('.cell_output') && !(figure && figure.querySelector('figcaption .caption-number'));
  return bare ? [`has no caption: ${words.slice(0, 120)}`] : [];
})"""

# Charts and drawings whose letters a screen makes smaller by more than a fifth, and code that is moved sideways.
SHRUNK = """async () => {
  await new Promise(requestAnimationFrame);
  const found = [];
  for (const image of document.querySelectorAll('.cell_output picture img')) {
    image.scrollIntoView();
    await image.decode().catch(() => {});
    if (image.width < 0.8 * image.naturalWidth) found.push(`is too small to read: ${image.alt.slice(0, 80)}`);
  }
  const code = [...document.querySelectorAll('article pre')].filter(node => node.scrollWidth > node.clientWidth + 1);
  return found.concat(code.map(node => `scrolls sideways: ${node.textContent.slice(0, 80)}`));
}"""

LINKS = "() => [...document.querySelectorAll('a[href]')].map(link => link.href)"
ANCHORS = "() => [...document.querySelectorAll('[id], a[name]')].map(node => node.id || node.name)"


def sent(url):
    """The bytes that a server sends for a file."""
    path = Path(unquote(urlparse(url).path))
    content = path.read_bytes()
    return len(content if path.suffix in (".woff", ".woff2", ".png") else gzip.compress(content))


@pytest.mark.browser
def test_every_page_is_whole_without_a_network(html, page):
    problems, links, anchors = [], {}, {}
    for path in rendered(html):
        page.goto(path.as_uri())
        weight = sum(map(sent, dict.fromkeys(url for url in page.loaded if url.startswith("file:"))))
        if weight > MAX_BYTES:
            problems.append(f"{path.name}: loads {weight:,} bytes before anybody has scrolled")
        links[path] = page.evaluate(LINKS)
        anchors[path] = {"", *page.evaluate(ANCHORS)}
        found = page.evaluate(BROKEN_IMAGES) + page.evaluate(RAW_MATH) + page.evaluate(WORDLESS)
        for size in (DESK, PHONE):
            page.set_viewport_size(size)
            found += page.evaluate(TOO_WIDE)
        found += page.evaluate(SHRUNK)
        page.set_viewport_size(DESK)
        problems += [f"{path.name}: {problem}" for problem in found + page.problems]
        page.problems.clear()
        page.loaded.clear()

    for path, targets in links.items():
        for target in filter(lambda target: target.startswith("file:"), targets):
            url, fragment = urldefrag(target)
            file = Path(unquote(urlparse(url).path))
            if not file.is_file() or (file in anchors and unquote(fragment) not in anchors[file]):
                problems.append(f"{path.name}: leads to {target}, which is not there")
    assert not problems, "\n".join(problems)
    assert len(anchors) >= 3, "the book has chapters"


@pytest.mark.browser
def test_every_page_offers_its_source_and_notebooks_carry_their_numbers(html):
    for path in rendered(html):
        name = path.relative_to(html).with_suffix("").as_posix()
        if not any((ROOT / f"book/{name}{ending}").is_file() for ending in (".md", ".ipynb")):
            continue  # the search and the index
        text = path.read_text(encoding="utf-8")
        (to,) = set(re.findall(rf'href="([^"]*_downloads/[^"]*/{path.stem}\.(?:md|ipynb))"', text))
        offered = (path.parent / to).read_text(encoding="utf-8")
        if to.endswith(".ipynb"):
            assert not re.search(r"\{(glue|numref|cite)", offered), name
            assert not any(cell.get("outputs") for cell in nbformat.reads(offered, as_version=4).cells), name
        else:
            assert offered == (ROOT / f"book/{name}.md").read_text(encoding="utf-8")


@pytest.mark.browser
def test_a_page_offers_the_numbers_of_its_figures_and_its_experiments(html):
    text = (html / "results/speedups.html").read_text(encoding="utf-8")
    kept = ROOT / f"data/results/{results.reference('speedups')}/thesis/speedups.csv"
    offered = set(re.findall(rf'href="\.\./(_downloads/[^"]*/{kept.name})"', text))
    assert kept.read_bytes() in [(html / path).read_bytes() for path in offered]
    shown = re.findall(r'href="\.\./(_static/src/gpumf_study/experiments/(\w+)/(\w+)\.py\.html)"', text)
    assert "speedups" in {name for *_, name in shown}
    for path, folder, name in shown:
        page = (html / path).read_text("utf-8")
        assert f"<h1>src/gpumf_study/experiments/{folder}/{name}.py</h1>" in page


@pytest.mark.browser
def test_lines_of_kernels_lead_to_their_file(html):
    found = 0
    for path in rendered(html):
        for to, line in re.findall(r'href="([^"]*_static/kernels/[^"#]*)#(line-\d+)"', path.read_text("utf-8")):
            assert f'id="{line}"' in (path.parent / to).read_text(encoding="utf-8")
            found += 1
    assert found


@pytest.mark.browser
def test_the_site_is_small(html):
    """Without the CSV files of figures, which are as large as what was recorded; most is the pages of all kernels."""
    pages = (path for path in html.rglob("*") if path.is_file() and "_downloads" not in path.parts)
    assert sum(path.stat().st_size for path in pages) < 18_000_000


WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.mark.browser
def test_every_page_keeps_to_wcag(html, page):
    """All rules of axe for levels A and AA by day, and the contrast of colours by night.

    Code is coloured alike everywhere, and looking at each word of it takes most of the time: one page stands for all.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    by_day, by_night = {"type": "tag", "values": WCAG}, {"type": "rule", "values": ["color-contrast"]}
    problems = []
    for path in rendered(html):
        page.goto(path.as_uri())
        context = None if path.stem == "als" else {"exclude": [["div.highlight"]]}
        page.add_style_tag(content="* { transition: none !important; }")
        for theme, rules in (("light", by_day), ("dark", by_night)):
            page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
            result = axe.run(page, context, {"resultTypes": ["violations"], "runOnly": rules})
            problems += [f"{path.name}, {theme}: {violation['id']}: {node['html'][:120]}"
                         for violation in result.response["violations"] for node in violation["nodes"]]  # fmt: skip
    assert not problems, "\n".join(problems)


@pytest.mark.browser
def test_search_works_without_a_server(html, page):
    """And finds how to install the package."""
    page.goto((html / "search.html").as_uri() + "?q=install")
    page.wait_for_selector("#search-results li a", timeout=120_000)
    assert any("quickstart.html" in link for link in page.evaluate(LINKS))
    assert page.problems == []


@pytest.mark.browser
def test_nothing_is_loaded_from_elsewhere(html):
    """Neither by a page nor by a style sheet, whether or not this visit happened to ask for it."""
    loads = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
    imports = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"';]*")
    found = [hit for path in rendered(html) for hit in loads.findall(path.read_text(encoding="utf-8"))]
    found += [hit for path in html.rglob("*.css") for hit in imports.findall(path.read_text(encoding="utf-8"))]
    assert found == []
