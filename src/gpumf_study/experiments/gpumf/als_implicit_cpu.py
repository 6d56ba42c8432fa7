"""Without a GPU: ALS by conjugate gradient on the processor, beside the package `implicit` in the same run.

An iteration of each at a time, so that what slows the machine down slows all of them: the same ratings, confidences,
lambda, steps of conjugate gradient, initial factors and number of threads. The package gets its BLAS on one thread,
as it asks for. Rankings are those of whole fits, each from its own initial factors, by the same metrics.
"""

import os
import time
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, ImplicitALS
from gpumf._util import threads
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings
from gpumf_study.findings import Finding, Holds, Target, median

STEPS = 3  # the package's default
EXPLICIT = 0.1  # lambda of ALS
HU = {"unobserved_weight": 1.0, "regularization_exponent": 0.0}  # the objective that `implicit` has
OURS, PEER, POPULAR = "ImplicitALS, parallel_cg", "implicit", "popularity"
EXACT, CG = "ALS, parallel", "ALS, parallel_cg"

PROFILES = {
    "quick": {"factors": [16, 64], "exact": 32, "seeds": 3, "iterations": 10},
    "full": {"factors": [16, 32, 64, 128, 256], "exact": 64, "seeds": 3, "iterations": 15},
}
# alpha as `defaults` chose it. With lambda 0.1, the default, lists by 256 factors are worse than those of popularity;
# of 0.1, 1, 10, 30 and 100 a tenth of the training ratings that is held out takes 30, whatever the factors.
_COMMON = {"data": "ml-100k", "k": 10, "alpha": 1.0, "regularization": 30.0}
PROFILES = {name: _COMMON | profile for name, profile in PROFILES.items()}
PROFILES["smoke"] = PROFILES["quick"] | {"data": "ml-100k-synthetic", "factors": [8], "seeds": 2, "iterations": 2}


def why_unavailable():
    """The package, or None where it is installed."""
    return None if find_spec("implicit") else "the package implicit is not installed; install the extra peers"


def run(data, factors, exact, seeds, iterations, k, alpha, regularization):
    """Time iterations and fits, and rank.

    Parameters
    ----------
    data : name of a data set
    factors : list of int
    exact : int, the most factors with which ALS is solved exactly too
    seeds : int, of initial factors
    iterations : int, of each fit, and as many that are timed one by one
    k : int, length of the lists
    alpha, regularization : of implicit feedback, ours and the package's

    Returns
    -------
    DataFrame with a row a measurement: data, nnz, factors, seed, model, default (whether it is what the class
    chooses), threads, load (of the machine, processes), what ('iteration', 'fit' or 'list'),
    seconds (of an iteration's training, or the wall's of a fit), precision, ndcg, rmse (of a fit, on the test set),
    peer (the package and its version)
    """
    ratings = load_ratings(data)
    train, test = ratings.split(0.2)
    rows = [_row(POPULAR, "list", default=False, **_rank(train, test, k, *popularity(train)))]
    for seed in range(seeds):
        for f in tqdm(factors, desc=f"als_implicit_cpu, seed {seed}", leave=False):
            models = {
                OURS: ImplicitALS(
                    f, regularization, alpha=alpha, **HU, solver="parallel_cg", device="cpu", seed=seed
                ),
                CG: ALS(f, EXPLICIT, solver="parallel_cg", device="cpu", seed=seed, biases=False, clip=False),
            }
            if f <= exact:
                models[EXACT] = ALS(f, EXPLICIT, solver="parallel", device="cpu", seed=seed, biases=False, clip=False)
            models = {name: _with_steps(model) for name, model in models.items()}
            measured = _iterations(models, train, iterations) + _fits(models, train, test, iterations, k)
            chosen = _defaults(f, train)
            rows += [row | {"factors": f, "seed": seed, "default": row["model"] in chosen} for row in measured]
    frame = pd.DataFrame(rows).assign(data=ratings.name, nnz=train.nnz, threads=threads.count())
    frame = frame.assign(peer=f"implicit {version('implicit')}")
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def _defaults(factors, train):
    """Those of the models that are timed which the classes choose by themselves."""
    by_class = {
        "ImplicitALS": ImplicitALS(factors, 0.1, **HU, device="cpu"),
        "ALS": ALS(factors, device="cpu", biases=False, clip=False),
    }
    return {f"{name}, {model.choose(train)}" for name, model in by_class.items()}


def _with_steps(model):
    """The model with exactly as many steps as the package makes."""
    model.cg_steps, model.cg_tolerance = STEPS, 0.0
    return model


def _row(model, what, seconds=np.nan, **quality):
    blank = dict.fromkeys(("precision", "ndcg", "rmse"), np.nan)
    return {"model": model, "what": what, "seconds": seconds, "load": os.getloadavg()[0]} | blank | quality


def _peer(ours, iterations):
    """The package's model of the same parameters."""
    from implicit.cpu.als import AlternatingLeastSquares

    peer = AlternatingLeastSquares(
        ours.factors,
        ours.regularization,
        alpha=1.0,  # its ratings are the confidences themselves
        iterations=iterations,
        num_threads=threads.count(),
        random_state=ours.seed,
    )
    peer.cg_steps = STEPS
    return peer


def _confidences(train, alpha):
    """1 + alpha r of the rated pairs, users x items."""
    from scipy.sparse import csr_matrix

    values = np.float32(1) + np.float32(alpha) * train.values
    return csr_matrix((values, (train.users, train.items)), (train.n_users, train.n_items))


def _one_thread_of_blas():
    import implicit.cpu.als  # noqa: F401 - loads the libraries that are to be limited
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, "blas")


def _iterations(models, train, n):
    """Rows of n iterations of each, one after another."""
    ours, rows = models[OURS], []
    confidences = _confidences(train, ours.alpha)
    transposed = confidences.T.tocsr()
    users, items = ours.initial_factors(train)

    with _one_thread_of_blas():
        peer = _peer(ours, n)

        def of_peer(_):
            for ratings, solved, fixed in ((confidences, users, items), (transposed, items, users)):
                peer.solver(ratings, solved, fixed, ours.regularization, num_threads=threads.count())

        work = {name: model.make_solver(train).epoch for name, model in models.items()} | {PEER: of_peer}
        for number in range(n):
            for name, epoch in work.items():
                started = time.perf_counter()
                epoch(number)
                rows.append(_row(name, "iteration", time.perf_counter() - started))
    return rows


def _fits(models, train, test, iterations, k):
    """A row of one fit of each, from the columns of the ratings on."""
    rows = []
    for name, model in models.items():
        model.fit(train.select(np.arange(train.nnz)), iterations)  # without the orders that are made by now
        quality = _kept(model.evaluate_ranking(test, k)) | {"rmse": model.score(test)["rmse"]}
        rows.append(_row(name, "fit", model.times.end_to_end, **quality))
    with _one_thread_of_blas():
        peer = _peer(models[OURS], iterations)
        started = time.perf_counter()
        peer.fit(_confidences(train, models[OURS].alpha), show_progress=False)
        seconds = time.perf_counter() - started
    return [*rows, _row(PEER, "fit", seconds, **_rank(train, test, k, peer.user_factors, peer.item_factors))]


def _rank(train, test, k, user_factors, item_factors):
    """The metrics of these factors, by the same code for all."""
    model = ImplicitALS(user_factors.shape[1], device="cpu").fit(train, 0)
    model.user_factors, model.item_factors = user_factors, item_factors
    return _kept(model.evaluate_ranking(test, k))


def _kept(metrics):
    return {name: metrics[name] for name in ("precision", "ndcg")}


def popularity(train):
    """Factors of users and items whose products are how often each item was rated."""
    return np.ones((train.n_users, 1), np.float32), train.item_counts.astype(np.float32)[:, None]


def summary(frame):
    """A row a number of factors and model, popularity first.

    Returns
    -------
    DataFrame: factors, model, seconds (of an iteration, median), times_peer (of the package's), wall (of a fit,
    median), precision, ndcg, rmse (means over seeds), ndcg_spread (half of what the seeds cover)
    """
    rows = []
    for (f, model), runs in frame.groupby(["factors", "model"], dropna=False, sort=False):
        fits, seconds = runs[runs.what != "iteration"], runs[runs.what == "iteration"].seconds
        times = np.median(_times(frame, f, model)) if model != POPULAR else np.nan
        means = fits[["precision", "ndcg", "rmse"]].mean().to_list()
        rows.append((f, model, seconds.median(), times, fits.seconds.median(), *means, np.ptp(fits.ndcg) / 2))
    columns = ["factors", "model", "seconds", "times_peer", "wall", "precision", "ndcg", "rmse", "ndcg_spread"]
    return pd.DataFrame(rows, columns=columns)


def _times(frame, factors, model, other=PEER):
    """Of each seed, the median seconds of an iteration over those of the other."""
    runs = frame[(frame.what == "iteration") & (frame.factors == factors)]
    seconds = runs.pivot_table(index="seed", columns="model", values="seconds", aggfunc="median")
    return (seconds[model] / seconds[other]).to_numpy()


def figure(frame):
    """Seconds of an iteration against factors: implicit feedback, explicit ratings."""
    table = summary(frame)
    figure, (axes,) = style.panels(columns=2, sharey=True)
    panels = ((OURS, "parallel_cg"), (PEER, None)), ((CG, "parallel_cg"), (EXACT, "parallel"))
    for axis, models, title in zip(axes, panels, ("implicit feedback", "explicit ratings"), strict=True):
        for model, scheme in models:
            seconds = table[table.model == model].set_index("factors").seconds
            if scheme:
                style.curve(axis, seconds, "ALS", scheme, label=model)
            else:
                axis.plot(seconds.index, seconds, "-o", color=style.COLOURS["red"], label=model, markersize=4)
        axis.set(xscale="log", xlabel="factors", title=title)
        factors = frame.factors.dropna().unique().astype(int)
        axis.set_xticks(factors, factors)
        axis.minorticks_off()
        axis.legend(frameon=False)
    axes[0].set_ylabel("seconds an iteration")
    style.log_scale(axes[0].yaxis)
    return figure


def _worst_times(frame):
    """The package's times where they are the most, over the seeds."""
    lots = [median(_times(frame, f, OURS)) for f in frame.factors.dropna().unique()]
    return *max(lots), "x"


def _ndcg_behind(frame):
    """How far NDCG is above the package's where it is the least above, means over the seeds, and their spread."""
    fits = frame[frame.what == "fit"]
    ndcg = fits.pivot_table(index="factors", columns="model", values="ndcg", aggfunc=["mean", np.ptp])
    above = ndcg["mean"][OURS] - ndcg["mean"][PEER]
    worst = above.idxmin()
    return above[worst], np.hypot(*ndcg["ptp"].loc[worst, [OURS, PEER]]) / 2, "NDCG@10"


def _worst_choice(frame):
    """ALS's default over the faster of its schemes where it is the slowest, over the seeds."""
    lots = []
    for f in frame[frame.model == EXACT].factors.unique():
        runs = frame[(frame.factors == f) & frame.model.isin([EXACT, CG])]
        (default,) = runs[runs.default.astype(bool)].model.unique()
        against = {other: median(_times(frame, f, default, other)) for other in (EXACT, CG)}
        lots.append(max(against.values()))
    return *max(lots), "x"


_SETTING = "ml-100k | 16 to 256 factors, worst case"
_FEW = "ml-100k | 16 to 64 factors, worst case"
FINDINGS = [
    Finding(
        "als-implicit-cpu",
        "gpumf",
        None,
        f"ImplicitALS, parallel_cg | {_SETTING} | seconds of an iteration over those of `implicit`",
        _worst_times,
        Target(1.0, 0.5),
        devices=("cpu",),
    ),
    Finding(
        "als-implicit-cpu-ndcg",
        "gpumf",
        None,
        f"ImplicitALS, parallel_cg | {_SETTING} | NDCG@10 above that of `implicit`: at least -0.01",
        _ndcg_behind,
        Holds(above=-0.01),
        devices=("cpu",),
    ),
    Finding(
        "als-cpu-choice",
        "gpumf",
        None,
        f"ALS, default | {_FEW} | seconds of an iteration over those of the faster scheme",
        _worst_choice,
        Target(1.25, 1.05),
        devices=("cpu",),
    ),
]
