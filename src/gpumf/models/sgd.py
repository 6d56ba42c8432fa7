"""Stochastic gradient descent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from gpumf._util.threads import obeys_threads
from gpumf._util.validation import brief, choice, flag, integer, number
from gpumf.models.als import ALS, DAMPED
from gpumf.models.checks import DivergedError
from gpumf.models.early_stopping import Ending
from gpumf.models.estimator import Model
from gpumf.models.factorization import Factorization, of_rated_items, solved_users
from gpumf.models.initial import normal_factors, with_bias_columns
from gpumf.models.partial_fit import renewed, seen_with
from gpumf.ratings.damped import mean_roots
from gpumf.solvers import schedules
from gpumf.solvers.sgd_base import REGULARIZATIONS, SMALL, Parallel, Sequential, SGDHyperparameters
from gpumf.solvers.sgd_blocks import GpuSgd, NewGpuSgd
from gpumf.solvers.sgd_bsgd import Bsgd
from gpumf.solvers.sgd_cu2rec import Cu2rec
from gpumf.solvers.sgd_cumf import CumfSgd
from gpumf.solvers.sgd_esgd import Esgd
from gpumf.solvers.sgd_fast import Fast
from gpumf.solvers.sgd_hogwild import Hogwild
from gpumf.solvers.sgd_kato_hosino import KatoHosino
from gpumf.solvers.sgd_ordered import Ordered, OrderedParallel, row_rates

if TYPE_CHECKING:
    from gpumf.models.solver_choice import Device
    from gpumf.ratings import Ratings
    from gpumf.ratings.convert import RatingsLike
    from gpumf.solvers.options import Option

_BIAS_KINDS = {False: 0, True: 1, "baseline": 2, "damped": 0}  # BIASES of kernels/common/sgd.cuh
_MIN_RIDGE = 1e-6  # with which users of few ratings can be solved for
_CONSTANT = schedules.Constant()
_PER_RATING = 0.1  # lambda without damped biases
_STRENGTH, _MORE, _POWER = 0.8, 2.0, 0.5  # of lambda with them, see `_ridges_of`
_LENGTH = 0.4  # that an initial vector of factors has on average, with damped biases
_ROW_RATE, _RATE = 0.3, 0.02  # learning rates with rates of rows, and with one for all
_LARGE = 10  # times the first of them, from where `_check_rate` looks at a learning rate
# `fast` is the faster one from so many groups, or threads in them, in flight; `kato_hosino` on smaller sets. Recorded
# by the experiment sgd_choice.
_MIN_GROUPS, _MIN_THREADS = 512, 4096


class SGD(Factorization, Model):
    """Stochastic gradient descent, for predicting ratings. Needs no tuning, whatever the scale and number of ratings.

    Damped biases of users and items come first, `Ratings.damped`; the factors learn what these leave, in units of its
    root mean square, on

        sum (z_ui - p_u . q_i)^2 / 2 + sum lambda_u |p_u|^2 / 2 + sum lambda_i |q_i|^2 / 2.

    The noise that the factors of a row with n ratings take up grows with sqrt(n), and so does its lambda. That is
    `regularization` times what the numbers of ratings ask for; 2 is twice as strong as 1, the default. Tuning it
    gains less than 1 % on the study's data sets. Before each epoch the factors shrink by exp(-rate lambda), which
    follows the gradient of the other terms. With `ordered`, `ordered_parallel`, `kato_hosino` and `fast` each row has
    a rate of its own, see `gpumf.solvers.sgd_ordered.row_rates`.

    As the publications have it, on ratings as they are, with the lengths of both factors for each rating and lambda =
    `regularization`: biases=False, or True, which are learned, as two more columns of the factors.

    The default solvers of the CPU, `ordered_parallel`, and of a GPU for few ratings, `kato_hosino`, give the same
    factors for the same seed, bit for bit. With `fast`, the default of a GPU for many, two runs of a seed differ
    slightly, as with `parallel`: they update in parallel without locks (Recht et al. 2011). For top-N lists
    take `ImplicitALS`.

    An epoch is nnz updates: `sequential`, `parallel` and `hogwild` draw ratings with replacement (thesis, sections
    2.3.2 and 4.1, Algorithm 4.1), `cu2rec` one of each user's at a time, the others take every rating once.

    Parameters
    ----------
    factors : int, 1 to 300
    regularization : >= 0 of the users, and of the items and biases too unless those are given; by default 1 with
        damped biases, else 0.1
    learning_rate : mu > 0, by default 0.3 with damped biases and rates of rows, else 0.02
    item_regularization, bias_regularization : >= 0, of the items, and of biases that are learned
    item_bias_regularization : >= 0, of the items' biases where it is not that of the users'
    biases : 'damped', fixed before the factors are learned; True, learned from zero; 'baseline', baseline predictors
        that stay as they are (esgd, section 4); False
    init : without biases, 'mean' for initial inner products near the mean rating, or 'unit' for factors of [0, 1)
    init_std : standard deviation of the initial factors of a model with biases; by default 0.4 / sqrt(factors) with
        damped biases, else 0.1, with which predictions for who has few ratings keep noise that grows with the number
        of factors. Without effect on `esgd` and `cu2rec`, where they have initial factors of their own
    clip : bool, clip predictions to the rating scale, and errors with them, see `Factorization`; by default they are
    schedule : how the learning rate changes from epoch to epoch, of `gpumf.solvers.schedules`
    solver : a name of `SGD.solvers()`; by default that expected to be the fastest for the device and the
        training set, see `choose`
    device : 'auto' (CUDA where there is one), 'cuda', 'cpu', or 'emulator' (the CUDA kernel on the CPU,
        checked)
    threads : on the CPU, the most threads on which the model's methods run, all threads by default, see
        `gpumf._util.threads`. On a GPU, number of CUDA threads of the grid, where the solver leaves it open; it goes
        with a named solver. By default as many as `safe_updates` lets be in flight: with more, updates of popular
        vectors overwrite each other and an epoch learns less.
    chunk : most ratings on the device at a time; by default all that fit. With less than all, the next ones are
        copied while these are worked on, with the same result. Not for `hogwild` and `cu2rec`, which draw from all,
        nor on the CPU.
    seed : int, None draws one, of the initial factors, of the draws and of every shuffled order
    **options : parameters of the solver; `SGD.options_of(solver)` has their defaults and bounds, the module of the
        solver in `gpumf.solvers` says what they mean. They go with a named solver

    Raises
    ------
    ValueError : a parameter out of range, a solver that does not fit the device
    TypeError : an option that the solver has not; an option, or on a GPU threads, without a solver
    gpumf.backends.DeviceError : device='cuda' or 'emulator' where there is none

    >>> from gpumf import SGD
    >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
    >>> model = SGD(2, learning_rate=0.05, solver="sequential").fit(columns, epochs=5)
    >>> model.user_factors.shape, model.history.epoch.tolist()
    ((3, 4), [0, 1, 2, 3, 4, 5])
    """

    _hyperparameters = SGDHyperparameters
    _ridges: tuple[float, float, float] | None = None  # see `_ridges_of`
    _solvers: ClassVar = {
        "sequential": Sequential,
        "ordered": Ordered,
        "parallel": Parallel,
        "ordered_parallel": OrderedParallel,
        "kato_hosino": KatoHosino,
        "gpusgd": GpuSgd,
        "newgpusgd": NewGpuSgd,
        "bsgd": Bsgd,
        "esgd": Esgd,
        "cu2rec": Cu2rec,
        "hogwild": Hogwild,
        "cumf_sgd": CumfSgd,
        "fast": Fast,
    }

    def __init__(
        self,
        factors: int = 64,
        regularization: float | None = None,
        *,
        learning_rate: float | None = None,
        item_regularization: float | None = None,
        bias_regularization: float | None = None,
        item_bias_regularization: float | None = None,
        biases: bool | Literal["damped", "baseline"] = "damped",
        init: Literal["mean", "unit"] = "mean",
        init_std: float | None = None,
        clip: bool = True,
        schedule: schedules.Schedule | dict[str, Any] = _CONSTANT,
        solver: str | None = None,
        device: Device = "auto",
        threads: int | None = None,
        chunk: int | None = None,
        seed: int | None = 0,
        **options: Any,
    ) -> None:
        if not isinstance(biases, bool | str) or biases not in _BIAS_KINDS:
            raise ValueError(f"biases must be 'damped', True, False or 'baseline', not {brief(biases)}")
        self.biases, self._options_given = biases, options
        if regularization is None:
            regularization = DAMPED if self._damped else _PER_RATING
        super().__init__(factors, regularization, solver=solver, device=device, threads=threads, seed=seed, clip=clip)
        if solver is None and (options or (threads is not None and self.device != "cpu")):
            if unknown := sorted({*options}.difference(*(one.options for one in self._solvers.values()))):
                raise TypeError(f"SGD has no parameter {unknown[0]!r}, nor has any of its solvers")
            alone = sorted(options) or ["threads"]
            raise TypeError(
                f"{', '.join(alone)}: for one solver alone; name it with solver=, one of {list(self._solvers)}"
            )
        self.chunk = None if chunk is None else integer("chunk", chunk, 1, 2**63 - 1)
        if chunk is not None and not self._solvers[self.solver].streams:
            raise ValueError(f"the solver {self.solver!r} takes from all ratings at any time; it takes no chunk")
        if learning_rate is None:
            of_rows = self._damped and "row_rates" in self._solvers[self.solver].options
            learning_rate = _ROW_RATE if of_rows else _RATE
        self.learning_rate = number("learning_rate", learning_rate, above=0)

        def least(name: str, value: float | None, default: float) -> float:
            return default if value is None else number(name, value, least=0)

        self.item_regularization = least("item_regularization", item_regularization, self.regularization)
        self.bias_regularization = least("bias_regularization", bias_regularization, self.regularization)
        self.item_bias_regularization = least(
            "item_bias_regularization", item_bias_regularization, self.bias_regularization
        )
        self.init = choice("init", init, "mean", "unit")
        self.init_std = None if init_std is None else number("init_std", init_std, above=0)
        self.schedule = schedules.from_dict(schedule)
        _ = self.options  # raises where they are wrong

    @property
    def bias_kind(self) -> int:
        """What kernels call `biases`: BIASES of kernels/common/sgd.cuh.

        >>> from gpumf import SGD
        >>> [SGD(2, biases=biases).bias_kind for biases in (False, True, "baseline")]
        [0, 1, 2]
        """
        return _BIAS_KINDS[self.biases]

    @property
    def options(self) -> dict[str, Any]:
        """The values of the solver's options: those given, and the defaults of the others.

        >>> from gpumf import SGD
        >>> SGD(2, solver="ordered").options
        {'side': 8, 'row_rates': True}
        """
        given, solver = self._options_given, self._solvers[self.solver]
        if self._damped and "row_rates" in solver.options:
            given = {"row_rates": True} | given
        return solver.chosen(self._hyper(options={}), given)

    def _hyper(self, **given):
        if self._damped:  # whose factors shrink between epochs, see `_epoch`
            given |= dict.fromkeys(REGULARIZATIONS, 0.0)
        return super()._hyper(**given)

    def choose(self, train: Ratings) -> str:
        """The fastest solver for the device and a training set: on a GPU by how many groups `fast` keeps busy.

        >>> from gpumf import SGD
        >>> from gpumf.ratings import Ratings
        >>> ratings = Ratings([0, 1, 1], [0, 0, 1], [4, 3, 5], n_users=2, n_items=2)
        >>> SGD(2, device="cpu").choose(ratings)
        'ordered_parallel'
        """
        if self.device == "cpu":
            return super().choose(train)
        groups = Fast.in_flight(max(train.n_users, train.n_items), min(train.n_users, train.n_items))
        many = groups >= _MIN_GROUPS or groups * Fast.geometry(self.hyperparameters).quad_lanes >= _MIN_THREADS
        return "fast" if many else "kato_hosino"

    @classmethod
    def options_of(cls, solver: str) -> dict[str, Option]:
        """The options of a solver: a dict name -> `gpumf.solvers.options.Option`.

        >>> from gpumf import SGD
        >>> list(SGD.options_of("cumf_sgd"))
        ['update', 'run', 'side']
        """
        return dict(cls._solvers[solver].options)

    @classmethod
    def from_model(cls, model: Factorization, **parameters: Any) -> Self:
        """SGD that goes on from another fitted model, such as ALS (cumf, section 7); its `partial_fit` adds ratings.

        Parameters
        ----------
        model : fitted Factorization
        **parameters : of the constructor, but factors; biases are those of the model

        Returns
        -------
        SGD, fitted, with the model's factors and history

        >>> from gpumf import ALS, SGD
        >>> from gpumf.ratings import Ratings
        >>> ratings = Ratings([0, 1, 1], [0, 0, 1], [4, 3, 5], n_users=2, n_items=2)
        >>> als = ALS(2, device="cpu").fit(ratings, epochs=3)
        >>> model = SGD.from_model(als, solver="sequential")
        >>> model.partial_fit(ratings).history.epoch.tolist()
        [0, 1, 2, 3, 4]
        """
        if not isinstance(model, Factorization):
            raise TypeError(f"SGD goes on from ALS, ImplicitALS or SGD, not {type(model).__name__}")
        model._check_fitted()
        result = cls(model.factors, **{"biases": model.biases} | parameters)
        if result.columns != model.columns:
            raise ValueError("a model with biases goes on from one with biases, and one without from one without")
        result._set_learned((model.user_factors.copy(), model.item_factors.copy()))
        result._user_known, result._item_counts = model._user_known.copy(), model._item_counts.copy()
        result.mean, result.scale, result._training = model.mean, model.scale, model._training
        result._knows_training, result._seen_rows = model._knows_training, model._seen_rows
        result.ids, result.user_ids, result.item_ids = model.ids, model.user_ids, model.item_ids
        result._standard, result._ridges = model._standard, getattr(model, "_ridges", None)
        if result.clip and result.scale is None and result._training is not None:
            result.scale = result._training.bounds
        result.history, result.times, result.epoch = model.history.copy(), replace(model.times), model.epoch
        return result

    @property
    def _remedy(self):
        return f"lower learning_rate ({self.learning_rate:g}), or raise regularization"

    def _initial(self, train):
        """With biases, normal with `init_std` around 0; damped ones and baseline predictors are there already.

        `esgd` and `cu2rec` have factors of their own, see `Descent.draw` of theirs.
        """
        own = None
        if self.biases and not self._damped:
            own = self._solvers[self.solver].draw(self.hyperparameters, train)
        made = super()._initial(train) if own is None else with_bias_columns(train, *own)
        if self.biases == "baseline":
            xp = train.xp if own is None else np
            for rows, column, biases in zip(made, (-2, -1), baseline_predictors(train.on_host()), strict=True):
                rows[:, column] = xp.asarray(biases, np.float32)
        return made

    def _draw(self, train, rows, key):
        if not self.biases:
            return super()._draw(train, rows, key)
        usual = _LENGTH / self.factors**0.5 if self._damped else SMALL
        deviation = usual if self.init_std is None else self.init_std
        return normal_factors(rows, self.factors, deviation, key, train.device)

    def _epoch(self, solver, number, rows):
        if self._damped and self.learning_rate > _LARGE * _ROW_RATE:
            self._check_rate(number, rows)
        self._set_rate(solver, number, rows)
        solver.epoch(number)

    def _check_rate(self, number, rows):
        """Raise DivergedError where the learning rate alone, not the ratings, shrinks all factors to 0."""
        rate = self._rate(rows)

        def vanish(rate):
            shrinkage = zip(self._shrinkage(rate, number), self._counts, strict=True)
            return not any(of_rows[counts > 0].any() for of_rows, counts in shrinkage)

        if vanish(rate) and not vanish(_ROW_RATE):
            raise DivergedError(
                number + 1,
                f"lower learning_rate ({self.learning_rate:g}) or regularization ({self.regularization:g})",
                f"would shrink all factors to 0: learning_rate * regularization is {rate * self.regularization:g}",
            )

    def _set_rate(self, solver, number, rows):
        """Prepare the solver for epoch `number` after these rows of history."""
        rate = self._rate(rows)
        if self._damped:
            solver.shrink(*self._shrinkage(rate, number))
        solver.learning_rate = rate / self._ratio

    def _rate(self, rows):
        """The learning rate after these rows of history."""
        return self.schedule.rate(self.learning_rate, [row["rmse"] for row in rows])

    def _shrinkage(self, rate, number):
        """By what the factors of each user and item are multiplied before epoch `number`.

        The objective has lambda |x|^2 / 2 once for each row, not for each rating: its gradient is followed for an
        epoch, at the row's rate, in one step that is exact and does not overshoot.
        """
        *ridges, power = self._of_rows
        given = self.regularization, self.item_regularization
        for counts, regularization, ridge in zip(self._counts, given, ridges, strict=True):
            rates = rate * regularization * ridge * counts**power * (counts > 0)
            if self.options.get("row_rates"):
                rates = rates * row_rates(counts, self.factors, number + 0.5)
            yield np.exp(-rates).astype(np.float32)

    def _set_training(self, train):
        super()._set_training(train)
        self._counts = train.user_counts, train.item_counts
        if self._damped:
            self._ridges = _ridges_of(self._standard.penalty, *self._counts)

    @property
    def _of_rows(self):
        """`_ridges`; of what was trained by another model, or stored without them, one lambda for all rows."""
        return self._ridges or (self._standard.penalty, self._standard.penalty, 0.0)

    @property
    def _units(self):
        return Factorization._units.fget(self) and [*Factorization._units.fget(self), *self._of_rows]

    @_units.setter
    def _units(self, units):
        if self._damped:
            Factorization._units.fset(self, units[:2])
            if units[2:]:
                of_user, of_item, power = (number("a ridge", one, least=0) for one in units[2:])
                self._ridges = of_user, of_item, power

    def _fold(self, ratings):
        # The least of the objective in the users' factors is that of ALS. Biases of another lambda count in other
        # units, in which theirs is the factors'.
        if self._damped:
            dense = "dense" if self.device == "cpu" else "dense_cuda"
            least = ALS(self.factors, max(self.regularization, _MIN_RIDGE), solver=dense, device=self.device)
            ratings, factors = of_rated_items(ratings, self.item_factors)
            of_user, _, least.regularization_exponent = self._of_rows
            least.mean, least._standard = self.mean, self._standard._replace(penalty=of_user)
            return solved_users(least, ratings, factors, least.solver_class)
        ridge, of_biases = (max(value, _MIN_RIDGE) for value in (self.regularization, self.bias_regularization))
        least = ALS(self.factors, ridge, biases=bool(self.biases), device=self._fold_in_device)
        ratings, least.item_factors = of_rated_items(ratings, self.item_factors)
        least.mean = self.mean
        if not self.biases:
            return least._fold(ratings)
        unit = np.float32(np.sqrt(ridge / of_biases))
        least.item_factors[:, -2] *= unit
        users = least._fold(ratings)
        users[:, -2] *= unit
        return users

    @property
    def _fold_in_device(self):
        """Where ALS solves for new users."""
        most = max(solver.max_factors for solver in ALS.solver_classes().values() if solver.device != "cpu")
        return self.device if self._solved_columns <= most else "cpu"

    @obeys_threads
    def partial_fit(
        self, new: RatingsLike, epochs: int = 1, validation: RatingsLike | None = None, *, progress: bool = False
    ) -> Self:
        """Train the fitted model further, on new ratings alone.

        Users and items of `Ratings` may be new too: positions up to `new.n_users` and `new.n_items`, which are not
        below the model's; where the model knows ids, with the ids of all. They start with random factors. A data
        frame may not name new ids. The mean from which biases count stays as it was.

        Parameters
        ----------
        new : Ratings
        epochs : int, how often each new rating counts; one of a pair that was rated takes the place of the old one
        validation : Ratings of the same shape as `new`
        progress : bool, show a bar

        Returns
        -------
        self

        Raises
        ------
        NotFittedError, TypeError, ValueError, DivergedError : as of `fit`; fewer users or items than the model has,
            or new ones without ids where the others have some

        >>> from gpumf import SGD
        >>> from gpumf.ratings import Ratings
        >>> ratings = Ratings([0, 1, 1], [0, 0, 1], [4, 3, 5], n_users=2, n_items=2)
        >>> model = SGD(2, solver="sequential").fit(ratings, epochs=3)
        >>> new = Ratings([2, 2], [0, 2], [5, 1], n_users=3, n_items=3)
        >>> model.partial_fit(new).user_factors.shape
        (3, 4)
        """
        with self._as_before_if_it_fails():
            self._check_fitted()
            epochs, progress = integer("epochs", epochs, 0), flag("progress", progress)
            new = self._like(new, "new")
            validation = None if validation is None else self._like(validation, "validation")
            given, (clock, new, validation) = new, self._taken(new, validation)
            old_rows, shape = (len(self.user_factors), len(self.item_factors)), (new.n_users, new.n_items)
            if any(rows > wanted for rows, wanted in zip(old_rows, shape, strict=True)):
                raise ValueError(f"the model has {old_rows} users and items, the new ratings only {shape}")
            known, counts = (self._user_known, self._item_known), self._item_counts
            mean, scale, before, standard = self.mean, self._scale_with(new), self._training, self._standard
            ridges, counted = self._damped and self._of_rows, self._knows_training
            self._go_on_with(new)
            self._keep_biases(standard)
            self._ridges = ridges or None
            factors = self._continued(new, *known)
            self.mean, self.scale = mean, scale
            if self._damped:
                self._counts = tuple(of.copy() for of in self._counts)  # of newcomers
                for of, known_before in zip(self._counts, known, strict=True):
                    of[: len(known_before)][known_before] = 0
                for side, of in enumerate(self._counts):
                    if of.any():  # without newcomers the factors are the model's, which lists make read-only
                        self._rebias(given.on_host(), side, np.flatnonzero(of), factors)
            self._user_known[: len(known[0])] |= known[0]
            self._item_counts = self._item_counts.copy()  # who is known was derived from the others
            self._item_counts[: len(counts)] += counts
            self._remember(before, given, counted)
            self._train(clock, new, factors, self.history.to_dict("records"), epochs, validation, Ending(), progress)
        return self

    def _remember(self, before, new, counted):
        """Keep new ratings with those from before: a training set, or of a model from a file what users rated.

        counted : whether the counts of items have those from before; what is rated again counts once then
        """
        self._training, again = None, np.empty(0, np.int64)
        if before is not None:
            self._training, again = renewed(before.on_host(), new.on_host())
        elif self._seen_rows is not None:
            self._seen_rows, again = seen_with(self._seen_rows, new.on_host())
        if counted:
            self._item_counts -= np.bincount(again, minlength=new.n_items)


def _ridges_of(least, *counts):
    """(lambda of users, that of items, power): what rows with n ratings have, over n^power, with damped biases.

    That of a row with the mean number of ratings, over all ratings, is the mean over them of sqrt(n_u) + sqrt(n_i),
    times `_STRENGTH` and `_MORE` in addition, without which factors of few ratings are worse than none; or `least`,
    `Damped.penalty`, where that is more.
    """
    penalty = max(least, _STRENGTH * mean_roots(*counts) + _MORE)
    means = (np.square(of, dtype=np.float64).sum() / max(of.sum(), 1) for of in counts)
    return *(float(penalty / max(mean, 1) ** _POWER) for mean in means), _POWER


def baseline_predictors(train: Ratings) -> tuple[np.ndarray, np.ndarray]:
    """b_u and b_i such that r_ui is about mu + b_u + b_i (esgd, section 4).

    Returns (b_u, b_i): float64 (n_users,) the mean of r - mu over a user's ratings, and (n_items,) that of r - mu -
        b_u over an item's; 0 without ratings
    """

    def means(rows, n_rows, values):
        return np.bincount(rows, values, n_rows) / np.maximum(np.bincount(rows, minlength=n_rows), 1)

    rest = train.values - np.float64(train.mean)
    of_user = means(train.users, train.n_users, rest)
    return of_user, means(train.items, train.n_items, rest - of_user[train.users])
