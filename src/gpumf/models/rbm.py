"""A restricted Boltzmann machine."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from gpumf._util.counter_rng import random_subset
from gpumf._util.threads import obeys_threads
from gpumf._util.validation import brief, choice, integer, is_integer, number
from gpumf.backends.cpu.rbm import expectations
from gpumf.models.checks import NotFittedError
from gpumf.models.estimator import Model
from gpumf.models.evaluation import UNBOUNDED
from gpumf.models.partial_fit import with_new
from gpumf.models.rbm_evaluation import ExpectationErrors, expectation_ranking
from gpumf.ratings.damped import DAMPING, Damped, row_biases
from gpumf.solvers import schedules
from gpumf.solvers.rbm_batches import MAX_POSITIONS
from gpumf.solvers.rbm_divergence import Parallel, RBMHyperparameters, Sequential, gibbs_steps_in
from gpumf.solvers.rbm_fast import Fast
from gpumf.solvers.rbm_levels import MAX_HIDDEN, MAX_LEVELS, level_values, n_levels_of, quantile_levels, to_levels
from gpumf.solvers.rbm_thesis import Thesis

if TYPE_CHECKING:
    from gpumf.models.solver_choice import Device
    from gpumf.ratings.convert import RatingsLike

    Place: TypeAlias = Literal["device", "transfer"]

_CONSTANT = schedules.Constant()
_DAMPED_RATE, _DAMPED_BATCH = 0.1, 20  # learning rate and users of a batch with damped biases
_RATE, _BATCH = 0.4, 100  # and without
_LEVELS = 3  # of what damped biases leave
_PRIOR = 20.0  # ratings that an item counts in addition, of what damped biases leave
_HELD_OUT, _MAX_HELD_OUT = 0.05, 10_000  # of the ratings, by which expectations are weighed
_SMALL = np.float32(0.01)  # standard deviation of initial weights (thesis, section 6.2.3)


class RBM(Model):
    """A restricted Boltzmann machine, for predicting ratings. Needs no tuning, whatever the scale of the ratings.

    Damped biases of users and items come first, `Ratings.damped`. What they leave is cut into K levels that about
    equally many ratings have; their expectation is added to the biases. It is multiplied by a weight in [0, 1] that
    5 % of the ratings, held out of training (at most 10,000), say is best, less its standard error: where nothing can
    be learned, the biases are predicted. As the publications have it, levels are ratings: biases=False. For top-N
    lists take `ImplicitALS`.

    Contrastive divergence trains it. A user's rating of item i is one of K visible units, of which one is on; they
    share binary hidden units h_j:

        p(h_j = 1 | v) = sigmoid(b_j + sum_i W_i,v_i,j),    p(v_i = k | h) = softmax_k(a_ik + sum_j W_ikj h_j)

    (thesis, section 2.4.1, equations 2.31 and 2.32; Salakhutdinov, Mnih and Hinton 2007). An update takes a batch of
    users (section 4.2, Algorithm 4.2): h is drawn given their ratings, then T times the ratings given h and h given
    those, and

        W_ikj += mu avg([v_i = k] p(h_j | v) - [v'_i = k] p(h_j | v'))

    for the data v and the reconstruction v', and likewise the biases a and b. A rating is predicted by its
    expectation over the levels k, given the user's p(h | v) of the training ratings (equation 2.34).

    Where the publications leave a choice: ratings and hidden units are drawn wherever the chain goes on, and the
    update takes the v' that was drawn and the probabilities of hidden units: their product has the mean <v h>_T,
    which that of p(v' | h) and p(h | v') has not; the average is over all users of the batch, or with average="item"
    over those who rated the item, so that the rate means the same for popular and for rare items; momentum and weight
    decay of an item's weights act in the batches in which somebody rated it; batches are drawn once, and
    come in another order in each epoch; weights start normal with standard deviation 0.01 (section 6.2.3), the
    biases a as the logarithms of how often the item got each level and b as zeros (Hinton 2010, section 8), or with
    initial_biases="normal" both as small and random as weights. `RBM.thesis()` makes each choice as the thesis does.

    Predictions are within the scale. Without damped biases an item without a training rating is predicted the mean of
    the training ratings; a user without one by what the biases say, and recommended the items with the most
    training ratings first. Going on with `warm_start` starts without momentum, and needs ratings of the same scale
    where biases=False.

    Parameters
    ----------
    hidden : int, 1 to 512, number of hidden units
    learning_rate : mu > 0, by default 0.1 with damped biases, else 0.4
    gibbs_steps : T, int; or a schedule, pairs (first epoch, T) as in ((0, 1), (10, 3)), from epoch 0 on
    batch : int, users of a batch, by default 20 with damped biases, else 100
    momentum : in [0, 1), share of the last change that is added to the next one
    weight_decay : >= 0, mu times this share of the weights is taken from them
    average : 'batch' or 'item', what changes of an item's weights are averages over: all users of the batch, or its
        ratings in the batch
    initial_biases : 'shares', logarithms of the shares of the levels, and zeros for hidden units; or 'normal', random
    biases : 'damped', fixed before the RBM is trained; or False
    schedule : how the learning rate changes from epoch to epoch, of `gpumf.solvers.schedules`
    levels : K, int, 2 to 32; by default 3 with damped biases. Without, ratings are rounded to levels, equally spaced
        on the scale of the training set (without one, between its lowest and highest rating), by default the whole or
        half steps of the scale
    solver : a name of `RBM.solvers()`; by default that expected to be the fastest for the device
    weights : 'device', they stay where the kernel runs; 'transfer', solver `thesis` alone: they are moved there and
        back at every update (thesis, Figure 4.5), with the same result
    batches : 'device', their matrices are computed before the first epoch and stay where the kernel runs; 'transfer',
        solver `thesis` alone: those of a batch are computed and moved there whenever its turn comes, and stay until
        its update is done (thesis, section 4.2.2, both sides of Figure 4.5), with the same result
    device, threads : as of `ALS`; threads are without effect on a GPU
    seed : int, None draws one, of the initial weights, the batches, and all draws; the same seed gives the same model

    Attributes
    ----------
    user_hidden : float32 (n_users, hidden), p(h | v) of each user's training ratings, after `fit`
    item_weights : float32 (n_items, K, hidden)
    visible_biases, hidden_biases : float32 (n_items, K) and (hidden,)
    level_values : float32 (K,), the rating that each level stands for; with damped biases what it adds to them
    user_biases, item_biases : float32 (n_users,) and (n_items,), the damped ones, or zeros

    Raises
    ------
    ValueError : a parameter out of range, a solver that does not fit the device; from `fit`, ratings that are no
        levels, or with `warm_start` others than before
    gpumf.backends.DeviceError : device='cuda' or 'emulator' where there is none

    >>> from gpumf import RBM
    >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
    >>> model = RBM(hidden=4, solver="sequential").fit(columns, epochs=2)
    >>> model.item_weights.shape  # three items, three levels, hidden units
    (3, 3, 4)
    """

    _hyperparameters = RBMHyperparameters
    _solvers: ClassVar = {"sequential": Sequential, "parallel": Parallel, "thesis": Thesis, "fast": Fast}
    user_hidden: np.ndarray
    item_weights: np.ndarray
    visible_biases: np.ndarray
    hidden_biases: np.ndarray
    level_values: np.ndarray
    user_biases: np.ndarray
    item_biases: np.ndarray
    _arrays = (
        *("user_hidden", "item_weights", "visible_biases", "hidden_biases"),
        *("level_values", "user_biases", "item_biases"),
    )
    _bounds_of_levels: np.ndarray | None = None  # of what damped biases leave, in its unit
    _remedy = "lower learning_rate"

    # Sections 6.2.3 and 6.6, footnote 5. Of Algorithm 4.2 line 1 has random biases, line 19 the average, and lines 17
    # to 22 have neither momentum nor weight decay.
    THESIS: ClassVar[dict[str, Any]] = {
        "hidden": 128,
        "learning_rate": 0.02,
        "gibbs_steps": 1,
        "batch": 100,
        "momentum": 0.0,
        "weight_decay": 0.0,
        "average": "batch",
        "initial_biases": "normal",
        "biases": False,
    }

    def __init__(
        self,
        hidden: int = 128,
        *,
        learning_rate: float | None = None,
        gibbs_steps: int | Iterable[tuple[int, int]] = 1,
        batch: int | None = None,
        momentum: float = 0.0,
        weight_decay: float = 0.01,
        average: Literal["batch", "item"] = "batch",
        initial_biases: Literal["shares", "normal"] = "shares",
        biases: Literal["damped", False] = "damped",
        schedule: schedules.Schedule | dict[str, Any] = _CONSTANT,
        levels: int | None = None,
        solver: str | None = None,
        weights: Place = "device",
        batches: Place = "device",
        device: Device = "auto",
        threads: int | None = None,
        seed: int | None = 0,
    ) -> None:
        if biases is not False and not (isinstance(biases, str) and biases == "damped"):
            raise ValueError(f"biases must be 'damped' or False, not {brief(biases)}")
        self.biases = biases
        learning_rate = (_DAMPED_RATE if biases else _RATE) if learning_rate is None else learning_rate
        batch = (_DAMPED_BATCH if biases else _BATCH) if batch is None else batch
        self.hidden, self.batch = integer("hidden", hidden, 1, MAX_HIDDEN), integer("batch", batch, 1)
        self.learning_rate = number("learning_rate", learning_rate, above=0)
        self.momentum = number("momentum", momentum, least=0, below=1)
        self.weight_decay = number("weight_decay", weight_decay, least=0)
        if not self.learning_rate * self.weight_decay < 1:
            raise ValueError(
                f"learning_rate * weight_decay, the share of the weights that an update takes away, must be below 1, "
                f"not {brief(learning_rate)} * {brief(weight_decay)}; lower one of them"
            )
        choice("average", average, "batch", "item")
        choice("initial_biases", initial_biases, "shares", "normal")
        choice("weights", weights, "device", "transfer")
        choice("batches", batches, "device", "transfer")
        self.gibbs_steps = _checked_steps(gibbs_steps)
        self.average, self.initial_biases, self.weights, self.batches = average, initial_biases, weights, batches
        self.schedule = schedules.from_dict(schedule)
        self.levels = None if levels is None else integer("levels", levels, 2, MAX_LEVELS)
        super().__init__(solver=solver, device=device, threads=threads, seed=seed)
        if "transfer" in (weights, batches) and not self._solvers[self.solver].transfers:
            raise ValueError(
                f"the solver {self.solver!r} keeps weights and batches where it runs; it takes no 'transfer'"
            )

    @classmethod
    def thesis(cls, **parameters: Any) -> Self:
        """The RBM as the thesis trains it: its parameters, initial values and averages, of `RBM.THESIS`.

        What `thesis` is among the solvers is how its launches go about it; every solver trains this RBM.

        Parameters
        ----------
        **parameters : of the constructor, in the place of the thesis's

        >>> from gpumf import RBM
        >>> model = RBM.thesis(hidden=4, device="cpu")
        >>> model.average, model.batch
        ('batch', 100)
        """
        return cls(**cls.THESIS | parameters)

    @property
    def n_levels(self) -> int:
        """K, after `fit`: `levels`, or where that is None, those of the training set.

        >>> from gpumf import RBM
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> RBM(4, biases=False, solver="sequential").fit(columns, epochs=1).n_levels
        4
        """
        if "_n_levels" not in vars(self):
            raise NotFittedError("this RBM has not been fitted; its levels are those of a training set")
        return self._n_levels

    def steps_in(self, epoch: int) -> int:
        """T, the steps of Gibbs sampling in an epoch, counted from 0.

        >>> from gpumf import RBM
        >>> model = RBM(4, gibbs_steps=((0, 1), (10, 3)), device="cpu")
        >>> [model.steps_in(epoch) for epoch in (0, 9, 10)]
        [1, 1, 3]
        """
        return gibbs_steps_in(self.gibbs_steps, epoch)

    # Training

    def _hyper(self, **given):
        return super()._hyper(scale=(0.0, self.n_levels - 1.0) if self.biases else self.scale, **given)

    @property
    def _offset(self):
        return self.mean if self.biases else 0.0

    @property
    def _bounds(self):
        return self.scale if self.biases else None

    def _set_training(self, train):
        scale, n_levels = self._scale_and_levels(train)
        super()._set_training(train)
        self.scale, self._n_levels = scale, n_levels
        self._held = None
        if self.biases:
            self._standard = train.damped
            left = train.standardized(self.mean, *train.damped[:3]).values
            self._bounds_of_levels, self._means = quantile_levels(left, n_levels)
            self._means *= np.float32(train.damped.unit)
            held = min(int(_HELD_OUT * train.nnz), _MAX_HELD_OUT)
            self._held = chosen = random_subset(train.nnz, held, self.seed) if held else np.zeros(train.nnz, bool)
            self._weighed = train.users[chosen], train.items[chosen], left[chosen] * np.float64(train.damped.unit)

    def _in_levels(self, ratings, user_biases, item_biases):
        """The levels of what damped biases leave of ratings, as ratings."""
        left = ratings.standardized(self.mean, user_biases, item_biases, self._standard.unit)
        levels = np.searchsorted(self._bounds_of_levels, left.values, side="right")
        return replace(ratings, values=levels, scale=None)

    def _problem(self, train, arrays):
        if self.biases:
            train = self._in_levels(train, *arrays[5:])
            if self._held is not None:
                train = train.select(~self._held)
        return super()._problem(train, arrays[:4])

    def _whole(self, arrays, start):
        xp = self._there.xp if self._there else np
        others = tuple(map(xp.asarray, start[5:]))
        if not self.biases:
            return *arrays, xp.asarray(start[4]), *others
        return *arrays, xp.asarray(self._means * self._weight(*arrays[:3], xp)), *others

    def _weight(self, user_hidden, weights, visible_biases, xp):
        """By what expectations are multiplied: from held-out ratings, less its standard error, in [0, 1].

        What an RBM has learned of few ratings is noise for the most part, which makes predictions worse.
        """
        users, items, left = self._weighed
        if not len(left):
            return np.float32(0)
        users, items = map(xp.asarray, (users, items))
        inputs = (weights[items] @ user_hidden[users][:, :, None])[:, :, 0] + visible_biases[items]
        odds = xp.exp(inputs - inputs.max(axis=1, keepdims=True))
        expected = (odds @ xp.asarray(self._means) / odds.sum(axis=1)).astype(np.float64)
        expected = self._there.to_numpy(expected) if self._there else expected
        square = expected @ expected
        if not square > 0:
            return np.float32(0)
        weight = expected @ left / square - np.sqrt(np.mean(left**2) / square)
        return np.float32(min(max(weight, 0.0), 1.0))

    def _scale_and_levels(self, train):
        """The lowest and the highest level of a training set, and how many there are."""
        scale = tuple(train.bounds)
        if not self.biases and not scale[0] < scale[1]:
            raise ValueError(f"a model of ratings needs two different ones; all are {scale[0]}")
        n_levels = self.levels or (_LEVELS if self.biases else n_levels_of(train, scale))
        if train.n_items * n_levels > MAX_POSITIONS:
            raise ValueError(
                f"{train.n_items} items of {n_levels} levels are more than {MAX_POSITIONS} rows of weights"
            )
        return scale, n_levels

    def _check_warm(self, train):
        super()._check_warm(train)
        old, new = (self.scale, self.n_levels), self._scale_and_levels(train)
        if old != new and not (self.biases and old[1] == new[1]):
            both = (f"{levels} levels from {low:g} to {high:g}" for (low, high), levels in (old, new))
            raise ValueError("warm_start needs the {} of before, not {}; give the scale".format(*both))

    def _check_facts(self):
        super()._check_facts()
        if self.scale is None or not self.scale[0] < self.scale[1] + (self.biases is not False):
            raise ValueError(f"the scale of an RBM must be (lowest, highest) rating, not {brief(self.scale)}")

    def _check_fitted(self):
        super()._check_fitted()
        if (found := self.item_weights.shape[1]) != self._n_levels:
            raise ValueError(f"item_weights has {found} levels, not the {self._n_levels} of the training set")

    def _shapes(self, users, items, found):
        levels = found[1][1:2]  # as many as the file's weights have, and the same in both arrays
        if levels and not 2 <= levels[0] <= MAX_LEVELS:
            raise ValueError(f"it has {levels[0]} levels, not 2 to {MAX_LEVELS}")
        sides = (users,), (items,)
        return (users, self.hidden), (items, *levels, self.hidden), (items, *levels), (self.hidden,), levels, *sides

    @classmethod
    def _of_content(cls, header, arrays, device, numbers=True):
        if "biases" not in header["parameters"]:
            header, arrays = _of_0_2_0(header, arrays)
        return super()._of_content(header, arrays, device, numbers)

    def _set_learned(self, arrays):
        super()._set_learned(arrays)
        self._n_levels = self.item_weights.shape[1]
        if self.biases and len(self._bounds_of_levels) != self._n_levels - 1:
            raise ValueError(f"{len(self._bounds_of_levels)} bounds are not between {self._n_levels} levels")

    def _initial(self, train):
        rng = np.random.default_rng(self.seed)

        def normal(*shape):
            return rng.standard_normal(shape, np.float32) * _SMALL

        user_hidden = np.zeros((train.n_users, self.hidden), np.float32)
        weights = normal(train.n_items, self.n_levels, self.hidden)
        if self.biases:
            others = self._means, *train.damped[:2]
            levels, prior = self._in_levels(train, *others[1:]).values.astype(np.int64), _PRIOR
        else:
            others = level_values(self.scale, self.n_levels), *map(_zeros, (train.n_users, train.n_items))
            levels, prior = to_levels(train.values, self.scale, self.n_levels), 1.0
        if self.initial_biases == "normal":
            return user_hidden, weights, normal(*weights.shape[:2]), normal(self.hidden), *others
        biases = level_logarithms(train.items, levels, weights.shape[:2], prior)
        return user_hidden, weights, biases, _zeros(self.hidden), *others

    def _continued(self, train, users_known, items_known):
        learned = super()._continued(train, users_known, items_known)
        return (*learned[:5], *train.damped[:2]) if self.biases else learned

    def _epoch(self, solver, number, rows):
        solver.learning_rate = self.schedule.rate(self.learning_rate, [row["rmse"] for row in rows])
        solver.epoch(number)

    @obeys_threads
    def partial_fit(self, new: RatingsLike, epochs: int = 1, *, progress: bool = False) -> Self:
        """Go on with training on all ratings, those from before and new ones of known users and items.

        A new rating takes the place of one of the same pair. An RBM predicts by all that a user has rated: new
        ratings alone would leave it with nothing else of their users. New users: `fold_in`.

        Parameters
        ----------
        new : Ratings of the shape and scale of the training set, or what `fit` makes them of
        epochs : int, how many to add
        progress : bool, show a bar

        Returns
        -------
        self

        Raises
        ------
        NotFittedError : there is nothing to go on from
        ValueError : the training set is not known, as of a model from a file or with users folded in; ratings of
            others, or off the scale

        >>> from gpumf import RBM
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> model = RBM(4, solver="sequential").fit(columns, epochs=1)
        >>> model.partial_fit((["bob"], ["up"], [2])).history.epoch.tolist()
        [0, 1, 2]
        """
        new, whole = with_new(self, new)
        low, high = whole.scale or (-np.inf, np.inf)
        off = new.values[(new.values < low) | (new.values > high)]
        if len(off):
            raise ValueError(f"new: rating {off[0]:g} is off the scale {low:g} to {high:g}; correct or remove it")
        return self.fit(whole, epochs, warm_start=True, progress=progress, ids=self.ids)

    # Use

    def _known_sides(self):
        every = np.broadcast_to(True, len(self._user_known))
        return every, np.broadcast_to(True, len(self._item_counts)) if self.biases else self._item_known

    def _with_users(self, users, named):
        folded = super()._with_users(users, named)
        folded._set_learned((*folded._learned[:5], self._biases_of(users), self.item_biases))
        return folded

    def _biases_of(self, users):
        if not self.biases:
            return _zeros(users.n_users)
        return row_biases(users.by_user, self.mean, self.item_biases, DAMPING[0])

    def _fold(self, ratings):
        if not ratings.nnz:  # of which there are no batches
            return np.tile(1 / (1 + np.exp(-self.hidden_biases)), (ratings.n_users, 1))
        there, users = self._placed(ratings), np.zeros((ratings.n_users, self.hidden), np.float32)
        arrays = users, *self._learned[1:5], self._biases_of(ratings), self.item_biases
        whole = copy(self)
        whole._held = None
        return self._to_host(self.solver_class(whole._problem(there, arrays)).arrays())[0]

    def _vectors(self, side):
        return self.user_hidden if side == "user" else self.item_weights.reshape(len(self.item_weights), -1)

    def _errors(self, ratings):
        ratings = ratings.less(self._offset) if self._offset else ratings
        bounds = tuple(bound - self._offset for bound in self._bounds or UNBOUNDED)
        mean = self.mean - self._offset
        return ExpectationErrors(ratings, self._known_sides(), mean, self.hidden, self.device, bounds)

    def _predicted(self, users, items):
        learned = self.user_hidden, self.item_weights, self.visible_biases, self.level_values
        expected = expectations(np.ravel(users), np.ravel(items), *learned).reshape(users.shape)
        return expected + self.user_biases[users] + self.item_biases[items] + np.float32(self._offset)

    def _ranking_without(self, seen, k, candidates):
        learned = *self._learned[:3], *self._learned[4:]
        return expectation_ranking(learned, candidates, seen, k, self.device)

    @property
    def _units(self):
        if not self.biases:
            return None
        return {"unit": self._standard.unit, "bounds": self._bounds_of_levels.tolist()}

    @_units.setter
    def _units(self, units):
        self._held = None
        if self.biases:
            self._standard = Damped(None, None, number("unit", units["unit"], above=0), 0.0)
            self._bounds_of_levels = np.array(units["bounds"], np.float32)


def _zeros(n: int) -> np.ndarray:
    return np.zeros(n, np.float32)


def _of_0_2_0(header, arrays):
    """Header and arrays of a file of gpumf 0.2.0, whose RBMs have no biases: levels are equally spaced ratings."""
    n_levels = min(arrays["item_weights"].shape[1], MAX_LEVELS)  # more are refused
    found = {"level_values": level_values(header["scale"], n_levels)}
    found |= {"user_biases": _zeros(len(arrays["user_known"])), "item_biases": _zeros(len(arrays["item_counts"]))}
    return header | {"parameters": header["parameters"] | {"biases": False}}, found | arrays


def level_logarithms(items: np.ndarray, levels: np.ndarray, shape: tuple[int, int], prior: float = 1.0) -> np.ndarray:
    """ln of the share of each level among an item's ratings, float32 of this shape (n_items, K).

    Each item counts `prior` more ratings, spread over the levels as all ratings are, and those one more of each
    level: no share is zero, and few ratings say little.
    """
    n_items, n_levels = shape
    counts = np.bincount(items * np.int64(n_levels) + levels, minlength=n_items * n_levels).reshape(shape)
    overall = counts.sum(axis=0) + 1.0
    shares = counts + prior * overall / overall.sum()
    return np.log(shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)


def _checked_steps(gibbs_steps):
    """T as an int, or a schedule as a tuple of pairs."""

    def whole(number, least):
        return is_integer(number) and least <= number < 2**31

    if whole(gibbs_steps, 1):
        return int(gibbs_steps)
    try:
        pairs = tuple((first, steps) for first, steps in gibbs_steps)
    except (TypeError, ValueError):
        pairs = ()
    right = pairs and all(whole(first, 0) and whole(steps, 1) for first, steps in pairs)
    firsts = [first for first, _ in pairs]
    if not right or firsts[0] != 0 or firsts != sorted(set(firsts)):
        raise ValueError(
            f"gibbs_steps must be a positive integer or ascending pairs (first epoch, steps) from epoch 0 on, all "
            f"below {2**31}, not {brief(gibbs_steps)}"
        )
    return tuple((int(first), int(steps)) for first, steps in pairs)
