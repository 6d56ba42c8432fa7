"""What native functions take: each call into C++ or Numba is checked here, as a launch is by
`gpumf.backends.signature`.

C++ and compiled loops index arrays without looking at their bounds. What they are passed has to agree in shape; the
positions within are checked where they come from, when ratings are constructed and when a model is fitted to them.
"""

from functools import cache, wraps

import numpy as np


def takes(*specs, **known):
    """Decorate a function that passes arrays to native code: its first arguments are checked before it is called.

    *specs : of each array, its dtype and the names of its dimensions, as in "float32 rows f": dimensions of one name
        have to be equal; "rows+1" is one more; an empty spec leaves an argument alone
    **known : dimensions that are fixed, by name
    Raises TypeError: what is passed is no array, has another dtype or is not contiguous in C order
    Raises ValueError: a dimension differs
    """
    parsed = [(place, *_parsed(spec)) for place, spec in enumerate(specs) if spec]

    def decorated(function):
        @wraps(function)
        def checked(*arguments, **named):
            _check(function, arguments, parsed, dict(known))
            return function(*arguments, **named)

        return checked

    return decorated


@cache
def _parsed(spec):
    """(dtype, [(name of a dimension, how many more)]) of a spec."""
    dtype, *dimensions = spec.split()
    pairs = [(name, int(more or 0)) for name, _, more in (one.partition("+") for one in dimensions)]
    return np.dtype(dtype), pairs


def _check(function, arguments, parsed, sizes):
    for place, dtype, dimensions in parsed:
        array = arguments[place]
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{function.__name__}: argument {place} must be an array, not {type(array).__name__}")
        if array.dtype != dtype or not array.flags.c_contiguous:
            raise TypeError(
                f"{function.__name__}: argument {place} must be {dtype}, contiguous in C order, not {array.dtype}"
                + (", not contiguous" if not array.flags.c_contiguous else "")
            )
        shape = array.shape
        differs = len(shape) != len(dimensions)
        for size, (name, more) in zip(shape, dimensions, strict=False):
            differs |= sizes.setdefault(name, size - more) != size - more
        if differs:
            wanted = (f"{sizes.get(name, name)}" + (f" + {more}" if more else "") for name, more in dimensions)
            raise ValueError(
                f"{function.__name__}: argument {place} must have the shape ({', '.join(wanted)}), not {shape}"
            )
