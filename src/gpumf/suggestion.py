"""Which of ALS and SGD to take for a training set: what `suggest` says, from times that were measured before.

`suggestion.toml` beside this module holds, by the name of a device, what the experiment `crossover` has of the times
recorded there; `make suggestion` writes it from the recorded frames.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from gpumf import backends
from gpumf._util.validation import integer
from gpumf.models import ALS, SGD
from gpumf.ratings import DeviceRatings
from gpumf.ratings.convert import ratings_of

if TYPE_CHECKING:
    from gpumf.ratings.convert import RatingsLike

FILE = resources.files(__package__).joinpath("suggestion.toml")
_MODELS = {"ALS": ALS, "SGD": SGD}
_MAX_FACTORS = 256  # of ALS


@dataclass(frozen=True)
class Suggestion:
    """What `suggest` answers; printed, it is a few lines of text.

    model : ALS or SGD, not fitted, with the solver that is expected to be the fastest
    seconds : dict 'ALS' and 'SGD' -> float, expected seconds of training to the same error, on `measured_on`
    solvers : dict 'ALS' and 'SGD' -> the solver that this is of
    within : dict 'ALS' and 'SGD' -> float; of data sets that the times were not fitted to, half of the settings were
        measured within this factor of the expected seconds
    measured_on : name of the device whose times these are
    accuracy : share of the settings of data sets left out of the fit of which it names the faster model, of those
        whose error is below that of user and item biases
    majority : the same share for always naming the model that is faster in most of these settings
    caveats : tuple of str, one sentence for each thing that was not measured: this device, this size; empty where
        all was
    """

    model: ALS | SGD
    seconds: Mapping[str, float]
    solvers: Mapping[str, str]
    within: Mapping[str, float]
    measured_on: str
    accuracy: float
    majority: float
    caveats: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{type(self.model).__name__} is faster to the same error, as measured on {self.measured_on}"]
        lines += [
            f"{name}, {self.solvers[name]}: {self.seconds[name]:.2g} s; median error: {self.within[name]:.2g} times, "
            "on data sets not used in the fit"
            for name in self.seconds
        ]
        lines += [
            f"Named the faster one for {self.accuracy:.0%} of data left out; always naming one: {self.majority:.0%}",
            "This is about speed alone: for top-N lists take ImplicitALS, for the most accurate ratings BayesianMF.",
        ]
        return "\n".join([*lines, *self.caveats])


def suggest(train: RatingsLike | DeviceRatings, factors: int = 16, device: str = "auto") -> Suggestion:
    """Predict which of ALS and SGD reaches the same error faster on a training set of this shape, and in what time.

    The seconds of each solver are s = exp(w . (1, ln nnz, ln(n_users + n_items), ln factors)), with w fitted to the
    recorded crossover between the two: training alone, without biases and with parameters searched for each data set,
    to an error half a percent above the best one that both reach. Nothing but the shape of the training set counts,
    and nothing is measured here. After cumf, section 7, which leaves choosing by dimensions and sparsity
    to future work; see the page 'ALS or SGD' of the book.

    Parameters
    ----------
    train : Ratings, DeviceRatings, or what else `fit` takes
    factors : int, 1 to 256
    device : 'auto' (CUDA where there is one), 'cuda' or 'cpu'. Of one whose times are not recorded the answer is that
        of the reference device, and says so

    Returns
    -------
    Suggestion : the model to fit, the expected seconds of both, and what of them was not measured

    Raises
    ------
    TypeError : train is nothing that `fit` takes
    ValueError : it is empty; factors or device are none of those above
    gpumf.backends.DeviceError : device='cuda' where there is none

    >>> from gpumf import suggest
    >>> from gpumf.ratings import load_dataset
    >>> train, _ = load_dataset("ml-100k-synthetic").split(0.2)
    >>> suggestion = suggest(train, factors=32)
    >>> sorted(suggestion.seconds), suggestion.model.factors
    (['ALS', 'SGD'], 32)
    """
    if not isinstance(train, DeviceRatings):
        train, _ = ratings_of(train, "train")
    if train.nnz == 0:
        raise ValueError("the training set is empty")
    factors = integer("factors", factors, 1, _MAX_FACTORS)
    if device not in ("auto", "cuda", "cpu"):
        raise ValueError(f"device must be 'auto', 'cuda' or 'cpu', not {device!r}")
    here = _device_name(device)
    return answer(recorded(), here, train.n_users, train.n_items, train.nnz, factors)


def _device_name(device):
    """The name that `suggestion.toml` has for a device."""
    if device == "cpu" or (device == "auto" and not backends.available()):
        return "cpu"
    return gpu_key(backends.device().facts["gpu"])


def gpu_key(name: str) -> str:
    """The name of a GPU in lower case, with a hyphen for whatever is no letter or digit: 'nvidia-h100-80gb-hbm3'."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@cache
def recorded() -> dict[str, Any]:
    """What `suggestion.toml` says: a dict of devices."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def terms(n_users, n_items, nnz, factors):
    """What the logarithm of the seconds is a weighted sum of."""
    return 1.0, math.log(nnz), math.log(n_users + n_items), math.log(factors)


def shape(n_users, n_items, nnz, factors):
    """What has to lie between the least and the most that were measured: a dict of names and numbers."""
    sizes = {"users": n_users, "items": n_items, "ratings": nnz, "factors": factors}
    return sizes | {"density": nnz / (n_users * n_items), "ratings of a row": nnz / (n_users + n_items)}


def answer(fits, device, n_users, n_items, nnz, factors):
    """The Suggestion of fits, as `recorded` returns them, for a device's name and a shape.

    Where there is no fit of the device, that of the first one is taken.
    """
    measured_on = device if device in fits else next(iter(fits))
    fit = fits[measured_on]
    what = terms(n_users, n_items, nnz, factors)
    fastest = {}
    for model, solvers in fit["solvers"].items():
        expected = {
            solver: math.exp(sum(w * t for w, t in zip(of["weights"], what, strict=True)))
            for solver, of in solvers.items()
        }
        fastest[model] = min(expected.items(), key=lambda pair: pair[1])
    name = min(fastest, key=lambda model: fastest[model][1])
    solver = fastest[name][0]
    caveats = []
    if measured_on == device:
        chosen = {"solver": solver} | fit["solvers"][name][solver]["options"]
    else:
        caveats.append(f"No times are recorded on {device}: these are the seconds of {measured_on}.")
        chosen = {}
    for key, value in shape(n_users, n_items, nnz, factors).items():
        least, most = fit["measured"][key]
        if not least <= value <= most:
            caveats.append(f"Not measured: {key} of {value:.4g}, outside of {least:.4g} to {most:.4g}.")
    return Suggestion(
        model=_MODELS[name](factors, device="cpu" if device == "cpu" else "cuda", **chosen),
        seconds={model: seconds for model, (_, seconds) in fastest.items()},
        solvers={model: solver for model, (solver, _) in fastest.items()},
        within={model: fit["solvers"][model][solver]["within"] for model, (solver, _) in fastest.items()},
        measured_on=measured_on,
        accuracy=fit["accuracy"],
        majority=fit["majority"],
        caveats=tuple(caveats),
    )
