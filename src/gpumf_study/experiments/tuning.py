"""The parameters that the recorded search found: `tuned.toml` beside this module, which `make tune` alone writes.

A profile fills an experiment's `parameters` with `PARAMETERS`; nothing that has been measured since changes them.
"""

import tomllib
from importlib import resources

FILE = resources.files(__package__).joinpath("tuned.toml")

# Of sets that the search has not seen: the best of a few values on one split (MovieLens, ALS lambda 0.05 to 0.12, SGD
# lambda 0.03 to 0.1, rates 0.01 to 0.04; the machine's is the thesis's).
_OTHERS = {
    "ALS": {"regularization": 0.1},
    "SGD": {"regularization": 0.1, "learning_rate": 0.01},
    "RBM": {"learning_rate": 0.02},
}


def tuned():
    """What `tuned.toml` says.

    Return a dict: 'from' (experiment, device, commit, and sha256 of the CSV) and 'parameters', a dict of data set ->
    model -> arguments of the model
    """
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


PARAMETERS = tuned()["parameters"] | {"others": _OTHERS}
"""Data set -> model -> arguments of the model; 'others' is for sets that the search has not seen."""


def chosen(parameters, data, model):
    """The arguments of a model for a data set, of such a dict of dicts.

    parameters : dict as PARAMETERS
    model : 'ALS', 'SGD' or 'RBM'

    Raise ValueError where there are none.
    """
    of_set = parameters.get(data, {})
    found = of_set.get(model, parameters.get("others", {}).get(model))
    if found is None:
        raise ValueError(
            f"`parameters` has none of {model} for {data!r} nor for 'others'; it has {sorted(parameters)}"
        )
    return dict(found)
