"""What all models share: training with a history, errors, and predictions."""

import time
from abc import abstractmethod
from contextlib import contextmanager

import numpy as np
from tqdm import tqdm

from gpumf import gpu
from gpumf.datasets.device import DeviceRatings
from gpumf.models.base import Trainer
from gpumf.models.checks import (
    MOST_SEED,
    DivergedError,
    NotFittedError,
    check_finite,
    check_training,
    flag,
    integer,
    positions,
)
from gpumf.models.finite import FiniteCheck
from gpumf.models.recommender import Recommender
from gpumf.models.storage import Stored
from gpumf.models.times import Clock


class Model(Stored, Recommender):
    """Trains on ratings, keeps a history, predicts ratings.

    Subclasses name their kernels in `_trainers` (kernel name -> Trainer class), fastest last, and in `_arrays` the
    attributes that hold what is learned, float32: first that of the users, then that of the items, row by row.

    Attributes
    ----------
    history : DataFrame with one row an epoch and the columns
        epoch (0 is the initial model), seconds (of training alone, summed up), rmse, mae (of the validation set;
        NaN without one)
    device : where the kernel runs: 'cpu', 'cuda', or 'host' for a CUDA kernel on the processor
    kernel : its name. Where none was given, `fit` chooses it by the training set (see `choose`)
    times : `gpumf.models.times.Times` of the newest training: prepare, transfer, train, compile, and wall
    """

    _trainers: dict[str, type[Trainer]]
    _arrays: tuple[str, ...]
    _remedy: str  # what to do where training diverges

    def __init__(self, *, solver, device, seed):
        self.seed = integer("seed", seed, 0, MOST_SEED)
        self.solver, self.device = self._usable(solver, device)
        self._solver_given, self._default_solver = solver is not None, self.solver
        self.history = None

    @classmethod
    def solvers(cls):
        """What can be passed as `solver`: a dict name -> device, slowest first. Those of 'cuda' run on 'host' too."""
        return {name: trainer.device for name, trainer in cls._trainers.items()}

    @classmethod
    def schemes(cls):
        """What the solvers declare of themselves: a dict name -> `gpumf.models.base.Trainer`, slowest first."""
        return dict(cls._trainers)

    @classmethod
    def versions(cls):
        """What studies compare: a dict name, as 'fast' or 'fast, FP32' -> (solver, `Version`)."""
        return {
            f"{solver}, {name}" if name else solver: (solver, version)
            for solver, scheme in cls._trainers.items()
            for name, version in scheme.versions.items()
        }

    @property
    def scheme(self):
        """The `Trainer` of this model's solver."""
        return self._trainers[self.solver]

    def trainer(self, train, *arrays, **parts):
        """This model's solver at work on a training set: for what looks at its steps, or times them.

        Parameters
        ----------
        train : Ratings; for a model with biases counted from their mean
        *arrays : what it starts from, float32, in the order in which a model stores it; the initial ones by default
        **parts : of the scheme, which its class describes

        Returns
        -------
        gpumf.models.base.Trainer
        """
        return self.scheme(self, train, *(arrays or self._initial(train)), **parts)

    def choose(self, train):
        """The solver for a training set, where none was given: the fastest for the device, or what a model knows."""
        return self._default_solver

    def _usable(self, solver, device):
        """(solver, device) for what was asked for, the fastest one."""
        model = type(self).__name__
        if device not in ("auto", "cpu", "cuda", "host"):
            raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'host', not {device!r}")
        if solver is not None and solver not in self._trainers:
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

    @property
    def _parameters(self):
        """The constructor's arguments, by name, that make an equal model on any device."""
        return {"seed": self.seed}

    @property
    def _learned(self):
        """The arrays named in `_arrays`."""
        return tuple(getattr(self, name) for name in self._arrays)

    def _set_learned(self, arrays):
        for name, array in zip(self._arrays, arrays, strict=True):
            setattr(self, name, array)

    @property
    def _shape(self):
        """(users, items) that the model was trained on."""
        return tuple(map(len, self._learned[:2]))

    # Training

    @abstractmethod
    def _initial(self, train):
        """The arrays before the first epoch, float32."""

    def fit(self, train, epochs=20, validation=None, *, stop=None, warm_start=False, progress=False):
        """Train on a set of ratings.

        Interrupting (KeyboardInterrupt) leaves a usable model with the epochs done so far; continue it with
        `warm_start=True`. Whatever else goes wrong leaves the model as it was before, but for divergence: after each
        epoch all that was learned, and the validation error, has to be finite. Otherwise DivergedError, and the model
        keeps the factors and the history of the last epoch that was. That costs a pass over the factors and a copy of
        them, where they are, an epoch; neither is in `history.seconds`.

        Parameters
        ----------
        train : Ratings, on the host or, `gpumf.datasets.DeviceRatings`, on a device
        epochs : int from 0, how many to add
        validation : Ratings of the same shape, whose errors the history records after each epoch
        stop : function of the newest history row (a dict); true ends the training early
        warm_start : bool, go on from what this model has learned, and its history, instead of from the start
        progress : bool, show a bar

        Returns
        -------
        self

        Raises
        ------
        TypeError : sets that are not `Ratings`
        ValueError : ratings that are not finite, an empty set, a validation set of another shape, epochs below 0
        NotFittedError : warm_start without a training before
        DivergedError : an epoch ended with something that is not finite
        gpumf.gpu.DeviceError : the device cannot do it
        """
        with self._as_before_if_it_fails():
            epochs, given = integer("epochs", epochs, 0), train
            clock, train, validation = self._taken(train, validation)
            with clock.spent_on("prepare"):
                if flag("warm_start", warm_start):
                    self._check_warm(train)
                    known, rows = (self._user_known, self._item_known), self.history.to_dict("records")
                    self._set_training(train)
                    arrays = self._continued(train, *known)
                else:
                    self._set_training(train)
                    arrays, rows = self._initial(train), []
            self._training = given
            self._train(clock, train, arrays, rows, epochs, validation, stop, progress)
        return self

    def _taken(self, train, validation):
        """(clock, train, validation): a clock that runs from now on, and the sets, checked, where they are wanted."""
        clock = Clock(None if self.device == "cpu" else gpu.device(self.device))
        check_training(train, validation)
        if not self._solver_given:
            self.solver = self.choose(train)
        with clock.spent_on("transfer"):
            train, validation = self._placed(train), validation and self._placed(validation)
        with clock.spent_on("prepare"):
            check_finite(train, validation)
        return clock, train, validation

    def _placed(self, ratings):
        """The ratings where the kernel takes them from: on the device, or on the host where they do not fit it."""
        there = None if self.device == "cpu" else gpu.device(self.device)
        if there is None or not self._takes_from_device():
            return ratings.on_host()
        return DeviceRatings.where_they_fit(ratings, there)

    def _takes_from_device(self):
        """Whether the ratings are to be on the device before the trainer orders them."""
        return self.scheme.from_device

    @contextmanager
    def _as_before_if_it_fails(self):
        """Take all changes of the model back where the body raises before it has kept what it learned."""
        before = vars(self).copy()
        try:
            yield
        except BaseException:
            if self.history is before["history"]:
                vars(self).clear()
                vars(self).update(before)
            raise

    def _check_warm(self, train):
        """Raise where training cannot go on with this set."""
        self._check_fitted()
        if self._shape != (train.n_users, train.n_items):
            raise ValueError("warm_start needs ratings of the same users and items as before")

    def _continued(self, train, users_known, items_known):
        """The arrays to go on from, after `_set_training`, given who was known before it."""
        return self._learned

    def _train(self, clock, train, arrays, rows, epochs, validation, stop, progress):
        """Train from these arrays, with this history so far, and keep what is learned."""
        make_trainer = self.scheme
        with clock.spent_on("compile"):
            make_trainer.compile(self)
        errors, finite = self._errors(validation) if validation else None, FiniteCheck(self.device)
        with clock.spent_on("prepare"):
            train = self._as_trained(train)
            there = map(train.device.array, arrays) if train.device else arrays
            trainer = make_trainer(self, train, *there)
            trainer.synchronize()

        def done(rows, epoch, seconds):
            """Copies of what is learned by now, and the history."""
            learned = trainer.arrays()
            rmse, mae = errors(*learned) if errors else (np.nan, np.nan)
            copies = finite.copies(learned)
            if copies is None or (errors and not np.isfinite(rmse)):
                raise DivergedError(epoch, self._remedy)
            row = {"epoch": epoch, "seconds": seconds, "rmse": rmse, "mae": mae}
            return copies, [*rows, row]

        # One assignment an epoch: whenever an interrupt comes, factors and history belong together.
        newest = (finite.copies(trainer.arrays()), rows) if rows else done(rows, 0, 0.0)
        first = newest[1][-1]["epoch"]
        try:
            for epoch in tqdm(range(first, first + epochs), disable=not progress, desc=self.solver, unit="epoch"):
                rows = newest[1]
                started = time.perf_counter()
                self._epoch(trainer, epoch, rows)
                trainer.synchronize()
                seconds = time.perf_counter() - started
                clock.add("train", seconds)
                newest = done(rows, epoch + 1, rows[-1]["seconds"] + seconds)
                if stop is not None and stop(newest[1][-1]):
                    break
        except (KeyboardInterrupt, DivergedError):
            self._finish(clock, *newest)
            raise
        self._finish(clock, *newest)

    def _finish(self, clock, arrays, rows):
        import pandas as pd

        with clock.spent_on("transfer"):
            self._set_learned(self._to_host(arrays))
        history = pd.DataFrame(rows)
        self.times, self.history = clock.stop(), history

    def _epoch(self, trainer, number, rows):
        """Start epoch `number` after these rows of history."""
        trainer.epoch(number)

    def _as_trained(self, ratings):
        """The ratings as the trainer wants them."""
        return ratings

    def _to_host(self, arrays):
        return arrays if self.device == "cpu" else tuple(map(gpu.device(self.device).to_numpy, arrays))

    def _set_training(self, train):
        self.mean = train.mean
        self.scale = train.scale
        self._user_known, self._item_counts = train.user_counts > 0, train.item_counts.copy()
        self._training = train

    @property
    def _item_known(self):
        return self._item_counts > 0

    @abstractmethod
    def _errors(self, ratings):
        """A function of the model's arrays, where they are, that gives (rmse, mae) on these ratings."""

    # Use

    def _check_fitted(self):
        if self.history is None:
            raise NotFittedError(f"this {type(self).__name__} has not been fitted; call fit() first")

    def score(self, ratings):
        """Errors on a set of ratings of the same shape, as {"rmse": ..., "mae": ...} in rating units.

        Raises
        ------
        ValueError : a set of another shape, or without a rating
        """
        self._check_fitted()
        self._check_shape(ratings)
        if ratings.nnz == 0:
            raise ValueError("there are no ratings to score on")
        arrays = self._learned
        if self.device != "cpu":
            arrays = map(gpu.device(self.device).array, arrays)
        rmse, mae = self._errors(self._placed(ratings))(*arrays)
        return {"rmse": rmse, "mae": mae}

    def predict(self, users, items):
        """Predicted ratings, float32, for positions of users and items (broadcast against each other).

        Raises
        ------
        IndexError : a position outside 0..n-1
        """
        self._check_fitted()
        sides = positions(users, self._shape[0], "user"), positions(items, self._shape[1], "item")
        users, items = map(np.array, np.broadcast_arrays(*sides))  # copies: Numba makes NumPy warn of views of these
        return np.where(self._known(users, items), self._predicted(users, items), np.float32(self.mean))

    @abstractmethod
    def _predicted(self, users, items):
        """Predictions for positions of one shape, as if all were known."""

    def _known(self, users, items, xp=np):
        """Whether the model has learned enough of these positions, arrays of `xp`, to predict more than the mean."""
        return xp.asarray(self._user_known)[users] & xp.asarray(self._item_known)[items]

    def _personalized(self):
        return self._user_known
