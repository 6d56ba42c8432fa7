"""What a process can do that was forked from one that has trained: all of it, or it says what it cannot."""

import subprocess
import sys
from functools import cache
from types import SimpleNamespace

import pytest

from gpumf import gpu

CHILD = r"""
import os, sys
import numpy as np
from gpumf import ALS, RBM, SGD, ImplicitALS
from support import ragged_ratings

ratings = ragged_ratings(seed=0)
models = [model(4, device="cpu").fit(ratings, 1) for model in (ALS, ImplicitALS, SGD)]
expected = [model.predict([1], [2]) for model in models]
work = [RBM(4, device="cpu").fit]
work += [what for model in models for what in (model.fit, model.score, lambda _: model.recommend([1, 2], k=2))]
if os.fork() == 0:
    said = set()
    for what in work:
        try:
            what(ratings)
        except RuntimeError as error:
            said.add(str(error))
    print(all(np.array_equal(model.predict([1], [2]), known) for model, known in zip(models, expected)))
    print(*said, sep="\n", flush=True)
    os._exit(0)
print("status", os.wait()[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other threads")
def test_a_forked_process_predicts_and_says_what_else_it_cannot():
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, 'tests'){CHILD}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    *lines, status = done.stdout.splitlines()
    assert status == "status 0", done.stderr
    assert lines[0] == "True"
    assert all("forked" in line and "'spawn'" in line for line in lines[1:])


def test_a_forked_process_has_no_part_in_its_parents_cuda_context(monkeypatch):
    monkeypatch.setattr(gpu, "_FORKED", [])
    for known in ("available", "why_unavailable", "device"):  # the devices of this process are kept
        monkeypatch.setattr(gpu, known, cache(getattr(gpu, known).__wrapped__))
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=RuntimeError)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    assert gpu.available()
    gpu._after_fork()
    assert not gpu.available()
    with pytest.raises(gpu.DeviceError, match=r"forked from one that had used CUDA: start it with .*spawn"):
        gpu.device()
