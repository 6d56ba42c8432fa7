"""Learning-rate schedules: the rate of an epoch as a function of the epochs before it.

Every kernel takes the rate of an epoch as a number, so that every schedule goes with every solver. A schedule keeps
no state: a training that is interrupted, stored and continued goes on as if it had not been.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from gpumf._util.validation import integer, number


@dataclass(frozen=True)
class Constant:
    """The same rate in every epoch."""

    def rate(self, start: float, rmses: Sequence[float]) -> float:
        """The rate of the next epoch.

        Parameters
        ----------
        start : float, the model's learning rate
        rmses : the validation RMSE of the initial model and after each epoch so far; NaN without a validation set
        """
        return start


@dataclass(frozen=True)
class Power:
    """start / (1 + beta t^power) in epoch t, counted from 0: the schedule of CuMF_SGD (Xie et al. 2017)."""

    beta: float = 0.1
    power: float = 1.5

    def __post_init__(self):
        number("beta", self.beta, least=0)
        number("power", self.power, above=0)

    def rate(self, start: float, rmses: Sequence[float]) -> float:
        """As of `Constant`."""
        return start / (1 + self.beta * (len(rmses) - 1) ** self.power)


@dataclass(frozen=True)
class Patience:
    """The rate times `decay` whenever `patience` epochs have gone by without a better validation RMSE (cu2rec).

    cu2rec gives neither number; these keep it from decaying on noise.
    """

    patience: int = 2
    decay: float = 0.5

    def __post_init__(self):
        integer("patience", self.patience, 1)
        number("decay", self.decay, above=0, most=1)

    def rate(self, start: float, rmses: Sequence[float]) -> float:
        """As of `Constant`.

        Raises
        ------
        ValueError : there is no validation set to be patient with
        """
        if np.isnan(rmses).any():
            raise ValueError("the schedule Patience needs a validation set")
        best, waited = np.inf, 0
        for rmse in rmses:
            waited = 0 if rmse < best else waited + 1
            best = min(best, rmse)
            if waited == self.patience:
                start, waited = start * self.decay, 0
        return start


Schedule: TypeAlias = Constant | Power | Patience
SCHEDULES = {schedule.__name__: schedule for schedule in (Constant, Power, Patience)}


def to_dict(schedule: Schedule) -> dict[str, Any]:
    """A schedule as plain values, which `from_dict` takes back."""
    return {"name": type(schedule).__name__, **asdict(schedule)}


def from_dict(description: Schedule | dict[str, Any]) -> Schedule:
    """A schedule from those plain values; a schedule itself is returned as it is.

    Raises
    ------
    ValueError : it is neither, or has other parameters
    """
    if isinstance(description, Schedule):
        return description
    if not (isinstance(description, dict) and description.get("name") in list(SCHEDULES)):
        raise ValueError(f"schedule must be one of {list(SCHEDULES)} of gpumf.solvers.schedules, not {description!r}")
    parameters = dict(description)
    kind = SCHEDULES[parameters.pop("name")]
    known = [field.name for field in fields(kind)]
    if unknown := [name for name in parameters if name not in known]:
        raise ValueError(f"schedule {kind.__name__} has no {unknown[0]}; it has {known}")
    return kind(**parameters)
