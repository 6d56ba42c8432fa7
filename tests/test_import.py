"""What `import gpumf` imports: little more than NumPy, and the rest when it is needed."""

import subprocess
import sys

import pytest

HEAVY = "numba", "pandas", "pyarrow", "scipy", "matplotlib", "h5py", "cupy", "pooch", "tqdm", "concurrent.futures"


@pytest.mark.parametrize(
    "statement", ["import gpumf", "from gpumf import ALS, RBM, SGD, Blend, ImplicitALS, datasets; ALS(8); SGD(8)"]
)
def test_large_packages_are_imported_late(statement):
    """Each of them takes longer to import than this package with NumPy does."""
    code = f"{statement}; import sys; print(*(name for name in {HEAVY} if name in sys.modules))"
    command = [sys.executable, "-c", f"import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''; {code}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    # Where CuPy is installed, a model asks it for devices.
    assert set(found) <= ({"cupy"} if "ALS(8)" in statement else set())


def test_what_is_used_is_imported():
    """And functions compiled late find each other, under whatever name."""
    code = (
        "import sys; from gpumf import SGD, datasets; ratings = datasets.load('ml-100k-twin'); "
        "assert 'numba' in sys.modules and 'h5py' not in sys.modules; "
        "print(len(SGD(8).fit(ratings, 1).history))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "2\n"
