"""What all models share: training with a history, errors, recommendation, and storage; and what factorizations do."""

import json
import time
import zipfile
from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import gpu
from gpumf.datasets import Ratings
from gpumf.gpu import sources
from gpumf.models.evaluation import Errors
from gpumf.models.ranking import METRICS, MOST_ITEMS, CpuRanking, KernelRanking

MAX_FACTORS = 300
_FORMAT = 1  # of the files that `save` writes


class NotFittedError(RuntimeError):
    """The model has learned nothing yet."""


class Trainer(ABC):
    """One kernel at work on one training set: holds the arrays where the kernel wants them.

    Made from the model, the training set and the model's initial arrays, float32 on the host, which it copies.
    `epoch` may return before the work is done; `synchronize` waits.
    """

    device = "cpu"

    @classmethod
    @abstractmethod
    def compile(cls, model):
        """The compiled kernel for this model, made once; called before anything is timed."""

    @abstractmethod
    def epoch(self, number):
        """Start epoch `number`, counted from 0."""

    def synchronize(self):  # noqa: B027 - what runs on the CPU has nothing to wait for
        """Wait for the started epochs."""

    @abstractmethod
    def arrays(self):
        """What is learned, in the order of the model's `_arrays`, where the kernel keeps it."""


class FactorTrainer(Trainer):
    """A trainer of a `Factorization`, with at most `max_factors` factors."""

    max_factors = MAX_FACTORS

    @abstractmethod
    def factors(self):
        """(user_factors, item_factors) where the kernel keeps them."""

    def arrays(self):
        return self.factors()


class KernelTrainer(Trainer):
    """A trainer that launches the kernel `entry` of kernels/`source`: on a GPU, or on the processor in its place."""

    device = "cuda"
    source: str
    entry: str

    def __init_subclass__(cls):
        if "FACTORS" in sources.VARIANTS.get(getattr(cls, "source", None), {}):
            cls.max_factors = max(sources.VARIANTS[cls.source]["FACTORS"])

    @staticmethod
    def defines(model):
        """The preprocessor definitions that the source is compiled with for this model."""
        return {"FACTORS": model.factors}

    @classmethod
    def compile(cls, model):
        return gpu.device(model.device).kernel(cls.source, cls.entry, **cls.defines(model))

    def synchronize(self):
        self._device.synchronize()


_BLOCK = 128  # CUDA threads: the thesis's four warps (section 6.4)


def lanes(factors):
    """Threads that work on one row or rating together: a group of kernels/common/group.cuh."""
    return 16 if factors <= 16 else 32


def whole_warps(threads):
    """As many CUDA threads, rounded up to whole warps."""
    return -(-threads // 32) * 32


def launch_shape(threads, groups, factors, device, group_lanes=None):
    """(blocks, threads a block) of a grid in which a group of lanes takes a row or a rating at a time.

    As many CUDA threads as asked for, in whole groups; by default (None) those that `groups` need, at most what the
    device holds at once. A group has lanes(factors) lanes, or `group_lanes`.
    """
    width = group_lanes or lanes(factors)
    if threads is None:
        held = device.facts["multiprocessors"] * device.facts["threads_per_multiprocessor"]
        threads = min(groups * width, held)
    block = min(_BLOCK, -(-threads // width) * width)
    return -(-threads // block), block


class Model(ABC):
    """Trains on ratings, keeps a history, predicts ratings.

    Subclasses name their kernels in `_trainers` (kernel name -> Trainer class), fastest last, and in `_arrays` the
    attributes that hold what is learned, float32: first that of the users, then that of the items, row by row.

    Attributes
    ----------
    history : DataFrame with one row an epoch and the columns
        epoch (0 is the initial model), seconds (of training alone, summed up), rmse, mae (of the validation set;
        NaN without one)
    device : where the kernel runs: 'cpu', 'cuda', or 'host' for a CUDA kernel on the processor
    transfer_seconds : time to put ratings and arrays where the kernel wants them; not part of `history.seconds`
    """

    _trainers: dict[str, type[Trainer]]
    _arrays: tuple[str, ...]

    def __init__(self, *, kernel, device, seed):
        self.seed = int(seed)
        self.kernel, self.device = self._choose(kernel, device)
        self.history = None

    @classmethod
    def kernels(cls):
        """What can be passed as `kernel`: a dict name -> device, slowest first. Those of 'cuda' run on 'host' too."""
        return {name: trainer.device for name, trainer in cls._trainers.items()}

    def _choose(self, kernel, device):
        model = type(self).__name__
        if device not in ("auto", "cpu", "cuda", "host"):
            raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'host', not {device!r}")
        if kernel is not None and kernel not in self._trainers:
            raise ValueError(f"{model} has no kernel {kernel!r}; choose from {list(self._trainers)}")
        if device == "host":
            gpu.device("host")  # raises where there is none
        elif device == "cuda" or (kernel and self._trainers[kernel].device == "cuda"):
            gpu.device()
        usable = {"host": ("cuda",), "auto": ("cpu", "cuda") if gpu.available() else ("cpu",)}.get(device, (device,))
        fitting = [
            name
            for name, trainer in self._trainers.items()
            if kernel in (None, name) and trainer.device in usable and self._fits(trainer)
        ]
        if not fitting:
            raise ValueError(
                f"{model} has no kernel for kernel={kernel!r}, device={device!r}{self._misfit}; there are "
                + ", ".join(f"{name} ({self._described(trainer)})" for name, trainer in self._trainers.items())
            )
        return fitting[-1], "host" if device == "host" else self._trainers[fitting[-1]].device

    _misfit = ""  # what else than kernel and device a kernel may not fit

    def _fits(self, trainer):
        """Whether a kernel is made for a model of this size."""
        return True

    @staticmethod
    def _described(trainer):
        """What `_choose` says of a kernel that does not fit."""
        return trainer.device

    @property
    def _parameters(self):
        """The constructor's arguments, by name, that make an equal model on any device."""
        return {"seed": self.seed}

    @property
    def _learned(self):
        """The arrays named in `_arrays`."""
        return tuple(getattr(self, name) for name in self._arrays)

    def _keep(self, arrays):
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
        `warm_start=True`.

        Parameters
        ----------
        train : Ratings
        epochs : int, how many to add
        validation : Ratings of the same shape, whose errors the history records after each epoch
        stop : function of the newest history row (a dict); true ends the training early
        warm_start : bool, go on from what this model has learned, and its history, instead of from the start
        progress : bool, show a bar

        Returns
        -------
        self

        Raises
        ------
        ValueError : ratings that are not finite, an empty training set, a validation set of another shape
        """
        check_training(train, validation)
        if warm_start:
            self._check_fitted()
            if self._shape != (train.n_users, train.n_items):
                raise ValueError("warm_start needs ratings of the same users and items as before")
            arrays = self._learned
            rows = self.history.to_dict("records")
            self._set_training(train)
        else:
            self._set_training(train)
            arrays = self._initial(train)
            rows = []
        return self._train(train, arrays, rows, epochs, validation, stop, progress)

    def _train(self, train, arrays, rows, epochs, validation, stop, progress):
        """Train from these arrays, with this history so far."""
        train = self._as_trained(train)
        errors = self._errors(validation) if validation is not None else None
        make_trainer = self._trainers[self.kernel]
        make_trainer.compile(self)
        _ = train.by_user, train.by_item  # belongs to loading, not to the transfer
        started = time.perf_counter()
        trainer = make_trainer(self, train, *arrays)
        trainer.synchronize()
        self.transfer_seconds = time.perf_counter() - started

        def record(epoch, seconds):
            rmse, mae = errors(*trainer.arrays()) if errors else (np.nan, np.nan)
            rows.append({"epoch": epoch, "seconds": seconds, "rmse": rmse, "mae": mae})

        if not rows:
            record(0, 0.0)
        first = rows[-1]["epoch"]
        try:
            for epoch in tqdm(range(first, first + epochs), disable=not progress, desc=self.kernel, unit="epoch"):
                started = time.perf_counter()
                self._epoch(trainer, epoch, rows)
                trainer.synchronize()
                record(epoch + 1, rows[-1]["seconds"] + time.perf_counter() - started)
                if stop is not None and stop(rows[-1]):
                    break
        finally:
            self._keep(self._to_host(trainer.arrays()))
            self.history = pd.DataFrame(rows)
        return self

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
        self._user_known = np.bincount(train.users, minlength=train.n_users) > 0
        self._item_known = np.bincount(train.items, minlength=train.n_items) > 0
        self._training = train

    @abstractmethod
    def _errors(self, ratings):
        """A function of the model's arrays, where they are, that gives (rmse, mae) on these ratings."""

    # Use

    def _check_fitted(self):
        if self.history is None:
            raise NotFittedError(f"this {type(self).__name__} has not been fitted; call fit() first")

    def _check_shape(self, ratings):
        if (ratings.n_users, ratings.n_items) != self._shape:
            raise ValueError("the ratings have other users or items than the model was trained on")

    def score(self, ratings):
        """Errors on a set of ratings of the same shape, as {"rmse": ..., "mae": ...} in rating units."""
        self._check_fitted()
        self._check_shape(ratings)
        arrays = self._learned
        if self.device != "cpu":
            arrays = map(gpu.device(self.device).array, arrays)
        rmse, mae = self._errors(ratings)(*arrays)
        return {"rmse": rmse, "mae": mae}

    def predict(self, users, items):
        """Predicted ratings, float32, for positions of users and items (broadcast against each other).

        Raises
        ------
        IndexError : a position outside 0..n-1
        """
        self._check_fitted()
        users, items = np.broadcast_arrays(
            _positions(users, self._shape[0], "user"), _positions(items, self._shape[1], "item")
        )
        return np.where(self._known(users, items), self._predicted(users, items), np.float32(self.mean))

    @abstractmethod
    def _predicted(self, users, items):
        """Predictions for positions of one shape, as if all were known."""

    def _known(self, users, items):
        """Whether the model has learned enough of these positions to predict more than the mean."""
        return self._user_known[users] & self._item_known[items]

    def recommend(self, user, k=10, seen=None):
        """The k items with the highest predicted ratings that the user has not rated.

        Of equal ratings the item of the lower position comes first. Up to 128 items of a factorization are found
        where the kernel runs, all else on the CPU.

        Parameters
        ----------
        user : int position, or an array (n,) of them
        k : int
        seen : Ratings whose items of this user are left out; the training set where the model still has it (a
            loaded model has not)

        Returns
        -------
        (items, ratings) : int64 and float32, best first; items without a training rating never appear. For one user
            (<= k,), for an array (n, k) with -1 and NaN where there are fewer items.
        """
        self._check_fitted()
        users = np.atleast_1d(_positions(user, self._shape[0], "user"))
        _check_length(k)
        within = min(k, self._shape[1])
        items, ratings = self._ranking(seen, within).top_items(users, within)
        items = items.astype(np.int64)
        ratings[~self._known(users[:, None], items) & (items >= 0)] = self.mean
        if np.ndim(user) == 0:
            there = items[0] >= 0
            return items[0, there], ratings[0, there]
        beyond = (0, 0), (0, k - within)
        return np.pad(items, beyond, constant_values=-1), np.pad(ratings, beyond, constant_values=np.nan)

    def rank(self, test, k=10, seen=None, users=None):
        """How many of the k best items that the model finds for a user are among those that the user rated later.

        Every test rating counts as relevant, whatever its value; of a user's k items, best first, let hit j be one
        where the item of rank j = 1..k is relevant, and n the number of the user's test items. Then

            precision = hits / k,    recall = hits / n,
            map  = 1 / min(k, n) * sum over hits j of (hits up to rank j) / j,
            ndcg = sum over hits j of 1 / log2(j + 1), over the same sum for j = 1..min(k, n),

        each averaged over the users with a test item. `map` is the mean average precision, scaled so that a perfect
        list gets 1; `ndcg` the normalized discounted cumulative gain (Järvelin and Kekäläinen 2002, for relevance 0
        or 1) with the discount of Burges et al. 2005, which counts from the first rank.

        Parameters
        ----------
        test : Ratings of the same shape as the training set
        k : int
        seen : as in `recommend`
        users : positions of the users to average over; all by default

        Returns
        -------
        dict of precision, recall, map, ndcg, in 0..1

        Raises
        ------
        ValueError : no user with a test item, a test set of another shape
        """
        self._check_fitted()
        self._check_shape(test)
        _check_length(k)
        users = np.arange(test.n_users) if users is None else _positions(users, test.n_users, "user")
        users = users[test.by_user.counts[users] > 0]
        if not len(users):
            raise ValueError("none of the users has a test item")
        means = self._ranking(seen, k).metrics(test.by_user, users, k).mean(axis=0)
        return dict(zip(METRICS, means.tolist(), strict=True))

    def _ranking(self, seen, k):
        """A `Ranking` for lists of k items without those of `seen`, by default of the training set."""
        if seen is not None:
            self._check_shape(seen)
        elif self._training is not None:
            seen = self._training
        return self._ranking_without(None if seen is None else seen.by_user, k)

    @abstractmethod
    def _ranking_without(self, seen, k):
        """As `_ranking`, with `seen` as CompressedRows or None."""

    # Storage

    def save(self, path):
        """Write the fitted model to one .npz file: what it learned, its parameters and history, no ratings."""
        self._check_fitted()
        header = {
            "format": _FORMAT,
            "model": type(self).__name__,
            "parameters": self._parameters,
            "mean": self.mean,
            "scale": self.scale,
            "transfer_seconds": self.transfer_seconds,
            "history": self.history.to_dict("list"),
        }
        with open(path, "wb") as file:  # np.savez given a name may append a suffix; a file it leaves alone
            np.savez(
                file,
                header=json.dumps(header),
                **dict(zip(self._arrays, self._learned, strict=True)),
                user_known=self._user_known,
                item_known=self._item_known,
            )

    @classmethod
    def load(cls, path, device="auto"):
        """Read a model that `save` wrote, for use on `device`; its kernel is chosen anew where it is not there.

        Raises
        ------
        ValueError : the file is no saved model of this class
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                header = json.loads(str(file["header"]))
                arrays = {name: file[name] for name in file.files if name != "header"}
        except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
            raise ValueError(f"{path} is not a saved model: {error}") from error
        if (header.get("format"), header.get("model")) != (_FORMAT, cls.__name__):
            raise ValueError(
                f"{path} holds a {header.get('model')} (format {header.get('format')}), "
                f"not a {cls.__name__} (format {_FORMAT})"
            )
        model = cls(**header["parameters"], device=device)
        model._keep(arrays[name] for name in cls._arrays)
        model._user_known, model._item_known = arrays["user_known"], arrays["item_known"]
        model.mean, model.transfer_seconds = header["mean"], header["transfer_seconds"]
        model.scale = tuple(header["scale"]) if header["scale"] else None
        model.history = pd.DataFrame(header["history"])
        model._training = None
        return model


class Factorization(Model):
    """Approximates a rating by the inner product of a user's and an item's factors: r_ui ~ p_u . q_i.

    A model with biases has two more columns (see `SGD`), and counts ratings from their mean. Predictions are not
    clipped to the rating scale, as the errors in `history` are not. A user or item without a training rating has no
    factors worth using; for it the mean of the training ratings is predicted, and counted so in every error.

    Attributes
    ----------
    user_factors, item_factors : float32 (n_users, columns) and (n_items, columns), after `fit`
    """

    _arrays = "user_factors", "item_factors"

    def __init__(self, factors, regularization, *, kernel, device, threads, seed):
        if not (isinstance(factors, int | np.integer) and 1 <= factors <= MAX_FACTORS):
            raise ValueError(f"factors must be an integer from 1 to {MAX_FACTORS}, not {factors!r}")
        if not (np.isfinite(regularization) and regularization >= 0):
            raise ValueError(f"regularization must be finite and not negative, not {regularization!r}")
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be positive, not {threads!r}")
        self.factors = int(factors)
        self.regularization = float(regularization)
        self.threads = threads
        super().__init__(kernel=kernel, device=device, seed=seed)

    @property
    def _misfit(self):
        return f", factors={self.factors}"

    def _fits(self, trainer):
        return self.factors <= trainer.max_factors

    @staticmethod
    def _described(trainer):
        return f"{trainer.device}, up to {trainer.max_factors}"

    @property
    def columns(self):
        """Columns of `user_factors` and `item_factors`."""
        return self.factors

    @property
    def _offset(self):
        """What is added to an inner product to predict a rating."""
        return 0.0

    @property
    def _parameters(self):
        return super()._parameters | {"factors": self.factors, "regularization": self.regularization}

    def initial_factors(self, train):
        """Random factors, uniform on [0, 2 sqrt(mean / f)), so that inner products start near the mean rating.

        For a mean of 4 and 16 factors that is the thesis's [0, 1) (section 6.2.1). The same for every kernel and
        device. A mean that is not positive gets factors centred on zero.

        Returns
        -------
        (user_factors, item_factors) : float32
        """
        rng, mean = np.random.default_rng(self.seed), self._target_mean(train)
        width = np.float32(2 * np.sqrt(abs(mean) / self.factors)) if mean else np.float32(1)
        centre = np.float32(0 if mean > 0 else 0.5)
        return tuple(
            (rng.random((rows, self.factors), np.float32) - centre) * width for rows in (train.n_users, train.n_items)
        )

    @staticmethod
    def _target_mean(train):
        """The mean of what the inner products of known users and items are to be."""
        return train.mean

    def _as_trained(self, ratings):
        """The ratings as inner products approximate them."""
        return replace(ratings, values=ratings.values - np.float32(self._offset)) if self._offset else ratings

    def _initial(self, train):
        return self.initial_factors(train)

    def _errors(self, ratings):
        known = self._known(ratings.users, ratings.items)
        return Errors(self._as_trained(ratings), known, self.mean - self._offset, self.columns, self.device)

    def _predicted(self, users, items):
        dots = np.einsum("...k,...k->...", self.user_factors[users], self.item_factors[items])
        return dots + np.float32(self._offset)

    def _ranking_without(self, seen, k):
        # Without a training rating all items are alike.
        user_factors = np.where(self._user_known[:, None], self.user_factors, np.float32(0))
        arguments = user_factors, self.item_factors, self._item_known, seen
        if self.device == "cpu" or k > MOST_ITEMS:
            return CpuRanking(*arguments)
        return KernelRanking(*arguments, self.device)


def check_training(train, validation):
    if not isinstance(train, Ratings):
        raise TypeError(f"train must be Ratings (see gpumf.datasets), not {type(train).__name__}")
    if train.nnz == 0:
        raise ValueError("the training set is empty")
    for name, ratings in (("train", train), ("validation", validation)):
        if ratings is not None and not np.isfinite(ratings.values).all():
            row = int(np.flatnonzero(~np.isfinite(ratings.values))[0])
            raise ValueError(f"{name}: rating {row} is {ratings.values[row]}; remove it or give its value")
    if validation is not None and (validation.n_users, validation.n_items) != (train.n_users, train.n_items):
        raise ValueError("the validation set has other users or items than the training set")


def _check_length(k):
    if not (isinstance(k, int | np.integer) and k >= 1):
        raise ValueError(f"k must be a positive integer, not {k!r}")


def _positions(values, n, what):
    values = np.asarray(values)
    if not np.issubdtype(values.dtype, np.integer):
        raise TypeError(f"{what} positions must be integers, not {values.dtype}")
    if values.size and not (values.min() >= 0 and values.max() < n):
        raise IndexError(f"{what} positions must lie in 0..{n - 1}")
    return values
