"""Bayesian matrix factorization."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from gpumf import backends
from gpumf._util.busy import check_usable
from gpumf._util.counter_rng import splitmix64
from gpumf._util.memory import free_bytes
from gpumf._util.threads import obeys_threads
from gpumf._util.validation import flag, integer, number
from gpumf.backends.cpu.gibbs import products, row_drawer
from gpumf.models.checks import NotFittedError
from gpumf.models.estimator import Model, broadcast
from gpumf.models.factorization import of_rated_items
from gpumf.models.finite import FiniteCheck
from gpumf.models.initial import normal_factors
from gpumf.models.ranking import ranking_of
from gpumf.ratings.damped import left_of_pairs, mean_of
from gpumf.ratings.synthetic.numbers import normals
from gpumf.solvers.base import MAX_FACTORS
from gpumf.solvers.gibbs import Gibbs, GibbsHyperparameters
from gpumf.solvers.gibbs_cuda import GibbsCuda
from gpumf.solvers.gibbs_tensor_core import GibbsTensorCore

if TYPE_CHECKING:
    from gpumf.models.ids import Ids
    from gpumf.models.solver_choice import Device
    from gpumf.ratings.convert import RatingsLike

_DISCARDED = 5  # of so many epochs the first one is not kept: the chain has not reached its distribution
_AT_A_TIME = 1 << 30  # bytes of samples that go from a device to the host, or are multiplied there
_SHARE = 0.25  # of a device's free memory, for samples
_START_DEVIATION = 0.1  # of the initial factors: priors that are narrow at first let strong signals in first


class BayesianMF(Model):
    """Bayesian matrix factorization, for predicting ratings with their uncertainty. Needs no tuning.

    Ratings are standardized, z = (r - mean) / unit with their standard deviation as the unit. The model is

        z_ui ~ N(p_u . q_i, 1 / a),    p_u ~ N(mu_P, Lambda_P^-1),    q_i ~ N(mu_Q, Lambda_Q^-1)
        mu ~ N(0, (2 Lambda)^-1),    Lambda ~ Wishart(I, factors),    a ~ Gamma(1, 1)

    (Salakhutdinov and Mnih 2008, who fix a). An epoch is a step of Gibbs sampling: it draws mu_P and Lambda_P, all
    p_u, mu_Q and Lambda_Q, all q_i, and a, each given all else. A row of factors is drawn from a normal distribution
    whose precision matrix and mean are those of a step of `ALS`,

        A = a sum q_i q_i^T + Lambda_P,    A^-1 (a sum z_ui q_i + Lambda_P mu_P)

    Every epoch gives a sample of all factors. A prediction is the mean over samples; nothing is regularized by hand,
    and more epochs or factors do not overfit. `predict_with_std` also gives standard deviations. Of all epochs the
    first fifth is discarded, so that 100 epochs make 80 samples. The same seed gives the same model, whatever the
    number of threads, and on a GPU the same but for rounding, which grows from epoch to epoch. Biases are factors
    too: none come first. For top-N lists take `ImplicitALS`.

    Predictions of users or items without training ratings come from their prior; such a user is recommended the items
    with the most training ratings first. A new user's factors (`fold_in`) are drawn given each sample of the items.

    Memory: samples take 4 bytes times `factors`, the number of samples, and that of users and items together: 100 MB
    for 80 samples of 32 factors of MovieLens 1M. Training takes twice as much when it ends. On a GPU samples go to
    the host one by one, unless they take at most a quarter of its free memory and training leaves them room. Then
    they stay there, also after `fit`: predictions are computed there until a list, `fold_in`, `save`, a pickle or one
    of the attributes below needs them on the host, which frees the memory of the GPU.

    Parameters
    ----------
    factors : int, 1 to 300, on a GPU to 256
    samples : int, how many are kept at most: the newest ones
    clip : bool, clip predictions to the rating scale, or where there is none to the range of the training ratings
    solver : a name of `BayesianMF.solvers()`. On a GPU 'gibbs_tensor_core', the default up to 128 factors, draws rows
        given the other side's factors in half precision, 11 binary digits; 'gibbs_cuda' computes in FP32
    device, threads : as of `ALS`; threads are without effect on a GPU
    seed : int, None draws one, of the initial factors and all draws

    Attributes
    ----------
    user_samples, item_samples : float32 (n_users, samples, factors) and (n_items, samples, factors), after `fit`: p
        and q, oldest sample first. Asked for the first time after training on a GPU, they are copied to the host
    user_priors : float32 (samples, factors, factors + 1), Lambda_P and, the last column, Lambda_P mu_P
    deviations : float32 (samples,), a^-1/2, of the standardized ratings

    Raises
    ------
    ValueError : a parameter out of range, a device without a solver
    gpumf.backends.DeviceError : device='cuda' or 'emulator' where there is none; when fitted, where samples take more
        memory than is free, with both numbers

    >>> from gpumf import BayesianMF
    >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
    >>> model = BayesianMF(factors=2).fit(columns, epochs=50)
    >>> model.user_samples.shape, model.item_samples.shape
    ((3, 40, 2), (3, 40, 2))
    """

    _hyperparameters = GibbsHyperparameters
    _solvers: ClassVar = {"gibbs": Gibbs, "gibbs_cuda": GibbsCuda, "gibbs_tensor_core": GibbsTensorCore}
    _arrays = "user_samples", "item_samples", "user_priors", "deviations"
    _remedy = "look for ratings that are far from all others"
    _scores_predict = False  # of rankings: they are sums over samples
    user_samples: np.ndarray
    item_samples: np.ndarray
    user_priors: np.ndarray
    deviations: np.ndarray
    _unit: float | None = None
    _on_device: _Samples | None = None  # whose sides are no attributes before they are asked for

    def __init__(
        self,
        factors: int = 32,
        samples: int = 100,
        *,
        clip: bool = True,
        solver: str | None = None,
        device: Device = "auto",
        threads: int | None = None,
        seed: int | None = 0,
    ) -> None:
        self.factors = integer("factors", factors, 1, MAX_FACTORS)
        self.samples = integer("samples", samples, 1)
        self.clip = flag("clip", clip)
        super().__init__(solver=solver, device=device, threads=threads, seed=seed)

    @property
    def _size(self):
        return self.factors

    @property
    def _misfit(self):
        return f", factors={self.factors}"

    @property
    def _bounds(self):
        return self.scale if self.clip else None

    @property
    def unit(self) -> float:
        """The standard deviation of the training ratings, or 1 where that is 0, after `fit`.

        >>> from gpumf import BayesianMF
        >>> BayesianMF(2).fit((["ann", "bob"], ["heat", "up"], [1, 5]), epochs=1).unit
        2.0
        """
        if self._unit is None:
            raise NotFittedError("this BayesianMF has not been fitted; its unit is that of a training set")
        return self._unit

    # Training

    def fit(
        self, train: RatingsLike, epochs: int = 100, validation: RatingsLike | None = None, **options: Any
    ) -> Self:
        """Draw samples given a set of ratings, one an epoch; otherwise as `Model.fit`, with its other options.

        Errors of the history are those of the mean over the samples that are kept by then. With `warm_start` the
        chain goes on from its newest sample.

        >>> from gpumf import BayesianMF
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> model = BayesianMF(2).fit(columns, epochs=5)
        >>> model.fit(columns, epochs=5, warm_start=True).user_samples.shape
        (3, 8, 2)
        """
        return super().fit(train, epochs, validation, **options)

    def _sources(self, train, validates):
        return self.solver_class.sources(self.hyperparameters, train)

    def _set_training(self, train):
        super()._set_training(train)
        self._unit = _deviation(train)
        if self.clip and self.scale is None:
            self.scale = train.bounds

    def _most_bytes(self, train):
        """What samples take when a training ends."""
        return 2 * 4 * self.samples * self.factors * (train.n_users + train.n_items + self.factors + 1)

    def _initial(self, train):
        f, rows = self.factors, train.n_users + train.n_items
        asked, free = self._most_bytes(train), free_bytes()
        if asked > free:
            raise backends.out_of_memory(f"{self.samples} samples of {rows} users and items", asked, free)
        keys = splitmix64(splitmix64(np.uint64(self.seed)) ^ np.arange(2, dtype=np.uint64))
        users, items = (
            normal_factors(n, f, _START_DEVIATION, key)[:, None]
            for n, key in zip((train.n_users, train.n_items), keys, strict=True)
        )
        return users, items, np.eye(f, f + 1, dtype=np.float32)[None], np.ones(1, np.float32)

    def _problem(self, train, arrays):
        users, items, priors, deviations = arrays
        start = users[:, -1], items[:, -1], priors[-1], deviations[-1:]
        if self._unit is None:  # not fitted
            self.mean, self._unit = train.mean, _deviation(train)
        _ = train.by_user, train.by_item  # the ratings keep both orders for further trainings
        return super()._problem(self._standardized(train), map(np.ascontiguousarray, start))

    def _standardized(self, ratings):
        return ratings.standardized(self.mean, *_zeros(ratings), self.unit)

    def _watch(self, validation, rows):
        chain = _Chain(self, validation, rows)
        return validation and chain.errors, chain

    def _room(self, arrays):
        return None

    def _to_host(self, arrays, room=None):
        return arrays

    _apart = _to_host  # a chain's samples do not change

    def _set_learned(self, arrays):
        self._on_device = None
        if not isinstance(arrays, _Samples):
            super()._set_learned(arrays)
        elif arrays.device is None:
            super()._set_learned((*arrays.sides(), *arrays.rest()))
        else:
            self._on_device, self._finite = arrays, arrays.rest()
            self.user_priors, self.deviations = self._finite
            for name in self._arrays[:2]:
                vars(self).pop(name, None)

    def _stayed(self):
        """The samples on a device, or None where they are on the host or something was assigned since training."""
        there, own = self._on_device, vars(self)
        if there is None or own.keys() & {*self._arrays[:2]}:
            return None
        sides = [(len(known), self.factors) for known in (self._user_known, self._item_counts)]
        as_were = [side[0].shape for side in there[:2]] == sides
        return there if as_were and all(map(is_, self._finite, map(own.get, self._arrays[2:]))) else None

    def _fetch(self):
        """Have on the host what was not assigned meanwhile."""
        if there := self._on_device:
            unchanged = self._stayed() is not None
            vars(self).update(dict(zip(self._arrays[:2], there.sides(), strict=True)) | vars(self))
            self._on_device = None
            if unchanged:
                self._finite = self._learned

    def __getattr__(self, name):
        if name in self._arrays[:2]:
            self._fetch()  # unless another thread just did
            if name in vars(self):
                return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __getstate__(self):
        self._fetch()
        return super().__getstate__()

    def _check_fitted(self):
        check_usable(self)
        if self._stayed() is None:
            super()._check_fitted()
        else:
            self._check_parameters()
            self._check_facts()

    @property
    def _shape(self):
        there = self._stayed()
        return super()._shape if there is None else tuple(len(side[0]) for side in there[:2])

    def _shapes(self, users, items, found):
        samples, f = max(found[0][1:2], default=1), self.factors
        return (users, samples, f), (items, samples, f), (samples, f, f + 1), (samples,)

    @property
    def _units(self):
        return {"unit": self.unit}

    @_units.setter
    def _units(self, units):
        self._unit = number("unit", units["unit"], above=0)

    # Use

    @obeys_threads
    def predict_with_std(self, users: Ids, items: Ids, *, ids: bool | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Predicted ratings, which are not clipped, and standard deviations, the noise of a rating included.

        The variance is unit^2 (Var[p_u . q_i] + E[1 / a]) over the samples. About 90 % of ratings are within 1.645
        standard deviations of their prediction.

        Parameters
        ----------
        users, items, ids : as of `predict`

        Returns
        -------
        (ratings, deviations) : float32, in rating units, of the shape that users and items have broadcast

        Raises
        ------
        KeyError, IndexError, ValueError : as of `predict`

        >>> from gpumf import BayesianMF
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> ratings, deviations = BayesianMF(2).fit(columns).predict_with_std("ann", ["alien", "up"])
        >>> ratings.shape, bool(deviations[0] < deviations[1])
        ((2,), True)
        """
        self._check_fitted()
        places = broadcast(self._positions(users, "user", ids), self._positions(items, "item", ids))
        means, variances = self._products(*places)
        noise = np.mean(self.deviations.astype(np.float64) ** 2)
        found = self.mean + self.unit * means, self.unit * np.sqrt(variances + noise)
        return tuple(one.astype(np.float32) for one in found)

    def _products(self, users, items):
        """`products` of positions of one shape, which the results have."""
        flat, there = [one.astype(np.int32).ravel() for one in (users, items)], self._stayed()
        found = products(*flat, self.user_samples, self.item_samples) if there is None else there.products(*flat)
        return tuple(one.reshape(users.shape) for one in found)

    def _predicted(self, users, items):
        return (self.mean + self.unit * self._products(users, items)[0]).astype(np.float32)

    def _known_sides(self):
        return tuple(np.broadcast_to(True, len(side)) for side in super()._known_sides())

    def _to_score(self):
        return () if self._stayed() else self._learned  # which may be more than a device has memory for

    def _errors(self, ratings):
        ratings = ratings.on_host()
        pairs = ratings.users, ratings.items

        def errors(*learned):
            dots = products(*pairs, *learned[:2]) if learned else self._products(*pairs)
            return self._error(ratings, dots[0])

        return errors

    def _error(self, ratings, dots):
        """(rmse, mae) of predictions, given p_u . q_i."""
        error = self._clipped(self.mean + self.unit * dots) - ratings.values
        return float(np.sqrt(np.mean(error**2))), float(np.abs(error).mean())

    def _fold(self, ratings):
        there, item_samples = of_rated_items(ratings, self.item_samples)
        rows = self._standardized(there).by_user
        drawn = np.empty((len(self.deviations), ratings.n_users, self.factors), np.float32)
        # Of a user the same ratings give the same factors, whoever else is new.
        noise = normals(splitmix64(np.uint64(self.seed)), len(drawn), self.factors).astype(np.float32)
        draw = row_drawer(self.factors)
        for s, deviation in enumerate(self.deviations.tolist()):
            fixed = np.ascontiguousarray(item_samples[:, s])
            of_users = np.tile(noise[s], (ratings.n_users, 1))
            arrays = rows.indptr, rows.indices, rows.values, fixed, self.user_priors[s], of_users, drawn[s]
            draw(*arrays, deviation**-2)
        return np.ascontiguousarray(drawn.transpose(1, 0, 2))

    def _vectors(self, side):
        samples = getattr(self, f"{side}_samples")
        return samples.reshape(len(samples), -1)

    def _ranking_without(self, seen, k, candidates):
        return ranking_of(self._vectors("user"), self._vectors("item"), candidates, seen, k, self.device)


def _deviation(train):
    if train.device is None:
        return float(np.std(train.values, dtype=np.float64)) or 1.0
    columns = train.users, train.items, train.values
    left = left_of_pairs(*columns, train.mean, *_zeros(train), 1.0, device=train.device)
    return float(np.sqrt(mean_of(left, train.device, squared=True))) or 1.0


def _zeros(ratings):
    """In the place of biases."""
    return (np.zeros(n, np.float32) for n in (ratings.n_users, ratings.n_items))


class _Samples(NamedTuple):
    """What is kept of a chain, oldest first: of each sample user and item factors, users' prior and deviation.

    device : where they all are; None for the host
    """

    users: tuple
    items: tuple
    priors: tuple
    deviations: tuple
    device: Any

    def sides(self):
        """Of users and items what a model keeps, on the host."""
        if self.device is None:
            return tuple(np.stack(side, axis=1) for side in self[:2])
        sides = tuple(np.empty((len(side[0]), len(side), side[0].shape[1]), np.float32) for side in self[:2])
        for side, found in zip(self, sides, strict=False):  # a part at a time: memory for all twice is not needed
            step = max(_AT_A_TIME // found[0].nbytes, 1)
            for k in range(0, len(found), step):
                part = self.device.xp.stack([one[k : k + step] for one in side], axis=1)
                self.device.to_numpy(part, out=found[k : k + step])
        return sides

    def rest(self):
        """Priors and deviations as a model keeps them, on the host."""
        to_host = np.array if self.device is None else self.device.to_numpy
        return np.stack(list(map(to_host, self.priors))), np.concatenate(list(map(to_host, self.deviations)))

    def products(self, users, items):
        """As `gpumf.backends.cpu.gibbs.products`, on the device."""
        xp, found = self.device.xp, np.empty((2, len(users)))
        step = max(_AT_A_TIME // (12 * self.users[0].shape[1] + 16 * len(self.users)), 1)  # by what a pair takes
        for k in range(0, len(users), step):
            u, i = (self.device.array(one[k : k + step]) for one in (users, items))
            dots = xp.stack([(p[u] * q[i]).sum(axis=1) for p, q in zip(self.users, self.items, strict=True)])
            for to, of in zip(found, (dots.mean, dots.var), strict=True):
                to[k : k + step] = self.device.to_numpy(of(axis=0, dtype=np.float64))
        return tuple(found)


class _Chain:
    """Keeps a training's samples, and the sums of what they predict for a validation set.

    model : BayesianMF
    validation : Ratings or None
    rows : of the history before; where there are some, the chain goes on
    """

    def __init__(self, model, validation, rows):
        self._model, self._validation = model, validation and validation.on_host()
        self._finite = FiniteCheck(model.device)
        self._device = device = model._there
        floats = model.samples * model.factors * (len(model._user_known) + len(model._item_counts))
        self._there = device is not None and 4 * floats <= _SHARE * device.free_bytes()
        self._epoch = rows[-1]["epoch"] - 1 if rows else -1
        self._kept, self._predicted, self._sums = [], [], 0.0
        if rows:
            of_users, of_items, priors, deviations = model._learned
            self._kept = [
                tuple(map(self._own, (of_users[:, s], of_items[:, s], priors[s], deviations[s : s + 1])))
                for s in range(len(deviations) - 1)  # the newest is the first that `copies` is given
            ]

    def _own(self, array):
        """A copy of an array where samples are kept."""
        if self._device is None:
            return array.copy()
        if not self._there:
            return np.array(self._device.to_numpy(array))
        return array.copy() if isinstance(array, self._device.xp.ndarray) else self._device.array(array)

    def copies(self, arrays, fresh=False):
        """`_Samples` with that of one more epoch, or None where it is not finite."""
        if (found := self._finite.copies(arrays, fresh)) is None:
            return None
        self._epoch += 1
        if self._there and sum(array.nbytes for array in found) > self._device.free_bytes():
            self._move_to_host()
        most = min(self._epoch - self._epoch // _DISCARDED, self._model.samples)
        self._kept = [*self._kept, tuple(map(self._own, found))][-max(most, 1) :]
        return _Samples(*map(tuple, zip(*self._kept, strict=True)), self._device if self._there else None)

    def _move_to_host(self):
        """Keep samples on the host from now on: what solvers take when a training begins may leave them no room."""
        self._there = False
        self._kept = [tuple(map(self._own, sample)) for sample in self._kept]
        self._predicted, self._sums = [], 0.0

    def errors(self, *_):
        """(rmse, mae) on the validation set of the mean over the samples that are kept."""
        kept = {id(sample) for sample in self._kept}
        before = {id(sample) for sample in self._predicted}
        pairs = self._validation.users, self._validation.items
        for samples, others, sign in ((self._kept, before, 1), (self._predicted, kept, -1)):
            for sample in samples:
                if id(sample) not in others:
                    if self._there:
                        dots, _ = _Samples(*zip(sample, strict=True), self._device).products(*pairs)
                    else:
                        dots, _ = products(*pairs, *(side[:, None] for side in sample[:2]))
                    self._sums = self._sums + sign * dots
        self._predicted = list(self._kept)
        return self._model._error(self._validation, self._sums / len(self._kept))
