"""pyproject.toml, the lock files and environment.yml ask for the same things."""

import re
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support import ROOT

yaml = pytest.importorskip("yaml")  # a machine that only runs the GPU tests may not have it

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
OF_ALL = "book", "test", "build", "data", "distributed", "safetensors"
COMMON = [*PROJECT["dependencies"], *(package for extra in OF_ALL for package in EXTRAS[extra])]
LOCKS = {
    "requirements.lock": COMMON,
    "requirements-cuda12.lock": [*COMMON, *EXTRAS["cuda12"]],
    "requirements-cuda13.lock": [*COMMON, *EXTRAS["cuda13"]],
}
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
SYSTEMS = [("linux", "Linux", "x86_64"), ("darwin", "Darwin", "arm64")]
ON_CONDA = {"matplotlib": "matplotlib-base", "playwright": "playwright-python"}


def pins(lock):
    """The pinned requirements of a lock file, without their hashes."""
    lines = (ROOT / lock).read_text().splitlines()
    return [Requirement(line.removesuffix("\\")) for line in lines if re.match(r"[a-z0-9]", line, re.IGNORECASE)]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system[0])
@pytest.mark.parametrize("lock", LOCKS)
def test_lock_has_one_fitting_version_of_everything(lock, system, python):
    where = dict(zip(("sys_platform", "platform_system", "platform_machine"), system, strict=True))
    where |= {"python_version": python, "python_full_version": f"{python}.7"}

    def applies(requirement):
        return requirement.marker is None or requirement.marker.evaluate(where)

    locked = {}
    for pin in pins(lock):
        if applies(pin):
            (version,) = pin.specifier
            assert version.operator == "=="
            assert locked.setdefault(canonicalize_name(pin.name), version.version) == version.version
    for requirement in filter(applies, map(Requirement, LOCKS[lock])):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement


@pytest.mark.parametrize("lock", ["requirements-cuda12.lock", "requirements-cuda13.lock"])
def test_cuda_only_adds_to_the_common_lock(lock):
    assert set(map(str, pins("requirements.lock"))) < set(map(str, pins(lock)))


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_names_no_place_and_has_hashes(lock):
    text = (ROOT / lock).read_text()
    assert not re.search(r"://|^-", text, re.MULTILINE)
    blocks = re.split(r"\n(?=[a-z0-9])", text, flags=re.IGNORECASE)[1:]
    assert len(blocks) == len(pins(lock)) and all("--hash=sha256:" in block for block in blocks)


def test_conda_environment_asks_for_what_pyproject_asks_for():
    *conda, from_pip = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    stated = [*conda, *from_pip["pip"]]
    stated.remove("pip")  # it installs the package itself

    wanted = [f"python {PROJECT['requires-python']}", *COMMON]

    def plain(text):
        requirement = Requirement(text)
        return ON_CONDA.get(requirement.name, requirement.name), frozenset(map(str, requirement.specifier))

    assert sorted(map(plain, stated), key=str) == sorted({*map(plain, wanted)}, key=str), "each once"


@pytest.mark.slow
def test_the_gpu_tests_are_found_without_the_packages_for_downloads_and_the_book():
    absent = ["pooch", "xlrd", "papermill", "playwright", "nbformat", "nbclient", "jupyter_book", "ipykernel", "yaml"]
    code = f"import sys, pytest; sys.modules.update(dict.fromkeys({absent})); sys.exit(pytest.main(sys.argv[1:]))"
    options = ["-q", "-m", "gpu", "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run([sys.executable, "-c", code, *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^tests/models/test_hostile\.py: \d+$", done.stdout, re.MULTILINE)
