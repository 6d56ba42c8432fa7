"""What gpumf finds on this machine."""

import os
import platform
from argparse import Namespace
from typing import Any

from gpumf import __version__, backends
from gpumf._util import paths, threads
from gpumf.ratings import dataset_names, files


def run(options: Namespace) -> tuple[dict, str]:
    """Versions, devices, folders and data sets."""
    try:
        paths.make_private(paths.cache())
        cache = str(paths.cache())
    except OSError as error:
        cache = f"none: {error}"
    numba = os.environ.get("NUMBA_CACHE_DIR")
    present = dataset_names().query("present").index
    devices = {name: backends.why_unavailable(name) for name in ("cuda", "emulator")}
    answer: dict[str, Any] = {
        "gpumf": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": threads.cores(),
        "gpu": backends.device().facts["gpu"] if backends.available() else None,
        "devices": {name: why or "available" for name, why in devices.items()} | {"cpu": "available"},
        "data": [str(folder) for folder in files.data_folders()],
        "cache": cache,
        "numba_cache": numba,
        "sets": [name for name in present if not name.endswith("-synthetic")],
    }
    lines = [f"gpumf {__version__}, Python {answer['python']}, {answer['system']}, {answer['cores']} cores"]
    lines += [f"device {name}: {state}" for name, state in answer["devices"].items()]
    lines += [f"GPU: {answer['gpu'] or 'none'}", f"data: {', '.join(answer['data']) or 'no folder'}"]
    lines += [
        f"data sets: {', '.join(answer['sets']) or 'only synthetic ones'}",
        f"compiled code: {cache}{f', of Numba: {numba}' if numba else ''}",
    ]
    return answer, "\n".join(lines)
