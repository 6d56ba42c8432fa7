"""Compile C++ for this machine's processor, once, into a library that `ctypes` loads."""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

_FOLDER = Path(__file__).parent / "cpu" / "native"
# No -ffast-math: what is not a number has to stay so. Sums may be taken in another order.
_OPTIONS = ["-std=c++17", "-O3", "-march=native", "-fPIC", "-fno-math-errno", "-fno-trapping-math"]
_OPTIONS += ["-fno-signed-zeros", "-fassociative-math", "-Wno-psabi"]


class CompileError(RuntimeError):
    """What the compiler said."""


@cache
def why_unavailable():
    """One sentence on what is missing to compile C++, or None where nothing is."""
    if compiler() is None:
        return "no C++ compiler was found; install g++ or clang, or name one in CXX"
    return None


@cache
def compiler():
    """The command of the C++ compiler, in words, or None."""
    if "CXX" in os.environ:
        return shlex.split(os.environ["CXX"])
    found = filter(None, map(shutil.which, ("g++", "clang++")))
    return next(([path] for path in found), None)


@cache
def compiler_version():
    """What the compiler says that it is."""
    return subprocess.run([*compiler(), "--version"], capture_output=True, text=True, check=True).stdout


@cache
def library(source, **defines):
    """The library of cpu/native/<source> with preprocessor definitions, or None where it does not compile here."""
    if sys.platform != "linux" or why_unavailable():
        return None
    options = [*_OPTIONS, *(f"-D{key}={value}" for key, value in sorted(defines.items()))]
    code = f"// for {_processor()}\n{(_FOLDER / source).read_text()}"
    try:
        return ctypes.CDLL(compiled(f"cpu/{Path(source).stem}", code, options, ["-pthread"]))
    # A compiler that does not run or does not know this processor; no folder for the library.
    except (CompileError, OSError, subprocess.SubprocessError):
        return None


def array(dtype):
    """The type of an argument that is a NumPy array of this dtype, C order, for `argtypes`."""
    return np.ctypeslib.ndpointer(dtype, flags="C_CONTIGUOUS")


def cores():
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _processor():
    """What -march=native depends on: a folder of libraries may be shared by machines."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {hashlib.sha256(features.encode()).hexdigest()[:16]}"


def compiled(name, code, options, link):
    """The library that the code compiles to, from the cache where it is there, whole.

    Parameters
    ----------
    name : of the library, below the cache's folder
    code : str
    options, link : of the compiler, and of the linker

    Returns
    -------
    Path

    Raises
    ------
    CompileError : with the compiler's message
    """
    key = [compiler_version(), code, *options, *link]
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    library = Path(cache_home, "gpumf", f"{name}-{digest[:24]}.so")
    if library.exists() and _is_whole(library.read_bytes()):
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        unit, unlinked, linked = (Path(folder, f"{library.stem}.{suffix}") for suffix in ("cpp", "o", "so"))
        unit.write_text(code)
        _run([*compiler(), *options, "-c", unit, "-o", unlinked])
        _run([*compiler(), "-shared", unlinked, "-o", linked, *link])
        with linked.open("rb+") as file:
            # What stands behind the sections of a library means nothing to its loader.
            file.write(hashlib.sha256(file.read()).digest())
        linked.replace(library)  # in one step: another process may be looking for it
    return library


def _is_whole(library):
    """Whether a library's bytes, as `compiled` leaves them, end with their checksum."""
    size = hashlib.sha256().digest_size
    return hashlib.sha256(library[:-size]).digest() == library[-size:]


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CompileError(done.stderr)
