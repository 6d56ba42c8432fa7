"""Alternating least squares."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from gpumf._util.threads import obeys_threads
from gpumf._util.validation import brief, choice, flag, integer, number
from gpumf.models.estimator import Model
from gpumf.models.factorization import Factorization, of_rated_items, solved_on_host, solved_users
from gpumf.models.initial import normal_factors
from gpumf.models.once import Once
from gpumf.models.parameters import Fixed
from gpumf.models.partial_fit import with_new
from gpumf.ratings import Ratings
from gpumf.ratings.damped import DAMPING
from gpumf.solvers.als_base import (
    ALSHyperparameters,
    ConjugateGradient,
    ImplicitParallel,
    Parallel,
    ParallelConjugateGradient,
    Sequential,
    solved_row,
)
from gpumf.solvers.als_cumf import CumfCg, CumfCgHalf, CumfCholesky, CumfLu
from gpumf.solvers.als_dense import Dense, DenseCuda
from gpumf.solvers.als_preconditioned import PreconditionedCg
from gpumf.solvers.als_tensor_core import TensorCore
from gpumf.solvers.als_thesis import ThesisGlobal, ThesisHybrid, ThesisShared
from gpumf.solvers.als_warpgroups import WarpGroups
from gpumf.solvers.als_wmma_simple import WmmaSimple

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from gpumf.models.solver_choice import Device
    from gpumf.ratings.convert import RatingsLike

    _Base = Factorization
else:
    _Base = object

_MAX_EXACT = 16
"""Columns with which the exact solution for explicit ratings takes the CPU less time than three steps of conjugate
gradient: the sums are 16 registers. Measured by experiments/gpumf/als_implicit_cpu.py."""

_SHARES = 16.0, 0.55
"""Of what the ratings weigh, what all other pairs weigh; and lambda_u of a mean user over the root of its others."""
_HEAVIEST = 4  # times the mean rating, at the most, a pair without a rating
_STEPS = (1, 2**0.5), (16, 1)  # by which `fit` changes them, as long as lists become better
_FEWEST, _MOST = 10_000, 5_000_000  # ratings of which some are held out
_HELD, _TRIALS, _FIRST, _FURTHER = 0.1, 7, 6, 3  # the share of these; trials at most; epochs of the first and others
_GAIN = 1.005  # times the NDCG before, from which on it counts as better: less may be chance
_VANISHED, _LOOKED_AT = 1e-9, 4096  # factors that say nothing, below it; items of which one has to be above
_START_DEVIATION = 0.1  # of the initial factors' lengths, of implicit feedback (Rendle et al. 2022)
DAMPED = 1.0
"""`regularization` with damped biases."""
_WEIGHTED = 0.15  # and without them


def best_shares(judged, start, steps=_STEPS, heaviest=np.inf):
    """Return shares of weights, see `_SHARES`, from which no step leads to clearly better lists.

    judged : function of shares, its NDCG
    start : tuple of two floats
    steps : by which both are multiplied or divided, one step after the other
    heaviest : float, of the first share
    """
    found = {start: judged(start)}
    best = start
    for step in steps:
        before = best
        for sign in (1, -1):
            while len(found) < _TRIALS:
                further = best[0] * step[0] ** sign, best[1] * step[1] ** sign
                if further[0] > heaviest:
                    break
                found[further] = judged(further)
                if found[further] <= _GAIN * found[best]:
                    break
                best = further
            if best != before:
                break
    return best


class _LeastSquares(_Base):
    """What explicit and implicit feedback share: lambda, and the parameters of conjugate gradient."""

    _hyperparameters, _max_factors = ALSHyperparameters, Dense.max_factors - 2  # columns of biases
    alpha: Any = None  # of implicit feedback, as the next two
    unobserved_weight: Any = None
    regularization_exponent: Any = None

    def __init__(
        self,
        factors: int = 16,
        regularization: float | None = None,
        *,
        biases: bool | Literal["damped"] = "damped",
        init: Literal["mean", "unit"] = "mean",
        clip: bool = True,
        weighted: bool | None = None,
        solver: str | None = None,
        device: Device = "auto",
        threads: int | None = None,
        chunk: int | None = None,
        cg_steps: int | None = None,
        cg_tolerance: float = 1e-4,
        seed: int | None = 0,
    ) -> None:
        integer("factors", factors, 1, self._max_factors)
        if not (isinstance(biases, bool | np.bool_) or (isinstance(biases, str) and biases == "damped")):
            raise ValueError(f"biases must be 'damped', True or False, not {brief(biases)}")
        self.biases = biases if isinstance(biases, str) else bool(biases)
        if regularization is None:
            regularization = DAMPED if self._damped else _WEIGHTED
        super().__init__(factors, regularization, solver=solver, device=device, threads=threads, seed=seed, clip=clip)
        self.chunk = None if chunk is None else integer("chunk", chunk, 1, 2**63 - 1)
        if chunk is not None and not self._solvers[self.solver].streams:
            raise ValueError(f"the solver {self.solver!r} has all ratings on the device; it takes no chunk")
        if self.regularization == 0:
            raise ValueError("regularization must be positive: a row with fewer ratings than factors has no solution")
        if cg_steps is None:
            cg_steps = self._solvers[self.solver].cg_steps
        self.init = choice("init", init, "mean", "unit")
        self.weighted = not self._damped if weighted is None else flag("weighted", weighted)
        self.cg_steps = integer("cg_steps", cg_steps, 1)
        self.cg_tolerance = number("cg_tolerance", cg_tolerance, least=0, below=1)
        self._solvers[self.solver].check(self.hyperparameters)

    @property
    def _size(self):
        return self._solved_columns

    def _hyper(self, **given):
        penalty = self._standard.penalty if self._standard and not self.weighted else 1.0
        return super()._hyper(regularization=self.regularization * self._ratio * penalty, **given)

    @property
    def _misfit(self):
        return super()._misfit + " and two columns of biases" * (self.biases is True)

    @property
    def _folds_by(self):
        """The solver of new users; on the CPU one that is exact."""
        if self.device != "cpu":
            return self.solver_class
        return self._solvers["parallel" if self.columns <= Parallel.max_factors else "dense"]

    def _row_of_one(self, items, values):
        if self.biases is True:
            return None
        factors, bias = self.item_factors[items].astype(np.float64), None
        hyper, gram, ridge = self._systems_of_one(len(items))
        if self._damped:
            values = values - self.mean - factors[:, -1]
            bias = np.float32(values.sum() / (len(items) + DAMPING[0]))
            values, factors = (values - bias) / self._standard.step, factors[:, :-2] / self._scale_of_factors
        row = solved_row(hyper, factors, values, ridge, gram)
        if bias is None:
            return row.astype(np.float32)
        return np.array([*row * self._scale_of_factors, bias, 1], np.float32)

    def _systems_of_one(self, n):
        """What `solved_row` takes of a user with so many ratings: hyperparameters, Y^T Y or None, and the ridge."""
        hyper = self.hyperparameters
        (ridge,) = hyper.ridges(np.array([n]), len(self.item_factors))
        return hyper, None, ridge

    def _fold(self, ratings):
        of_rated = of_rated_items(ratings, self.item_factors)
        if self._few(ratings.nnz, ratings.n_users):
            return solved_on_host(self, *of_rated)
        return solved_users(self, *of_rated, self._folds_by)

    @obeys_threads
    def partial_fit(self, new: RatingsLike) -> Self:
        """Learn from new ratings: solve their users, then their items, as they are now.

        Each is solved with all its ratings, those from before among them, of which a new one of the same pair takes
        the place. The mean from which biases count, and the history, stay as they were.

        Users and items may be new too. They come after the model's: of a data frame or columns by their ids, of
        `Ratings` and matrices at the positions from the model's shape on. Before all that is said above, a new user
        is folded in by ratings of items that the model has (see `fold_in`), then a new item solved by those of users
        that it has or has folded in; who has none of these starts with random factors. All others stay as they are:
        where much is new, train again.

        Parameters
        ----------
        new : Ratings, or what `fit` makes them of

        Returns
        -------
        self

        Raises
        ------
        NotFittedError : there is nothing to go on from
        ValueError : the training set is not known, as of a model from a file or with users folded in; positions of
            others, ids of another type, ratings that are not finite

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> model = ALS(2, device="cpu").fit(columns, epochs=3)
        >>> model.partial_fit((["zoe", "zoe"], ["alien", "brazil"], [4, 5])).user_ids
        array(['ann', 'bob', 'eve', 'zoe'], dtype=object)
        >>> items, _ = model.recommend("zoe")
        >>> sorted(items)
        ['heat', 'up']
        """
        with self._as_before_if_it_fails():
            new, whole = with_new(self, new, grow=True)
            if not self._solver_given:
                self._solver = self.choose(whole)
            p, q = (array.copy() for array in self._learned)
            self.scale = self._scale_with(new)
            self._keep_biases(self._standard)
            grows = (whole.n_users, whole.n_items) != self._shape
            if grows:
                p, q = self._grown(whole, p, q)
            self._solve(whole, "users", new.users, p, q)
            self._solve(whole, "items", new.items, p, q)
            self._user_known, self._item_counts = whole.user_counts > 0, whole.item_counts.copy()
            self._training, self._seen_rows = whole, None
            if grows:
                self._keep_ids(whole)
            self._set_learned((p, q))
        return self

    def _solve(self, ratings, of, rows, p, q):
        """Solve these 'users' or 'items' with their ratings, in place."""
        place, part = of == "items", ratings.select(np.isin(getattr(ratings, of), rows))
        if self._damped:
            self._rebias(part, place, rows, (p, q))
        solver = self.solver_class(self._problem(self._as_trained(self._placed(part)), (p, q)))
        getattr(solver, f"solve_{of}")()
        solver.synchronize()
        (p, q)[place][rows] = self._to_host(self._whole(solver.factors(), (p, q)))[place][rows]

    def _grown(self, whole, p, q):
        """The factors with rows of new users and items, as `partial_fit` starts with them."""
        n_users, n_items = len(p), len(q)
        made = self.initial_factors(whole)
        made[0][:n_users], made[1][:n_items] = p, q
        users, items = whole.users, whole.items
        known = whole.select((users >= n_users) & (items < n_items))
        folded = np.unique(known.users)
        if len(folded):
            columns = np.searchsorted(folded, known.users), known.items, known.values
            made[0][folded] = self._fold(Ratings(*columns, len(folded), n_items))
        there = whole.select((items >= n_items) & ((users < n_users) | np.isin(users, folded)))
        if there.nnz:
            self._solve(there, "items", np.unique(there.items), *made)
        return made


class ALS(_LeastSquares, Factorization, Model):
    """Alternating least squares, for predicting ratings. Needs no tuning, whatever the scale and number of ratings.

    Damped biases of users and items come first, `Ratings.damped`; the factors learn what these leave, in units of its
    root mean square. `regularization` counts in units of what that training set asks for; 2 is twice as strong as 1,
    the default. Tuning it gains less than 1 % on the study's data sets. For top-N lists take `ImplicitALS`: a high
    predicted rating says how a user would rate an item, not whether the user would choose it.

    One epoch solves every user's, then every item's, regularized least-squares problem with the other side fixed:

        (Q_S^T Q_S + lambda I) p_u = Q_S^T r_S,    S the n items that user u has rated

    with lambda = `regularization` times `Ratings.damped.penalty`; with lambda n I where it is weighted (ALS-WR, Zhou
    et al. 2008; thesis, section 2.3.2 and chapter 5). The same factors, bit for bit, in every run on the same device.

    As the publications have it, on ratings as they are and weighted, with lambda = `regularization`: biases=False, or
    True, which are two more columns of the factors, see `Factorization`, each solved with the row's others and of the
    same lambda. Without biases the mean is predicted for users and items without training ratings; such a user is
    recommended the items with the most training ratings first.

    Parameters
    ----------
    factors : int from 1, as many as fit the memory. The thesis's kernels take up to 32, the other ones up to 256, of
        which biases=True count as two, and the solvers on CPUs up to 300; `dense` and `dense_cuda` take any number
    regularization : > 0, by default 1 with damped biases, else 0.15
    biases : 'damped', fixed before the factors are learned; True, learned with them; or False
    init : without biases, 'mean' for initial inner products near the mean rating, or 'unit' for factors of [0, 1)
    clip : bool, clip predictions to the rating scale, and errors with them, see `Factorization`; by default they are
    weighted : bool, `regularization` times the row's number of ratings (ALS-WR) in the place of lambda; by default
        unless biases are damped
    solver : a name of `ALS.solvers()`; by default that expected to be the fastest for the device. With 81 to
        104 columns, and from 129 on, `tensor_core` runs the kernel of `warpgroups` on a GPU of compute capability 9.0
    device : 'auto' (CUDA where there is one), 'cuda', 'cpu', or 'emulator' (the CUDA kernel on the CPU,
        checked)
    threads : on the CPU, the most threads on which the model's methods run, all threads by default, see
        `gpumf._util.threads`. On a GPU, number of CUDA threads of the grid, which strides over the rows (thesis,
        section 6.4); as many as the device holds at once by default. For the thesis's kernels alone.
    chunk : most ratings on the device at a time, those of a longer row together; by default all that fit. With less
        than all, the ratings stay on the host in both orders, and rows are copied while others are solved, with the
        same result. For `tensor_core` and `warpgroups` alone.
    cg_steps, cg_tolerance : the most steps of conjugate gradient an update, from the solution before, and the
        residual at which they end (cumf, section 4): its length for `cumf_cg` and `cumf_cg_fp16`, its length
        relative to the right side's for `tensor_core`, `warpgroups`, `cg` and `parallel_cg`. For these alone. By
        default 6 steps, as published, for cumf's kernels, 4 for `tensor_core` and `warpgroups`, with which more
        change no error on the study's data sets, and 3 for `cg` and `parallel_cg`, as in the package `implicit`.
    seed : int, None draws one, of the initial factors

    Raises
    ------
    ValueError : a parameter out of range, a solver that does not fit the device or the factors
    gpumf.backends.DeviceError : device='cuda' or 'emulator' where there is none; when fitted, where the factors, or a
        chunk, take more memory than is free, with both numbers

    >>> from gpumf import ALS
    >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
    >>> model = ALS(factors=2, regularization=0.1, device="cpu").fit(columns, epochs=3)
    >>> model
    ALS(factors=2, regularization=0.1, device='cpu')
    >>> model.user_factors.shape, model.item_factors.shape
    ((3, 4), (3, 4))
    """

    _solvers: ClassVar = {
        "sequential": Sequential,
        "parallel": Parallel,
        "dense": Dense,
        "cg": ConjugateGradient,
        "parallel_cg": ParallelConjugateGradient,
        "dense_cuda": DenseCuda,
        "thesis_global": ThesisGlobal,
        "thesis_hybrid": ThesisHybrid,
        "thesis_shared": ThesisShared,
        "wmma_simple": WmmaSimple,
        "cumf_lu": CumfLu,
        "cumf_cholesky": CumfCholesky,
        "cumf_cg": CumfCg,
        "cumf_cg_fp16": CumfCgHalf,
        "warpgroups": WarpGroups,
        "tensor_core": TensorCore,
    }

    def choose(self, train: Ratings) -> str:
        """The fastest solver: on the CPU, with few factors, that which solves exactly.

        >>> from gpumf import ALS
        >>> from gpumf.ratings import Ratings
        >>> ratings = Ratings([0, 1, 1], [0, 0, 1], [4, 3, 5], n_users=2, n_items=2)
        >>> ALS(8, device="cpu").choose(ratings), ALS(64, device="cpu").choose(ratings)
        ('parallel', 'parallel_cg')
        """
        exact = self.device == "cpu" and self._solved_columns <= _MAX_EXACT
        return "parallel" if exact else super().choose(train)


class ImplicitALS(_LeastSquares, Factorization, Model):
    """Alternating least squares on implicit feedback: how often or how long, not how much it was liked.

    A rating r says how sure it is, c = w0 + alpha |r|, that the user prefers the item, p = 1 where r > 0, or does
    not, p = 0 where r < 0: a dislike weighs more than a pair that nobody has seen. A rating of 0 and the pairs
    without one are p = 0 with c = w0, the `unobserved_weight`. Over all pairs,

        sum c_ui (p_ui - x_u . y_i)^2 + sum lambda_u |x_u|^2 + sum lambda_i |y_i|^2
        lambda_u = lambda (n_u + w0 m)^nu,    lambda_i = lambda (n_i + w0 n)^nu

    is made small, for n users and m items, of which n_i users have rated item i and user u has rated n_u items. nu is
    the `regularization_exponent` (Rendle et al. 2022). With Y^T Y for all items and a correction for the rated ones,
    an update of all users is no slower than with explicit ratings (Hu, Koren and Volinsky 2008; cumf, section 5.6).

    w0 = 1 and nu = 0 make the objective of Hu et al. That of Rendle et al. has alpha = 1, ratings of 1, and a second
    sum, w0 times the square of all predictions. Their lambda is this one over 1 + w0, and their predictions are these
    over 1 + w0: the same order.

    Data need no ratings: of a data frame with the columns user and item alone, or of (users, items), each
    row counts 1. For top-N lists this is the model to take; `ALS` and `SGD` predict ratings.

    `predict` gives preferences, near 0 to 1; errors in `history` and `score` are against preferences of 1, the
    ratings above 0. What counts is the order: see `evaluate_ranking` and `recommend`. For users and items without
    training ratings 0 is predicted; such a user is recommended the items with the most training ratings first.

    Parameters
    ----------
    factors : int from 1, as many as fit the memory; above 256 on a GPU for `preconditioned_cg`, up to 8,192, and
        `dense_cuda`, which solves exactly; above 300 on the CPU for `dense` alone
    regularization : lambda > 0, in squared factor units; one far above the default's shrinks all factors to 0, of
        which `fit` warns. By default such that lambda_u of a mean user is s alpha |r|
        sqrt(m w0 / (alpha |r|)), with the mean |r|: as the noise of its pairs, it grows with the root of what they
        weigh. `fit` chooses s, from 0.55 on in steps of sqrt(2), by NDCG@10 on a tenth of the ratings that is held
        out, in about the time of a training of 20 to 40 epochs. With fewer than 10,000 or more than 5,000,000
        ratings, or several workers, it is 0.55. `hyperparameters.regularization` is lambda as it was then
    alpha : > 0, confidence that a rating of 1 adds. With the defaults of the other parameters, of little effect
    unobserved_weight : w0 > 0, of a pair without a rating; by default such that all pairs weigh 16 times what the
        ratings do, and no more than four mean ratings. Where `fit` chooses s it tries 16 times more and less too.
        Lists depend on w0 and on lambda_u more than on all else
    regularization_exponent : nu from 0 to 100, 0 for the same lambda for all, 1 for one in proportion to the weights
        of a user's pairs
    solver : a name of `ImplicitALS.solvers()`; by default that expected to be the fastest for the device. From 65
        factors on, `tensor_core` runs `ALS`'s kernel `warpgroups` on a GPU of compute capability 9.0
    device, threads, chunk, cg_steps, cg_tolerance : as of `ALS`; threads are without effect on a GPU. For
        `preconditioned_cg`, too, by default 4 steps, and of preconditioned residuals, see
        `gpumf.solvers.als_preconditioned.PreconditionedCg`
    seed : int, None draws one, of the initial factors, which are normal with the deviation 0.1 / sqrt(factors)
        (Rendle et al. 2022): few steps of conjugate gradient rank better from near zero than from where inner
        products are near 1

    Raises
    ------
    ValueError : a parameter out of range, a solver that does not fit the device or the factors; when fitted, no
        rating above 0
    gpumf.backends.DeviceError : device='cuda' or 'emulator' where there is none; when fitted, where the factors, or a
        chunk, take more memory than is free, with both numbers

    >>> from gpumf import ImplicitALS
    >>> plays = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [9, 1, 4, 3]
    >>> model = ImplicitALS(2, alpha=2.0, device="cpu").fit(plays, epochs=3)
    >>> bool(model.predict("ann", "alien") > model.predict("ann", "up"))
    True
    """

    biases: Any = Fixed(False)
    clip: Any = Fixed(False)
    init: Any = Fixed("mean")
    weighted: Any = Fixed(False)
    _of_training: dict[str, float] | None = None  # lambda and w0, given or by default
    _shares: tuple[float, float] = _SHARES
    _judged_by: ClassVar[str] = "ndcg@10"
    _solvers: ClassVar = {
        "parallel": ImplicitParallel,
        "dense": Dense,
        "cg": ConjugateGradient,
        "parallel_cg": ParallelConjugateGradient,
        "dense_cuda": DenseCuda,
        "preconditioned_cg": PreconditionedCg,
        "cumf_lu": CumfLu,
        "cumf_cholesky": CumfCholesky,
        "cumf_cg": CumfCg,
        "cumf_cg_fp16": CumfCgHalf,
        "tensor_core": TensorCore,
    }

    def __init__(
        self,
        factors: int = 64,
        regularization: float | None = None,
        *,
        alpha: float = 1.0,
        unobserved_weight: float | None = None,
        regularization_exponent: float = 1.0,
        solver: str | None = None,
        device: Device = "auto",
        threads: int | None = None,
        chunk: int | None = None,
        cg_steps: int | None = None,
        cg_tolerance: float = 1e-4,
        seed: int | None = 0,
    ) -> None:
        super().__init__(
            factors,
            1.0 if regularization is None else regularization,
            biases=False,
            clip=False,
            weighted=False,
            threads=threads,
            chunk=chunk,
            cg_steps=cg_steps,
            cg_tolerance=cg_tolerance,
            solver=solver,
            device=device,
            seed=seed,
        )
        self.alpha = number("alpha", alpha, above=0)
        self.regularization = None if regularization is None else self.regularization
        self.unobserved_weight = (
            None if unobserved_weight is None else number("unobserved_weight", unobserved_weight, above=0)
        )
        self.regularization_exponent = number("regularization_exponent", regularization_exponent, least=0, most=100)

    @property
    def _units(self):
        """What `fit` found for parameters that were left out: a loaded model's next fit is to find its own."""
        return self._of_training and self._of_training | {"shares": list(self._shares)}

    @_units.setter
    def _units(self, units):
        if units is not None:  # as in files that have numbers for parameters that were left out
            names = "regularization", "unobserved_weight"
            self._of_training = {name: number(name, units[name], above=0) for name in names}
            others, strength = units["shares"]
            self._shares = number("shares", others, above=0), number("shares", strength, above=0)

    @property
    def hyperparameters(self) -> ALSHyperparameters:
        """What a solver is told of this model, as it is now; before `fit` 1 stands for a default that it finds.

        >>> from gpumf import ImplicitALS
        >>> plays = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [9, 1, 4, 3]
        >>> ImplicitALS(2, device="cpu").fit(plays, epochs=3).hyperparameters.unobserved_weight
        17.0
        """
        return self._hyperparameters_with(self._of_training or {"regularization": 1.0, "unobserved_weight": 1.0})

    def _hyperparameters_with(self, of_training):
        given = {name: value for name in of_training if (value := getattr(self, name)) is not None}
        return ALSHyperparameters.of(self, **of_training | given)

    def _chooses(self, train):
        return self.regularization is None and isinstance(train, Ratings) and _FEWEST <= train.nnz <= _MOST

    def _find_defaults(self, train):
        self._shares = self._best_shares(train.on_host()) if self._chooses(train) else _SHARES

    def _best_shares(self, train):
        known, held = train.split(_HELD, seed=self.seed)
        held = held.select(held.values > 0)
        if not held.nnz or _none_preferred(known):
            return _SHARES
        model = type(self)(**self.get_params() | {"regularization": 1.0})

        def judged(shares):
            """NDCG of lists; each trial goes on from the last."""
            of_known, more = self._defaults_for(known, shares), model.history is not None
            model.regularization, model.unobserved_weight = of_known["regularization"], of_known["unobserved_weight"]
            model.fit(known, _FURTHER if more else _FIRST, warm_start=more)
            return model.evaluate_ranking(held)["ndcg"]

        heaviest = _HEAVIEST * known.n_users * known.n_items / known.nnz
        steps = _STEPS if self.unobserved_weight is None else _STEPS[:1]
        return best_shares(judged, (min(_SHARES[0], heaviest), _SHARES[1]), steps, heaviest)

    def _defaults_for(self, train, shares=None):
        """Lambda and w0 for a training set, or for what several workers know of theirs, unless they were given."""
        lowest, _ = train.bounds
        disliked = lowest < 0 and hasattr(train, "values")
        mean = float(abs(train.values).mean(dtype=np.float64)) if disliked else abs(train.mean)
        mean, of_user = self.alpha * (mean or 1.0), train.nnz / train.n_users
        others, strength = shares or self._shares
        weight = self.unobserved_weight or mean * min(others * of_user / train.n_items, _HEAVIEST)
        if weight > float(np.finfo(np.float32).max):
            raise ValueError(
                f"with alpha={self.alpha} and these ratings unobserved_weight would be {weight:.3g}, beyond the "
                "range of 32 bits; scale the ratings, or alpha, down"
            )
        pairs = of_user + weight * train.n_items
        with np.errstate(over="ignore"):  # `ridges` tells
            scale = np.float64(pairs) ** self.regularization_exponent
        ridge = self.regularization or float(strength * np.sqrt(mean * weight * train.n_items) / scale)
        return {"regularization": ridge, "unobserved_weight": weight}

    def _problem(self, train, arrays):
        problem = super()._problem(train, arrays)
        if self._of_training is None and (self.regularization is None or self.unobserved_weight is None):
            problem = problem._replace(hyperparameters=self._hyperparameters_with(self._defaults_for(train)))
        return problem

    @classmethod
    def _of_content(cls, header, arrays, device, numbers=True):
        before = {"unobserved_weight": 1.0, "regularization_exponent": 0.0}  # of files that do not have them
        return super()._of_content(header | {"parameters": before | header["parameters"]}, arrays, device, numbers)

    def _finish(self, clock, arrays, rows, best, room=None):
        super()._finish(clock, arrays, rows, best, room)
        items, rated = self._learned[1][:_LOOKED_AT], self._item_known[:_LOOKED_AT]
        if rated.any() and np.abs(items).max() < _VANISHED:
            warnings.warn(
                f"regularization={self.regularization} is so large that all factors became 0, and lists say nothing; "
                "lower it, or leave it out, so that fit chooses it",
                RuntimeWarning,
                stacklevel=2,
            )

    def _draw(self, train, rows, key):
        return normal_factors(rows, self.factors, _START_DEVIATION / self.factors**0.5, key, train.device)

    def _forget_copies(self):
        super()._forget_copies()
        self._gram = Once()  # Y^T Y of the item factors, for new users

    def _fold(self, ratings):
        every, few = self.item_factors, self._few(ratings.nnz, ratings.n_users)
        if not few and self._folds_by is not ImplicitParallel:
            return solved_users(self, ratings, every, self._folds_by)
        of_rated = of_rated_items(ratings, every)
        parts = {"gram": self._item_gram(), "n_items": len(every)}
        if few:
            return solved_on_host(self, *of_rated, **parts)
        return solved_users(self, *of_rated, ImplicitParallel, **parts)

    def _item_gram(self):
        """Y^T Y of all items, float32 (f, f)."""
        every = self.item_factors

        def gram():
            every.flags.writeable = False  # a change would not be seen in the product
            return every.T @ every

        return self._gram(gram, every)

    def _systems_of_one(self, n):
        hyper, _, ridge = super()._systems_of_one(n)
        return hyper, self._item_gram(), ridge

    def _set_training(self, train):
        if _none_preferred(train):
            raise ValueError(
                "train has no rating above 0: nobody prefers an item, so all factors would be 0; give what users "
                "chose a rating above 0, or fit ALS, which predicts ratings"
            )
        super()._set_training(train)
        self._of_training = self._defaults_for(train)
        self.mean, self.scale = 0.0, (0.0, 1.0)  # without ratings, nothing is preferred

    def _errors(self, ratings):
        return super()._errors(ratings.preferences())

    @obeys_threads
    def explain(
        self,
        user: Any,
        item: Any,
        k: int = 10,
        *,
        ratings: dict[Any, float] | tuple[ArrayLike, ArrayLike] | None = None,
        ids: bool | None = None,
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """The rated items that contribute most to a user's preference for an item.

        With the items as they are, the user's update predicts x_u . y_i = sum over rated j of s_ij c_uj, where
        s_ij = y_i . W_u y_j and W_u = (Y^T C_u Y + lambda_u I)^-1 (Hu, Koren and Volinsky 2008, section 5).

        Parameters
        ----------
        user : id or position; None with ratings of a new user
        item : id or position
        k : int, items to name
        ratings : of one new user, a dict item -> rating or a pair (items, ratings)
        ids : whether users and items are ids; by default as of the training data

        Returns
        -------
        (preference, items, contributions) : float, the sum of all contributions; the items, as of `recommend`, with
            the largest ones first, and those, float64

        Raises
        ------
        ValueError : several users or items, ratings of several users; the training set is not known, as of a model
            from a file, and no ratings are given
        KeyError, IndexError : as of `recommend`

        >>> from gpumf import ImplicitALS
        >>> plays = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [9, 1, 4, 3]
        >>> model = ImplicitALS(2, device="cpu").fit(plays, epochs=3)
        >>> preference, items, contributions = model.explain("ann", "alien")
        >>> sorted(items), bool(abs(preference - contributions.sum()) < 1e-9)
        (['alien', 'heat'], True)
        """
        self._check_fitted()
        k, place = integer("k", k, 1), self._only(item, "item", ids)
        if ratings is not None:
            if user is not None:
                raise ValueError("give a user or ratings, not both; the user is None with ratings of a new one")
            of_users, _ = self._ratings_of_users(ratings, ids)
            if of_users.n_users != 1:
                raise ValueError(f"explain() is of one user; ratings has {of_users.n_users}")
            rows, row = of_users.by_user, 0
        elif self._training is None:
            raise ValueError("the training set is not known here; pass ratings=")
        else:
            rows, row = self._training.on_host().by_user, self._only(user, "user", ids)
        part = slice(rows.indptr[row], rows.indptr[row + 1])
        rated, values = rows.indices[part], rows.values[part].astype(np.float64)
        hyper = self.hyperparameters
        weights, preferred = hyper.confidence * np.abs(values), values > 0
        every = self.item_factors.astype(np.float64)
        of_rated = every[rated]
        system = every.T @ every + of_rated.T @ (weights[:, None] * of_rated)
        system += hyper.ridges(np.array([len(rated)]), len(every)) * np.eye(len(system))
        rated, weights, of_rated = rated[preferred], weights[preferred], of_rated[preferred]
        contributions = of_rated @ np.linalg.solve(system, every[place]) * (1 + weights)
        best = np.argsort(-contributions, kind="stable")[:k]
        return float(contributions.sum()), self._told(rated[best].astype(np.int64), "item", ids), contributions[best]

    def _only(self, given, side, ids):
        """The position of one user or item."""
        places = self._positions(given, side, ids)
        if places.ndim:
            raise ValueError(f"explain() is of one user and one item, not of several {side}s {places.shape}")
        return int(places)


def _none_preferred(train):
    """Whether no rating is above 0, of ratings or of what several workers know; without a pass where the mean is."""
    if train.mean > 0:
        return False
    return not (train.values > 0).any() if hasattr(train, "values") else train.bounds[1] <= 0
