"""The constructor's arguments of a model, as scikit-learn's tools read and change them."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from functools import cache
from itertools import repeat
from typing import Any, Self

from gpumf._util.busy import check_idle, check_usable
from gpumf.models.once import Once


class _Judging(ABCMeta):
    """Has an object keep what its constructor was given, and count its parameters as judged when that is done."""

    def __call__(cls, *args, **kwargs):
        if _options(cls) is None and (unknown := [name for name in kwargs if name not in parameter_names(cls)]):
            raise TypeError(
                f"{cls.__name__} has no parameter {unknown[0]!r}; it has {', '.join(parameter_names(cls))}"
            )
        self = super().__call__(*args, **kwargs)  # whose errors are better than those of `bind`
        given = dict(list(_signature(cls).bind(self, *args, **kwargs).arguments.items())[1:])
        self._given = given | given.pop(_options(cls), {})
        self._parameters_are_right()
        return self


class Fixed:
    """An attribute of a kind of model that no parameter changes. To assign anything else is an AttributeError."""

    def __init__(self, value):
        self._value = value

    def __set_name__(self, owner, name):
        self._told = f"{name} of {owner.__name__} is always {self._value!r}"

    def __get__(self, model, kind=None):
        return self._value

    def __set__(self, model, value):
        if value is not self._value:
            raise AttributeError(f"{self._told}; it cannot be assigned")


class Parameters(metaclass=_Judging):
    """Keeps what the constructor was given: `get_params`, `set_params`, and a repr that makes an equal model.

    A parameter may be changed later by assigning the attribute of its name. The constructor validates it when it is
    used: whatever trains or predicts calls `_check_parameters` before anything else.
    """

    _given: dict[str, Any]
    _resolved: dict[str, Any]  # what the constructor found for parameters such as device='auto', where it says so

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        signature = inspect.signature(cls.__init__)  # which help() would take from __new__
        cls.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        self._resolved, self._parameters_checked = {}, Once()
        return self

    def __copy__(self):
        check_usable(self)
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        return made

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name, as they were given, defaults where they were not.

        Parameters
        ----------
        deep : bool, of scikit-learn; there is nothing within

        >>> from gpumf import ALS
        >>> parameters = ALS(32, device="cpu").get_params()
        >>> parameters["factors"], parameters["clip"]
        (32, True)
        """
        defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(type(self)).parameters.items()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        }
        return defaults | self._given | self._assigned()

    @property
    def _parameters(self):
        """Plain values of the arguments, by name, that make an equal model on any device: what a file has."""
        own = {name: getattr(self, name) for name in parameter_names(type(self)) if name not in _NOT_STORED}
        if "schedule" in own:
            from gpumf.solvers.schedules import to_dict  # which few models have

            own["schedule"] = to_dict(own["schedule"])
        return own

    def _assigned(self):
        """Parameters that are no longer what the constructor made of them, by name."""
        made = type(self)(**self._given | self._resolved)
        return {
            name: now
            for name in parameter_names(type(self))
            if not same(now := getattr(self, name, None), getattr(made, name, None))
        }

    def _check_parameters(self):
        """Have the constructor judge parameters that were assigned since it did; its errors.

        What it derives from them is renewed. What was learned stays.
        """
        if not self._parameters_checked.was_of(self._now()):
            self._renew()
            self._parameters_are_right()

    def _now(self):
        return [*map(getattr, repeat(self), parameter_names(type(self)), repeat(None))]

    def _parameters_are_right(self):
        """Judge the parameters anew only when one is assigned after this."""
        self._parameters_checked.of(self._now())

    def _renew(self):
        if assigned := self._assigned():
            made = type(self)(**self._given | self._resolved | assigned)
            self._given, self._resolved = self._given | assigned, made._resolved
            vars(self).update({name: value for name, value in vars(made).items() if name not in _KEPT})

    def set_params(self, **parameters: Any) -> Self:
        """Change arguments of the constructor; the model is then as newly constructed, not fitted.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError : as of the constructor; the model then stays as it was
        RuntimeError : the model is being fitted, by another thread or by what calls this

        >>> from gpumf import ALS
        >>> ALS(32, device="cpu").set_params(factors=8, seed=1)
        ALS(factors=8, device='cpu', seed=1)
        >>> ALS(32, device="cpu").set_params(seed=-1)
        Traceback (most recent call last):
            ...
        ValueError: seed must be an integer from 0 to 18446744073709551615, not -1
        """
        check_idle(self)
        made = type(self)(**self._given | self._assigned() | parameters)
        vars(self).clear()
        vars(self).update(vars(made))
        return self

    def __repr__(self):
        given = self._given | self._assigned()
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


_NOT_STORED = "solver", "device", "threads", "chunk", "weights", "batches"
"""Arguments that say where and how it is computed: a stored model may be used on another machine."""

_KEPT = "_given", "_resolved", "_parameters_checked", "history", "epoch"
"""Attributes that the constructor sets and that a change of parameters leaves."""


def same(now: Any, before: Any) -> bool:
    """Return whether a parameter is what it was, of the same type: 1 is not True."""
    return now is before or (type(now) is type(before) and bool(now == before))


@cache
def _signature(cls):
    return inspect.signature(cls.__init__)


@cache
def parameter_names(cls: Any) -> tuple[str, ...]:
    """Return the parameters that have attributes of their names: all but **parameters."""
    return tuple(name for name in inspect.signature(cls).parameters if name != _options(cls))


@cache
def _options(cls):
    """The name of the constructor's **parameter, if it has one."""
    kinds = _signature(cls).parameters.values()
    return next((one.name for one in kinds if one.kind is inspect.Parameter.VAR_KEYWORD), None)
