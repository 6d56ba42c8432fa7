"""Which package imports which: the library stands without the study, and without the packages of its extras."""

import ast
import subprocess
import sys

import pytest

from support import ROOT

LIBRARY = sorted((ROOT / "src/gpumf").rglob("*.py"))
assert LIBRARY


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.relative_to(ROOT / "src/gpumf").as_posix())
def test_the_library_names_nothing_of_the_study(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert not [name for name in imported if name.split(".")[0] == "gpumf_study"]


def test_the_library_does_without_the_packages_of_the_study_and_of_extras(tmp_path):
    absent = ["gpumf_study", "matplotlib", "IPython", "h5py", "pooch", "xlrd"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent}))\n"
        "from gpumf import ALS, RBM, SGD, Blend, command_line, cross_validate, search, suggest\n"
        "from gpumf.ratings import load_dataset\n"
        "train, test = load_dataset('ml-100k-synthetic').split(0.2)\n"
        "ALS(4, device='cpu').fit(train, 1, test)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
