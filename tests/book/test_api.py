"""The reference names every public name, and docstrings become reStructuredText without a complaint."""

import importlib
import inspect
import re
import sys

import pytest

import gpumf
from gpumf import models, ratings
from support import ROOT

DIRECTIVE = re.compile(r"^\.\. auto\w+:: (gpumf[\w.]*)\n((?:   :.*\n)*)", re.MULTILINE)


@pytest.fixture(scope="module")
def documented():
    """Name -> its options, of what book/api.md documents."""
    found = DIRECTIVE.findall((ROOT / "book/api.md").read_text(encoding="utf-8"))
    assert len({name for name, _ in found}) == len(found), "a name comes once"
    return dict(found)


@pytest.fixture
def docstrings(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book")
    yield importlib.import_module("docstrings")
    sys.modules.pop("docstrings")


def public(name):
    """The names that a module exports, in full, less its own modules and its version."""
    module = importlib.import_module(name)
    return {f"{name}.{one}" for one in module.__all__ if one not in ("__version__", "datasets")}


@pytest.mark.parametrize("name", ["gpumf", "gpumf.ratings", "gpumf.distributed"])
def test_every_public_name_is_documented(documented, name):
    if name == "gpumf.distributed":
        pytest.importorskip(name, exc_type=ImportError)
    leaves = {one.rsplit(".", 1)[1] for one in documented}
    missing = {one for one in public(name) - documented.keys() if one.rsplit(".", 1)[1] not in leaves}
    assert not missing, f"book/api.md lacks {missing}"


def test_nothing_is_documented_that_is_not_there(documented):
    for name in documented:
        module, attribute = name.rsplit(".", 1)
        if module != "gpumf.distributed":
            assert getattr(importlib.import_module(module), attribute).__doc__, name


@pytest.mark.parametrize("name", ["ALS", "ImplicitALS", "SGD", "RBM", "BayesianMF", "Blend"])
def test_every_method_of_a_model_is_documented(documented, name):
    model, options = getattr(gpumf, name), documented[f"gpumf.{name}"]
    shared = set() if name == "Blend" else set(dir(models.Model)) | set(vars(models.Factorization))
    named = set(re.findall(r"\w+", options.split(":members:")[1].split("\n")[0]))
    own = named or {one for one in dir(model) if ":inherited-members:" in options or one in vars(model)}
    methods = {one for one, _ in inspect.getmembers(model, callable) if not one.startswith("_")}
    assert methods <= own | shared, methods - own - shared
    undescribed = {one for one in methods if not inspect.getdoc(getattr(model, one))}
    assert not undescribed


def test_names_that_stand_for_types_are_explained():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src/gpumf").rglob("*.py")]
    aliases = {name for text in sources for name in re.findall(r"^ *(\w+): TypeAlias =", text, re.MULTILINE)}
    signatures = set()
    for module in (gpumf, models, ratings):
        for thing in (getattr(module, name) for name in module.__all__):
            members = [one for _, one in inspect.getmembers(thing, callable)] if inspect.isclass(thing) else []
            for one in filter(inspect.isroutine, [thing, getattr(thing, "__init__", None), *members]):
                given = getattr(one, "__annotations__", {})
                signatures |= {word for text in given.values() for word in re.findall(r"\w+", str(text))}
    table = re.findall(r"^\| `(\w+)` \|", (ROOT / "book/api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(table) > 5 and set(table) == aliases & signatures


def every_docstring():
    """(name, docstring) of all public classes and functions, and of their public attributes."""
    for module in (gpumf, models, ratings):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                members = inspect.getmembers(thing) if inspect.isclass(thing) else []
                things = {name: thing} | {f"{name}.{k}": v for k, v in members if not k.startswith("_")}
                yield from ((k, inspect.getdoc(v)) for k, v in things.items() if inspect.getdoc(v))


def test_docstrings_become_restructured_text(docstrings):
    nodes = pytest.importorskip("docutils.nodes")
    core = pytest.importorskip("docutils.core")
    settings = {"report_level": 2, "halt_level": 2, "warning_stream": False}
    seen = 0
    for name, text in every_docstring():
        lines = text.splitlines()
        docstrings.convert(lines)
        try:
            tree = core.publish_doctree("\n".join(lines), settings_overrides=settings)
        except Exception as error:
            raise AssertionError(f"{name}: {error}\n" + "\n".join(lines)) from error
        seen += len(list(tree.findall(nodes.definition_list_item)))
    assert seen > 100


def test_a_docstring_keeps_its_words_formulas_and_lists(docstrings):
    lines = """A *sum* over x_u of `fit`, as ndcg@10.

    A x = b

Parameters
----------
users, items : ids, one
    or an array
**more : what `fit` takes

>>> fit(1)
2""".splitlines()
    docstrings.convert(lines)
    assert lines[0] == r"A \*sum\* over x\_u of \ ``fit``\ , as ndcg\@10."
    assert lines[2:5] == [".. code-block:: text", "", "     A x = b"]
    assert ".. rubric:: Parameters" in lines
    assert lines[lines.index("``users, items``") + 1] == "   ids, one or an array"
    assert lines[lines.index("``**more``") + 1] == r"   what \ ``fit``\  takes"
    assert lines[lines.index(">>> fit(1)") + 1] == "2"
