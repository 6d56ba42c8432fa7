"""The experiments: one module each, in the folder of the publication that it is from, `gpumf` being this study.

A module has four parts. PROFILES are the parameters of its runs: `smoke` in seconds, for tests; `quick` in minutes on
two cores without a GPU; `full`. `run` is a pure function of its parameters that returns a tidy DataFrame: times keep
every repeat, and each row names the data set, the kernel and the device that it was measured on. `summary` and
`figure` show such a frame, and CLAIMS are what it is asked about.
"""

import os
import sys
from contextlib import nullcontext
from copy import copy
from difflib import get_close_matches
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from gpumf import DivergedError, backends
from gpumf.ratings import dataset_names, load_dataset
from gpumf.ratings.synthetic import RECIPES
from gpumf_study import results
from gpumf_study.experiments import _kept, _parameters

SOURCES = "thesis", "cu2rec", "cumf", "newgpusgd", "esgd", "gpumf"
"""The publications, and this study."""

# What stands in for a real set that is not on this machine.
_STAND_INS = {"jester-1": "jester-synthetic", "ml-latest-small": "ml-100k-synthetic"}

_KEPT_RATINGS = 50_000_000
"""From how many ratings on a synthetic data set stays on the disk: it takes longer to draw than to read."""

_loaded = {}  # by the name of each data set of the run in progress, what provenance says of it


@cache
def names():
    """The experiments: a dict of name -> source, in the order of SOURCES."""
    here = Path(__file__).parent
    return {path.stem: source for source in SOURCES for path in sorted((here / source).glob("[a-z]*.py"))}


def module(name):
    """The module of an experiment."""
    return import_module(f"{__name__}.{names()[name]}.{name}")


def missing(name, profile, sets):
    """What this machine lacks of those of these data sets that a profile of an experiment names: clauses."""
    of_one = getattr(module(name), "missing", missing_files)
    return [why for one in _named_sets(module(name).PROFILES[profile]) if one in sets and (why := of_one(one))]


def missing_files(name):
    """A clause where the files of a data set are not on this machine, or None."""
    return None if loaded_name(name) == name else f"the files of {name} are not there"


def why_unknown(name):
    """One sentence where no experiment has this name, with names like it; None where one has it."""
    if name in names():
        return None
    alike = " or ".join(get_close_matches(name, names()))
    return f"there is no experiment {name!r}" + (f"; did you mean {alike}?" if alike else "")


def figures_and_tables():
    """The figures and tables of the publications: a DataFrame with the columns source, figure_or_table, statement."""
    packages = {source: import_module(f"{__name__}.{source}") for source in SOURCES}
    rows = [
        (source, figure_or_table, statement)
        for source, package in packages.items()
        for figure_or_table, statement in getattr(package, "FIGURES_AND_TABLES", {}).items()
    ]
    return pd.DataFrame(rows, columns=["source", "figure_or_table", "statement"])


def claims():
    """Return all claims, in the order of the publications and of their figures: a list of (experiment, Claim)."""
    order = list(figures_and_tables()[["source", "figure_or_table"]].itertuples(index=False, name=None))

    def place(pair):
        key = pair[1].publication, pair[1].figure_or_table
        return SOURCES.index(key[0]), order.index(key) if key in order else len(order)

    return sorted(((name, claim) for name in names() for claim in getattr(module(name), "CLAIMS", ())), key=place)


def why_unavailable(name):
    """One sentence on what an experiment misses on this machine, or None where nothing is missing."""
    return getattr(module(name), "why_unavailable", lambda: None)()


def in_pieces(name):
    """Whether a recording that was stopped goes on where it was: see `_kept.once`."""
    text = Path(module(name).__file__).read_text(encoding="utf-8")
    return any(f"{call}(" in text for call in ("sweep.sweep", "_kept.once", "_kept.of_processes", "on_workers"))


def takes_all_gpus(name):
    """Whether an experiment trains on several GPUs where there are some."""
    return getattr(module(name), "why_unavailable", None) is workers_unavailable


def parameters(name, profile="quick", **changes):
    """The parameters of a run: those of a profile, and what replaces them.

    name, profile, **changes : see `run`

    Return a dict of the parameters of the experiment's `run`

    Raise TypeError where the experiment has no such parameter.
    Raise ValueError where a value is of another kind than the profile's.
    """
    of_page = dict(profile) if isinstance(profile, dict) else {"profile": profile}
    defaults = module(name).PROFILES[of_page.pop("profile")]
    if unknown := set(changes) - set(defaults):
        raise TypeError(f"{name} has no parameters {sorted(unknown)}; it has {sorted(defaults)}")
    own = {key.removeprefix(f"{name}."): of_page[key] for key in sorted(of_page, key=lambda key: "." in key)}
    changes = {key: value for key, value in own.items() if key in defaults} | changes
    return defaults | {key: _parameters.fitted(key, value, defaults[key]) for key, value in changes.items()}


def run(name, profile="quick", **changes):
    """Run an experiment with a profile's parameters and store its result.

    name : str, one of `names`
    profile : 'smoke', 'quick' or 'full', or a dict with one of them as 'profile' and parameters, of which those
        replace the profile's that the experiment has: a chapter runs several experiments. 'NAME.parameter' is for
        the experiment NAME alone
    **changes : replace the profile's parameters

    Return a results.Result: live, or recorded where the environment has GPUMF_RECORD (see `make record`). A recording
    that was stopped goes on after the last piece that it had measured, see `_kept.once`

    Raise TypeError or ValueError as `parameters` does, and gpumf.ratings.DataError where a data set of the profile is
    on this machine and cannot be read.
    """
    experiment = module(name)
    chosen = parameters(name, profile, **changes)
    # One that cannot be read is not to cost the minutes that those before it took.
    for _ in present_ratings(name for name in _named_sets(chosen) if not name.endswith("-synthetic")):
        pass
    before = results.provenance()
    _loaded.clear()
    live = not os.environ.get("GPUMF_RECORD")
    of_profile = profile["profile"] if isinstance(profile, dict) else profile
    with nullcontext() if live else _kept.measured(name, chosen, _study_modules(experiment)):
        frame = experiment.run(**_distinct(chosen))
        frame.attrs.setdefault("datasets", list(_loaded.values()))
        before |= _kept.origins()
        return results.store(name, frame, chosen | {"profile": of_profile}, before, live, names()[name])


def _study_modules(experiment):
    """Paths of an experiment's module and of those of the experiments that it has something from, and of sweeps."""
    used = {getattr(of, "__module__", None) or getattr(of, "__name__", "") for of in vars(experiment).values()}
    used = {name for name in map(str, used) if name.startswith(f"{__name__}.")}
    found = {experiment.__name__, "gpumf_study.sweep", *used} & {*sys.modules}
    return [Path(sys.modules[name].__file__) for name in sorted(found)]


def _named_sets(chosen):
    """What the parameters `data` of a run name, in the parameters that are parameters themselves too."""
    for key, value in chosen.items():
        if key == "data":
            yield from [value] if isinstance(value, str) else filter(lambda name: isinstance(name, str), value)
        elif isinstance(value, dict):
            yield from _named_sets(value)


def _distinct(chosen):
    """The parameters of a run, where no two names of the list `data` are for the same ratings."""
    named = chosen.get("data")
    if not isinstance(named, list):
        return chosen
    loaded, of_each = {name: loaded_name(name) for name in named}, {}
    for name in sorted(named, key=lambda name: name != loaded[name]):  # those that are on this machine first
        of_each.setdefault(loaded[name], name)
    return chosen | {"data": [name for name in named if name in of_each.values()]}


def usable_devices():
    """The devices whose kernels are worth timing here: 'cpu', and 'cuda' where there is a GPU."""
    return {"cpu", "cuda"} if backends.available() else {"cpu"}


def usable_solvers(model):
    """The names of a model's solvers that are worth timing here, slowest first; see `usable_devices`."""
    usable, found = usable_devices(), model.solver_classes().items()
    return [
        name
        for name, one in found
        if one.device in usable and (one.device == "cpu" or one.runs_on(backends.device(one.device)))
    ]


def kernels_unavailable():
    """Why kernels run neither on a GPU of this machine nor on its CPU, or None where they do."""
    return None if backends.available() else backends.why_unavailable("emulator")


def workers_unavailable():
    """What kernels on several workers miss on this machine, or None where nothing is missing."""
    needed = "distributed", *["dask_cuda"] * bool(backends.gpus())
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        return f"the package {missing[0]} is not installed; see the extra distributed"
    return kernels_unavailable()


def usable_workers(workers):
    """Of these numbers of workers those that there are GPUs for; without any GPU all."""
    gpus = backends.gpus()
    return [n for n in workers if not gpus or n <= gpus]


def loaded_name(name):
    """The name of the data set that `load_ratings` gives for this one."""
    if name.endswith("-synthetic") or dataset_names().present.get(name, True):
        return name
    return _STAND_INS.get(name, f"{name}-synthetic")


def load_ratings(name):
    """A data set by name; a synthetic one, which says so in its name, where the real one is not on this machine."""
    name = loaded_name(name)
    recipe = RECIPES.get(name.removesuffix("-synthetic")) if name.endswith("-synthetic") else None
    if recipe is not None and recipe.ratings >= _KEPT_RATINGS:
        return _noted(_kept.drawn(name, partial(load_dataset, name)))
    return _noted(load_dataset(name))


def official(ratings, held_out=0.2):
    """(train, test): the official split of ratings that have one, else a random one with this share for the test."""
    return ratings.split(held_out) if ratings.test_mask is None else ratings.official_split()


def training_ratings(ratings):
    """The ratings of the official training set; all of them where there is none."""
    return ratings if ratings.test_mask is None else ratings.official_split()[0]


def present_ratings(names):
    """The data sets of these names that are on this machine, loaded one after another; synthetic ones always are."""
    present = dataset_names().present
    for name in names:
        if present.get(name):
            yield _noted(load_dataset(name))


def _noted(ratings):
    _loaded[ratings.name] = identity(ratings)
    return ratings


def trained(model, train, epochs, test, **options):
    """The model after `fit`. Where training diverged, the history ends with that epoch, whose numbers are missing."""
    try:
        return model.fit(train, epochs, test, **options)
    except DivergedError as diverged:
        model.history.loc[len(model.history)] = {"epoch": diverged.epoch}
        model.history = model.history.astype({"epoch": int})
        return model


def wall_seconds(model, train, epochs):
    """Seconds of a whole `fit` as a user waits for it: from columns of ratings to factors on the host.

    Kernels are compiled before; no order of the ratings is made before, and no errors are computed.

    model : fitted or not, which stays as it is
    """
    times = copy(model).fit(train.select(np.arange(train.nnz)), epochs).times
    return times.end_to_end - times.compile


def identity(ratings):
    """What provenance says of a data set."""
    return {"name": ratings.name, "sha256": ratings.sha256, "n_users": ratings.n_users, "n_items": ratings.n_items,
            "nnz": ratings.nnz}  # fmt: skip
