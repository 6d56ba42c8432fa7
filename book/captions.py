"""A Sphinx extension: figures with numbers, captions and words instead of pictures, and downloads.

A paragraph in italics right below a code cell is the caption of what the cell has drawn. `figure_style` writes into
each SVG what it shows and which CSV file has its numbers: the one becomes the alternative text, the other a download.
Beside it lies one for narrow screens, here a second image, until `lighter` makes one picture of the two.
The lines of a kernel and the names of kernels in prose get a link to their file, a page links to its source and to
its experiments. The page of a kernel links to what it includes, that of kernels/README.md to all kernels.
"""

import json
import os
import re
from html import escape, unescape
from pathlib import Path

import matplotlib
import nbformat
from docutils import nodes
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CppLexer, PythonLexer
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

import chapter
from gpumf_study import chapters, experiments, figures
from gpumf_study import figure_style as style

ROOT = Path(__file__).resolve().parent.parent
_KERNEL = re.compile(r"kernels/(\S+), lines (\d+) to \d+")
_FACT = re.compile(r"<dc:(title|source)>([^<]*)<")
_PICTURES = ("image/svg+xml", "image/png")


def setup(app):
    """Add what the module's docstring says."""
    app.add_transform(Figures)
    app.connect("config-inited", offer_launch)
    app.connect("build-finished", write_sources)
    return {"parallel_read_safe": True, "env_version": 2}


def offer_launch(app, config):
    """Buttons that open a page's notebook in Colab and in Binder, where the repository has a public address."""
    options = config.html_theme_options
    if options.get("repository_url"):
        options["launch_buttons"] = {
            "colab_url": _COLAB,
            "binderhub_url": _BINDER,
            "notebook_interface": "jupyterlab",
        }


_COLAB, _BINDER = "https://colab.research.google.com", "https://mybinder.org"


class Figures(SphinxTransform):
    """Wrap what cells have drawn: after targets have found their paragraphs, before Sphinx looks for downloads."""

    default_priority = 870

    def apply(self):
        self.made, self.narrow = 0, _narrow(Path(self.env.doc2path(self.env.docname)))
        for cell in list(self.document.findall(_is("cell_code"))):
            drawn = [bundle for bundle in cell.findall(_is("mime_bundle")) if _draws(bundle)]
            caption = _caption_below(cell)
            for place, bundle in enumerate(drawn):
                self.wrap(bundle, caption if place == 0 else None)
            if drawn and caption is not None:
                caption.parent.remove(caption)
            self.link_kernels(cell)
        for figure in list(self.document.findall(nodes.figure)):
            if isinstance(figure[0], nodes.image):
                self.add_narrow(figure)
        self.link_names()
        self.offer_sources()

    def wrap(self, bundle, paragraph):
        """Make a figure of an output, with the words of a paragraph below it, and the paragraph's names."""
        facts = self.describe(bundle)
        source = facts.get("source", "")
        if paragraph is None:
            return
        self.made += 1
        caption = nodes.caption("", "", *paragraph[0].children)
        figure = nodes.figure("", ids=[f"figure-{self.made}", *paragraph["ids"]], names=paragraph["names"])
        for name in figure["ids"]:
            self.document.ids[name] = figure
        if source and (ROOT / source).is_file():
            caption += nodes.Text(" ")
            caption += self.download(source, "Its numbers as CSV.")
        bundle.replace_self(figure)
        figure += [bundle, caption]

    def add_narrow(self, figure):
        """Give a kept figure that a page of Markdown shows the form for narrow screens that cells give theirs."""
        name, image = Path(figure[0]["uri"]).stem, figure[0]
        if name not in experiments.names():
            return
        with matplotlib.rc_context(style._STYLE):
            drawn = figures.draw(name)
            to = Path(self.env.doctreedir).parent / f"jupyter_execute/{name}.narrow.svg"
            to.parent.mkdir(exist_ok=True)
            style.narrow(drawn).savefig(to, metadata={"Date": None, "Creator": None})
        uri = f"/{Path(os.path.relpath(to, self.env.srcdir)).as_posix()}"
        figure.insert(1, nodes.image("", uri=uri, alt=image["alt"], classes=["narrow"]))

    def describe(self, bundle):
        """Give images their alternative text and their narrow variant; return what the first one says of itself."""
        facts = {}
        for image in list(bundle.findall(nodes.image)):
            path = Path(self.env.relfn2path(image["uri"], self.env.docname)[1])
            if path.suffix == ".svg" and path.is_file():
                text = path.read_text(encoding="utf-8")
                found = {key: unescape(words) for key, words in _FACT.findall(text[:20_000])}
                image["alt"] = found.get("title", "")
                facts = facts or found
                if text in self.narrow:
                    path.with_suffix(".narrow.svg").write_text(self.narrow[text], encoding="utf-8")
                    uri = image["uri"].removesuffix("svg") + "narrow.svg"
                    image.parent += nodes.image("", uri=uri, alt=image["alt"], classes=["narrow"])
        return facts

    def download(self, path, words):
        """A link to a copy of a file, which is named as seen from the repository or from the root."""
        target = Path(os.path.relpath(ROOT / path, self.env.srcdir)).as_posix()
        return addnodes.download_reference("", words, reftarget=f"/{target}", refdoc=self.env.docname)

    def link_kernels(self, cell):
        for words in list(cell.findall(nodes.emphasis)):
            if found := _KERNEL.fullmatch(words.astext()):
                path, line = found.groups()
                link = self.source(f"kernels/{path}", *words.children, anchor=f"#line-{line}")
                words.children = []
                words += link

    def link_names(self):
        """Link what prose names as code to its file: a kernel as below kernels/, or kernels/README.md."""
        for name in list(self.document.findall(nodes.literal)):
            path = next(filter(_is_kernel, (name.astext(), f"kernels/{name.astext()}")), None)
            if path and not isinstance(name.parent, nodes.reference):
                link = self.source(path)
                name.replace_self(link)
                link += name

    def source(self, path, *words, anchor=""):
        """A link to a file of the repository, shown on a page of its own."""
        self.env.metadata[self.env.docname].setdefault("sources", []).append(path)
        up = "../" * self.env.docname.count("/")
        return nodes.reference("", "", *words, refuri=f"{up}_static/{path}.html{anchor}")

    def offer_sources(self):
        """Links to the page as a notebook, and to the experiments that it names."""
        name, run = f"book/{self.env.docname}.ipynb", Path(self.env.doc2path(self.env.docname))
        page = next(self.document.findall(nodes.section), None)
        if not (ROOT / name).is_file():
            if page is not None and (ROOT / f"book/{self.env.docname}.md").is_file():
                source = self.download(f"book/{self.env.docname}.md", "The source of this page.")
                page += nodes.paragraph("", "", source, classes=["downloads"])
            return
        kept = Path(self.env.doctreedir, "notebooks", name)
        kept.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(chapter.with_numbers(nbformat.read(run, as_version=4)), kept)
        links = nodes.paragraph("", "", self.download(kept, "This page as a notebook."), classes=["downloads"])
        for number, experiment in enumerate(chapters.named(ROOT / name)):
            links += nodes.Text(", " if number else " Its experiments: ")
            path = f"src/gpumf_study/experiments/{experiments.names()[experiment]}/{experiment}.py"
            links += self.source(path, nodes.literal("", experiment))
        page += links


def _narrow(notebook):
    """The SVG for narrow screens of each SVG in the outputs of a notebook that has been run."""
    if notebook.suffix != ".ipynb":
        return {}
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    found = {}
    for output in (output for cell in cells for output in cell.get("outputs", [])):
        kind = "image/svg+xml"
        if narrow := output.get("metadata", {}).get(kind, {}).get("narrow"):
            found["\n".join("".join(output["data"][kind]).splitlines())] = narrow  # as MyST-NB writes it
    return found


def _is(element):
    return lambda node: isinstance(node, nodes.container) and node.get("nb_element") == element


def _draws(bundle):
    """Whether an output is a picture, or a drawing as HTML."""
    return any(
        part.get("mime_type") in _PICTURES or any("<picture>" in raw.astext() for raw in part.findall(nodes.raw))
        for part in bundle.children
    )


def _caption_below(cell):
    """The paragraph that is nothing but italics, right below a cell, or None."""
    below = cell.next_node(descend=False, siblings=True)
    while isinstance(below, nodes.target | nodes.comment):
        below = below.next_node(descend=False, siblings=True)
    alone = isinstance(below, nodes.paragraph) and [type(child) for child in below.children] == [nodes.emphasis]
    return below if alone else None


def _is_kernel(path):
    return re.fullmatch(r"kernels/(README\.md|[\w/]+\.cuh?)", path) is not None and (ROOT / path).is_file()


_NUMBERED = {"linenos": "inline", "lineanchors": "line"}


def write_sources(app, error):
    """A page, without the theme, for every source that the book links to, and for every kernel that these link to."""
    left = {path for page in app.env.metadata.values() for path in page.get("sources", [])}
    if error or app.builder.format != "html":
        return
    shown = set()
    while left:
        path = left.pop()
        shown.add(path)
        words, style = (_rendered if path.endswith(".md") else _highlighted)(path)
        linked = re.findall(r'href="([\w/.]+\.cuh?)\.html"', words)
        left |= {os.path.normpath(f"{path}/../{name}") for name in linked} - shown
        to = Path(app.outdir, "_static", f"{path}.html")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            f"<title>{escape(path)}</title><style>{style}</style></head>"
            f"<body><main>{words}</main></body></html>\n",
            encoding="utf-8",
        )


def _highlighted(path):
    """A source as HTML, and its style; what it includes is a link, lines of kernels have the numbers of links."""
    text = (ROOT / path).read_text(encoding="utf-8")
    # Links name lines of kernels alone; without their anchors a page of Python is half as large.
    lexer, lines = (PythonLexer(), {}) if path.endswith(".py") else (CppLexer(), _NUMBERED)
    form = HtmlFormatter(style="a11y-high-contrast-light", **lines)
    up = "../" * (path.count("/") - 1)
    words = re.sub(
        r'(<span class="cpf">")([\w/]+\.cuh)(?=")',
        rf'\1<a href="{up}\2.html">\2</a>',
        highlight(text, lexer, form),
    )
    return f"<h1>{escape(path)}</h1>{words}", form.get_style_defs()


def _rendered(path):
    """A page of Markdown as HTML, and its style; of its links those to kernels are left."""
    words = MarkdownIt().render((ROOT / path).read_text(encoding="utf-8"))
    words = re.sub(r'(<a href="[\w/]+\.cuh?)(?=")', r"\1.html", words)
    return re.sub(r'<a href="(?![\w/.]+\.html")[^"]*">(.*?)</a>', r"\1", words), _PAGE


_PAGE = (
    "main {max-width: 60em; margin: auto; font-family: sans-serif} td, th {padding: 0.2em 0.5em; text-align: left}"
)
