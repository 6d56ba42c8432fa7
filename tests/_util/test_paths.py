"""Where data, results and compiled code lie: in a checkout, for an installed package, without a home, read-only."""

import os
import shutil
import subprocess
import sys
import warnings

import pytest

from gpumf._util import paths
from gpumf.ratings import DataError, download, files, load_dataset
from support import ROOT


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """As if the package lay in a folder of packages, with a user's folder of its own."""
    monkeypatch.setattr(paths, "_PACKAGE", tmp_path / "lib/site-packages/gpumf")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("GPUMF_DATA", raising=False)
    return tmp_path


def test_a_checkout_holds_its_data_itself():
    assert paths.checkout() == paths.home() == ROOT


@pytest.mark.skipif(sys.platform != "linux", reason="the folders of other systems are called otherwise")
def test_an_installed_package_has_a_folder_of_the_users(installed, monkeypatch):
    assert paths.checkout() is None
    assert files.data_folders() == [installed / "data/gpumf/data/raw"]
    monkeypatch.setenv("GPUMF_DATA", str(installed / "given"))
    assert files.data_folders() == [installed / "given", installed / "data/gpumf/data/raw"]


def test_a_folder_of_packages_inside_another_project_is_no_checkout(monkeypatch, tmp_path):
    """Not even where that project keeps its modules in src."""
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(paths, "_PACKAGE", tmp_path / "src/gpumf")
    assert paths.checkout() is None


def test_without_a_home_there_is_no_folder_and_a_sentence_says_so(installed, monkeypatch):
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # of a user whom the system does not know
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for place in (paths.home, paths.cache):
        with pytest.raises(OSError, match="no home folder; set HOME"):
            place()
    assert files.data_folders() == []
    with pytest.raises(DataError, match=r"no file .* in any folder, as neither GPUMF_DATA nor HOME is set"):
        load_dataset("ml-1m")
    with pytest.raises(DataError, match="no folder to download to: set GPUMF_DATA"):
        download.download("ml-100k")


def test_a_folder_that_cannot_be_written_is_named_before_the_download(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("GPUMF_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"file/ml-100k cannot be written.*set GPUMF_DATA"):
        download.download("ml-100k")


@pytest.mark.slow
def test_nothing_needs_to_be_writable_to_import_train_and_recommend(tmp_path):
    """A package of which nothing can be changed, a home that is a file, and no folder for temporary files."""
    shutil.copytree(ROOT / "src/gpumf", tmp_path / "packages/gpumf", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "kernels", tmp_path / "packages/gpumf/kernels")
    (tmp_path / "home").touch()
    code = (
        "import gpumf, numpy as np; from gpumf.ratings import Ratings; "
        "ratings = Ratings(np.arange(8) % 4, np.arange(8) % 3, np.arange(8) % 5, 4, 3); "
        "print(gpumf.ALS(2, device='cpu').fit(ratings, 1).recommend(0, k=1))"
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "home")}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "packages"), os.environ.get("PYTHONPATH", "")])
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    before = sorted(tmp_path.rglob("*"))
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True, capture_output=True)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows keeps users apart by other means")
@pytest.mark.parametrize("open_", ["folder", "above", "a link"])
def test_code_is_kept_only_where_nobody_else_can_put_it(open_, tmp_path):
    folder = tmp_path / "above" / "folder"
    paths.make_private(folder)
    assert {path.stat().st_mode & 0o777 for path in (folder, folder.parent)} == {0o700}
    paths.make_private(folder)
    if open_ == "a link":
        folder.rename(tmp_path / "other")
        folder.symlink_to(tmp_path / "other")
    else:
        (folder if open_ == "folder" else folder.parent).chmod(0o777)
    with pytest.warns(RuntimeWarning, match="compiled code is not kept in"), pytest.raises(PermissionError):
        paths.make_private(folder)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows keeps users apart by other means")
def test_what_another_user_owns_is_not_loaded(monkeypatch, tmp_path):
    (tmp_path / "file").touch(mode=0o600)
    assert paths.why_not_private(tmp_path / "file") is None
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert "belongs to another user" in paths.why_not_private(tmp_path / "file")
    with pytest.warns(RuntimeWarning, match="belongs to another user"), pytest.raises(PermissionError):
        paths.make_private(tmp_path)


def test_a_cache_that_cannot_be_written_is_told_with_what_to_do():
    with pytest.warns(RuntimeWarning, match=r"each process compiles again: .*/full.*; set XDG_CACHE_HOME"):
        paths.warn_not_kept(OSError(28, "No space left on device", "/full"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paths.warn_not_kept(PermissionError("/x can be written by others"))  # which make_private has told
