"""What a kernel takes, as its source says: every launch is checked against it, as C++ would check a call."""

import math
import numbers
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

import numpy as np

_TYPES = {
    "unsigned char": np.uint8,
    "unsigned short": np.uint16,
    "int": np.int32,
    "unsigned": np.uint32,
    "long long": np.int64,
    "unsigned long long": np.uint64,
    "float": np.float32,
    "double": np.float64,
}
# Bits of two bytes, which a caller may hold as float16 or uint16.
_HALVES = ("half_bits", "__half", "__nv_bfloat16")


class Parameter(NamedTuple):
    """A parameter of a kernel.

    name, kind : as in the source, the second its type in C
    scalar : class of NumPy, None for an array
    element : dtype of an array's elements, None where it is a struct, whose layout NumPy does not know
    least, most : of a scalar's finite values
    """

    name: str
    kind: str
    scalar: type | None
    element: np.dtype | None
    least: float | None = None
    most: float | None = None


class Signature:
    """The parameters of a kernel.

    kernel : str, its name
    parameters : dict of their names -> types in C, as from `gpumf.backends.sources.kernels`
    Raises TypeError: a parameter is neither a pointer nor a number
    """

    def __init__(self, kernel, parameters):
        self.kernel = kernel
        self.names = tuple(parameters)
        self.parameters = tuple(self._parsed(name, kind) for name, kind in parameters.items())
        # A launch is short, and what is right about it has to be seen in few steps.
        self._in_order = itemgetter(*self.names) if len(self.names) > 1 else lambda named: [named[self.names[0]]]
        places = [*enumerate(self.parameters)]
        self._arrays = [(k, p.element, p) for k, p in places if p.scalar is None]
        self._numbers = [(k, p.scalar, type(p.least), p.least, p.most, p) for k, p in places if p.scalar is not None]

    def _parsed(self, name, kind):
        plain = kind.replace("const ", "").replace("__restrict__", "").strip()
        element = plain.removesuffix("*").strip()
        if element != plain:
            kind_of_bits = np.uint16 if element in _HALVES else _TYPES.get(element)
            return Parameter(name, kind, None, kind_of_bits and np.dtype(kind_of_bits))
        if plain not in _TYPES:
            raise TypeError(f"{self.kernel}: {name} is {kind!r}; a kernel takes pointers and numbers")
        scalar = _TYPES[plain]
        limits = np.iinfo(scalar) if issubclass(scalar, np.integer) else np.finfo(scalar)
        number = int if issubclass(scalar, np.integer) else float
        return Parameter(name, kind, scalar, None, number(limits.min), number(limits.max))

    def bind(self, arguments, named, array_type):
        """The arguments of a launch in the kernel's order, numbers as NumPy scalars of the width in the source.

        arguments : in the kernel's order, the first of them or all
        named : dict of the others, by the names in the source
        array_type : class of the device's arrays
        Raises TypeError: one is missing, unknown or given twice; an array is none, is not contiguous or has other
            elements (an integer's sign is left to the caller); a number is none, or not whole where it has to be
        Raises ValueError: a number is outside the range of its type
        """
        try:
            bound = [*self._in_order(named)] if named else [*arguments]
        except KeyError:
            bound = ()
        if len(bound) != len(self.names) or len(arguments) + len(named) != len(bound):
            bound = [*self._in_order(self._named(arguments, named))]
        for place, element, parameter in self._arrays:
            array = bound[place]
            if (
                not isinstance(array, array_type)
                or not (element is None or array.dtype is element or _holds(array.dtype, parameter))
                or not array.flags.c_contiguous
            ):
                self._complain(parameter, array, array_type)
        for place, scalar, number, least, most, parameter in self._numbers:
            value = bound[place]
            if type(value) is number and least <= value <= most:
                bound[place] = scalar(value)
            elif type(value) is not scalar:
                bound[place] = self._cast(parameter, value)
        return tuple(bound)

    def _named(self, arguments, named):
        """All arguments by name."""
        if len(arguments) > len(self.names):
            raise TypeError(f"{self.kernel} takes {len(self.names)} arguments, not {len(arguments)}")
        if unknown := named.keys() - set(self.names):
            raise TypeError(f"{self.kernel} has no parameters {sorted(unknown)}; it has {[*self.names]}")
        given, others = self.names[: len(arguments)], self.names[len(arguments) :]
        if twice := [name for name in given if name in named]:
            raise TypeError(f"{self.kernel}: {twice} are given by place and by name")
        if missing := [name for name in others if name not in named]:
            raise TypeError(f"{self.kernel}: {missing} are missing")
        return dict(zip(given, arguments, strict=True)) | named

    def _complain(self, parameter, argument, array_type):
        name, kind = parameter.name, parameter.kind
        if not isinstance(argument, array_type):
            raise TypeError(f"{self.kernel}: {name} is {kind}, an array on the device, not {argument!r}")
        if not _holds(argument.dtype, parameter):
            raise TypeError(f"{self.kernel}: {name} is {kind}, not an array of {argument.dtype}")
        raise TypeError(f"{self.kernel}: {name} has to be contiguous in C's order, as a copy of it is")

    def _cast(self, parameter, value):
        name, kind, scalar, _, least, most = parameter
        whole = isinstance(least, int)
        if type(value) is not int and not isinstance(value, numbers.Integral if whole else numbers.Real):
            raise TypeError(f"{self.kernel}: {name} is {kind}, a {'whole ' * whole}number, not {value!r}")
        if not least <= value <= most and (isinstance(value, int) or math.isfinite(value)):
            raise ValueError(f"{self.kernel}: {name} is {kind}, from {least} to {most}, not {value!r}")
        return scalar(value)


@lru_cache
def _holds(dtype, parameter):
    """Whether elements of a dtype may be passed where the source has those of a parameter."""
    kind, element = parameter.kind, parameter.element
    if element is None or dtype == element:
        return True
    same = dtype.itemsize == element.itemsize and dtype.isnative
    if any(half in kind for half in _HALVES):
        return same and dtype == np.float16
    return same and dtype.kind in "iub" and element.kind in "iu"
