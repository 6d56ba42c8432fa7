"""All that is public says what it takes and gives, and its examples run."""

import doctest
import inspect

import pytest

import gpumf
from gpumf import datasets, findings, results
from gpumf.datasets import download, ratings, sources, statistics

MODULES = datasets, findings, results, download


def functions(module):
    """(name, function) of what a module has that is public, and of its classes' public methods."""
    names = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    ]
    for name in names:
        value = getattr(module, name)
        if name.startswith("_"):
            continue
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            for method, member in vars(value).items():
                function = getattr(member, "__func__", getattr(member, "fget", getattr(member, "func", member)))
                if not method.startswith("_") and inspect.isfunction(function):
                    yield f"{name}.{method}", function


PUBLIC = [pytest.param(function, id=name) for module in MODULES for name, function in functions(module)]


@pytest.mark.parametrize("function", PUBLIC)
def test_what_is_public_is_annotated(function):
    signature = inspect.signature(function)
    missing = [
        name for name, p in signature.parameters.items() if p.annotation is p.empty and name not in ("self", "cls")
    ]
    assert not missing and signature.return_annotation is not signature.empty


@pytest.mark.parametrize(
    "module", [gpumf, ratings, sources, statistics, findings], ids=lambda module: module.__name__
)
def test_examples_run(module):
    failed, tried = doctest.testmod(module)
    assert tried and not failed
