"""What a user waits for: the import, the kernels' compilation, the first recommendation, and a list for a new user.

All but the last are of fresh processes. The import is timed with the files in the system's cache; compilation with
empty caches of kernels, CuPy's and this package's, as after the installation: the sum over all kernels of a first
`fit` of ALS. Without a GPU it is that of the host's compiler. A new user is folded into ImplicitALS with 64 factors
by 30 ratings, and gets the ten best of all items.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, ImplicitALS, backends
from gpumf._util import paths
from gpumf.ratings import Ratings
from gpumf_study.experiments import kernels_unavailable

PROFILES = {
    "quick": {"factors": [16], "imports": 10, "repeats": 1, "items": 1_000, "users": 20},
    "full": {"factors": [100, 256], "imports": 10, "repeats": 3, "items": 500_000, "users": 1_000},
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


def run(factors, imports, repeats, items, users):
    """Start processes and ask them for their times, and fold in new users.

    imports, repeats : int, processes that import, and that fit each model; new users are timed as often
    items, users : int, of the model, and new users at a time

    Return a DataFrame with a row a time; the task is 'import', 'compile' all kernels of a fit, 'prepare' its ratings,
    with what libraries compile for that, the first 'recommend', which compiles its own, or 'new user', of which
    x_percentile is given
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
    frame = pd.DataFrame(rows, columns=["task", "device", "factors", "repeat", "seconds"])
    return pd.concat([frame, _new_users(device, repeats, items, users)], ignore_index=True)


def _new_users(device, repeats, items, users, factors=64, of_one=30):
    """Return rows of the median and the 99th percentile of the time of a list for a new user."""
    random, rows = np.random.default_rng(0), []
    known = np.append(np.arange(items), random.integers(0, items, 7 * items))
    train = Ratings(random.integers(0, items, len(known)), known, np.ones(len(known)), items, items)
    model = ImplicitALS(factors, 0.1, device=device).fit(train, 1)
    for repeat in range(-1, repeats):  # the first loads what is needed
        seconds = []
        for _ in range(users):
            chosen = random.choice(items, of_one, replace=False)
            ratings = dict.fromkeys(chosen.tolist(), 1.0)
            started = time.perf_counter()
            model.recommend(ratings=ratings)
            seconds.append(time.perf_counter() - started)
        row = {"task": "new user", "device": device, "factors": factors, "repeat": repeat}
        rows += [row | {"x_percentile": p, "seconds": np.percentile(seconds, p)} for p in (50, 99)]
    return pd.DataFrame(rows[2:])


def _no_kernels(folder, device):
    """The environment in which the caches of kernels, and they alone, are in an empty folder."""
    if device == "cuda":
        return {"CUPY_CACHE_DIR": folder, "CUDA_CACHE_PATH": folder}
    numba = os.environ.get("NUMBA_CACHE_DIR") or str(paths.cache() / "numba")
    return {"NUMBA_CACHE_DIR": numba, "XDG_CACHE_HOME": folder}
