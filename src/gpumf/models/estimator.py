"""What all models that learn by themselves share: training with a history, errors, and predictions."""

from __future__ import annotations

import copy
import inspect
import logging
import secrets
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from html import escape
from importlib import import_module
from itertools import repeat
from operator import attrgetter, is_
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from gpumf import backends
from gpumf._util import interrupts
from gpumf._util.busy import check_usable, fitting
from gpumf._util.progress import progress as shown
from gpumf._util.threads import obeys_threads
from gpumf._util.validation import MAX_SEED, array, flag, integer, number
from gpumf.models.checks import DivergedError, NotFittedError, check_finite, check_training, warn_of_clicks
from gpumf.models.early_stopping import Ending
from gpumf.models.finite import FiniteCheck
from gpumf.models.ids import Identified
from gpumf.models.lists import Lists
from gpumf.models.once import Once
from gpumf.models.parameters import Parameters, parameter_names, same
from gpumf.models.recommender import Recommender
from gpumf.models.solver_choice import SolverChoice
from gpumf.models.storage import Stored
from gpumf.models.times import Clock, Times
from gpumf.ratings.checks import check_scale
from gpumf.ratings.convert import ratings_like, ratings_of
from gpumf.ratings.device import DeviceRatings
from gpumf.solvers.base import Hyperparameters, Problem

if TYPE_CHECKING:
    import pandas as pd

    from gpumf.models.early_stopping import Keep, Row
    from gpumf.models.ids import Ids, Unknown
    from gpumf.models.solver_choice import Device
    from gpumf.ratings import Ratings
    from gpumf.ratings.convert import RatingsLike
    from gpumf.solvers.base import Solver

_LOG = logging.getLogger("gpumf")


class Model(Parameters, SolverChoice, Stored, Lists, Recommender, Identified):
    """Trains on ratings, keeps a history, predicts ratings.

    Its parts, the bases, do not inherit from one another; what a part calls of others is a base for type checkers.
    Several threads may use a fitted model at once, but none while another one fits it: as long as `fit` or
    `partial_fit` runs, the methods raise RuntimeError in all other threads. To train anew while others predict, fit a
    new model, and assign it to the name of the old one.

    Subclasses name their solvers in `_solvers`, and in `_arrays` the attributes that hold what is learned, float32:
    first that of the users, then that of the items, row by row.

    Attributes
    ----------
    history : DataFrame with one row an epoch and the columns
        epoch (0 is the initial model), seconds (of training alone, summed up), rmse, mae (of the validation set;
        NaN without one), and the `stop_metric` of lists
    epoch : whose parameters the model has, of the history's
    device : where the solver runs: 'cpu', 'cuda', or 'emulator' for a CUDA kernel on the CPU
    solver : its name. Where none was given, `fit` chooses it by the training set (see `choose`)
    times : `gpumf.models.times.Times` of the newest training: preprocess, transfer, train, compile, end_to_end
    ids, user_ids, item_ids : see `gpumf.models.ids.Identified`

    >>> from gpumf import SGD
    >>> from gpumf.models import Model
    >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
    >>> model = SGD(2, solver="sequential").fit(columns, epochs=2)
    >>> isinstance(model, Model), model.device, list(model.history)
    (True, 'cpu', ['epoch', 'seconds', 'rmse', 'mae'])
    """

    ids: bool = False
    user_ids: np.ndarray | None = None
    item_ids: np.ndarray | None = None
    history: pd.DataFrame
    epoch: int | None
    chunk: int | None = None
    times: Times
    mean: float
    _user_known: np.ndarray
    _arrays: tuple[str, ...]
    _finite: tuple[np.ndarray, ...] = ()  # of what was learned, the arrays that are known to be
    _hyperparameters: ClassVar[type[Hyperparameters]]
    _remedy: str  # what to do where training diverges
    _judged_by: ClassVar[str] = "rmse"  # by `search`, unless told otherwise

    def __init__(self, *, solver: str | None, device: Device, threads: int | None, seed: int | None) -> None:
        self.threads = None if threads is None else integer("threads", threads, 1)
        self.seed = secrets.randbits(64) if seed is None else integer("seed", seed, 0, MAX_SEED)
        self._solver, self.device = self._usable(solver, device)
        self._solver_given, self._default_solver = solver is not None, self._solver
        self._resolved = {"seed": self.seed, "device": self.device}
        self.history = self.epoch = None
        self._state_checked, self._of_items, self._places_of_items = Once(), Once(), Once()
        self._forget_indexes()

    def make_solver(self, train: Ratings, *arrays: np.ndarray, **parts: Any) -> Solver:
        """This model's solver at work on a training set: for what looks at its steps, or times them.

        Parameters
        ----------
        train : Ratings; for a model with biases counted from their mean
        *arrays : what it starts from, float32, in the order in which a model stores it; the initial ones by default
        **parts : of the solver, which its class describes

        Returns
        -------
        gpumf.solvers.base.Solver

        Raises
        ------
        ValueError : arrays of other shapes or dtypes than this model's, or not contiguous in C order, which kernels
            would read past the end of

        >>> from gpumf import ALS
        >>> from gpumf.ratings import Ratings
        >>> ratings = Ratings([0, 1, 1], [0, 0, 1], [4, 3, 5], n_users=2, n_items=2)
        >>> solver = ALS(2, biases=False, solver="sequential").make_solver(ratings)
        >>> solver.solve_users()
        >>> users, items = solver.factors()
        >>> users.shape
        (2, 2)
        """
        if self.history is None:
            self._check_parameters()
        else:
            self._check_fitted()
        if arrays:
            found = [np.shape(one) for one in arrays]
            shapes = self._shapes(train.n_users, train.n_items, found)
            if found != list(shapes):
                raise ValueError(f"the arrays to start from have the shapes {found}, not {list(shapes)}")
            for name, one, shape in zip(self._arrays, arrays, shapes, strict=True):
                if train.device is None or isinstance(one, np.ndarray):  # others are checked at each launch
                    array(name, one, np.float32, shape)
        return self.solver_class(self._problem(train, arrays or self._initial(train)), **parts)

    @property
    def hyperparameters(self) -> Hyperparameters:
        """What a solver is told of this model, as it is now.

        >>> from gpumf import ALS
        >>> ALS(2, device="cpu").hyperparameters.columns
        2
        """
        return self._hyper()

    def _hyper(self, **given):
        return self._hyperparameters.of(self, **given)

    @property
    def _there(self):
        """The device of `gpumf.backends` on which the model works; None for the CPU."""
        return None if self.device == "cpu" else backends.device(self.device)

    def _problem(self, train, arrays):
        """What a solver works on: arrays to start from are taken to where the ratings are."""
        start = map(train.device.array, arrays) if train.device else arrays
        return Problem(self.hyperparameters, train, tuple(start))

    def _assigned(self):
        assigned = super()._assigned()
        assigned.pop("solver", None)  # which `fit` chooses where none was given
        if self._solver_given and (self._solver is None or not same(self._solver, self._given.get("solver"))):
            assigned["solver"] = self._solver
        return assigned

    def _renew(self):
        default, chosen = self._default_solver, self._solver
        super()._renew()
        if not self._solver_given and self._default_solver == default and chosen is not None:
            self._solver = chosen

    @property
    def _learned(self):
        """The arrays named in `_arrays`."""
        return tuple(getattr(self, name) for name in self._arrays)

    def _set_learned(self, arrays):
        self._finite = arrays = tuple(arrays)
        vars(self).update(zip(self._arrays, arrays, strict=True))

    def _check_fitted(self):
        check_usable(self)
        state, checked = self._state(), self._state_checked
        # The arrays' shapes too: these can be assigned in place.
        if state and checked.was_of(state) and checked(None, *state) == [one.shape for one in self._learned]:
            return
        learned = [vars(self).get(name) for name in self._arrays]
        if self.history is None or learned[0] is None:
            raise NotFittedError(f"this {type(self).__name__} has not been fitted; call fit() first")
        self._check_parameters()
        self._check_facts()
        shapes = self._shapes(len(self._user_known), len(self._item_counts), [np.shape(one) for one in learned])
        try:
            for name, one, shape in zip(self._arrays, learned, shapes, strict=True):
                array(name, one, np.float32, shape)
        except ValueError as error:
            raise ValueError(f"{error}: attributes were assigned since fit() that do not go together") from error
        if not all(map(is_, learned, self._finite)):
            for name, one in zip(self._arrays, learned, strict=True):
                if not np.isfinite(one).all():
                    raise ValueError(f"{name} has numbers that are not finite")
            self._finite = tuple(learned)
        self._is_checked()

    def _is_checked(self):
        """Have `_check_fitted` look again only when something is assigned after this."""
        self._state_checked(lambda: [one.shape for one in self._learned], *self._state())

    def _state(self):
        """What `_check_fitted` looks at, or nothing where some of it is missing."""
        try:
            return _getter(type(self))(self)
        except AttributeError:
            return ()

    def _check_facts(self):
        """Raise ValueError where what `fit` leaves beside the arrays was assigned what it cannot be."""
        import pandas as pd

        self.mean = number("mean", self.mean, least=-np.inf)
        self.scale = _plain(self.scale)
        columns = {"epoch", "seconds", "rmse", "mae"}
        if not isinstance(self.history, pd.DataFrame) or not columns <= {*self.history} or self.history.empty:
            raise ValueError(f"history must be a DataFrame with the columns {sorted(columns)} and a row an epoch")
        self.epoch, self.ids = integer("epoch", self.epoch, 0), flag("ids", self.ids)
        if not isinstance(self.times, Times):
            raise ValueError(f"times must be Times, not {type(self.times).__name__}")
        for side, count in (("user", len(self._user_known)), ("item", len(self._item_counts))):
            ids = getattr(self, f"{side}_ids")
            if ids is not None and not (isinstance(ids, np.ndarray) and ids.shape == (count,)):
                raise ValueError(f"{side}_ids must be None, or an array ({count},)")

    @property
    def _shape(self):
        """(users, items) that the model was trained on."""
        return tuple(map(len, self._learned[:2]))

    # Training

    @abstractmethod
    def _initial(self, train):
        """The arrays before the first epoch, float32."""

    @obeys_threads
    def fit(
        self,
        train: RatingsLike,
        epochs: int = 20,
        validation: RatingsLike | None = None,
        *,
        keep: Keep = "last",
        stop: Callable[[Row], Any] | None = None,
        patience: int | None = None,
        stop_metric: str = "rmse",
        callbacks: Iterable[Callable[[Model, Row], Any]] = (),
        warm_start: bool = False,
        progress: bool = False,
        ids: bool | None = None,
    ) -> Self:
        """Train on a set of ratings.

        Interrupting (KeyboardInterrupt) leaves a usable model with the epochs done so far; continue it with
        `warm_start=True`. Whatever else goes wrong leaves the model as it was before, but for divergence: after each
        epoch all that was learned, and the validation error, has to be finite. Otherwise DivergedError, and the model
        keeps the factors and the history of the last epoch that was. That costs a pass over the factors and a copy of
        them, where they are, an epoch; neither is in `history.seconds`. The logger "gpumf" tells of each epoch at the
        level INFO.

        No other thread may use the model until `fit` returns (RuntimeError). Callbacks get copies, which any thread
        may use.

        Parameters
        ----------
        train : Ratings, on the host or, `gpumf.ratings.DeviceRatings`, on a device; or what they are made of, a data
            frame, a sparse matrix, columns: see `gpumf.ratings.convert.ratings_of`. Arrays of the types that
            `Ratings` keeps are not copied: do not change them later
        epochs : int from 0, how many to add
        validation : Ratings of the same shape, whose errors the history records after each epoch
        keep : 'last', the model is that of the last epoch; 'best', of the one with the best `stop_metric` on the
            validation set, the initial model among them. The history has every epoch either way, and `epoch` says
            which it is
        stop : function of the newest history row (a dict); true ends the training early
        patience : int, end it after so many epochs without a better `stop_metric`; goes with keep='best'. The first
            epoch counts as better; with `warm_start`, if it is better than the model from which training goes on
        stop_metric : 'rmse' or 'mae', or of lists 'ndcg@10', 'map@10', 'precision@10', 'recall@10', with any length,
            as of `evaluate_ranking` on the validation set; a column of the history then, whose time is not in
            `history.seconds`
        callbacks : functions of (model, row), called after every epoch: a copy of the model as of this epoch, whose
            `predict`, `evaluate_ranking`, `recommend` and `save` work, and its history row as a dict
        warm_start : bool, go on from what this model has learned, and its history, instead of from the start; after
            keep='best' from what was kept
        progress : bool, show a bar
        ids : whether the model's methods take and give ids, see `gpumf.models.ids.Identified`; by default as the
            training data do: True after a data frame or columns, False after `Ratings` or a matrix

        Returns
        -------
        self

        Raises
        ------
        TypeError : data that are not `Ratings`
        ValueError : ratings that are not finite, an empty set, a validation set of another shape, epochs below 0, no
            validation set to keep the best by
        RuntimeError : another thread fits the model
        NotFittedError : warm_start without a training before
        DivergedError : an epoch ended with something that is not finite
        gpumf.backends.DeviceError : the device cannot do it

        >>> import numpy as np
        >>> from gpumf import ALS
        >>> from gpumf.ratings import Ratings
        >>> k = np.arange(100)
        >>> ratings = Ratings(k // 5, k * 3 % 10, k % 5 + 1, n_users=20, n_items=10)
        >>> train, test = ratings.split(test=0.2, seed=0)
        >>> model = ALS(2, device="cpu").fit(train, epochs=4, validation=test, keep="best")
        >>> bool(model.epoch == model.history.rmse.idxmin())
        True
        >>> model.fit(train, epochs=2, warm_start=True).history.epoch.tolist()[-2:]
        [5, 6]
        """
        with self._as_before_if_it_fails():
            self._check_parameters()
            epochs, progress = integer("epochs", epochs, 0), flag("progress", progress)
            named, train, validation = self._sets(train, validation, flag("warm_start", warm_start))
            given = train
            if self._judged_by == "rmse":
                warn_of_clicks(type(self).__name__, train)
            ending = Ending(stop, patience, callbacks, keep, stop_metric)
            if validation is None and (keep == "best" or ending.judges_lists):
                needs = "keep='best'" if keep == "best" else f"stop_metric={stop_metric!r}"
                raise ValueError(f"{needs} needs a validation set")
            clock, train, validation = self._taken(train, validation)
            if warm_start:
                self._check_warm(train)
                known, rows = (self._user_known, self._item_known), self.history.to_dict("records")
                self._go_on_with(train)
                arrays = self._continued(train, *known)
            else:
                if epochs:
                    self._find_defaults(given)
                self._set_training(train)
                arrays, rows = self._initial(train), []
            self._training, self._seen_rows = given, None
            self.ids = (named or (warm_start and self.ids)) if ids is None else flag("ids", ids)
            self._keep_orders(self._train(clock, train, arrays, rows, epochs, validation, ending, progress))
        return self

    @classmethod
    def _epochs_or_default(cls, epochs: int | None) -> int:
        """The epochs that are given, or those that `fit` takes by default."""
        return inspect.signature(cls.fit).parameters["epochs"].default if epochs is None else epochs

    def _chooses(self, train: Ratings) -> bool:
        """Whether `_find_defaults` holds ratings out."""
        return False

    def _find_defaults(self, train: Ratings) -> None:
        """Find what parameters leave to the ratings, before a training from the start."""

    def _sets(
        self, train: RatingsLike, validation: RatingsLike | None, known: bool
    ) -> tuple[bool, Ratings, Ratings | None]:
        """(named, train, validation): whether data name ids, and `Ratings`, in known positions where there are."""
        train, named = ratings_of(train, "train")
        if known:
            self._check_fitted()
            train = ratings_like(train, "train", self.user_ids, self.item_ids, self._shape, named)
        if validation is not None:
            facts = train.user_ids, train.item_ids, (train.n_users, train.n_items)
            validation = ratings_like(validation, "validation", *facts)
        return named, train, validation

    def _taken(self, train: Ratings, validation: Ratings | None) -> tuple[Clock, Ratings, Ratings | None]:
        """(clock, train, validation): a clock that runs, now for preprocessing, and the checked sets."""
        there = self._there
        clock = Clock(there)
        check_training(train, validation)
        if not self._solver_given and (chosen := self.choose(train)) != self._solver:
            self._solver = chosen
            self._parameters_are_right()  # they were, and nobody assigned this one
        if there:
            there.compile_ahead(self._sources(train, validation is not None))
            # For the history. Its import takes half a second, in which this thread waits for compilers anyway.
            Thread(target=import_module, args=["pandas"], daemon=True).start()
        clock.spent_on("transfer")
        train = self._placed(train, self.solver_class.orders)
        validation = validation and self._placed(validation)
        clock.spent_on("preprocess")
        check_finite(train, validation)
        return clock, train, validation

    def _sources(self, train, validates):
        """What a training on a device and the first list compile: (source, definitions), what takes longest first.

        validates : whether there is a validation set
        """
        return []

    def _placed(self, ratings, orders=()):
        """The ratings where the solver takes them from: on the device, or on the host where they do not fit it.

        orders : what it takes them in, to be begun at once where that is possible
        """
        there = self._there
        on_device = there and self._takes_from_device()
        placed = DeviceRatings._where_they_fit(ratings, there, orders) if on_device else ratings.on_host()
        if placed is ratings:  # the constructor checks a copy
            ratings._check_columns()
        return placed

    def _takes_from_device(self):
        """Whether the ratings are to be on the device before the solver orders them."""
        return self.solver_class.from_device and self.chunk is None

    @contextmanager
    def _as_before_if_it_fails(self):
        """Take all changes of the model back where the body raises before it has kept what it learned.

        No other thread may use the model meanwhile.
        """
        with fitting(self):
            before = vars(self).copy()
            try:
                yield
            except BaseException:
                if self.history is before["history"]:
                    vars(self).clear()
                    vars(self).update(before)
                raise

    @obeys_threads
    def score(self, ratings: RatingsLike, *, unknown: Unknown = "error") -> dict[str, float]:
        """Errors on a set of ratings of the same shape, as {"rmse": ..., "mae": ...} in rating units.

        Parameters
        ----------
        ratings : Ratings, or what `fit` makes them of
        unknown : 'error', raise where an id is not of the training set, and count the mean as predicted for who has
            no training ratings (see the class); 'skip', leave all ratings of these users and items out

        Raises
        ------
        ValueError : a set of another shape, or without a rating that counts; another `unknown`

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> model = ALS(2, device="cpu").fit(columns, epochs=3)
        >>> list(model.score((["ann", "eve"], ["up", "alien"], [3, 4])))
        ['rmse', 'mae']
        """
        self._check_fitted()
        ratings = self._like(ratings, "the set", unknown, skips=True)
        self._check_shape(ratings)
        if unknown == "skip":
            xp = ratings.xp
            known = xp.asarray(self._user_known)[ratings.users] & xp.asarray(self._item_known)[ratings.items]
            ratings = ratings.select(known)
        if ratings.nnz == 0:
            raise ValueError("there are no ratings to score on")
        rmse, mae = self._errors(self._placed(ratings))(*self._to_score())
        return {"rmse": rmse, "mae": mae}

    def _to_score(self):
        """What `_errors` is given: what was learned, where the model's errors are computed."""
        return map(self._there.array, self._learned) if self._there else self._learned

    @obeys_threads
    def predict(self, users: Ids, items: Ids, *, ids: bool | None = None) -> np.ndarray:
        """Predicted ratings, float32, for users and items (broadcast against each other).

        Parameters
        ----------
        users, items : ids or positions, one or an array
        ids : whether they are ids; by default as of the training data, see `gpumf.models.ids.Identified`

        Raises
        ------
        KeyError : an id that was not in the training set
        IndexError : a position outside 0..n-1
        ValueError : users and items of shapes that do not go together

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> model = ALS(2, device="cpu").fit(columns, epochs=3)
        >>> model.predict("ann", ["alien", "heat", "up"]).shape
        (3,)
        >>> model.predict(3, 0, ids=False)
        Traceback (most recent call last):
            ...
        IndexError: user positions must lie in 0..2
        """
        self._check_fitted()
        sides = self._positions(users, "user", ids), self._positions(items, "item", ids)
        return self._predict_at(*sides)

    def _scores_at(self, users, items):
        users, items = broadcast(users, items)
        of_users, of_items = self._known_sides()
        found = np.where(of_users[users] & of_items[items], self._predicted(users, items), np.float32(self.mean))
        return found[()]  # a number of one pair, with which the clip to the scale would end, too

    @abstractmethod
    def _predicted(self, users, items):
        """Predictions for positions of one shape, as if all were known and nothing clipped."""

    @abstractmethod
    def _errors(self, ratings):
        """A function of the model's arrays, where they are, that gives (rmse, mae) on these ratings."""

    @property
    def _item_known(self):
        return self._of_items(lambda: self._item_counts > 0, self._item_counts)

    @property
    def _item_places(self):
        return self._places_of_items(lambda: np.arange(self._shape[1]), self._item_counts)

    def _known_sides(self):
        """(users, items), bool (n_users,) and (n_items,): of whom enough is learned to predict more than the mean."""
        return self._user_known, self._item_known

    def _personalized(self):
        return self._user_known

    def _with_users(self, users, named):
        folded = copy.copy(self)
        folded._forget_copies()
        folded._forget_indexes()
        folded._user_known, folded._training, folded._seen_rows = users.user_counts > 0, users, None
        folded._knows_training = False
        folded.user_ids = users.user_ids if named else None
        rows = self._fold(users)
        folded._set_learned((rows, *self._learned[1:]))
        folded._state_checked = Once()
        folded._is_checked()
        return folded

    @abstractmethod
    def _fold(self, ratings):
        """The first of the arrays of `_arrays`, float32 (n, ..) on the host, of the users of `Ratings` there."""

    def _forget_copies(self):
        """Drop what belongs to other users, in a copy of the model."""

    def __getstate__(self):
        check_usable(self)
        return super().__getstate__()

    def __sklearn_is_fitted__(self):
        return self.history is not None

    def __sklearn_tags__(self):
        from sklearn.utils import RegressorTags, Tags, TargetTags

        return Tags("regressor", TargetTags(required=False), regressor_tags=RegressorTags())

    def _repr_html_(self):
        facts = {"parameters": repr(self), "solver": self.solver, "device": self.device}
        if self.history is not None:
            users, items = self._shape
            facts |= {"users": f"{users:,}", "items": f"{items:,}", "epochs": self.epoch}
            error = self.history.rmse.iloc[-1]
            facts |= {} if np.isnan(error) else {"last RMSE": f"{error:.4g}"}
        rows = (f"<tr><th>{escape(name)}</th><td>{escape(str(fact))}</td></tr>" for name, fact in facts.items())
        return f"<table><caption>{escape(type(self).__name__)}</caption>{''.join(rows)}</table>"

    def _check_warm(self, train):
        """Raise where training cannot go on with this set."""
        self._check_fitted()
        if self._shape != (train.n_users, train.n_items):
            raise ValueError("warm_start needs ratings of the same users and items as before")

    def _continued(self, train, users_known, items_known):
        """The arrays to go on from, after `_set_training`, given who was known before it."""
        return self._learned

    def _train(self, clock, train, arrays, rows, epochs, validation, ending, progress):
        """Train from these arrays, with this history so far, and keep what is learned; the ratings as trained on."""
        name, solver_class = self._solver, self.solver_class
        clock.spent_on("compile")
        errors, finite = self._watch(validation, rows)
        clock.spent_on("preprocess")
        train = self._as_trained(train)
        problem = self._problem(train, arrays)
        solver_class.compile(problem.hyperparameters)
        solver = solver_class(problem)
        del problem  # what the solver does not keep of it takes memory
        solver.synchronize()
        clock.spent_on()

        def done(rows, epoch, seconds, best):
            """Copies of what is learned by now, the history, and what of it is best, on the host, with its row."""
            own = solver.arrays()
            learned = self._whole(own, arrays)
            copies = finite.copies(learned, fresh={*map(id, learned)}.isdisjoint(map(id, own)))
            rmse, mae = errors(*learned) if errors and copies is not None else (np.nan, np.nan)
            if copies is None or (errors and not np.isfinite(rmse)):
                raise DivergedError(epoch, self._remedy)
            row = {"epoch": epoch, "seconds": seconds, "rmse": rmse, "mae": mae}
            if ending.judges_lists:
                row |= measured(copies, [*rows, row])
            if ending.keep == "best" and (best is None or ending.quality(row) > ending.quality(best[1])):
                best = self._apart(copies), row
            _LOG.info("%s, %s: %s", type(self).__name__, name, row)
            return copies, [*rows, row], best

        def measured(copies, rows):
            with clock.spent_on("compile"):
                return ending.measured(self._as_of(copies, rows, clock).evaluate_ranking, validation)

        # One assignment an epoch: whenever an interrupt comes, factors and history belong together.
        if rows:
            learned = self._whole(solver.arrays(), arrays)
            newest = finite.copies(learned), rows, None
            if newest[0] is None:
                raise ValueError("warm_start needs what was learned before, which has numbers that are not finite")
            if ending.keep == "best":
                rmse, mae = errors(*learned)  # on this validation set
                of_them = {"epoch": self.epoch, "rmse": rmse, "mae": mae}
                of_them |= measured(newest[0], rows) if ending.judges_lists else {}
                newest = newest[0], rows, (self._apart(newest[0]), of_them)
                ending.begins_with(of_them)
        else:
            newest = done(rows, 0, 0.0, None)
        first = newest[1][-1]["epoch"]
        room = None if ending.keep == "best" else self._room(newest[0])
        try:
            for epoch in shown(range(first, first + epochs), progress, desc=name, unit="epoch"):
                _, rows, best = newest
                started = time.perf_counter()
                with interrupts.translated():
                    self._epoch(solver, epoch, rows)
                    solver.synchronize()
                seconds = time.perf_counter() - started
                clock.add("train", seconds)
                newest = done(rows, epoch + 1, rows[-1]["seconds"] + seconds, best)
                if ending.callbacks:
                    told = self._as_of(*newest[:2], clock)
                    for callback in ending.callbacks:
                        callback(told, dict(newest[1][-1]))
                    del told  # it takes memory while the next one is made
                if ending.over(newest[1][-1]):
                    break
        except (KeyboardInterrupt, DivergedError):
            self._finish(clock, *newest, room)
            raise
        self._finish(clock, *newest, room)
        return train

    def _watch(self, validation, rows):
        """(errors, finite) of a training after these rows of history.

        errors : a function of what is learned by now that gives (rmse, mae) on the validation set, or None
        finite : a `FiniteCheck`, which is asked before `errors`
        """
        return self._errors(validation) if validation else None, FiniteCheck(self.device)

    def _learns(self, arrays, epoch):
        """Keep what was trained up to this epoch by other means than `fit`, on the set of `_set_training`."""
        self.ids = False
        self._finish(Clock(None), arrays, [{"epoch": epoch, "seconds": 0.0, "rmse": np.nan, "mae": np.nan}], None)

    def _as_of(self, copies, rows, clock):
        """A copy of this model with what is learned by now, for whom training tells of it."""
        import pandas as pd

        told = copy.copy(self)
        told._forget_copies()
        told._set_learned(self._apart(copies))
        told.history, told.times = pd.DataFrame(rows), replace(clock.times)
        told.epoch = rows[-1]["epoch"] if rows else 0
        return told

    def _keep_orders(self, train):
        """Keep of a training set, as it was trained on, what the first list of recommendations would make again."""

    @interrupts.deferred()  # else a model could be half another one
    def _finish(self, clock, arrays, rows, best, room=None):
        """Keep what is learned; on a device, in the arrays of its `room`, if one was made."""
        import pandas as pd

        clock.spent_on("transfer")
        self._set_learned(best[0] if best else self._to_host(arrays, room))
        clock.spent_on()
        self.epoch = (best[1] if best else rows[-1])["epoch"]
        history = pd.DataFrame(rows)
        self.times, self.history = clock.stop(), history

    def _epoch(self, solver, number, rows):
        """Start epoch `number` after these rows of history."""
        solver.epoch(number)

    def _as_trained(self, ratings):
        """The ratings as the solver wants them."""
        return ratings

    def _whole(self, arrays, start):
        """What a model keeps of a solver's arrays that began with `start`, where they are."""
        return arrays

    def _room(self, arrays):
        """What `_to_host` is given for arrays of these shapes, asked for some time before."""
        there = self._there
        return there and there.room(arrays)

    def _to_host(self, arrays, room=None):
        there = self._there
        if not there:
            return arrays
        here = room() if room else repeat(None)
        return tuple([there.to_numpy(one, out=out) for one, out in zip(arrays, here, strict=False)])

    def _apart(self, copies):
        """On the host, where later epochs' copies do not overwrite them."""
        return self._to_host(copies) if self._there else tuple(map(np.array, copies))

    def _set_training(self, train):
        self.mean = train.mean
        self.scale = None if train.scale is None else tuple(np.asarray(train.scale).tolist())
        self._user_known, self._item_counts = train.user_counts > 0, train.item_counts.copy()
        self._training, self._knows_training = train, True
        self._keep_ids(train)

    def _go_on_with(self, train):
        """`_set_training` of a fitted model, which keeps its ids where the ratings only count positions."""
        ids = self.user_ids, self.item_ids
        self._set_training(train)
        self._keep_ids(train, *ids)


def check_model(model: Any, example: str) -> None:
    """Raise TypeError unless it is a model of this package, not its class; messages name the example."""
    if isinstance(model, type) and issubclass(model, Model):
        raise TypeError(f"model must be an instance, as {model.__name__}(), not the class")
    if not isinstance(model, Model):
        raise TypeError(f"model must be one of gpumf, as {example}, not {type(model).__name__}")


def broadcast(users, items):
    """Copies of positions of one shape, as Numba makes NumPy warn of views; ValueError where they have none."""
    try:
        return tuple(map(np.array, np.broadcast_arrays(users, items)))
    except ValueError as error:
        shapes = f"users {np.shape(users)} and items {np.shape(items)}"
        raise ValueError(f"{shapes} do not broadcast against each other; give as many") from error


@cache
def _getter(cls):
    facts = "mean", "scale", "history", "epoch", "times", "user_ids", "item_ids", "ids", "_user_known", "_item_counts"
    return attrgetter(*parameter_names(cls), *facts, *cls._arrays)


def _plain(scale):
    """A scale as a tuple of Python's numbers, which a file can hold, or None; DataError where it is none."""
    check_scale(scale, "the model")
    if scale is None or (type(scale) is tuple and {*map(type, scale)} <= {int, float}):
        return scale
    return tuple(np.asarray(scale).tolist())
