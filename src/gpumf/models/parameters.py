"""The constructor's arguments of a model, as scikit-learn's tools read and change them."""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Self


class Parameters:
    """Keeps what the constructor was given: `get_params`, `set_params`, and a repr that makes an equal model."""

    _given: dict[str, Any]

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        signature = inspect.signature(cls.__init__)  # which help() would take from __new__
        cls.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        try:
            bound = _signature(cls).bind(self, *args, **kwargs)
        except TypeError:  # the constructor says it better
            return self
        self._given = dict(list(bound.arguments.items())[1:])
        self._given |= self._given.pop(_options(cls), {})
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name, as they were given, defaults where they were not.

        Parameters
        ----------
        deep : bool, of scikit-learn; there is nothing within

        >>> from gpumf import ALS
        >>> parameters = ALS(32, device="cpu").get_params()
        >>> parameters["factors"], parameters["regularization"]
        (32, 0.15)
        """
        defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(type(self)).parameters.items()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        }
        return defaults | self._given

    def set_params(self, **parameters: Any) -> Self:
        """Change arguments of the constructor; the model is then as newly constructed, not fitted.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError : as of the constructor; the model then stays as it was

        >>> from gpumf import ALS
        >>> ALS(32, device="cpu").set_params(factors=8, seed=1)
        ALS(factors=8, device='cpu', seed=1)
        >>> ALS(32, device="cpu").set_params(factors=0)
        Traceback (most recent call last):
            ...
        ValueError: factors must be an integer from 1 to 300, not 0
        """
        made = type(self)(**self._given | parameters)
        vars(self).clear()
        vars(self).update(vars(made))
        return self

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"


@cache
def _signature(cls):
    return inspect.signature(cls.__init__)


@cache
def _options(cls):
    """The name of the constructor's **parameter, if it has one."""
    kinds = _signature(cls).parameters.values()
    return next((one.name for one in kinds if one.kind is inspect.Parameter.VAR_KEYWORD), None)
