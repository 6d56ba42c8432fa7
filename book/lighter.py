"""A Sphinx extension: pages that load little, and say what their elements are.

The theme brings thousands of icons three times: as a script, as a font and as a rule for each. The script goes, since
the font shows the same; of the font and of the rules those stay whose names are in some page. Of MathJax the parts
stay that the book loads. Of a figure a screen loads the form that fits it. A line of code that has to be broken
goes on further right than it began.
"""

import logging
import re
from html import unescape
from pathlib import Path

_SCRIPT = re.compile(r"\s*<script[^>]*fontawesome\.js[^>]*></script>")
_RULE = re.compile(r'((?:\.fa-[a-z0-9-]+:+before,?)+)\{content:"([^"]*)"\}')
_NARROW = re.compile(r'(<img [^>]*>)\s*<img [^>]*class="narrow"[^>]* src="([^"]*)"[^>]*>')
_PARAMETERS = re.compile(r"<dl>\n(?:<dd>.*</dd>\n)+</dl>")
_CODE = re.compile(r'(?<=<div class="highlight"><pre>).*?(?=</pre>)', re.DOTALL)
_LONG = '<span class="long"'
_FITS = 36  # characters of code that the narrowest screens show on a line
_WOFF2 = re.compile(r'url\([^)]*fontawesome[^)]*\.woff2\) format\("woff2"\),')


def setup(app):
    """Choose MathJax's parts at the start, the icons when all pages are written."""
    app.connect("config-inited", choose_mathjax)
    app.connect("build-finished", lighten)
    return {"parallel_read_safe": True}


def choose_mathjax(app, config):
    """The parts that the formulas of the book need; the extension that brings MathJax names the whole of it."""
    config.mathjax_path = "mathjax/startup.js"
    config.mathjax3_config = {"loader": {"load": ["input/tex", "output/chtml", "a11y/assistive-mml"]}}


_MATHJAX = "startup.js", "loader.js", "core.js", "input/tex.js", "input/tex/", "output/chtml", "a11y/assistive-mml.js"


def prune_mathjax(folder):
    """Delete what `choose_mathjax` does not load."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if not path.relative_to(folder).as_posix().startswith(_MATHJAX):
            path.unlink()


_OWN = "index", "genindex", "py-modindex", "search"  # that Sphinx and Jupyter Book add


def forget_unused(html, pages, names):
    """Delete what earlier builds left: pages that are gone, and pictures and downloads that no page names.

    Parameters
    ----------
    html : Path of the rendered book
    pages : dict of path -> text, without those deleted when this returns
    names : of the pages that there are, as 'results/speedups'
    """
    for path in list(pages):
        if path.relative_to(html).with_suffix("").as_posix() not in {*names, *_OWN}:
            path.unlink()
            del pages[path]
    named = {name for text in pages.values() for name in re.findall(r"_(?:images|downloads)/([^\"#]*)", text)}
    for folder in ("_images", "_downloads"):
        for path in [path for path in (html / folder).rglob("*") if path.is_file()]:
            if path.relative_to(html / folder).as_posix() not in named:
                path.unlink()


def lighten(app, error):
    """Take what no page uses out of a finished build, and have images load when they are scrolled to."""
    html = Path(app.outdir)
    if error or app.builder.format != "html":
        return
    prune_mathjax(html / "_static/mathjax")
    pages = {path: path.read_text(encoding="utf-8") for path in html.rglob("*.html") if "_static" not in path.parts}
    scripts = [path.read_text(encoding="utf-8") for path in html.glob("_static/**/*theme*.js")]
    named = {name for text in (*pages.values(), *scripts) for name in re.findall(r"\bfa-[a-z0-9-]+", text)}
    forget_unused(html, pages, app.env.found_docs)
    for path, text in pages.items():
        path.write_text(finished(text), encoding="utf-8")
    unused = (
        "_static/**/*.map",
        "_static/scripts/fontawesome.js*",
        "_static/locales/**/*.?o",
    )  # and translations
    for path in {path for pattern in unused for path in html.glob(pattern)}:
        path.unlink()
    codes = set()
    for path in html.glob("_static/**/*.css"):
        before = path.read_text(encoding="utf-8")
        text = _WOFF2.sub("", _RULE.sub(lambda rule: rule[0] * any(name in named for name in _names(rule)), before))
        codes |= {int(code, 16) for code in re.findall(r'"\\(f[0-9a-f]{3})"', text)}
        codes |= {ord(letter) for letter in text if "\ue000" <= letter <= "\uf8ff"}  # of private use
        if text != before:
            path.write_text(text, encoding="utf-8")
    for path in html.glob("_static/vendor/fontawesome/webfonts/*.ttf"):
        path.with_suffix(".woff2").unlink(missing_ok=True)
        keep_glyphs(path, codes)


def finished(text):
    """A page as it is read, from what Sphinx has written or from a page that was finished before."""
    text = _SCRIPT.sub("", hang(one_picture(text))).replace("<img alt=", '<img loading="lazy" alt=')
    text = text.replace('role="doc-biblioentry"', 'role="listitem"')  # an entry of a list, as it is written
    # Of pandas's tables those whose numbers have a format lack the class that gives them their look.
    return _PARAMETERS.sub(_plain, text.replace('<table id="T_', '<table class="dataframe" id="T_'))


def hang(text):
    """Lines of code that may have to be broken, each with its indentation."""
    return _CODE.sub(lambda code: "\n".join(map(_hung, code[0].split("\n"))), text)


def one_picture(text):
    """A figure's two images, the second for narrow screens, as one picture of which a screen loads what fits it."""
    return _NARROW.sub(r'<picture><source media="(max-width: 40rem)" srcset="\2">\1</picture>', text)


def _hung(line):
    # Pygments lets no element go over the end of a line. A page that did not change has been here before.
    text = unescape(re.sub("<[^>]*>", "", line))
    if len(text) <= _FITS or line.startswith(_LONG):
        return line
    return f'{_LONG} style="--indent:{len(text) - len(text.lstrip())}">{line}</span>'


def _plain(parameters):
    """A signature over several lines is no list of definitions, though Sphinx writes it as one."""
    return parameters[0].replace("<dl>", '<dl role="none">').replace("<dd>", '<dd role="none">')


def _names(rule):
    return re.findall(r"fa-[a-z0-9-]+", rule[1])


def keep_glyphs(path, codes):
    """Keep the glyphs of a font that have these code points."""
    from fontTools.subset import Options, Subsetter, load_font, save_font  # comes with Matplotlib

    logging.getLogger("fontTools").setLevel(logging.WARNING)
    options = Options()
    font = load_font(path, options)
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=codes)
    subsetter.subset(font)
    save_font(font, path, options)
