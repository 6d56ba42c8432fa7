"""Print the rendered book to build/PROFILE/book.pdf, by Chromium: all pages one after another."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

import build

BROWSERS = "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"
_ARTICLE = re.compile(r'<article class="bd-article">(.*?)</article>', re.DOTALL)
_ADDRESS = re.compile(r'\b(src|href|srcset)="([^"]*)"')
_STYLE = """
  @page { margin: 18mm 16mm; }
  .page { break-before: page; max-width: none; }
  .page figure, .page img, .page tr { break-inside: avoid; }
  .headerlink, .downloads, .gpumf-controls { display: none; }
"""


def main(argv=None):
    """Print the book; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", choices=["quick", "full"], help="as of build.py")
    output = build.ROOT / "build" / (parser.parse_args(argv).profile or build.default_profile())
    html, browser = output / "_build/html", next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"The book is printed by a browser: install one of {', '.join(BROWSERS)}.")
    if not (html / "intro.html").is_file():
        sys.exit(f"There is no book in {html}: run `make book` first.")
    toc = yaml.safe_load((build.ROOT / "book/_toc.yml").read_text(encoding="utf-8"))
    whole, target = html / "whole.html", output / "book.pdf"
    try:
        whole.write_text(joined(html, list(build.files(toc))), encoding="utf-8")
        with tempfile.TemporaryDirectory() as profile:
            options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
            options += ["--no-pdf-header-footer", "--virtual-time-budget=120000", f"--print-to-pdf={target}"]
            subprocess.run([browser, *options, whole.as_uri()], check=True, stderr=subprocess.DEVNULL)
    finally:
        whole.unlink(missing_ok=True)
    print(f"The book: {target}")
    return 0


def joined(html, names):
    """One page of all pages' articles, in their order, whose links lead within it.

    Parameters
    ----------
    html : Path of the rendered book
    names : of pages, as 'results/speedups'

    Returns
    -------
    str
    """
    texts = {name: (html / f"{name}.html").read_text(encoding="utf-8") for name in names}
    first = texts[names[0]]
    scripts = {
        flat(script)
        for text in texts.values()
        for script in re.findall(r"<script[^>]*mathjax.*?</script>", text, re.I)
    }
    settings = {
        script for text in texts.values() for script in re.findall(r"<script>window\.MathJax.*?</script>", text)
    }
    parts = [re.search(r"<head>.*?<title>", first, re.DOTALL)[0], "Matrix factorization on GPUs</title>"]
    parts += re.findall(r'<link[^>]*rel="stylesheet"[^>]*>', first) + sorted(settings) + sorted(scripts)
    parts += [f"<style>{_STYLE}</style></head><body>"]
    for name, text in texts.items():
        article = _ADDRESS.sub(lambda found, name=name: _within(found, name, texts), _ARTICLE.search(text)[1])
        article = article.replace(' loading="lazy"', "").replace("<details", "<details open")
        parts.append(f'<article class="bd-article page" id="page-{name}">{article}</article>')
    return "\n".join(['<!DOCTYPE html><html lang="en" data-theme="light">', *parts, "</body></html>"])


def flat(tag):
    """A tag whose address is that of a page at the top of the book."""
    return tag.replace('"../', '"')


def _within(found, name, names):
    """An attribute of a page, as it is on the joined page: relative to the top, and other pages as places on it."""
    attribute, address = found.groups()
    if re.match(r"[a-z]+:|#", address):
        return found[0]
    path, _, anchor = address.partition("#")
    path = (Path("/", name).parent / path).as_posix()
    path = re.sub(r"/[^/]+/\.\./", "/", path).lstrip("/")
    if path.removesuffix(".html") in names and path.endswith(".html"):
        return f'{attribute}="#{anchor or "page-" + path.removesuffix(".html")}"'
    return f'{attribute}="{path}"'


if __name__ == "__main__":
    sys.exit(main())
