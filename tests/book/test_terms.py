"""What people read is in the standard terms of the field: pages, docstrings, error messages, labels of figures."""

import ast
import inspect
import json
import re

import pytest

from support import ROOT

# Retired, and what is written in its place.
RETIRED = {
    r"twins?": "synthetic data set", r"(one|all) cores?": "single-threaded, multi-threaded, or the number of threads",
    r"cards?": "GPU", r"processors?(?! of a GPU)": "CPU", r"half-sweeps?": "user update, item update",
    r"soonest|sooner": "fastest, faster", r"wall seconds|whole fit": "end-to-end time",
    r"artefacts?": "figure or table", r"reproduced": "replicated", r"contradicted": "not replicated",
    r"same direction": "partly replicated", r"schemes?": "solver", r"what became of": "outcome",
}  # fmt: skip
_FOUND = re.compile(rf"\b({'|'.join(RETIRED)})\b", re.IGNORECASE)
ALLOWED = {
    "README.md: processor": "the name of a CPU",
    "book/api.md: processors": "the glossary says what a multiprocessor is",
    "book/learn/primer.ipynb: processors": "the primer does so, too",
    "src/gpumf_study: scheme": "the column of SGD's frames that names a solver and its variant",
    "src/gpumf_study: schemes": "the parameter of SGD's experiments that lists them",
    "src/gpumf_study: wall seconds": "what LIBMF calls its time",
}


def strings(path):
    """Docstrings, and what is said in errors, labels and captions: strings of more than one word."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield inspect.cleandoc(node.value)  # else its lines look like code


def texts():
    """(name, text without code) of everything that is held to the terms."""
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "kernels/README.md"):
        yield name, (ROOT / name).read_text(encoding="utf-8")
    yield "Makefile", "\n".join(re.findall("## (.*)", (ROOT / "Makefile").read_text(encoding="utf-8")))
    for path in sorted((ROOT / "book").rglob("*.md")):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "book").rglob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        yield path.relative_to(ROOT).as_posix(), "\n".join(prose)
    for folder in ("src/gpumf", "src/gpumf_study"):
        yield folder, "\n".join(text for path in sorted((ROOT / folder).rglob("*.py")) for text in strings(path))


TEXTS = list(texts())


@pytest.mark.parametrize(("name", "text"), TEXTS, ids=[name for name, _ in TEXTS])
def test_retired_terms_are_gone(name, text):
    prose = re.sub(r"(`+).*?\1|^    .*$|\]\([^)]*\)|\$.*?\$", "", text, flags=re.MULTILINE)
    found = {match[0].lower() for match in _FOUND.finditer(prose)}
    assert not {term for term in found if f"{name}: {term}" not in ALLOWED}


def test_places_that_are_allowed_are_needed():
    for place in ALLOWED:
        name, _, term = place.partition(": ")
        text = dict(TEXTS)[name]
        assert re.search(rf"\b{term}\b", text, re.IGNORECASE), f"{place} is gone: take it from the list"
