"""All that is public says what it takes and gives, and shows it in an example that runs."""

import doctest
import importlib.util
import inspect
import re

import pytest

import gpumf
from gpumf import datasets, findings, models, results
from gpumf.datasets import download

MODULES = gpumf, models, datasets, findings, results, download


def public(module):
    """(name, class or function) of what a module has that is public."""
    for name in getattr(module, "__all__", vars(module)):
        value = getattr(module, name)
        own = hasattr(module, "__all__") or getattr(value, "__module__", "") == module.__name__
        if own and not name.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value)):
            yield name, value


def methods(kind):
    """(name, function) of a class's constructor and public methods, those that it inherits from the package too."""
    for name, member in inspect.getmembers_static(kind):
        function = getattr(member, "__func__", getattr(member, "fget", getattr(member, "func", member)))
        ours = inspect.isfunction(function) and function.__module__.startswith("gpumf")
        if ours and (not name.startswith("_") or name == "__init__"):
            yield function.__qualname__, function


def functions(module):
    """(name, function) of what a module has that is public, and of its classes."""
    for name, value in public(module):
        yield from [(name, value)] if inspect.isfunction(value) else methods(value)


PUBLIC = {function: name for module in MODULES for name, function in functions(module)}
CLASSES = {value: name for module in MODULES for name, value in public(module) if inspect.isclass(value)}
SHOWN = CLASSES | {function: name for function, name in PUBLIC.items() if not name.endswith("__init__")}


@pytest.mark.parametrize("function", [pytest.param(function, id=name) for function, name in PUBLIC.items()])
def test_what_is_public_is_annotated(function):
    signature = inspect.signature(function)
    missing = [
        name for name, p in signature.parameters.items() if p.annotation is p.empty and name not in ("self", "cls")
    ]
    assert not missing and signature.return_annotation is not signature.empty


def examples(thing):
    """The doctest of one docstring, up to what imports a package that is not installed."""
    names = dict(vars(inspect.getmodule(thing)))
    found = doctest.DocTestParser().get_doctest(thing.__doc__ or "", names, thing.__qualname__, None, None)
    for k, example in enumerate(found.examples):
        package = re.match(r"import (\w+)", example.source)
        if package and importlib.util.find_spec(package[1]) is None:
            del found.examples[k:]
            break
    return found


@pytest.mark.parametrize("thing", [pytest.param(thing, id=name) for thing, name in SHOWN.items()])
def test_what_is_public_has_an_example_that_runs(thing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    result = doctest.DocTestRunner().run(examples(thing), out=said.append)
    assert result.attempted, "no example"
    assert not result.failed, "".join(said)


def test_the_example_of_the_package_runs():
    failed, tried = doctest.testmod(gpumf)
    assert tried and not failed
