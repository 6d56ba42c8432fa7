"""Learning-rate schedules: the rate of an epoch as a function of the epochs before it.

Every kernel takes the rate of an epoch as a number, so that every schedule goes with every scheme. A schedule keeps
no state: a training that is interrupted, stored and continued goes on as if it had not been.
"""

from dataclasses import asdict, dataclass

import numpy as np


@dataclass(frozen=True)
class Constant:
    """The same rate in every epoch."""

    def rate(self, start, rmses):
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
        if not (self.beta >= 0 and self.power > 0):
            raise ValueError(f"beta must not be negative, power be positive, not {self.beta!r}, {self.power!r}")

    def rate(self, start, rmses):
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
        if not (self.patience >= 1 and 0 < self.decay <= 1):
            raise ValueError(f"patience must be positive, decay in (0, 1], not {self.patience!r}, {self.decay!r}")

    def rate(self, start, rmses):
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


SCHEDULES = {schedule.__name__: schedule for schedule in (Constant, Power, Patience)}


def described(schedule):
    """A schedule as plain values, which `made` takes back."""
    return {"name": type(schedule).__name__, **asdict(schedule)}


def made(description):
    """A schedule from what `described` said of it; a schedule itself is returned as it is."""
    if not isinstance(description, dict):
        return description
    parameters = dict(description)
    return SCHEDULES[parameters.pop("name")](**parameters)
