"""The constructor's arguments of a model, as scikit-learn's tools read and change them."""

import inspect
from functools import cache


class Parameters:
    """Keeps what the constructor was given: `get_params`, `set_params`, and a repr that makes an equal model."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        signature = _signature(cls)  # which help() would take from __new__
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

    def get_params(self, deep=True):
        """The constructor's arguments by name, as they were given, defaults where they were not.

        Parameters
        ----------
        deep : bool, of scikit-learn; there is nothing within
        """
        defaults = {
            name: parameter.default
            for name, parameter in list(_signature(type(self)).parameters.items())[1:]
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        }
        return defaults | self._given

    def set_params(self, **parameters):
        """Change arguments of the constructor; the model is then as newly constructed, not fitted.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError : as of the constructor; the model then stays as it was
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
