"""Options of the solvers: parameters that one solver has and the others have not, and what they may be."""

from dataclasses import dataclass
from typing import Any

from gpumf._util.validation import brief, is_integer

INT32_MAX = 2**31 - 1
# l of l x l blocks: as many thread blocks as work at a time. Of l^2 blocks, the bounds are kept: 134 MB.
MAX_BLOCKS_A_SIDE = 4096
MAX_THREADS = 1024  # of a thread block


@dataclass(frozen=True)
class Option:
    """An integer from `least` to `most`, or one of `choices`; None too where that is the default.

    default : the value where none is given
    least, most : bounds, both allowed
    choices : all that is allowed, instead of bounds
    """

    default: Any
    least: int = 1
    most: int = INT32_MAX
    choices: tuple = ()

    def check(self, solver, name, value):
        """Raise ValueError, which names solver, option, value and range, where the value is not allowed."""
        if value is None and self.default is None:
            return
        if self.choices:
            # Compared with their types: 1 is not True.
            fits = any(type(value) is type(choice) and value == choice for choice in self.choices)
            wanted = f"one of {', '.join(map(repr, self.choices))}"
        else:
            fits = is_integer(value) and self.least <= value <= self.most
            wanted = f"an integer from {self.least} to {self.most}"
        if not fits:
            unless = " or None" if self.default is None else ""
            raise ValueError(f"{name} of the solver {solver!r} must be {wanted}{unless}, not {brief(value)}")
