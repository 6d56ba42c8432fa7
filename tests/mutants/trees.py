"""Copies of the tree that faults are planted in, and Numba's cache for each."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from faults import ROOT

BUILD = ROOT / "build/mutants"
_COMPILES = ("cached_njit", "cached_vectorize", "njit")


def sha(*contents):
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]


def tracked(*folders):
    """Files of the working tree, those that git does not know yet among them."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    names = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted({name for name in names if (ROOT / name).is_file()})


def copied(slot):
    """A copy of the working tree with the repository's history, for one fault after another."""
    to = BUILD / f"tree-{slot}"
    if not to.exists():
        subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, to], check=True)
    subprocess.run(["git", "fetch", "--quiet", "origin", "HEAD"], cwd=to, check=True)
    subprocess.run(["git", "reset", "--quiet", "--hard", "FETCH_HEAD"], cwd=to, check=True)
    here = set(tracked())
    for name in subprocess.run(["git", "ls-files"], cwd=to, capture_output=True, text=True).stdout.splitlines():
        if name not in here:
            (to / name).unlink()
    for name in here:
        if not (to / name).exists() or (to / name).read_bytes() != (ROOT / name).read_bytes():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to / name)
        if name.startswith("src/"):  # Numba tells sources by their times
            os.utime(to / name, (1e9, 1e9))
    return to


# Numba's cache, one for all faults but those of what it compiles


def compiled_modules():
    """The modules whose functions Numba compiles, with what these may inline: a dict of path -> names imported."""
    texts = {path: (ROOT / path).read_text() for path in tracked("src") if path.endswith(".py")}
    found = {path for path, text in texts.items() if any(word in text for word in _COMPILES)}
    found |= {"src/gpumf/hashing.py"}
    return {
        path: {
            other
            for other in found - {path}
            if other.removeprefix("src/").removesuffix(".py").replace("/", ".") in texts[path]
            or other.endswith("__init__.py")
        }
        for path in found
    }


def numba_folder(path):
    """The cache for a fault in `path` (None: no fault), without what may have inlined it."""
    whole, modules = BUILD / "numba", compiled_modules()
    if path not in modules:
        return whole
    stale = {path}
    while more := {other for other, uses in modules.items() if uses & stale} - stale:
        stale |= more
    folder = BUILD / f"numba-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    stems = tuple(f"{Path(name).stem}." for name in stale)
    for file in whole.rglob("*"):
        if file.is_file() and not file.name.startswith(stems):
            to = folder / file.relative_to(whole)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to)
    return folder
