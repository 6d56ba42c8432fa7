"""The parameters that the recorded search found, in `tuned.toml` beside this module, which `make tune` alone writes.

A profile fills an experiment's `parameters` with `PARAMETERS`; nothing that has been measured since changes them.
"""

import hashlib
import sys
import tomllib
from importlib import resources

from gpumf_study import results
from gpumf_study.experiments import _published
from gpumf_study.experiments.thesis import parameter_search

_FILE = resources.files(__package__).joinpath("tuned.toml")

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
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


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


def text(result):
    """What `tuned.toml` is to hold, from the Result of a search.

    A data set on which a model was not searched, as the RBM on Jester (synthetic), takes what was found on another
    part of the same data set, or one of its shape.
    """
    table = parameter_search.optima(result.frame)
    family = table.data.map(_published.family)
    lines = ["# Written by `make tune` from the recorded search; do not edit.", "", "[from]",
             f'experiment = "{result.name}"', f'device = "{result.device}"',
             f'commit = "{result.provenance["commit"]}"',
             f'sha256 = "{hashlib.sha256(result.path.read_bytes()).hexdigest()}"']  # fmt: skip
    for data in table.data.unique():
        lines += ["", f"[parameters.{data}]"]
        for model in _OTHERS:
            rows = table[(table.model == model) & (table.data == data)]
            if rows.empty:
                rows = table[(table.model == model) & (family == _published.family(data))].drop_duplicates("varied")
            if len(rows):
                values = ", ".join(f"{row.varied} = {row.value:g}" for row in rows.itertuples())
                lines.append(f"{model} = {{ {values} }}")
    return "\n".join([*lines, ""])


def main():
    """Write `tuned.toml` from the recorded search of the reference device; return the exit status."""
    _FILE.write_text(text(results.load("parameter_search")), encoding="utf-8")
    print(_FILE.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
