"""What a user waits for before anything is computed: the import, the kernels' compilation, the first recommendation.

Each time is of a fresh process. The import is timed with the files in the system's cache; compilation with empty
caches of kernels, CuPy's and this package's, as after the installation: the sum over all kernels of a first `fit` of
ALS. Without a GPU it is that of the host's compiler.
"""

import json
import os
import subprocess
import sys
import tempfile

import pandas as pd
from tqdm import tqdm

from gpumf import ALS, backends
from gpumf._util import paths
from gpumf_study.experiments import kernels_unavailable

PROFILES = {
    "quick": {"factors": [16], "imports": 10, "repeats": 1},
    "full": {"factors": [100, 256], "imports": 10, "repeats": 3},
}
PROFILES["smoke"] = PROFILES["quick"] | {"factors": [4], "imports": 2}

_IMPORT = """
import json, time
started = time.perf_counter()
import gpumf
print(json.dumps({"import": time.perf_counter() - started}))
"""
_FIT = """
import json, sys, time
from importlib import import_module
import numpy as np
from gpumf import backends
from gpumf.ratings import Ratings

module, device, factors = sys.argv[1:]
cells = np.random.default_rng(0).permutation(300 * 200)[:5_000]
ratings = Ratings(cells // 200, cells % 200, np.arange(5_000) % 5 + 1, 300, 200)
model = import_module(module).ALS(int(factors), 0.05, biases=False, clip=False, solver="tensor_core", device=device)
model.fit(ratings, 1)
compiled, started = backends.device(device).compile_seconds, time.perf_counter()
model.recommend(0)
seconds = {"compile": compiled, "prepare": model.times.preprocess, "recommend": time.perf_counter() - started}
print(json.dumps(seconds))
"""

why_unavailable = kernels_unavailable


def run(factors, imports, repeats):
    """Start processes and ask them for their times.

    imports, repeats : int, processes that import, and that fit each model

    Return a DataFrame with a row a time; the task is 'import', 'compile' all kernels of a fit, 'prepare' its ratings,
    with what libraries compile for that, or the first 'recommend', which compiles its own
    """
    device = "cuda" if backends.available() else "emulator"
    rows = []

    def record(code, of, repeat, environment, *arguments):
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | environment)
        rows.extend((task, device, of, repeat, seconds) for task, seconds in json.loads(done.stdout).items())

    subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, check=True)  # reads the files
    for repeat in range(imports):
        record(_IMPORT, None, repeat, {})
    for of in tqdm(factors, desc="startup", leave=False):
        for repeat in range(repeats):
            with tempfile.TemporaryDirectory() as empty:
                record(_FIT, of, repeat, _no_kernels(empty, device), ALS.__module__, device, str(of))
    return pd.DataFrame(rows, columns=["task", "device", "factors", "repeat", "seconds"])


def _no_kernels(folder, device):
    """The environment in which the caches of kernels, and they alone, are in an empty folder."""
    if device == "cuda":
        return {"CUPY_CACHE_DIR": folder, "CUDA_CACHE_PATH": folder}
    numba = os.environ.get("NUMBA_CACHE_DIR") or str(paths.cache() / "numba")
    return {"NUMBA_CACHE_DIR": numba, "XDG_CACHE_HOME": folder}
