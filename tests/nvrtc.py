"""Compile kernels for any GPU architecture with NVRTC, on a machine that may have no GPU, and say what they take.

NVRTC comes with the extra `test` (the package nvidia-cuda-nvrtc).
"""

import ctypes
import importlib.util
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from gpumf._util import threads
from gpumf._util.integrity import sealed, unsealed
from gpumf.backends import DeviceError, compile, sources

_RESOURCES = re.compile(
    r"Function properties for (?P<kernel>\w+)\s+"
    r"ptxas\W+(?P<stack_bytes>\d+) bytes stack frame, "
    r"(?P<spill_store_bytes>\d+) bytes spill stores, (?P<spill_load_bytes>\d+) bytes spill loads\s+"
    r"ptxas info\s*: Used (?P<registers>\d+) registers(?:[^\n]*? (?P<static_shared_bytes>\d+) bytes smem)?"
)


@cache
def _path():
    """Where NVRTC is, or None where it is not installed."""
    package = importlib.util.find_spec("nvidia")
    folders = package.submodule_search_locations if package else []
    return max((path for folder in folders for path in Path(folder).rglob("libnvrtc.so.*")), default=None)


@cache
def _library():
    """NVRTC, or None where it is not installed."""
    return ctypes.CDLL(_path()) if _path() else None


@cache
def _version():
    """What tells one build of NVRTC from another."""
    return f"{_path().name} {_path().stat().st_size}"


def why_unavailable():
    """One sentence on what is missing, or None where nothing is."""
    return None if _library() else "NVRTC was not found; install nvidia-cuda-nvrtc, a part of the extra test"


def resources(source, architecture, **defines):
    """Compile `kernels/<source>` for an architecture, as 90 or 120, once; a warning is an error.

    Returns list of a dict for each kernel in it: kernel, registers (of a thread), stack_bytes, spill_store_bytes and
        spill_load_bytes (of a thread), static_shared_bytes (of a block)
    Raises DeviceError: with the compiler's message
    """
    if why := why_unavailable():
        raise DeviceError(why)
    path = sources.path(source, defines)
    options = [
        "-std=c++17",
        f"-arch=sm_{architecture}{'a' if defines.get('WGMMA') else ''}",
        "--ptxas-options=-v",
        "-default-device",  # NVRTC 13.2 asks for it where a lambda is in a lambda, 13.0 does not
        *(f"-D{key}={value}" for key, value in defines.items()),
    ]
    code = sources.text(path)
    kept = compile.cached(f"nvrtc/{path.stem}.log", _version(), code, *options)
    whole = unsealed(kept.read_bytes()) if kept.exists() else None
    text = whole.decode() if whole is not None else None
    if text is None:
        failed, text = _compile(path.name, code, options)
        if failed or "warning" in text:  # the option that makes warnings errors is unknown to older versions
            raise DeviceError(f"{source} does not compile for sm_{architecture} with {defines}: {text}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(sealed(text.encode()))
    found = [
        {key: value if key == "kernel" else int(value or 0) for key, value in match.groupdict().items()}
        for match in _RESOURCES.finditer(text)
    ]
    if missing := set(sources.kernels(path)) - {kernel["kernel"] for kernel in found}:
        raise DeviceError(f"NVRTC's report on {source} says nothing that can be read of {sorted(missing)}: {text}")
    return found


def _compile(name, code, options):
    """Whether it failed, and what NVRTC says."""
    nvrtc, program = _library(), ctypes.c_void_p()
    _checked(nvrtc.nvrtcCreateProgram(ctypes.byref(program), code.encode(), name.encode(), 0, None, None))
    encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), encoded)
    size = ctypes.c_size_t()
    _checked(nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
    log = ctypes.create_string_buffer(size.value)
    _checked(nvrtc.nvrtcGetProgramLog(program, log))
    _checked(nvrtc.nvrtcDestroyProgram(ctypes.byref(program)))
    return bool(failed), log.value.decode()


def _checked(status):
    if status:
        nvrtc = _library()
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise DeviceError(f"NVRTC failed: {nvrtc.nvrtcGetErrorString(status).decode()}")


def resources_of(variants):
    """`resources` of each (source, architecture, definitions), in order, compiled on all threads at a time."""
    with ThreadPoolExecutor(threads.count()) as pool:
        return list(pool.map(lambda variant: resources(*variant[:2], **variant[2]), variants))
