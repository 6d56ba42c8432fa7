"""Which kernels a model has, and which of them it runs where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from gpumf import gpu

if TYPE_CHECKING:
    from gpumf.datasets import Ratings
    from gpumf.models.base import Trainer, Version

Device: TypeAlias = Literal["auto", "cpu", "cuda", "host"]


class Solvers:
    """Chooses among the kernels of `_trainers` (kernel name -> Trainer class), fastest last."""

    _trainers: ClassVar[dict[str, Any]]
    solver: str
    device: str
    _default_solver: str

    @classmethod
    def solvers(cls) -> dict[str, str]:
        """What can be passed as `solver`: a dict name -> device, slowest first. Those of 'cuda' run on 'host' too.

        >>> from gpumf import RBM
        >>> RBM.solvers()
        {'sequential': 'cpu', 'parallel': 'cpu', 'thesis': 'cuda', 'fast': 'cuda'}
        """
        return {name: trainer.device for name, trainer in cls._trainers.items()}

    @classmethod
    def schemes(cls) -> dict[str, type[Trainer]]:
        """What the solvers declare of themselves: a dict name -> `gpumf.models.base.Trainer`, slowest first.

        >>> from gpumf import ALS
        >>> ALS.schemes()["thesis_shared"].publication
        Publication(key='thesis', section='Algorithms 5.2 and 5.3')
        """
        return dict(cls._trainers)

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
            for solver, scheme in cls._trainers.items()
            for name, version in scheme.versions.items()
        }

    @property
    def scheme(self) -> type[Trainer]:
        """The `Trainer` of this model's solver.

        >>> from gpumf import ALS
        >>> ALS(2, solver="sequential").scheme.__name__
        'Sequential'
        """
        return self._trainers[self.solver]

    def choose(self, train: Ratings) -> str:
        """The solver for a training set, where none was given: the fastest for the device, or what a model knows.

        >>> from gpumf import RBM, datasets
        >>> ratings = datasets.Ratings([0, 1, 1], [0, 0, 1], [4, 3, 5], n_users=2, n_items=2)
        >>> RBM(4, device="cpu").choose(ratings)
        'parallel'
        """
        return self._default_solver

    def _usable(self, solver, device):
        """(solver, device) for what was asked for, the fastest one."""
        model = type(self).__name__
        if device not in ("auto", "cpu", "cuda", "host"):
            raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'host', not {device!r}")
        if solver is not None and solver not in list(self._trainers):
            raise ValueError(f"{model} has no solver {solver!r}; choose from {list(self._trainers)}")
        if device == "host":
            gpu.device("host")  # raises where there is none
        elif device == "cuda" or (solver and self._trainers[solver].device == "cuda"):
            gpu.device()
        usable = {"host": ("cuda",), "auto": ("cpu", "cuda") if gpu.available() else ("cpu",)}.get(device, (device,))
        fitting = [
            name
            for name, trainer in self._trainers.items()
            if solver in (None, name) and trainer.device in usable and self._fits(trainer)
        ]
        if not fitting:
            raise ValueError(
                f"{model} has no solver for solver={solver!r}, device={device!r}{self._misfit}; there are "
                + ", ".join(f"{name} ({self._described(trainer)})" for name, trainer in self._trainers.items())
            )
        return fitting[-1], "host" if device == "host" else self._trainers[fitting[-1]].device

    _misfit = ""  # what else than solver and device a solver may not fit

    def _fits(self, trainer):
        """Whether a solver is made for a model of this size."""
        return True

    @staticmethod
    def _described(trainer):
        """What `_usable` says of a solver that does not fit."""
        return trainer.device
