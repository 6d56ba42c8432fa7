"""Copies of the tree that faults are planted in."""

import hashlib
import os
import shutil
import subprocess

from faults import ROOT

BUILD = ROOT / "build/mutants"


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
