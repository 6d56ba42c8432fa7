"""Where the CUDA sources are, and what they hash to."""

import hashlib
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


@cache
def kernels_folder():
    """`kernels/` of the repository, or its copy in an installed package."""
    installed, repository = _PACKAGE / "kernels", _PACKAGE.parents[1] / "kernels"
    return installed if installed.is_dir() else repository


@cache
def digest():
    """SHA-256 over all CUDA sources, in hexadecimal."""
    folder = kernels_folder()
    result = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".cu", ".cuh", ".h")):
        result.update(path.relative_to(folder).as_posix().encode())
        result.update(path.read_bytes())
    return result.hexdigest()
