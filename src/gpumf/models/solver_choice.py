"""Which solvers a model has, and which of them it runs where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from gpumf import backends
from gpumf._util.validation import brief, choice

if TYPE_CHECKING:
    from gpumf.ratings import Ratings
    from gpumf.solvers.base import Solver, Version

Device: TypeAlias = Literal["auto", "cpu", "cuda", "emulator"]


def check_device(device: Any) -> None:
    """Raise ValueError for what is no name of a kind of device."""
    choice("device", device, "auto", "cpu", "cuda", "emulator")


class SolverChoice:
    """Chooses among the solvers of `_solvers` (name -> class), fastest last."""

    _solvers: ClassVar[dict[str, Any]]
    device: str
    _solver: str
    _solver_given: bool
    _default_solver: str

    @property
    def solver(self) -> str:
        """The name of the solver. Where none was given, `fit` chooses it by the training set, see `choose`.

        >>> from gpumf import ALS
        >>> model = ALS(2, device="cpu")
        >>> model.solver = "sequential"
        >>> model
        ALS(factors=2, device='cpu', solver='sequential')
        """
        return self._solver

    @solver.setter
    def solver(self, name: str) -> None:
        self._solver, self._solver_given = name, True

    @classmethod
    def solvers(cls) -> dict[str, str]:
        """What can be passed as `solver`: a dict name -> device, slowest first. Those of 'cuda' run on 'emulator'
        too.

        >>> from gpumf import RBM
        >>> RBM.solvers()
        {'sequential': 'cpu', 'parallel': 'cpu', 'thesis': 'cuda', 'fast': 'cuda'}
        """
        return {name: one.device for name, one in cls._solvers.items()}

    @classmethod
    def solver_classes(cls) -> dict[str, type[Solver]]:
        """What the solvers declare of themselves: a dict name -> `gpumf.solvers.base.Solver`, slowest first.

        >>> from gpumf import ALS
        >>> ALS.solver_classes()["thesis_shared"].publication
        Publication(key='thesis', section='Algorithms 5.2 and 5.3')
        """
        return dict(cls._solvers)

    @classmethod
    def versions(cls) -> dict[str, tuple[str, Version]]:
        """What studies compare: a dict name, as 'fast' or 'fast, FP32' -> (solver, `Version`).

        >>> from gpumf import ALS
        >>> solver, version = ALS.versions()["thesis_shared"]
        >>> solver, version.label
        ('thesis_shared', 'thesis, shared memory')
        """
        return {
            f"{solver}, {name}" if name else solver: (solver, version)
            for solver, one in cls._solvers.items()
            for name, version in one.versions.items()
        }

    @property
    def solver_class(self) -> type[Solver]:
        """The `Solver` of this model's solver.

        >>> from gpumf import ALS
        >>> ALS(2, solver="sequential").solver_class.__name__
        'Sequential'
        """
        return self._solvers[self._solver]

    def choose(self, train: Ratings) -> str:
        """The solver for a training set, where none was given: the fastest for the device, or what a model knows.

        >>> from gpumf import RBM
        >>> from gpumf.ratings import Ratings
        >>> ratings = Ratings([0, 1, 1], [0, 0, 1], [4, 3, 5], n_users=2, n_items=2)
        >>> RBM(4, device="cpu").choose(ratings)
        'parallel'
        """
        return self._default_solver

    def _usable(self, solver, device):
        """(solver, device) for what was asked for, the fastest one."""
        model = type(self).__name__
        check_device(device)
        if solver is not None and not (isinstance(solver, str) and solver in self._solvers):
            raise ValueError(f"{model} has no solver {brief(solver)}; choose from {list(self._solvers)}")
        if device == "emulator":
            backends.device("emulator")  # raises where there is none
        elif device == "cuda" or (solver and self._solvers[solver].device == "cuda"):
            backends.device()
        usable = {"emulator": ("cuda",), "auto": ("cpu", "cuda") if backends.available() else ("cpu",)}.get(
            device, (device,)
        )
        size, fitting = self._size, []
        for name, one in self._solvers.items():
            if solver in (None, name) and one.device in usable and size <= one.max_factors:
                fitting.append(name)
        if not fitting:
            most = {name: f", up to {one.max_factors}" * (size > 0) for name, one in self._solvers.items()}
            raise ValueError(
                f"{model} has no solver for solver={solver!r}, device={device!r}{self._misfit}; there are "
                + ", ".join(f"{name} ({one.device}{most[name]})" for name, one in self._solvers.items())
            )
        return fitting[-1], "emulator" if device == "emulator" else self._solvers[fitting[-1]].device

    _misfit = ""  # what else than solver and device a solver may not fit
    _size = 0  # factors that a solver has to take
