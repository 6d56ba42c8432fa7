"""Launches kernels/als/warpgroups.cu, for Hopper GPUs."""

from typing import ClassVar

from gpumf import backends
from gpumf.solvers.als_base import ALSSolver
from gpumf.solvers.als_tensor_core import WARPGROUPS, Gathering, is_hopper, warpgroups_defines
from gpumf.solvers.base import Version


class WarpGroups(Gathering, ALSSolver):
    """kernels/als/warpgroups.cu: what `TensorCore` does, by warps that fetch and others that multiply and solve.

    It is made for 65 factors and more, of which `takes_warpgroups` says where `TensorCore` launches it too. It runs
    with fewer. Rows with few ratings are left to short_rows.cu.

    longest, short, in_bytes : as of `Gathering`
    """

    source, entry = WARPGROUPS, "warpgroups"
    versions: ClassVar = {"": Version("tensor cores, warpgroups", "magenta", "-.")}
    variants: ClassVar = {"FACTORS": range(1, 257), "IMPLICIT": range(2), "WGMMA": [1], "BYTES": range(2)}

    @staticmethod
    def defines(hyper):
        return warpgroups_defines(hyper)

    @classmethod
    def runs_on(cls, device):
        return device.name != "cuda" or is_hopper(device.facts)

    @classmethod
    def check(cls, hyper):
        device = backends.device(hyper.device)
        if not cls.runs_on(device):
            facts = device.facts
            raise ValueError(
                f"the solver 'warpgroups' runs on GPUs of compute capability 9.0 (Hopper), not on {facts['gpu']}, "
                f"which has {facts['compute_capability']}; take solver='tensor_core'"
            )

    def __init__(self, problem, longest=None, short=None, in_bytes=None):
        super().__init__(problem, longest, short, in_bytes)

    def _parameters(self, rows, n_fixed):
        return *self._steps, self._root_of_alpha, self._gram
