"""Compare ten timings of today's code with those recorded for the release: `make canary`.

Each canary is one solver on one synthetic data set, large enough that the GPU and not the launches take the time. Its
value is the median of the seconds of single epochs after a warm-up fit, in each of several processes: they differ by
more than the epochs of one. A canary passes where the 95 % interval of today's values over the recorded ones lies
within 5 % of 1. `make canary ARGS=--record` records the values on a machine, at the commit of a release.
"""

import argparse
import json
import subprocess
import sys

import numpy as np
from scipy.stats import ttest_ind

from gpumf import ALS, RBM, SGD, ImplicitALS, backends
from gpumf_study import results
from gpumf_study.experiments import load_ratings

MARGIN = 0.05
EPOCHS = 20
PROCESSES = 5
NOT_RECORDED = 3
"""The exit status without a GPU, or where no values are recorded of one like it."""

_ALS = {"regularization": 0.05, "biases": False, "clip": False}
_SGD = {"regularization": 0.05, "learning_rate": 0.01, "biases": False, "clip": False}
_HU = {"regularization": 0.1, "unobserved_weight": 1.0, "regularization_exponent": 0.0}
_RBM = {"hidden": 128, "batch": 2000, "biases": False}
CANARIES = {
    "als-f16": ("netflix-synthetic", ALS, {"factors": 16, "solver": "tensor_core", **_ALS}),
    "als-f100": ("netflix-synthetic", ALS, {"factors": 100, "solver": "tensor_core", **_ALS}),
    "implicit-f64": ("netflix-synthetic", ImplicitALS, {"factors": 64, "solver": "tensor_core", **_HU}),
    "sgd-f32": ("netflix-synthetic", SGD, {"factors": 32, "solver": "fast", **_SGD}),
    "sgd-f128": ("netflix-synthetic", SGD, {"factors": 128, "solver": "fast", **_SGD}),
    "als-cumf-cg": ("ml-10m-synthetic", ALS, {"factors": 100, "solver": "cumf_cg_fp16", **_ALS}),
    "sgd-hogwild": ("ml-10m-synthetic", SGD, {"factors": 16, "solver": "hogwild", **_SGD}),
    "sgd-cumf": ("ml-10m-synthetic", SGD, {"factors": 128, "solver": "cumf_sgd", **_SGD}),
    "als-thesis": ("ml-1m-synthetic", ALS, {"factors": 16, "solver": "thesis_shared", **_ALS}),
    "rbm-fast": ("douban-synthetic", RBM, {"solver": "fast", **_RBM}),
}


def measure():
    """Return the median of the seconds of an epoch, in this process: a dict of canary -> float."""
    found, loaded, ratings = {}, None, None
    for name, (data, kind, arguments) in CANARIES.items():
        if data != loaded:
            loaded, ratings = data, None  # one at a time is in memory
            ratings = load_ratings(data)
        model = kind(seed=0, **arguments)
        model.fit(ratings, 2)
        found[name] = float(np.median(np.diff(model.fit(ratings, EPOCHS).history.seconds)))
    return found


def in_processes():
    """Return what `measure` finds in each of so many new processes: a dict of canary -> list of PROCESSES floats."""
    found = []
    for number in range(PROCESSES):
        print(f"process {number + 1} of {PROCESSES}", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "gpumf_study.canary", "--once"]
        found.append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
    return {name: [one[name] for one in found] for name in found[0]}


def verdict(today, recorded):
    """Return the ratio of the geometric means, its 95 % interval, and what follows: (ratio, low, high, word).

    The interval is Student's, of the logarithms. The word is 'equal' where it lies within `MARGIN` of 1, 'slower' or
    'faster' where it lies outside, and 'unclear' where it contains a bound.

    today, recorded : seconds of processes
    """
    logarithms = np.log(today), np.log(recorded)
    low, high = np.exp(ttest_ind(*logarithms).confidence_interval(0.95))
    least, most = 1 - MARGIN, 1 + MARGIN
    if least <= low and high <= most:
        word = "equal"
    else:
        word = "slower" if low > most else "faster" if high < least else "unclear"
    return float(np.exp(np.mean(logarithms[0]) - np.mean(logarithms[1]))), float(low), float(high), word


def main(arguments=None):
    """Compare, or record; return the exit status: 0 where all are equal, 1 where not, `NOT_RECORDED`."""
    parser = argparse.ArgumentParser(prog="make canary", description=__doc__)
    parser.add_argument("--record", action="store_true", help="record the values of this machine")
    parser.add_argument("--once", action="store_true", help="print the values of this process alone, as JSON")
    chosen = parser.parse_args(arguments)
    if why := backends.why_unavailable():
        print(f"The canaries time kernels of a GPU: {why}.")
        return NOT_RECORDED
    if chosen.once:
        print(json.dumps(measure()))
        return 0
    path = results.folder(live=False) / "canaries.json"
    if chosen.record:
        before = results.provenance()
        results.store_tests("canaries", {"seconds": in_processes()}, before)
        return 0
    if not path.is_file():
        having = sorted(found.parent.name for found in path.parents[1].glob("*/canaries.json"))
        print(f"No canary timings are recorded on {results.device_name()}; on: {', '.join(having) or 'no machine'}.")
        return NOT_RECORDED
    recorded = json.loads(path.read_text(encoding="utf-8"))["seconds"]
    words = set()
    for name, seconds in in_processes().items():
        ratio, low, high, word = verdict(seconds, recorded[name])
        words.add(word)
        print(f"{name}: {ratio:.3f} times the recorded seconds, 95 % interval {low:.3f} to {high:.3f}: {word}")
    return int(words != {"equal"})


if __name__ == "__main__":
    sys.exit(main())
