"""Compile C++ for the CPU, once, into a library that `ctypes` loads."""

import atexit
import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np

from gpumf._util import paths
from gpumf._util.integrity import sealed, unsealed
from gpumf._util.jit import SPENT
from gpumf._util.source_text import text

_FOLDER = Path(__file__).parent / "cpu" / "native"
# No -ffast-math: what is not a number has to stay so. Sums may be taken in another order.
_OPTIONS = ["-std=c++17", "-O3", "-march=native", "-fPIC", "-fno-math-errno", "-fno-trapping-math"]
_OPTIONS += ["-fno-signed-zeros", "-fassociative-math", "-Wno-psabi"]

_LINE = 64  # bytes of a cache line


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
    """The command of the C++ compiler, in words, or None.

    Raises ValueError: CXX is no command
    """
    if given := os.environ.get("CXX"):
        try:
            return shlex.split(given)
        except ValueError as error:
            raise ValueError(f"the environment variable CXX, {given!r}, is no command: {error}") from error
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
    started = time.perf_counter()
    options = [*_OPTIONS, *(f"-D{key}={value}" for key, value in sorted(defines.items()))]
    code = f"// for {_processor()}\n{text(_FOLDER / source, [_FOLDER])}"
    try:
        return ctypes.CDLL(compiled(f"cpu/{Path(source).stem}", code, options, ["-pthread"]))
    # A compiler that does not run or does not know this CPU; no folder for the library.
    except (CompileError, OSError, subprocess.SubprocessError):
        return None
    finally:
        SPENT.seconds += time.perf_counter() - started


_NUMBERS = {"int64": ctypes.c_int64, "int32": ctypes.c_int, "float32": ctypes.c_float, "bool": ctypes.c_bool}


def function(source, name, takes, **defines):
    """A function of a `library` that checks the types of what it is passed; None where that does not compile here.

    takes : the types in one str: "float32*" is an array in C order, "void*" one that may be missing
    """
    found = library(source, **defines)
    if found is None:
        return None
    run = found[name]  # of its own: to set the types of one that another thread is calling frees what it reads
    run.argtypes = [
        ctypes.c_void_p if kind == "void*" else _NUMBERS.get(kind) or np.ctypeslib.ndpointer(kind[:-1], flags="C")
        for kind in takes.split()
    ]
    return run


def aligned(values):
    """A copy of an array, C order, that begins where a cache line does: a row of 64 bytes then is in one, not two."""
    room = np.empty(values.nbytes + _LINE, np.uint8)
    first = -room.ctypes.data % _LINE
    copy = room[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def _processor():
    """What -march=native depends on: a folder of libraries may be shared by machines."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {hashlib.sha256(features.encode()).hexdigest()[:16]}"


def cached(name, *key):
    """The file in the user's cache for what depends on a key of str alone; `name` ends with its suffix.

    Raises OSError: no folder can be written, not even a temporary one
    """
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()
    path = _cache() / name
    return path.with_name(f"{path.stem}-{digest[:24]}{path.suffix}")


def _cache():
    """The user's cache, or where that cannot be written, a folder that this process removes when it ends."""
    try:
        folder = paths.cache()
        paths.make_private(folder)
        return folder
    except OSError as error:
        paths.warn_not_kept(error)
        return _temporary()


@cache
def _temporary():
    folder = tempfile.mkdtemp(prefix="gpumf-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def compiled(name, code, options, link):
    """The library that the code compiles to, from the cache where it is there, whole.

    name : of the library, below the cache's folder
    code : str
    options, link : of the compiler, and of the linker
    Returns Path
    Raises CompileError: with the compiler's message
    Raises OSError: no folder can be written
    """
    library = cached(f"{name}.so", compiler_version(), code, *options, *link)
    paths.make_private(library.parent)
    if library.exists() and paths.why_not_private(library) is None and unsealed(library.read_bytes()) is not None:
        return library
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        unit, unlinked, linked = (Path(folder, f"{library.stem}.{suffix}") for suffix in ("cpp", "o", "so"))
        unit.write_text(code)
        _run([*compiler(), *options, "-c", unit, "-o", unlinked])
        _run([*compiler(), "-shared", unlinked, "-o", linked, *link])
        linked.write_bytes(sealed(linked.read_bytes()))
        linked.chmod(0o700)  # whatever the umask
        linked.replace(library)  # in one step: another process may be looking for it
    return library


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CompileError(done.stderr)
