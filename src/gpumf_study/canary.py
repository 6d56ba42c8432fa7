"""Compare ten timings of today's code with those recorded for the release: `make canary`.

Each canary is one solver on one synthetic data set; its values are the seconds of single epochs after a warm-up fit.
A canary passes where the 95 % interval of today's median over the recorded one lies within 5 % of 1. `make canary
ARGS=--record` records the values on a machine, at the commit of a release.
"""

import argparse
import json
import sys

import numpy as np

from gpumf import ALS, RBM, SGD, ImplicitALS
from gpumf.ratings import load_dataset
from gpumf_study import results

MARGIN = 0.05
EPOCHS = 20
NOT_RECORDED = 3
"""The exit status where no values are recorded of a machine like this one."""

_ALS = {"regularization": 0.05, "biases": False, "clip": False}
_SGD = {"regularization": 0.05, "learning_rate": 0.01, "biases": False, "clip": False}
_HU = {"regularization": 0.1, "unobserved_weight": 1.0, "regularization_exponent": 0.0}
CANARIES = {
    "als-f16": ("ml-10m-synthetic", ALS, {"factors": 16, "solver": "tensor_core", **_ALS}),
    "als-f100": ("ml-10m-synthetic", ALS, {"factors": 100, "solver": "tensor_core", **_ALS}),
    "als-cumf-cg": ("ml-10m-synthetic", ALS, {"factors": 100, "solver": "cumf_cg_fp16", **_ALS}),
    "als-thesis": ("ml-1m-synthetic", ALS, {"factors": 16, "solver": "thesis_shared", **_ALS}),
    "implicit-f64": ("ml-10m-synthetic", ImplicitALS, {"factors": 64, "solver": "tensor_core", **_HU}),
    "sgd-f32": ("ml-10m-synthetic", SGD, {"factors": 32, "solver": "fast", **_SGD}),
    "sgd-f128": ("ml-10m-synthetic", SGD, {"factors": 128, "solver": "fast", **_SGD}),
    "sgd-hogwild": ("ml-10m-synthetic", SGD, {"factors": 16, "solver": "hogwild", **_SGD}),
    "sgd-cumf": ("ml-10m-synthetic", SGD, {"factors": 128, "solver": "cumf_sgd", **_SGD}),
    "rbm-fast": ("ml-1m-synthetic", RBM, {"hidden": 100, "solver": "fast", "biases": False}),
}


def measure(epochs=EPOCHS):
    """Return the seconds of each epoch: a dict of canary -> list of `epochs` floats."""
    found = {}
    for name, (data, kind, arguments) in CANARIES.items():
        ratings = load_dataset(data)
        model = kind(seed=0, **arguments)
        model.fit(ratings, 2)
        found[name] = np.diff(model.fit(ratings, epochs).history.seconds).tolist()
    return found


def verdict(today, recorded, draws=2000):
    """Return the ratio of the medians, its 95 % bootstrap interval, and what follows: (ratio, low, high, word).

    The word is 'equal' where the interval lies within `MARGIN` of 1, 'slower' or 'faster' where it lies outside, and
    'unclear' where it contains a bound.

    today, recorded : seconds of epochs
    """
    rng = np.random.default_rng(0)

    def medians(values):
        values = np.asarray(values, float)
        return np.median(values[rng.integers(0, len(values), (draws, len(values)))], axis=1)

    low, high = np.quantile(medians(today) / medians(recorded), [0.025, 0.975])
    least, most = 1 - MARGIN, 1 + MARGIN
    if least <= low and high <= most:
        word = "equal"
    else:
        word = "slower" if low > most else "faster" if high < least else "unclear"
    return float(np.median(today) / np.median(recorded)), float(low), float(high), word


def main(arguments=None):
    """Compare, or record; return the exit status: 0 where all are equal, 1 where not, `NOT_RECORDED`."""
    parser = argparse.ArgumentParser(prog="make canary", description=__doc__)
    parser.add_argument("--record", action="store_true", help="record the values of this machine")
    chosen = parser.parse_args(arguments)
    path = results.folder(live=False) / "canaries.json"
    if chosen.record:
        before = results.provenance()
        results.store_tests("canaries", {"seconds": measure()}, before)
        return 0
    if not path.is_file():
        having = sorted(found.parent.name for found in path.parents[1].glob("*/canaries.json"))
        print(f"No canary timings are recorded on {results.device_name()}; on: {', '.join(having) or 'no machine'}.")
        return NOT_RECORDED
    recorded = json.loads(path.read_text(encoding="utf-8"))["seconds"]
    words = set()
    for name, seconds in measure().items():
        ratio, low, high, word = verdict(seconds, recorded[name])
        words.add(word)
        print(f"{name}: {ratio:.3f} times the recorded seconds, 95 % interval {low:.3f} to {high:.3f}: {word}")
    return int(words != {"equal"})


if __name__ == "__main__":
    sys.exit(main())
