"""What `import gpumf` imports: little more than NumPy, and the rest when it is needed."""

import os
import pickle
import subprocess
import sys

import pytest

import gpumf
from gpumf import ALS, RBM, SGD, BayesianMF, Blend, ImplicitALS, models, ratings

HEAVY = "numba", "pandas", "pyarrow", "scipy", "matplotlib", "h5py", "cupy", "pooch", "tqdm", "concurrent.futures"
LATE = (
    *("gpumf.models.bayesian", "gpumf.models.blend", "gpumf.models.rbm", "gpumf.models.sgd", "gpumf.suggestion"),
    *("gpumf.ratings.sources", "gpumf.ratings.layouts", "gpumf.ratings.files", "gpumf.ratings.statistics"),
)


def printed(code, *arguments):
    """What a new process prints, which sees no GPU."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def loaded(statement, names):
    """Those of these modules that a process has loaded after the statement."""
    return printed(f"{statement}; import sys; print(*(name for name in {names} if name in sys.modules))").split()


@pytest.mark.parametrize(
    "statement",
    [
        "import gpumf",
        "from gpumf import ALS, RBM, SGD, Blend, ImplicitALS; from gpumf.ratings import load_dataset; ALS(8); SGD(8)",
    ],
)
def test_large_packages_are_imported_late(statement):
    """Each of them takes longer to import than this package with NumPy does."""
    # Where CuPy is installed, a model asks it for devices.
    assert set(loaded(statement, HEAVY)) <= ({"cupy"} if "ALS(8)" in statement else set())


@pytest.mark.skipif(sys.platform != "linux", reason="GNU's OpenMP says what it was told")
@pytest.mark.parametrize(("given", "expected"), [(None, "PASSIVE"), ("active", "ACTIVE")])
def test_idle_threads_of_numba_do_not_spin_unless_told_to(given, expected):
    code = (
        "import os, sys; before = dict(os.environ); import numpy as np; "
        "from gpumf.backends.cpu.metrics import copy_finite; "
        "numbers = np.zeros(5, np.float32); assert copy_finite(numbers, numbers.copy()); "
        "assert dict(os.environ) == before; import numba; print(numba.threading_layer())"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    environment |= {"OMP_DISPLAY_ENV": "true"} | ({"OMP_WAIT_POLICY": given} if given else {})
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    if done.stdout == "omp\n":
        assert f"OMP_WAIT_POLICY = '{expected}'" in done.stderr


def test_what_a_first_fit_of_als_does_without_is_imported_late():
    assert not loaded("from gpumf import ALS; from gpumf.ratings import Ratings; ALS(8, device='cpu')", LATE)
    for name, module in {
        "SGD": "gpumf.models.sgd",
        "models.RBM": "gpumf.models.rbm",
        "models.BayesianMF": "gpumf.models.bayesian",
        "suggest": "gpumf.suggestion",
        "load_dataset": "gpumf.ratings.sources",
        "ratings.sources": "gpumf.ratings.sources",
    }.items():
        assert module in loaded(f"import gpumf; gpumf.{name}", LATE)


@pytest.mark.parametrize("package", [gpumf, models, ratings], ids=lambda package: package.__name__)
def test_every_name_is_there_before_it_is_asked_for(package):
    listed = printed(f"import {package.__name__} as package; print(*dir(package))").split()
    assert set(package.__all__) <= set(listed) and listed == sorted(set(listed))
    starred = printed(f"from {package.__name__} import *; print(*(name for name in dir() if name != '__builtins__'))")
    assert set(package.__all__) <= set(starred.split())
    with pytest.raises(AttributeError, match=f"'{package.__name__}' has no attribute 'nowhere'"):
        package.nowhere  # noqa: B018


def test_what_was_stored_is_read_by_a_process_that_imported_none_of_it(tmp_path):
    kinds = ALS, SGD, ImplicitALS, RBM, BayesianMF
    models = [kind(2, device="cpu").fit(([0, 1, 1], [0, 0, 1], [4, 3, 5]), epochs=1) for kind in kinds]
    pickled, saved = tmp_path / "model.pickle", tmp_path / "blend.npz"
    pickled.write_bytes(pickle.dumps(models[1]))
    Blend(*models, weights=[0.2] * len(kinds)).save(saved)
    code = (
        "import gpumf, pickle, sys; print(type(pickle.load(open(sys.argv[1], 'rb'))).__name__)",
        "import gpumf, sys; print(*(type(m).__name__ for m in gpumf.load(sys.argv[1], device='cpu').models))",
    )
    found = [printed(*of).split() for of in zip(code, (pickled, saved), strict=True)]
    assert found == [["SGD"], ["ALS", "SGD", "ImplicitALS", "RBM", "BayesianMF"]]
