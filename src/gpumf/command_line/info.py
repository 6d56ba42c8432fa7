"""What gpumf finds on this machine."""

import platform
from argparse import Namespace
from typing import Any

from gpumf import __version__, datasets, gpu, places, threads
from gpumf.datasets import files


def run(options: Namespace) -> tuple[dict, str]:
    """Versions, devices, folders and data sets."""
    try:
        cache = str(places.cache())
    except OSError as error:
        cache = f"none: {error}"
    present = datasets.names().query("present").index
    devices = {name: gpu.why_unavailable(name) for name in ("cuda", "host")}
    answer: dict[str, Any] = {
        "gpumf": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": threads.cores(),
        "gpu": gpu.device().facts["gpu"] if gpu.available() else None,
        "devices": {name: why or "available" for name, why in devices.items()} | {"cpu": "available"},
        "data": [str(folder) for folder in files.data_folders()],
        "cache": cache,
        "sets": [name for name in present if not name.endswith("-twin")],
    }
    lines = [f"gpumf {__version__}, Python {answer['python']}, {answer['system']}, {answer['cores']} cores"]
    lines += [f"device {name}: {state}" for name, state in answer["devices"].items()]
    lines += [f"GPU: {answer['gpu'] or 'none'}", f"data: {', '.join(answer['data']) or 'no folder'}"]
    lines += [f"data sets: {', '.join(answer['sets']) or 'none but twins'}", f"compiled code: {cache}"]
    return answer, "\n".join(lines)
