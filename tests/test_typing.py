"""All that is public says what it takes and gives, and what the reference has shows it in an example that runs."""

import doctest
import importlib.util
import inspect
import re

import pytest

import gpumf
from gpumf import backends, models, ratings
from gpumf.ratings import download
from gpumf_study import claims, results

try:
    from gpumf import distributed
except ImportError:  # without the extra
    distributed = None

REFERENCE = gpumf, models, ratings
MODULES = *REFERENCE, *filter(None, [distributed]), claims, results, download


def public(module):
    """The classes and functions of a module that are public."""
    for name in getattr(module, "__all__", vars(module)):
        value = getattr(module, name)
        own = hasattr(module, "__all__") or getattr(value, "__module__", "") == module.__name__
        if own and not name.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value)):
            yield value


def function_of(member):
    """The package's function that a member of a class is, or None; a lambda is another name of an attribute."""
    function = getattr(member, "__func__", getattr(member, "fget", getattr(member, "func", member)))
    own = inspect.isfunction(function) and function.__module__.startswith("gpumf")
    return function if own and function.__name__ != "<lambda>" else None


def methods(kind):
    """Of each public method of a class, and its constructor, the functions of that name, what overrides first."""
    for name in dir(kind):
        every = [function for base in kind.__mro__ if (function := function_of(vars(base).get(name)))]
        if every and (name == "__init__" or not name.startswith("_")):
            yield every


def with_a_docstring(functions):
    """The first of the functions that has one, for what overrides it without; else the first."""
    return next((function for function in functions if function.__doc__), functions[0])


def parameters(things):
    """Parameters of a test: each thing once."""
    return [pytest.param(thing, id=thing.__qualname__) for thing in dict.fromkeys(things)]


ALL = {module: list(public(module)) for module in MODULES}
EVERY = [thing for things in ALL.values() for thing in things]
FUNCTIONS = [thing for thing in EVERY if inspect.isfunction(thing)]
FUNCTIONS += [every[0] for thing in EVERY if inspect.isclass(thing) for every in methods(thing)]
SHOWN = [thing for module in REFERENCE for thing in ALL[module]]


def names_in_examples(kind):
    """What the examples of a class and of those it derives from name."""
    docs = "\n".join(base.__doc__ or "" for base in kind.__mro__)
    lines = re.findall(r"^ *(?:>>>|\.\.\.) (.*)", docs, re.MULTILINE)
    return set(re.findall(r"\.(\w+)", "\n".join(lines)))


METHODS = [
    every
    for kind in SHOWN
    if inspect.isclass(kind)
    for every in methods(kind)
    if every[0].__name__ not in names_in_examples(kind) | {"__init__"}  # which the class shows
]


@pytest.mark.parametrize("function", parameters(FUNCTIONS))
def test_what_is_public_is_annotated(function):
    signature = inspect.signature(function)
    missing = [
        name for name, p in signature.parameters.items() if p.annotation is p.empty and name not in ("self", "cls")
    ]
    assert not missing and signature.return_annotation is not signature.empty


@pytest.mark.parametrize("kind", parameters(thing for thing in EVERY if inspect.isclass(thing)))
def test_every_method_says_what_it_does(kind):
    names = {every[0].__name__ for every in methods(kind) if not with_a_docstring(every).__doc__}
    assert names <= {"__init__"}


def example(thing):
    """The doctest of a docstring, up to what imports a package that is not installed."""
    names = dict(vars(inspect.getmodule(thing)))
    found = doctest.DocTestParser().get_doctest(thing.__doc__ or "", names, thing.__qualname__, None, None)
    for k, step in enumerate(found.examples):
        package = re.match(r"import (\w+)", step.source)
        if package and importlib.util.find_spec(package[1]) is None:
            del found.examples[k:]
            break
    return found


@pytest.mark.parametrize("thing", parameters([*SHOWN, *map(with_a_docstring, METHODS)]))
def test_what_the_reference_has_shows_an_example_that_runs(thing, tmp_path, monkeypatch):
    if "emulator" in (thing.__doc__ or "") and (why := backends.why_unavailable("emulator")):
        pytest.skip(why)
    monkeypatch.chdir(tmp_path)
    said = []
    result = doctest.DocTestRunner().run(example(thing), out=said.append)
    assert result.attempted, "no example"
    assert not result.failed, "".join(said)


def test_examples_of_the_package_run():
    failed, tried = doctest.testmod(gpumf)
    assert tried and not failed
