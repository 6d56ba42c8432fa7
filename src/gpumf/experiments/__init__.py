"""The experiments: one module each, in the folder of the publication that it is from, `gpumf` being this study.

A module has four parts. PROFILES are the parameters of its runs: `smoke` in seconds, for tests; `quick` in minutes on
two cores without a GPU; `full`. `run` is a pure function of its parameters that returns a tidy DataFrame: times keep
every repeat, and each row names the data set, the kernel and the device that it was measured on. `summary` and
`figure` show such a frame, and FINDINGS are the sentences that it is asked about.
"""

import os
from functools import cache
from importlib import import_module
from pathlib import Path

from gpumf import DivergedError, datasets, gpu, results

SOURCES = "thesis", "cu2rec", "cumf", "newgpusgd", "esgd", "gpumf"
"""The publications, and this study."""

# What stands in for a real set that is not on this machine.
_STAND_INS = {"jester-1": "jester-twin", "ml-latest-small": "ml-100k-twin"}


@cache
def names():
    """The experiments: a dict of name -> source, in the order of SOURCES."""
    here = Path(__file__).parent
    return {path.stem: source for source in SOURCES for path in sorted((here / source).glob("[a-z]*.py"))}


def module(name):
    """The module of an experiment."""
    return import_module(f"{__name__}.{names()[name]}.{name}")


def why_unavailable(name):
    """One sentence on what an experiment misses on this machine, or None where nothing is missing."""
    return getattr(module(name), "why_unavailable", lambda: None)()


def run(name, profile="quick", **parameters):
    """Run an experiment with a profile's parameters and store its result.

    Parameters
    ----------
    name : str, one of `names`
    profile : 'smoke', 'quick' or 'full'
    **parameters : replace the profile's

    Returns
    -------
    results.Result: live, or recorded where the environment has GPUMF_RECORD (see `make record`)
    """
    experiment = module(name)
    if unknown := set(parameters) - set(experiment.PROFILES[profile]):
        raise TypeError(f"{name} has no parameters {sorted(unknown)}; it has {sorted(experiment.PROFILES[profile])}")
    parameters = experiment.PROFILES[profile] | parameters
    before = results.provenance()
    frame = experiment.run(**parameters)
    live = not os.environ.get("GPUMF_RECORD")
    return results.store(name, frame, parameters | {"profile": profile}, before, live, names()[name])


def usable_devices():
    """The devices whose kernels are worth timing here: 'cpu', and 'cuda' where there is a GPU."""
    return {"cpu", "cuda"} if gpu.available() else {"cpu"}


def kernels_unavailable():
    """Why kernels run neither on a GPU of this machine nor on its processor, or None where they do."""
    return None if gpu.available() else gpu.why_unavailable("host")


def load_ratings(name):
    """A data set by name; its twin, which says so in its name, where the real set is not on this machine."""
    if name.endswith("-twin") or datasets.names().loc[name, "present"]:
        return datasets.load(name)
    return datasets.load(_STAND_INS.get(name, f"{name}-twin"))


def present_ratings(names):
    """The data sets of these names that are on this machine, loaded one after another; twins always are."""
    present = datasets.names().present
    for name in names:
        if present.get(name):
            yield datasets.load(name)


def trained(model, train, epochs, test, **options):
    """The model after `fit`. Where training diverged, the history ends with that epoch, whose numbers are missing."""
    try:
        return model.fit(train, epochs, test, **options)
    except DivergedError as diverged:
        model.history.loc[len(model.history)] = {"epoch": diverged.epoch}
        model.history = model.history.astype({"epoch": int})
        return model


def identity(ratings):
    """What provenance says of a data set."""
    return {
        "name": ratings.name,
        "sha256": ratings.sha256,
        "n_users": ratings.n_users,
        "n_items": ratings.n_items,
        "nnz": ratings.nnz,
    }
