"""Which package imports which: the library stands without the study, and without the packages of its extras."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from graphlib import TopologicalSorter

import pytest

import gpumf
from gpumf import ALS
from support import ROOT, ragged_ratings

LIBRARY = sorted((ROOT / "src/gpumf").rglob("*.py"))
FLOORS = "_util", "backends", "ratings", "solvers", "models", "distributed", "command_line"


def named(path):
    """The modules, and what else, that a file imports, at run time or for type checkers alone."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    of = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = {f"{node.module}.{name.name}" for node in of for name in node.names} | {node.module or "" for node in of}
    return names | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


NAMED = {".".join(path.relative_to(ROOT / "src").with_suffix("").parts): named(path) for path in LIBRARY}
IMPORTED = {name: names & NAMED.keys() for name, names in NAMED.items()}


def test_the_library_names_nothing_of_the_study():
    assert len(NAMED) > 100 and not {
        name for name, names in NAMED.items() if any(one.split(".")[0] == "gpumf_study" for one in names)
    }


def test_the_library_does_without_the_packages_of_the_study_and_of_extras(tmp_path):
    """And imports what is used: functions compiled late find each other, under whatever name."""
    absent = ["gpumf_study", "matplotlib", "IPython", "h5py", "pooch", "xlrd"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent}))\n"
        "from gpumf import ALS, RBM, SGD, Blend, command_line, cross_validate, search, suggest\n"
        "from gpumf.ratings import load_dataset\n"
        "train, test = load_dataset('ml-100k-synthetic').split(0.2)\n"
        "assert 'numba' in sys.modules\n"
        "ALS(4, device='cpu').fit(train, 1, test)\n"
        "SGD(8, device='cpu').fit(train, 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_modules_import_each_other_in_a_circle():
    TopologicalSorter(IMPORTED).prepare()


@pytest.mark.parametrize("floor", range(len(FLOORS)), ids=FLOORS)
def test_no_floor_imports_one_above(floor):
    own, above = f"gpumf.{FLOORS[floor]}.", tuple(f"gpumf.{name}" for name in FLOORS[floor + 1 :])
    inside = {name: names for name, names in IMPORTED.items() if name.startswith(own)}
    assert inside and not {name: names for name, names in inside.items() if any(n.startswith(above) for n in names)}


def test_parts_of_the_study_do_not_import_each_other_in_a_circle():
    """The experiments of a publication are a part, and so is each other module."""
    paths = {path.relative_to(ROOT / "src"): path for path in (ROOT / "src/gpumf_study").rglob("*.py")}
    study = {".".join(place.with_suffix("").parts).removesuffix(".__init__"): path for place, path in paths.items()}
    parts = {name: ".".join(name.split(".")[:3]) for name in study}
    imported = {part: set() for part in parts.values()}
    for name, path in study.items():
        imported[parts[name]] |= {parts[one] for one in named(path) & study.keys()} - {parts[name]}
    assert len(imported) > 20 and "gpumf_study.experiments.cumf" in imported
    TopologicalSorter(imported).prepare()


def levels(kind):
    return 1 + max((levels(base) for base in kind.__bases__ if base.__module__.startswith("gpumf")), default=0)


def test_there_are_at_most_three_levels_of_inheritance():
    names = [module.name for module in pkgutil.walk_packages(gpumf.__path__, "gpumf.")]
    others = (
        "gpumf.distributed",
        "gpumf.backends.cuda",
        "gpumf.backends.cublas",
        "gpumf.sklearn",
    )  # which extras are for
    modules = [importlib.import_module(n) for n in names if not n.startswith(others) and not n.endswith("__main__")]
    kinds = [kind for module in modules for kind in vars(module).values() if inspect.isclass(kind)]
    own = {kind for kind in kinds if kind.__module__.startswith("gpumf.")}
    assert len(own) > 100
    assert not [kind for kind in own if levels(kind) > 3]


@pytest.mark.parametrize(
    ("device", "factors", "biases", "most"),
    [
        ("cpu", 16, False, 155),
        ("cpu", 16, "damped", 205),
        ("emulator", 100, False, 600),
        ("emulator", 100, "damped", 1020),
    ],
)
def test_a_fit_takes_few_calls(device, factors, biases, most, request):
    """Of one epoch, after a first one: what Python does must not grow unnoticed."""
    if device == "emulator":
        request.getfixturevalue("host")
    train, calls = ragged_ratings(n_users=40, n_items=30, longest=20, seed=1), []
    root = inspect.getsourcefile(gpumf).removesuffix("__init__.py")
    model = ALS(factors, biases=biases, device=device).fit(train, epochs=1)
    sys.setprofile(
        lambda frame, event, _: event == "call" and calls.append(frame.f_code.co_filename.startswith(root))
    )
    try:
        model.fit(train, epochs=1)
    finally:
        sys.setprofile(None)
    assert 0 < sum(calls) <= most
