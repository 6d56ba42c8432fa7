"""What the models share that approximate a rating by an inner product."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from gpumf import backends
from gpumf._util import threads
from gpumf._util.counter_rng import splitmix64
from gpumf._util.memory import free_bytes
from gpumf._util.validation import flag, integer, number
from gpumf.models.evaluation import SOURCE as ERRORS
from gpumf.models.evaluation import UNBOUNDED, Errors
from gpumf.models.finite import SOURCE as FINITE
from gpumf.models.initial import SOURCE as INITIAL
from gpumf.models.initial import uniform_factors, with_bias_columns
from gpumf.models.once import Once
from gpumf.models.ranking import MAX_ITEMS, SCREENED, ItemColumns, KernelRanking, ranking_of, screening
from gpumf.models.ranking import SOURCE as RANKING
from gpumf.ratings.csr import CompressedRows
from gpumf.ratings.damped import DAMPING, Damped, column_of, row_biases, with_biases, without_biases
from gpumf.ratings.damped import SOURCE as BIASES
from gpumf.ratings.device import SOURCE as RATINGS
from gpumf.ratings.device import DeviceRatings
from gpumf.solvers.als_base import RowByRow
from gpumf.solvers.base import COLUMNS, MAX_FACTORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumf.models.estimator import Model as _Base
    from gpumf.models.solver_choice import Device
    from gpumf.ratings import Ratings
    from gpumf.solvers.als_base import ALSSolver
else:
    _Base = object

_MAX_SOLVES = 10
"""User updates of a GPU's solvers, some of which get nearer to a solution each time."""

_FEW = 1 << 24
"""Operations to solve for new users, up to which NumPy takes less time than to start a GPU's solver."""

_ORDERED_HERE = 1 << 14
"""Ratings that are put in order on the CPU in less time than launches take."""

_PAIRS_AT_ONCE = 1 << 20  # whose factors are gathered for predictions
_SURELY_FREE = 1 << 26  # bytes: whoever lacks so few has other troubles
_KEPT = 0.05  # of a device's free memory: so much may stay there after `fit`, for the first recommendations


class Factorization(_Base):
    """Approximates a rating by the inner product of a user's and an item's factors: r_ui ~ p_u . q_i.

    With biases a rating is approximated by mu + b_u + b_i + p_u . q_i, mu the mean of the training ratings. Damped
    biases are those of least squares where each user counts 5, and each item 3, ratings of bias zero in addition;
    they are fixed before the factors are learned. All biases are two more columns of the factors, (.., b_u, 1) and
    (.., 1, b_i), so that all else stays as it is. For a user
    without training ratings mu + b_i is predicted, for such an item mu + b_u.

    Predictions, and with them all errors, are clipped where the model is to `clip` them: to the scale of the training
    set, or to its lowest and highest rating where it has no scale. Recommendations are in the order of predictions
    that are not clipped.

    Without biases, a user or item without a training rating has no factors worth using: the mean of the training
    ratings is predicted for it, and counted so in every error, and such a user is recommended the items with the most
    training ratings first.

    Attributes
    ----------
    user_factors, item_factors : float32 (n_users, columns) and (n_items, columns), after `fit`. The first `recommend`
        or `evaluate_ranking` on a GPU copies them there, for all that follow; then they are read-only. What the
        users rated is there already where `fit` ordered it there and it takes little of the GPU's memory, else it is
        copied, too

    >>> from gpumf import ALS
    >>> from gpumf.models import Factorization
    >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
    >>> model = ALS(2, biases=False, device="cpu").fit(columns, epochs=3)
    >>> isinstance(model, Factorization)
    True
    >>> p, q = model.user_factors[0], model.item_factors[0]
    >>> bool(abs(p @ q - model.predict("ann", "alien")) < 1e-5)
    True
    """

    user_factors: np.ndarray
    item_factors: np.ndarray
    _arrays = "user_factors", "item_factors"
    _remedy = "raise regularization, or scale the ratings down"
    biases: bool | str = False
    init: str = "mean"
    _max_factors = MAX_FACTORS
    _standard: Damped | None = None  # of the training set of a model with damped biases

    def __init__(
        self,
        factors: int,
        regularization: float,
        *,
        solver: str | None,
        device: Device,
        threads: int | None,
        seed: int | None,
        clip: bool,
    ) -> None:
        self.factors = integer("factors", factors, 1, self._max_factors)
        self.regularization = number("regularization", regularization, least=0)
        self.clip = flag("clip", clip)
        self._items_there, self._known_there = Once(), Once()  # on the device; new users have the same
        self._forget_copies()
        super().__init__(solver=solver, device=device, threads=threads, seed=seed)

    @property
    def _misfit(self):
        return f", factors={self.factors}"

    @property
    def _size(self):
        return self.factors

    @property
    def columns(self) -> int:
        """Columns of `user_factors` and `item_factors`.

        >>> from gpumf import ALS
        >>> ALS(16, biases=False, device="cpu").columns, ALS(16, device="cpu").columns
        (16, 18)
        """
        return self.factors + (2 if self.biases else 0)

    @property
    def _damped(self):
        return self.biases == "damped"

    @property
    def _solved_columns(self):
        """Columns of the arrays that a solver has: damped biases are not among them."""
        return self.factors if self._damped else self.columns

    def _hyper(self, **given):
        if self._damped:
            given |= {"columns": self.factors, "biases": False}
        return super()._hyper(**given)

    @property
    def _ratio(self):
        """The unit of damped ratings over what a solver counts in."""
        return self._standard.unit / self._standard.step if self._standard else 1.0

    @property
    def user_biases(self) -> np.ndarray:
        """b_u, float32 (n_users,), of a model with biases.

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "bob"], ["alien", "heat", "alien", "heat"], [5, 4, 2, 1]
        >>> ann, bob = ALS(2, device="cpu").fit(columns, epochs=3).user_biases
        >>> bool(ann > 0 > bob)
        True
        """
        return self.user_factors[:, -2]

    @property
    def item_biases(self) -> np.ndarray:
        """b_i, float32 (n_items,), of a model with biases.

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "bob"], ["alien", "heat", "alien", "heat"], [5, 4, 2, 1]
        >>> alien, heat = ALS(2, device="cpu").fit(columns, epochs=3).item_biases
        >>> bool(alien > heat)
        True
        """
        return self.item_factors[:, -1]

    @property
    def _offset(self):
        return self.mean if self.biases else 0.0

    @property
    def _bounds(self):
        return self.scale if self.clip else None

    def _scale_with(self, new):
        """The scale, widened to that of new ratings where it bounds predictions."""
        if not self._bounds:
            return self.scale
        return min(self.scale[0], new.bounds[0]), max(self.scale[1], new.bounds[1])

    def initial_factors(self, train: Ratings) -> tuple[Any, Any]:
        """Random factors, uniform on [0, 2 sqrt(mean / f)), so that inner products start near the mean rating.

        For a mean of 4 and 16 factors that is the thesis's [0, 1) (section 6.2.1), as with init='unit' always. The
        same for every kernel and device. A mean that is not positive, as of ratings counted from theirs, gets factors
        centred on zero. With biases, these are zero, and so are the factors of users and items without a rating: the
        mean is predicted. Those of `SGD` with biases are normal with `init_std` around 0.

        Returns
        -------
        (user_factors, item_factors) : float32, where the ratings are

        >>> from gpumf import ALS
        >>> from gpumf.ratings import Ratings
        >>> ratings = Ratings([0, 1, 1], [0, 0, 1], [4, 3, 5], n_users=2, n_items=2)
        >>> users, items = ALS(2, biases=False, device="cpu").initial_factors(ratings)
        >>> users.shape, bool(users.min() >= 0), bool(users.max() < 2 * (ratings.mean / 2) ** 0.5)
        ((2, 2), True, True)
        """
        self._check_parameters()
        return self._initial(train)

    def _drawn(self, train, first):
        """Initial factors of a training set's users and items, of whom the first ones have these positions."""
        asked = 4 * (train.n_users + train.n_items) * self.columns
        if asked > _SURELY_FREE:
            free = train.device.free_bytes() if train.device else free_bytes()
            if asked > free:
                what = f"the factors of {train.n_users + train.n_items} users and items"
                raise backends.out_of_memory(what, asked, free)
        key = splitmix64(np.uint64(self.seed))
        with np.errstate(over="ignore"):
            keys = splitmix64(key + np.arange(2, dtype=np.uint64)) + np.array(first, np.uint64) * self.factors
        users, items = self._draw(train, train.n_users, keys[0]), self._draw(train, train.n_items, keys[1])
        if not self.biases:
            return users, items
        if not self._damped:
            return with_bias_columns(train, (users, 0), (items, 0), train.device)
        of_users, of_items, unit, _ = train.damped
        sides = (users, of_users), (items, of_items)
        return with_bias_columns(train, *sides, train.device, np.sqrt(unit))  # in units of the ratings

    def _draw(self, train, rows, key):
        """Initial factors of so many users or items, without biases: a function of the key and of their positions."""
        mean = 0.0 if self.biases else self.factors / 4 if self.init == "unit" else train.mean  # of inner products
        return uniform_factors(rows, self.factors, mean, key, train.device)

    def _set_training(self, train):
        super()._set_training(train)
        self._standard = train.damped if self._damped else None
        if self.clip and self.scale is None:
            self.scale = train.bounds

    def _as_trained(self, ratings):
        """The ratings as the start of a solver's problem counts them."""
        return ratings if self._damped else self._from_offset(ratings)

    def _from_offset(self, ratings):
        """The ratings as inner products approximate them."""
        return ratings.less(self._offset) if self._offset else ratings

    def _problem(self, train, arrays):
        if not self._damped:
            return super()._problem(train, arrays)
        if self._standard is None:  # not fitted
            self.mean, self._standard = train.mean, train.damped
        biases = map(column_of, arrays, (-2, -1), repeat(train.device))
        train = train.standardized(self.mean, *biases, self._standard.step)
        return super()._problem(train, self._to_solve(arrays))

    def _to_solve(self, arrays):
        """What a solver starts from: the factors without damped biases, in what it counts in."""
        if not self._damped:
            return arrays
        scale, there = 1 / self._scale_of_factors, self._there
        return [without_biases(array, scale, there) for array in arrays]

    @property
    def _scale_of_factors(self):
        return np.float32(np.sqrt(self._standard.step))

    @property
    def _units(self):
        return [self._standard.unit, self._standard.penalty] if self._standard else None

    @_units.setter
    def _units(self, units):
        if self._damped:
            unit, penalty = units
            self._standard = Damped(None, None, number("unit", unit, above=0), number("penalty", penalty, least=0))

    def _whole(self, arrays, start):
        if self._standard is None:
            return arrays
        scale, there = self._scale_of_factors, self._there
        return tuple([with_biases(*both, scale, there) for both in zip(arrays, start, strict=True)])

    def _keep_biases(self, standard):
        """Go on in the units of a training before, with the damped biases that the factors have."""
        self._standard = standard and Damped(None, None, standard.unit, standard.penalty)

    def _rebias(self, ratings, side, rows, factors):
        """Give these users (side 0) or items (1) the damped biases of all their ratings, on the host, in place."""
        by = (ratings.by_user, ratings.by_item)[side]
        fixed = np.ascontiguousarray(factors[1 - side][:, -1 if side == 0 else -2])
        factors[side][rows, -2 if side == 0 else -1] = row_biases(by, self.mean, fixed, DAMPING[side])[rows]

    def _initial(self, train):
        return self._drawn(train, (0, 0))

    def _continued(self, train, users_known, items_known):
        """What was learned of who was known before; initial factors of all others."""
        learned, known = self._learned, (users_known, items_known)
        if self._damped and self._standard.user_biases is not None:
            learned = tuple(array.copy() for array in learned)
            for rows, column, of in zip(learned, (-2, -1), self._standard[:2], strict=True):
                rows[:, column] = of
        now = self._user_known, self._item_known
        if all(
            len(before) == len(after) and not (after & ~before).any()
            for before, after in zip(known, now, strict=True)
        ):
            return learned
        factors = self.initial_factors(train)
        if train.device:
            factors = tuple(map(train.device.to_numpy, factors))
        for fresh, old, before in zip(factors, learned, known, strict=True):
            fresh[: len(before)][before] = old[before]
        return factors

    def _shapes(self, users, items, found):
        return (users, self.columns), (items, self.columns)

    def _known_sides(self):
        known = super()._known_sides()
        return tuple(np.broadcast_to(True, len(side)) for side in known) if self.biases else known

    def _personalized(self):
        return np.ones_like(self._user_known) if self.biases else super()._personalized()

    def _sources(self, train, validates):
        found = self.solver_class.sources(self.hyperparameters, train)
        found += [(RATINGS, {}), (INITIAL, {}), (FINITE, {}), *[(BIASES, {})] * self._damped]
        if self.columns in COLUMNS:
            found += [(ERRORS, {"FACTORS": self.columns})] * validates
            found.append((RANKING, {"FACTORS": self.columns, "WARPS": 4}))
            if screened := screening(self._there, self.columns, train.n_users):
                found.append((SCREENED, screened))
        return found

    def _forget_copies(self):
        self._users_there, self._rows_there = Once(), Once()  # on the device, of the training set

    def _vectors(self, side):
        return getattr(self, f"{side}_factors")[:, : self.factors]

    def _errors(self, ratings):
        known, mean = self._known_sides(), self.mean - self._offset
        bounds = tuple(bound - self._offset for bound in self._bounds or UNBOUNDED)
        return Errors(self._from_offset(ratings), known, mean, self.columns, self.device, bounds)

    def _predicted(self, users, items):
        if users.ndim and users.size > _PAIRS_AT_ONCE and len(users) > 1:
            step = max(_PAIRS_AT_ONCE // users[0].size, 1)
            parts = [slice(begin, begin + step) for begin in range(0, len(users), step)]
            return np.concatenate([self._predicted(users[part], items[part]) for part in parts])
        dots = np.einsum("...k,...k->...", self.user_factors[users], self.item_factors[items])
        return dots + np.float32(self._offset)

    def _kernel_ranks(self, k):
        """Whether lists of k items are found where the kernel runs."""
        return self.device != "cpu" and k <= MAX_ITEMS and self.columns <= COLUMNS[-1]

    def _few(self, nnz, n_users):
        """Whether NumPy solves so many users: to start a GPU, or to compile a solver for one user, takes longer."""
        f = self.columns
        return (self.device != "cpu" or n_users == 1) and (nnz + n_users * f) * f * f <= _FEW

    def _row_of_one(self, items, values):
        """What `_fold` learns of one user, float32 (columns,), from ratings, float32 (n,), of different items."""

    def _list_of_one(self, ratings, k, ids, skip):
        self._check_fitted()
        items, values = self._ratings_of_one(ratings, ids, skip)
        k, plain = self._length(k, self._shape[1]), items.ndim == values.ndim == 1 and values.dtype.kind in "fiub"
        if not (plain and len(items) and self._kernel_ranks(k) and self._few(len(items), 1)):
            return None
        values, seen = np.ascontiguousarray(values, np.float32), np.sort(items).astype(np.int32)
        if not np.isfinite(values).all() or (seen[1:] == seen[:-1]).any():
            return None  # which `fold_in` says
        row = self._row_of_one(items, values)
        if row is None:
            return None
        arrays = row[None], np.zeros(1, np.int32), np.array([0, len(seen)]), seen
        row, user, indptr, seen = self._there.packed(arrays)
        seen = CompressedRows(indptr, seen, None)
        items, scores = self._kernel_ranking(row, seen, self._item_known).list_of(user, k)
        if self._offset:
            scores += np.float32(self._offset)
        return self._told(items, "item", ids), self._clipped(scores)

    def _rows(self, ratings, k=None):
        if k is None or not self._kernel_ranks(k):
            return super()._rows(ratings, k)
        there = self._there
        if ratings.device is there:
            return ratings.by_user

        def copied():
            here = "by_user" in vars(ratings) or ratings.nnz <= _ORDERED_HERE
            ordered = ratings.on_host() if here else DeviceRatings.where_they_fit(ratings, there)
            return CompressedRows(ordered.by_user.indptr, there.array(ordered.by_user.indices), None)

        return self._rows_there(copied, ratings) if ratings is self._training else copied()

    def _keep_orders(self, train):
        if train.device and "by_user" in vars(train):
            rows = CompressedRows(train.by_user.indptr, train.by_user.indices, None)
            if rows.indices.nbytes <= _KEPT * train.device.free_bytes():
                self._rows_there(lambda: rows, self._training)

    def _ranking_without(self, seen, k, candidates):
        users, items = self._learned
        if not self._kernel_ranks(k):
            return ranking_of(users, items, candidates, seen, k, self.device)
        users.flags.writeable = False  # a change would not be seen in the copy
        kept = self._users_there
        if kept.was_of((users,)):
            there = kept(lambda array=users: self._there.array(array), users)
            return self._kernel_ranking(there, seen, candidates)
        return self._kernel_ranking(users, seen, candidates, lambda there, of=users: kept(lambda: there, of))

    def _kernel_ranking(self, users, seen, candidates, keep=None):
        """As `_ranking_without`, of users whose factors are on the device, or get there and are kept."""
        items, there = self.item_factors, self._there
        items.flags.writeable = False
        items = self._items_there(lambda array=items: ItemColumns(array, there), items)
        if candidates is self._item_known:
            candidates = self._known_there(lambda known=candidates: there.array(known.view(np.uint8)), candidates)
        return KernelRanking(users, items, candidates, seen, self.device, keep)


def joined(models: Sequence[Factorization], weights: np.ndarray) -> Factorization:
    """A factor model that ranks items by the weighted mean of models' predictions before they are clipped.

    Its scores lack what all items of a user share. It is for lists alone, where the models are, or else on the CPU.
    Who is known, and how often items were rated, is that of the first model.
    """
    users, items = [], []
    for model, weight in zip(models, weights.astype(np.float32), strict=True):
        p, q = model._learned
        if not model.biases:  # the mean is predicted for who is not known: it is one more factor
            of_users, of_items = (known[:, None].astype(np.float32) for known in model._known_sides())
            p = np.hstack([p * of_users, np.float32(-model.mean) * of_users])
            q = np.hstack([q * of_items, of_items])
        users.append(weight * p)
        items.append(q)
    found = copy.copy(models[0])
    found._forget_copies()
    found._items_there, found._known_there = Once(), Once()
    found._set_learned((np.hstack(users), np.hstack(items)))
    found.factors, found.biases = found.item_factors.shape[1], False
    if any(model.device != found.device for model in models):
        found.device = "cpu"
    return found


def of_rated_items(ratings: Ratings, item_factors: np.ndarray) -> tuple[Ratings, np.ndarray]:
    """(ratings, item_factors) of the rated items alone: of explicit ratings, users depend on no others.

    ratings : Ratings, on the host; item_factors : float32 (n_items, columns). Both results count items anew.
    """
    rated, items = np.unique(ratings.items, return_inverse=True)
    if not len(rated):
        rated = np.zeros(1, np.int64)  # a set has one item at least
    ids = ratings.item_ids[rated]
    return replace(ratings, items=items, n_items=len(rated), item_ids=ids), item_factors[rated]


def solved_users(
    model: Factorization, ratings: Ratings, item_factors: np.ndarray, solver_class: type[ALSSolver], **parts: Any
) -> np.ndarray:
    """The factors of the users of some ratings, float32 (n, columns), by user updates of an ALS solver.

    model : fitted Factorization, with what the solver asks of it
    ratings : Ratings, on the host
    item_factors : float32 (n_items, columns), of their items
    solver_class : a class of `gpumf.solvers.als_base.ALSSolver`; on the CPU one that solves exactly
    **parts : of the solver
    """
    there = model._as_trained(model._placed(ratings))
    start = np.zeros((ratings.n_users, model.columns), np.float32)
    if model.biases:
        start[:, -1] = 1
    arrays = start, np.ascontiguousarray(item_factors)
    if model._damped:
        model._rebias(ratings, 0, slice(None), arrays)
    solver, found = solver_class(model._problem(there, arrays), **parts), start
    for _ in range(1 if model.device == "cpu" else _MAX_SOLVES):
        before = found
        solver.solve_users()
        solver.synchronize()
        (found,) = model._whole(solver.factors()[:1], arrays[:1])
        found = (model._there.to_numpy(found) if model._there else found).copy()
        if np.abs(found - before).max(initial=0) <= 1e-6 * np.abs(found).max(initial=0):
            break
    return found


def solved_on_host(model: Factorization, ratings: Ratings, item_factors: np.ndarray, **parts: Any) -> np.ndarray:
    """As `solved_users`, of a few users, on one thread: waking others would take longer than their work."""
    model = copy.copy(model)
    model.device = "cpu"
    with threads.limited_to(1):
        return solved_users(model, ratings, item_factors, RowByRow, **parts)
