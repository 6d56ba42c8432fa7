"""What a process can do that was forked from one that has trained: all of it on the CPU, nothing on a GPU."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

import gpumf
from gpumf import backends

CHILD = r"""
import os, sys
import numpy as np
from gpumf import ALS, RBM, SGD, BayesianMF, ImplicitALS
from support import ragged_ratings

ratings = ragged_ratings(seed=0)
models = [model(4, device="cpu", seed=0).fit(ratings, 1) for model in (ALS, ImplicitALS, BayesianMF, SGD)]
models += [ALS(4, device="cpu", solver="dense", seed=0).fit(ratings, 1)]


def served():
    for model in models:
        yield model.predict([1], [2])
        yield from model.recommend([1, 2], k=2)
        yield from model.similar_items([1, 2], k=2)
        yield list(model.score(ratings).values())
    for model in models[:3]:
        yield from model.recommend(ratings=([3], [5.0]), k=2)


def learned():
    for kind in (ALS, ImplicitALS, BayesianMF):
        yield kind(4, device="cpu", seed=0).fit(ratings, 1)._learned[0]


expected = [list(served()), list(learned())]
RBM(4, device="cpu").fit(ratings, 1)
if os.fork() == 0:
    for what, known in zip((served, learned), expected):
        pairs = zip(what(), known, strict=True)
        print(all(np.allclose(one, other, atol=1e-5, equal_nan=True) for one, other in pairs), flush=True)
    print(*(len(kind(4, device="cpu").fit(ratings, 1).history) for kind in (RBM, SGD)), flush=True)
    os._exit(0)
print("status", os.wait()[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("compiler", [{}, {"CXX": "false"}], ids=["by default", "without a C++ compiler"])
def test_a_forked_process_predicts_and_learns(compiler):
    """On one thread: Numba's threads are its parent's."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, 'tests'){CHILD}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | compiler)
    assert done.stdout.split() == ["True", "True", "2", "2", "status", "0"], done.stderr


BUSY = r"""
import os, signal, threading, time
from gpumf import ALS, search
from gpumf._util import jit, threads
from gpumf.ratings.damped import Damped
from support import ragged_ratings

given, of, here, end = ragged_ratings(seed=0), Damped.of, threading.Barrier(5), threading.Event()
model, fitted = (ALS(4, biases=False, device="cpu").fit(given, 1) for _ in range(2))


def wait(*_):
    here.wait()
    end.wait()
    return True


def hold_locks():
    with threads.one_blas_thread(), threads._BLAS._lock, jit._STATE.turn:
        wait()


def compile():
    with jit._first_use():
        here.wait()
        time.sleep(0.5)
        compiled.append(True)


def make_a_part():
    Damped.of = lambda *_: wait()
    ragged_ratings(seed=1)._shared().damped  # holds the lock of shared parts


def use():
    Damped.of = of
    ALS(2, device="cpu", biases="damped", threads=1).fit(given, 1).recommend(0)
    print(search(ALS(device="cpu", biases="damped"), {"factors": [1, 2]}, given, 1, folds=2).complete, flush=True)
    print(fitted.predict(0, 0) == known, threads._BLAS._limits, compiled, flush=True)
    for attempt in (lambda: model.predict(0, 0), lambda: model.fit(given, 1)):
        try:
            attempt()
        except RuntimeError as error:
            print(error, flush=True)


known, compiled = fitted.predict(0, 0), []
for work in (hold_locks, compile, make_a_part, lambda: model.fit(given, 1, stop=wait)):
    threading.Thread(target=work).start()
here.wait()
if os.fork() == 0:
    signal.alarm(60)
    use()
    os._exit(0)
status = os.wait()[1]
end.set()
print("status", status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_is_forked_from_a_busy_one_waits_for_nothing_of_it():
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, 'tests'){BUSY}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    refused = "this process was forked while another thread of its parent fitted this ALS; .*\n"
    expected = rf"True\nTrue \[\] \[True\]\n({refused}){{2}}status 0\n"
    assert re.fullmatch(expected, done.stdout), done.stdout + done.stderr


def test_nothing_is_cached_under_a_lock_that_a_fork_could_leave_held():
    sources = Path(gpumf.__file__).parent.rglob("*.py")
    assert not [file for file in sources if re.search(r"^from functools .*\bcached_property", file.read_text(), re.M)]


def test_a_forked_process_has_no_part_in_its_parents_cuda_context(monkeypatch):
    monkeypatch.setattr(backends, "_FORKED", [])
    for known in ("available", "why_unavailable", "device"):  # the devices of this process are kept
        monkeypatch.setattr(backends, known, cache(getattr(backends, known).__wrapped__))
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=RuntimeError)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    assert backends.available()
    backends._after_fork()
    assert not backends.available()
    with pytest.raises(backends.DeviceError, match=r"forked from one that had used CUDA: start it with .*spawn"):
        backends.device()
