"""Performance goals and measured values: the rows of data/results/benchmarks.csv, each taken from stored results.

A goal is no claim: nobody published it. `python -m gpumf_study.benchmarks` writes the table. A row whose experiment
is not recorded yet has an id and a goal, and no value.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gpumf.solvers.als_tensor_core import TensorCore
from gpumf_study import experiments, metrics, results, spread
from gpumf_study.experiments.gpumf.als_implicit_cpu import STEPS

COLUMNS = ["id", "task", "data", "factors", "solver", "value", "low", "high", "n", "unit", "goal", "stretch"]
COLUMNS += ["best_public", "machine", "commit"]


@dataclass(frozen=True)
class Stored:
    """Repeats of one measurement in a stored result.

    experiment : name
    column : of the result's frame, with the measured numbers
    where : column -> value, or list of values, of the rows that are meant
    per : column to divide by, or None
    scale : factor from the stored unit to the row's
    repeat : column that tells repeats apart; the numbers of one repeat (its folds, for example) are averaged
    table : the experiment's function that makes the table of which rows are taken, from the frame; None for itself
    device : folder of the machine; None for that of `results.reference`
    """

    experiment: str
    column: str
    where: dict[str, Any] = field(default_factory=dict)
    per: str | None = None
    scale: float = 1.0
    repeat: str = "repeat"
    table: str | None = None
    device: str | None = None

    @property
    def timed(self) -> bool:
        """Whether the numbers are times, or rates."""
        return metrics.is_time(self.column) or metrics.is_time(self.per or "")

    def result(self) -> results.Result:
        """The stored result; raise results.NoResult where there is none."""
        return results.load(self.experiment, self.device)

    def repeats(self) -> pd.DataFrame:
        """A row a repeat: repeat, value, and model and solver where the rows are of one.

        Raise results.NoResult where nothing is recorded, or nothing with what is asked for.
        Raise ValueError where the stored frame has no such rows.
        """
        frame = self.result().frame
        if self.table is not None:
            frame = getattr(experiments.module(self.experiment), self.table)(frame)
            if frame.empty:
                raise results.NoResult(f"{self.experiment} was recorded with nothing for {self.table}")
        if missing := self.where.keys() - set(frame):
            raise results.NoResult(f"{self.experiment} was recorded without {sorted(missing)}")
        for column, wanted in self.where.items():
            frame = frame[frame[column].isin(wanted if isinstance(wanted, list) else [wanted])]
        if frame.empty or frame[self.column].isna().any():
            raise ValueError(f"{self.experiment} has no {self.column!r} where {self.where}")
        numbers = frame[self.column] / (frame[self.per] if self.per else 1.0)
        numbers = numbers.groupby(frame[self.repeat]).mean() * self.scale
        named = {
            key: frame[key].iloc[0]
            for key in ("model", "solver")
            if key in frame and frame[key].nunique(dropna=False) == 1
        }
        return pd.DataFrame({"value": numbers.to_numpy(float), "repeat": range(len(numbers))}).assign(**named)

    def values(self) -> pd.Series:
        """One number a repeat, as of `repeats`."""
        return self.repeats().value


@dataclass(frozen=True)
class Benchmark:
    """A row of the table.

    goal, stretch : in `unit`; None where none is set
    higher : a larger value is better
    measured : where the value comes from; None while no experiment measures it
    over : the value is the ratio of `measured` to this: a speed-up over `measured`'s program
    public : the best public program: what is stored of it, or a published number as text
    program : its name, version and hardware, or the citation of the published number
    cpu : measured on the CPU of the machine, whatever GPU it has
    """

    id: str
    task: str
    data: str
    factors: int | None
    solver: str
    unit: str
    goal: float | None = None
    stretch: float | None = None
    higher: bool = False
    measured: Stored | None = None
    over: Stored | None = None
    public: Stored | str | None = None
    program: str = ""
    cpu: bool = False

    def row(self) -> dict[str, Any]:
        """The row of the table, of `COLUMNS`; without value, machine and commit where nothing is recorded."""
        row = {
            key: getattr(self, key) for key in ("id", "task", "data", "factors", "solver", "unit", "goal", "stretch")
        }
        row["best_public"] = self._public()
        if self.measured is None:
            return row
        try:
            repeats, over = self.measured.repeats(), self.over and self.over.repeats()
        except results.NoResult:
            return row
        result = self.measured.result()
        device = timed_on(self.measured, result, self.cpu)
        if over is not None:
            value, low, high, n = ratio_interval(repeats, over, device)
        else:
            value, low, high, n = median_interval(repeats, device) if device else interval(repeats.value)
        row |= {"value": value, "low": low, "high": high, "n": n}
        return row | {"machine": machine(result, self.cpu), "commit": result.provenance["commit"]}

    def _public(self):
        if not isinstance(self.public, Stored):
            return f"{self.public} ({self.program})" if self.public else None
        try:
            values = self.public.values()
        except results.NoResult:
            return None
        value = values.median() if self.public.timed else values.mean()
        return f"{shown(value, self.unit)} ({self.program})"

    def outcome(self, value: float, low: float, high: float) -> str:
        """'goal met', 'stretch goal met' or 'goal missed', by the whole of the 95 % interval.

        'inconclusive' where the interval contains the goal, or is unknown, as that of one repeat; '' without a goal
        or a value.
        """
        if self.goal is None or np.isnan(value):
            return ""
        worse, better = (low, high) if self.higher else (high, low)

        def meets(end, bound):
            return bound is not None and (end >= bound if self.higher else end <= bound)

        if np.isnan(low) or (meets(better, self.goal) and not meets(worse, self.goal)):
            return "inconclusive"
        if meets(worse, self.stretch):
            return "stretch goal met"
        return "goal met" if meets(worse, self.goal) else "goal missed"


def timed_on(measured: Stored, result: results.Result, cpu: bool) -> str | None:
    """'cpu' or 'cuda', where the times of a result were measured; None for what is no time."""
    if not measured.timed:
        return None
    return "cpu" if cpu or "gpu" not in result.provenance else "cuda"


def interval(values: pd.Series) -> tuple[float, float, float, int]:
    """The mean of repeats with its 95 % interval by Student's t: (value, low, high, n), NaN for one repeat alone."""
    from scipy import stats

    n, value = len(values), float(values.mean())
    half = float(stats.t.ppf(0.975, n - 1) * values.std() / np.sqrt(n)) if n > 1 else np.nan
    return value, value - half, value + half, n


def median_interval(repeats: pd.DataFrame, device: str) -> tuple[float, float, float, int]:
    """As `interval`, of the median of times on a device: with their variance between runs, see `spread`.

    repeats : of `Stored.repeats`
    """
    return _estimated(repeats, "median", {"times": 1}, device)


def ratio_interval(repeats: pd.DataFrame, over: pd.DataFrame, device: str | None) -> tuple[float, float, float, int]:
    """As `interval`, of the ratio of medians, as in claims; n is the smaller number of repeats.

    repeats, over : of `Stored.repeats`
    device : where they were timed, see `timed_on`
    """
    frame = pd.concat([repeats.assign(side="over"), over.assign(side="under")])
    return _estimated(frame, "ratio", {"over": {"side": "over"}, "under": {"side": "under"}}, device)


def _estimated(frame, metric, select, device):
    """The interval of a metric of `value`, where there is a device as of a time on it."""
    column = "seconds" if device else "value"
    frame = frame.rename(columns={"value": column}).assign(device=device)
    between = spread.between_runs() if device else None
    return _as_interval(metrics.estimate(frame, metric, select | {"column": column}, between))


def _as_interval(found):
    low, high = (end if np.isfinite(end) else np.nan for end in (found.low, found.high))
    return found.value, low, high, found.n


def shown(value: float, unit: str) -> str:
    """A number with its unit, as text: errors and shares to four digits behind the point, others to three digits."""
    number = f"{value:.4f}" if unit in ("", "RMSE", "MAE") else f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"
    return f"{number} {unit}".strip()


def machine(result, cpu):
    """The name of the GPU with their number where it is not one, or the CPU with its number of threads."""
    facts, gpus = result.provenance, results.machine_of(result.device)[1]
    if cpu or "gpu" not in facts:
        return f"{facts['cpu']}, {facts['cpu_count']} threads"
    return f"{gpus} x {facts['gpu']}" if gpus else facts["gpu"]


# Synthetic data sets have the shape of the one that they are named after.
_FAST_AFTER_20 = {"solver": "fast", "variant": np.nan, "epoch": 20, "metric": "rmse"}  # 20 updates a rating
NETFLIX, HUGEWIKI, DOUBAN = "Netflix (synthetic)", "Hugewiki (synthetic)", "Douban (synthetic)"
ML20M, MSD = "MovieLens 20M (synthetic)", "Million Song Dataset (synthetic)"
ML1M, ML100K, GOWALLA = "MovieLens 1M", "MovieLens 100K", "Gowalla"
ITERATION = "an iteration"


def _iteration(model, solver, factors):
    where = {"data": "netflix-synthetic", "model": model, "solver": solver, "factors": factors, "x_step": "iteration"}
    return Stored("als_versions", "seconds", where, scale=1e3)


def _ladder(model, factors, variant):
    where = {"model": model, "factors": factors, "variant": variant, "x_step": "iteration"}
    return Stored("als_ladder", "seconds", where, scale=1e3)


def _fit(model, solver, factors, task="fit"):
    """Of the fits after the first of a process, which also loads kernels."""
    where = {"model": model, "solver": solver, "factors": factors, "repeat": [1, 2, 3, 4, 5], "task": task}
    where |= {"variant": "host" if model == "implicit" else "device", "phase": "end_to_end"}
    return Stored("fit_seconds", "seconds", where)


def _implicit(factors):
    where = {"model": "implicit", "device": "cuda", "factors": factors}
    return Stored("peers_als", "seconds", where, scale=1e3, table="of_equal_steps")


def _libmf(program, table="reached", **where):
    return Stored("peers_sgd", "seconds", {"model": program} | where, table=table)


def _quality(data, factors, metric, experiment="quality_benchmarks", column="value"):
    where = {"data": data, "task": "test", "model": "ImplicitALS", "factors": factors, "metric": metric}
    return Stored(experiment, column, where)


def _search(model, variant):
    return Stored("search_seconds", "seconds", {"model": model, "variant": variant})


def _peer(model, variant):
    return Stored("search_peers", "seconds", {"model": model, "variant": variant})


def _bayesian(data, split):
    where = {"data": data, "x_split": split, "model": "BayesianMF", "metric": "rmse", "epoch": 100}
    return Stored("bayesian", "value", where)


def _energy(model, solver):
    where = {"data": "netflix-synthetic", "model": model, "solver": solver, "metric": "joules"}
    return Stored("training_energy", "value", where)


def _cumf_als():
    where = {"model": "cuMF_ALS", "solver": "cg_fp16"}
    return Stored("original_programs", "seconds", where, scale=1e3, table="iterations")


def _cumf_sgd():
    where = {"model": "CuMF_SGD", "phase": "train"}
    return Stored("original_programs", "x_nnz", where, per="x_iteration", scale=1e-9)


def _original(program, solver="fastest"):
    """Of a training to equal error, of the program's fastest solver or of one of ours."""
    return Stored("original_programs", "seconds", {"solver": solver}, table=f"beside_{program}")


_FOUR = "nvidia-h200-x4"


def _hugewiki(workers, table, model="", **options):
    """Of an iteration or an epoch on some of four GPUs."""
    return Stored(f"hugewiki_gpus{model}", "seconds", {"x_workers": workers}, table=table, device=_FOUR, **options)


def _of_ratings(model):
    return Stored("quality_ratings", "value", {"data": "ml-1m", "task": "test", "model": model})


_IMPLICIT = "implicit 0.7.3 on the same GPU"
_FEWER_STEPS = f"{_IMPLICIT}, {STEPS} steps of CG; ours: {TensorCore.cg_steps}"
_SURPRISE = Stored("peers_ml100k", "value", {"model": "Surprise, SVD", "x_step": "test", "metric": "rmse"})
_RBM = {"data": "douban-synthetic", "x_weights": "device", "x_batches": "device", "x_part": "epoch"}

ROWS = [
    Benchmark("als-f100-ms", f"ALS: {ITERATION}", NETFLIX, 100, "tensor_core", "ms", 12, 9,
              measured=_ladder("ALS", 100, "rows in eight bits"), public=_cumf_als(),
              program="cuMF_ALS, CG in FP16, on the same GPU"),
    Benchmark("als-f128-ms", f"ALS: {ITERATION}", NETFLIX, 128, "tensor_core", "ms", 16, 11,
              measured=_ladder("ALS", 128, "wgmma")),
    Benchmark("als-f200-ms", f"ALS: {ITERATION}", NETFLIX, 200, "tensor_core", "ms", 32, 24,
              measured=_ladder("ALS", 200, "fetching warps")),
    Benchmark("als-f256-ms", f"ALS: {ITERATION}", NETFLIX, 256, "tensor_core", "ms", 45, 28,
              measured=_ladder("ALS", 256, "fetching warps")),
    Benchmark("implicit-f64-ms", f"ImplicitALS: {ITERATION}", NETFLIX, 64, "tensor_core", "ms", 7, 5.5,
              measured=_iteration("ImplicitALS", "tensor_core", 64), public=_implicit(64),
              program=_FEWER_STEPS),
    Benchmark("implicit-f128-ms", f"ImplicitALS: {ITERATION}", NETFLIX, 128, "tensor_core", "ms", 16, 11,
              measured=_iteration("ImplicitALS", "tensor_core", 128),
              public=_implicit(128), program=_FEWER_STEPS),
    Benchmark("als-f100-exact-ms", f"ALS, exact FP32: {ITERATION}", NETFLIX, 100, "cumf_cholesky", "ms", 120,
              measured=_iteration("ALS", "cumf_cholesky", 100)),
    Benchmark("als-hugewiki-s", f"ALS, 2.8 billion ratings: {ITERATION}", HUGEWIKI, 100, "tensor_core", "s", 2,
              measured=Stored("als_hugewiki", "seconds", table="of_trainings")),
    Benchmark("als-hugewiki-4gpu-s", f"ALS on four GPUs: {ITERATION}", HUGEWIKI, 100, "tensor_core", "s", 0.36, 0.29,
              measured=_hugewiki(4, "iterations")),
    Benchmark("als-hugewiki-4gpu-efficiency", "ALS on four GPUs: parallel efficiency", HUGEWIKI, 100,
              "tensor_core", "", 0.8, 0.92, True, measured=_hugewiki(1, "iterations", scale=0.25),
              over=_hugewiki(4, "iterations")),
    Benchmark("als-hugewiki-4gpu-052-s", "ALS on four GPUs: training time to RMSE 0.52", HUGEWIKI, 100,
              "tensor_core", "s", 2, 1.2, measured=_hugewiki(4, "to_error")),
    Benchmark("sgd-hugewiki-4gpu-x", "SGD on four GPUs: speed-up over one", HUGEWIKI, 100, "fast", "x", 3, 3.6, True,
              measured=_hugewiki(1, "epochs", "_sgd"), over=_hugewiki(4, "epochs", "_sgd")),
    Benchmark("als-f100-4gpu-ms", f"ALS on four GPUs: {ITERATION}", NETFLIX, 100, "tensor_core", "ms", 7, 5.5,
              measured=Stored("several_gpus", "seconds", {"model": "ALS", "x_workers": 4}, scale=1e3, table="epochs",
                              device=_FOUR)),
    Benchmark("als-streamed-s", f"ALS, ratings streamed from the host: {ITERATION}", HUGEWIKI, 100, "tensor_core",
              "s", 3, 1.5, measured=Stored("als_streamed", "seconds", table="of_trainings")),
    Benchmark("sgd-k128-gups", "SGD: updates a second", NETFLIX, 128, "fast", "billion/s", 5, 8, True,
              measured=Stored("sgd_netflix", "x_nnz", _FAST_AFTER_20, "seconds", 20e-9),
              public=_cumf_sgd(), program="CuMF_SGD on the same GPU"),
    Benchmark("fit-als-f100-s", "ALS: end to end, 10 iterations", NETFLIX, 100, "tensor_core", "s", 0.22,
              measured=_fit("ALS", "tensor_core", 100)),
    Benchmark("fit-implicit-f64-s", "ImplicitALS: end to end, 10 iterations", NETFLIX, 64, "tensor_core", "s", 0.45,
              0.25, measured=_fit("ImplicitALS", "tensor_core", 64), public=_fit("implicit", "gpu", 64),
              program=_IMPLICIT),
    Benchmark("fit-sgd-k128-s", "SGD: end to end, 20 epochs", NETFLIX, 128, "fast", "s", 0.75, 0.45,
              measured=_fit("SGD", "fast", 128), public=_libmf("LIBMF", "searched", epoch=20, phase="end_to_end"),
              program="LIBMF 0.9.2, 20 epochs, 16-thread CPU of the same machine"),
    Benchmark("recommend-all-s", "Top 10 of 17,770 items for 480,189 users", NETFLIX, 100, "tensor_core", "s", 0.08,
              0.03, measured=_fit("ALS", "tensor_core", 100, task="recommend"),
              public=_fit("implicit", "gpu", 64, task="recommend"), program=f"{_IMPLICIT}, 64 factors"),
    Benchmark("fold-in-p99-ms", "Fold in one user, rank 500,000 items: 99th percentile", "random", 64, "", "ms", 1,
              measured=Stored("startup", "seconds", {"task": "new user", "x_percentile": 99}, scale=1e3)),
    Benchmark("compile-cold-s", "Compile the kernels of a first fit, empty cache", "", 100, "tensor_core", "s", 2.0,
              measured=Stored("startup", "seconds", {"task": "compile", "factors": 100})),
    Benchmark("import-s", "import gpumf in a new process", "", None, "", "s", 0.4, 0.25,
              measured=Stored("startup", "seconds", {"task": "import"})),
    Benchmark("als-ml20m-d2048-s", "ImplicitALS: an epoch", ML20M, 2048, "preconditioned_cg", "s", 1, 0.3,
              measured=Stored("large_shapes", "seconds", {"data": "ml-20m-shape"}), public="60 s on CPUs",
              program="iALS, Rendle et al. 2022"),
    Benchmark("als-msd-d8192-s", "ImplicitALS: an epoch", MSD, 8192, "preconditioned_cg", "s", 5,
              measured=Stored("large_shapes", "seconds", {"data": "msd-shape"}), public="2,400 s on CPUs",
              program="iALS, Rendle et al. 2022"),
    Benchmark("als-69m-59m-s", f"ALS, 69 M users, 59 M items, 477 M ratings: {ITERATION}", "random", 32,
              "tensor_core", "s", 2, measured=Stored("large_shapes", "seconds", {"data": "random"})),
    Benchmark("search-netflix-100-s", "Search, 100 settings, successive halving", NETFLIX, 100, "tensor_core", "s",
              10, 5, measured=Stored("search_gpu", "seconds", {"variant": "halving"})),
    Benchmark("search-ml1m-1000-s", "Search, 1,000 settings, 5 folds, one GPU", ML1M, 32, "tensor_core", "s", 15, 5,
              measured=Stored("search_gpu", "seconds", {"variant": "grid"})),
    Benchmark("search-ml1m-cpu-x", "Search, 100 settings: speed-up over a loop of fits", ML1M, 32, "parallel_cg", "x",
              1.2, 1.3, True, measured=_search("ALS", "loop of fits"), over=_search("ALS", "grid"), cpu=True),
    Benchmark("search-ml1m-halving-cpu-x", "Search, 100 settings, by halving: speed-up over a loop of fits", ML1M, 32,
              "parallel_cg", "x", 3, 6, True, measured=_search("ALS", "loop of fits"),
              over=_search("ALS", "halving"), cpu=True),
    Benchmark("search-ml100k-cpu-x", "Search, ImplicitALS, 200 settings, by halving: speed-up over a loop of fits",
              ML100K, None, "parallel_cg", "x", 3, 6, True, measured=_search("ImplicitALS", "loop of fits"),
              over=_search("ImplicitALS", "halving"), cpu=True),
    Benchmark("search-surprise-x", "Search, SGD, full grid: speed-up over GridSearchCV of Surprise 1.1.5", ML100K, 32,
              "ordered_parallel", "x", higher=True, measured=_peer("SGD", "Surprise, GridSearchCV"),
              over=_peer("SGD", "gpumf, search"), cpu=True),
    Benchmark("search-implicit-x", "Search, ImplicitALS, full grid: speed-up over GridSearchCV around implicit 0.7.3",
              ML100K, 32, "parallel_cg", "x", higher=True,
              measured=_peer("ImplicitALS", "implicit, scikit-learn's GridSearchCV"),
              over=_peer("ImplicitALS", "gpumf, search"), cpu=True),
    Benchmark("gibbs-netflix-100-s", "BayesianMF: 100 samples", NETFLIX, 64, "gibbs_tensor_core", "s", 5,
              measured=Stored("bayesian_seconds", "seconds",
                              {"data": "netflix-synthetic", "repeat": [1, 2, 3, 4, 5], "phase": "train"})),
    Benchmark("gibbs-ml1m-rmse", "BayesianMF: test RMSE, five folds", ML1M, 32, "gibbs", "RMSE", 0.840, 0.835,
              measured=_bayesian("ml-1m", "folds")),
    Benchmark("ncf-ml1m-hr10", "HR@10, leave one out (NCF)", ML1M, 192, "parallel_cg", "", 0.730, higher=True,
              measured=_quality("ncf-ml-1m", 192, "hr@10"), public="about 0.73", program="iALS, Rendle et al. 2022"),
    Benchmark("ncf-ml1m-ndcg10", "NDCG@10, leave one out (NCF)", ML1M, 192, "parallel_cg", "", 0.452, higher=True,
              measured=_quality("ncf-ml-1m", 192, "ndcg@10"), public="about 0.45",
              program="iALS, Rendle et al. 2022"),
    Benchmark("gowalla-recall20", "Recall@20, standard split", GOWALLA, 8192, "preconditioned_cg", "",
              0.185, 0.1872, True, measured=_quality("gowalla", 8192, "recall@20", "quality_factors"),
              public="0.1872", program="SimpleX, Mao et al. 2021"),
    Benchmark("gowalla-ndcg20", "NDCG@20, standard split", GOWALLA, 8192, "preconditioned_cg", "",
              0.151, 0.1557, True, measured=_quality("gowalla", 8192, "ndcg@20", "quality_factors"),
              public="0.1557", program="SimpleX, Mao et al. 2021"),
    Benchmark("gowalla-d1024-recall20", "Recall@20, standard split", GOWALLA, 1024, "dense", "", 0.182, higher=True,
              measured=_quality("gowalla", 1024, "recall@20")),
    Benchmark("gowalla-d1024-ndcg20", "NDCG@20, standard split", GOWALLA, 1024, "dense", "", 0.148, higher=True,
              measured=_quality("gowalla", 1024, "ndcg@20")),
    Benchmark("gowalla-d2048-s", "ImplicitALS: fit, end to end", GOWALLA, 2048, "preconditioned_cg", "s", 10,
              measured=_quality("gowalla", 2048, "ndcg@20", "quality_factors", "seconds")),
    Benchmark("ml1m-rmse", "Test RMSE, SGD, 90/10, five splits", ML1M, 128, "ordered_parallel", "RMSE", 0.845,
              measured=_of_ratings("SGD"), public=_of_ratings("Surprise, SVD"),
              program="Surprise 1.1.5, SVD, a smaller search"),
    Benchmark("ml1m-blend-rmse", "Test RMSE, ALS, SGD and BayesianMF blended, 90/10, five splits", ML1M, None, "",
              "RMSE", 0.838, measured=_of_ratings("Blend")),
    Benchmark("ml100k-rmse", "Test RMSE, BayesianMF, five folds", ML100K, 32, "gibbs", "RMSE", 0.900,
              measured=_bayesian("ml-100k", "folds"), public=_SURPRISE,
              program="Surprise 1.1.5, SVD, tuned"),
    Benchmark("jester-mae", "Test MAE, RBM", "Jester, part 1", 512, "fast", "MAE", 0.71,
              measured=Stored("rbm_tuning", "value",
                              {"data": "jester-1", "x_step": "test", "x_setting": "tuned", "metric": "mae"})),
    Benchmark("rbm-epoch-x", "RBM: speed-up of an epoch over the thesis's version", DOUBAN, 128, "fast", "x", 10,
              None, True, measured=Stored("rbm_speed", "x_epoch_seconds", _RBM | {"solver": "thesis"}),
              over=Stored("rbm_speed", "x_epoch_seconds", _RBM | {"solver": "fast"})),
    Benchmark("implicit-cpu-x", "ImplicitALS: speed-up of an iteration over implicit 0.7.3", NETFLIX, 100,
              "parallel_cg", "x", 1, 2, True,
              measured=Stored("implicit_seconds", "seconds", {"model": "implicit", "phase": "train"}),
              over=Stored("implicit_seconds", "seconds", {"solver": "parallel_cg", "phase": "train"}), cpu=True),
    Benchmark("libmf-cpu-x", "SGD: end-to-end speed-up over LIBMF 0.9.2, to equal RMSE", NETFLIX, 128,
              "ordered_parallel", "x", higher=True, measured=_libmf("LIBMF"), over=_libmf("gpumf, CPU"),
              cpu=True),
    Benchmark("cumf-als-x", "ALS: speed-up over cuMF_ALS on the same GPU, to equal RMSE", NETFLIX, 100,
              "tensor_core", "x", higher=True, measured=_original("cumf_als"),
              over=_original("cumf_als", "tensor_core")),
    Benchmark("cumf-sgd-x", "SGD: speed-up over CuMF_SGD on the same GPU, to equal RMSE", NETFLIX, 128, "fast",
              "x", higher=True, measured=_original("cumf_sgd"), over=_original("cumf_sgd", "fast")),
    Benchmark("cu2rec-x", "Our cu2rec: speed-up over the program on the same GPU, to equal RMSE", ML20M, 50,
              "cu2rec", "x", higher=True, measured=_original("cu2rec"), over=_original("cu2rec", "cu2rec")),
    Benchmark("joules-to-092", "ALS: energy of a training to RMSE 0.92", NETFLIX, 100, "tensor_core", "J",
              measured=_energy("ALS", "tensor_core")),
    Benchmark("joules-to-092-cumf", "ALS, cuMF's solver: energy of a training to RMSE 0.92", NETFLIX, 100,
              "cumf_cg_fp16", "J", measured=_energy("ALS", "cumf_cg_fp16")),
    Benchmark("joules-to-092-sgd", "SGD: energy of a training to RMSE 0.92", NETFLIX, 128, "fast", "J",
              measured=_energy("SGD", "fast")),
]  # fmt: skip


def table() -> pd.DataFrame:
    """All rows, of `COLUMNS`, from the stored results."""
    frame = pd.DataFrame([benchmark.row() for benchmark in ROWS], columns=COLUMNS)
    return frame.astype({"factors": "Int64", "n": "Int64"})


def as_csv(frame: pd.DataFrame) -> str:
    """The text of benchmarks.csv."""
    return frame.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def outcomes(frame: pd.DataFrame) -> pd.Series:
    """Return 'goal met', 'stretch goal met', 'goal missed' or '' for each row of benchmarks.csv."""
    rows = zip(ROWS, frame.itertuples(), strict=True)
    return pd.Series([benchmark.outcome(row.value, row.low, row.high) for benchmark, row in rows], frame.index)


def with_interval(row) -> str:
    """Return the value of a row of benchmarks.csv with its unit and its interval, as text; '' where it has none."""
    unit = "" if pd.isna(row.unit) else row.unit
    if pd.isna(row.value) or pd.isna(row.low):
        return "" if pd.isna(row.value) else shown(row.value, unit)
    low, high = (shown(bound, unit).removesuffix(f" {unit}") for bound in (row.low, row.high))
    return f"{shown(row.value, unit)} ({low} to {high})"


def goals(frame: pd.DataFrame):
    """Return the rows of benchmarks.csv with their outcomes, as they are shown: a Styler of pandas."""

    def of(column, form="{}"):
        return frame[column].map(lambda value: "" if pd.isna(value) else form.format(value))

    unit = of("unit", " {}")
    outcome = outcomes(frame).replace("", "no goal").where(frame.value.notna(), "not measured")
    columns = {"task": frame.task, "data": of("data"), "factors": of("factors", "{:.0f}")}
    columns |= {"measured": frame.apply(with_interval, axis=1), "outcome": outcome}
    for bound in ("goal", "stretch"):
        columns |= {bound: of(bound, "{:g}") + unit.where(frame[bound].notna(), "")}
    columns |= {"best public program": of("best_public"), "on": frame.machine}
    measured = {row.id: row.measured.experiment for row in ROWS if row.measured}
    return pd.DataFrame(columns | {"experiment": frame.id.map(measured).fillna("")}).style.hide()


def beside_goals(seconds):
    """Return rows of benchmarks.csv as a table to be shown: what was reached, the goals, and how to repeat it.

    seconds : dict of id -> median seconds of a fit, or None

    Returns
    -------
    pandas Styler
    """
    frame, rows = pd.read_csv(path()).set_index("id"), {row.id: row for row in ROWS}
    shown = [
        {
            "benchmark": f"{frame.data[name]}: {frame.task[name]}",
            "factors": "" if rows[name].factors is None else f"{rows[name].factors:,}",
            "ours": with_interval(frame.loc[name]),
            "goal": f"{rows[name].goal:g}",
            "outcome": rows[name].outcome(*frame.loc[name, ["value", "low", "high"]]),
            "best public": frame.best_public.fillna("")[name],
            "seconds a fit": f"{of_fit:.3g}" if of_fit else "",
            "command": f"make record NAME={rows[name].measured.experiment}",
        }
        for name, of_fit in seconds.items()
    ]
    return pd.DataFrame(shown).style.hide()


def path():
    """Of benchmarks.csv."""
    return results.repository() / "data/results/benchmarks.csv"


def stored() -> pd.Series:
    """Return the values of benchmarks.csv by id, for pages, so that all state the same."""
    return pd.read_csv(path()).set_index("id").value


def main() -> int:
    """Write benchmarks.csv; return the exit status."""
    path().write_text(as_csv(table()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
