"""What the project promises: one table of claims, and what the recorded results say of each.

`python -m gpumf.claims` computes every claim from the stored results, writes `data/results/<device>/reach.csv` and
prints the table. Nothing is measured here: a claim without a recorded full run is `missing`.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from gpumf import ImplicitALS, results
from gpumf.experiments.cumf import als_netflix
from gpumf.experiments.gpumf import blend_ml100k, sgd_ml100k, sgd_netflix
from gpumf.experiments.thesis import first_comparison, rbm_speed

COLUMNS = ["claim", "value", "unit", "reach", "aim", "met", "source_file", "commit"]


@dataclass(frozen=True)
class Claim:
    """A number that the project promises.

    id : the claim's name
    what : one sentence
    unit : of the value, 'x' for a ratio
    reach : the value that counts as met, or a function of the result's frame; None where any measured value does
    aim : the value hoped for, or None
    better : 'lower' or 'higher'
    experiment : whose recorded result holds the measurements
    value : function of that result's frame, NaN where the frame has no such measurement
    device : the folder of the recorded results
    besides : folder of results of the same experiment whose rows are added, of what does not depend on the machine
    """

    id: str
    what: str
    unit: str
    reach: float | Callable[[pd.DataFrame], float] | None
    aim: float | None
    better: str
    experiment: str
    value: Callable[[pd.DataFrame], float]
    device: str = results.REFERENCE
    besides: str | None = None

    def met(self, value):
        """'aim' or 'reach', whichever the value meets first, or 'no'; 'missing' for NaN."""
        if pd.isna(value):
            return "missing"
        if self.reach is not None and not self._meets(value, self.reach):
            return "no"
        return "aim" if self.aim is not None and self._meets(value, self.aim) else "reach"

    def _meets(self, value, bound):
        return value <= bound if self.better == "lower" else value >= bound


# Values, as functions of frames


def median_seconds(frame, **chosen):
    """The median of `seconds` over the rows whose columns have the chosen values."""
    for column, value in chosen.items():
        frame = frame[frame[column] == value]
    return frame.seconds.median()


def epoch_seconds(frame, kernel):
    """The median over epochs and repeats of what an epoch adds to a kernel's `seconds`."""
    return frame[frame.kernel == kernel].groupby("repeat").seconds.diff().median()


def by_scheme(frame):
    """The frame of `sgd_schemes` with the schemes, of which a kernel may have several, as its kernels."""
    return frame.assign(kernel=frame.scheme)


def updates_per_second(frame, scheme):
    """Updates of SGD a second, in billions: the ratings of the training set over the seconds of an epoch."""
    return frame.nnz.iloc[0] / epoch_seconds(by_scheme(frame), scheme) / 1e9


def rmse_excess(frame, kernel, exact, epoch):
    """A kernel's test RMSE after an epoch less the exact kernel's (medians of repeats)."""
    rmse = frame[frame.epoch == epoch].groupby("kernel").rmse.median()
    return rmse.get(kernel, float("nan")) - rmse.get(exact, float("nan"))


def rmse_gap(frame, kernel, exact, epoch):
    """The same, above or below."""
    return abs(rmse_excess(frame, kernel, exact, epoch))


def best_speedup(frame, data, model, kernel=None):
    """The speed-up of a GPU kernel, the largest by default, over the same model on one core, to the same error."""
    table = first_comparison.summary(frame)
    table = table[(table.data == data) & (table.model == model) & (table.device == "cuda")]
    return table[table.kernel == (kernel or table.kernel)].speedup.max()


def mean_over_folds(frame, measure):
    """Of the error 'rmse' or 'mae' of `sgd_ml100k`."""
    return sgd_ml100k.summary(frame).set_index("measure")["mean"][measure]


def rbm_speedup(frame):
    """Seconds of an epoch of the thesis's Boltzmann machine, weights on the device, over those of the fast one."""
    table = rbm_speed.summary(frame).set_index("version")
    return table.speedup.get("fast", float("nan"))


def tuned_error(frame, data, metric):
    """The test error of the tuned Boltzmann machine, the mean over the seeds."""
    return frame[(frame.data == data) & (frame.setting == "tuned")][metric].mean()


def blend_error(frame, measure):
    """The test error of the blend of all models, the mean over folds and seeds."""
    return _errors_of_models(frame, measure).get(" + ".join(blend_ml100k.MODELS), float("nan"))


def best_part(frame, measure):
    """That of the best single model."""
    return _errors_of_models(frame, measure).reindex(list(blend_ml100k.MODELS)).min()


def _errors_of_models(frame, measure):
    table = blend_ml100k.summary(frame)
    return table[table.measure == measure].set_index("model")["mean"]


_iteration = partial(median_seconds, data="netflix-twin", step="iteration")
_steps = partial(median_seconds, data="ml-10m-twin", steps=3000)
_implicit = partial(
    _iteration, model="ImplicitALS", kernel="tensor_core", cg_steps=ImplicitALS._trainers["tensor_core"].cg_steps
)
_SVD, _SVD_PLUS_PLUS = sgd_ml100k.PUBLISHED.to_dict("records")

CLAIMS = [
    Claim(
        "als-explicit-seconds",
        "An ALS iteration of the fastest explicit version takes this long on the Netflix twin with 100 factors.",
        "s", 0.030, 0.020, "lower", "als_netflix", partial(epoch_seconds, kernel="tensor_core"),
    ),
    Claim(
        "als-explicit-rmse-gap",
        "After 10 iterations its test RMSE differs from that of exact FP32 by this much.",
        "rating", 0.001, 0.0003, "lower", "als_netflix",
        partial(rmse_gap, kernel="tensor_core", exact=als_netflix.EXACT, epoch=10),
    ),
    Claim(
        "als-fp32-exact-seconds",
        "An ALS iteration as in cumf takes this long there: get_hermitian in FP32 and an exact solution.",
        "s", 0.12, None, "lower", "als_versions",
        partial(_iteration, model="ALS", kernel="cumf_cholesky", factors=100),
    ),
    Claim(
        "als-implicit64-seconds",
        "An iteration of implicit-feedback ALS takes this long there with 64 factors.",
        "s", 0.045, 0.025, "lower", "als_versions",
        partial(_implicit, factors=64),
    ),
    Claim(
        "als-implicit128-seconds",
        "An iteration of implicit-feedback ALS takes this long there with 128 factors.",
        "s", 0.09, 0.05, "lower", "als_versions",
        partial(_implicit, factors=128),
    ),
    Claim(
        "als-douban-speedup",
        "The fastest ALS reaches the published MAE on the Douban twin, with 16 factors, this many times sooner than "
        "one core of the same machine.",
        "x", 1000, 3000, "higher", "first_comparison", partial(best_speedup, data="douban-twin", model="ALS"),
    ),
    Claim(
        "als-hugewiki-seconds",
        "An ALS iteration on the Hugewiki twin, 3.1 billion ratings, takes this long on one GPU with 100 factors.",
        "s", None, 2.0, "lower", "als_hugewiki",
        partial(median_seconds, data="hugewiki-twin", step="iteration"), "nvidia-h200",
    ),
    Claim(
        "sgd-fast-updates",
        "The fastest SGD makes this many updates on the Netflix twin with 128 factors.",
        "G/s", 5, 8, "higher", "sgd_netflix", partial(updates_per_second, scheme="fast"),
    ),
    Claim(
        "sgd-fast-rmse-gap",
        "After 20 epochs its test RMSE is above that of one core with the same schedule by this much.",
        "rating", 0.003, 0, "lower", "sgd_netflix",
        lambda frame: rmse_excess(by_scheme(frame), "fast", sgd_netflix.REFERENCE, epoch=20), besides="cpu",
    ),
    Claim(
        "sgd-cumf-updates",
        "CuMF_SGD's scheme makes this many updates there.",
        "G/s", 2.6, None, "higher", "sgd_netflix", partial(updates_per_second, scheme="cumf_sgd"),
    ),
    Claim(
        "sgd-cu2rec50-seconds",
        "3000 steps of cu2rec's scheme take this long on the MovieLens 10M twin with 50 factors.",
        "s", 0.30, 0.10, "lower", "sgd_cu2rec", partial(_steps, factors=50),
    ),
    Claim(
        "sgd-cu2rec300-seconds",
        "3000 steps of cu2rec's scheme take this long there with 300 factors.",
        "s", 1.2, 0.5, "lower", "sgd_cu2rec", partial(_steps, factors=300),
    ),
    Claim(
        "sgd-douban-speedup",
        "The fastest SGD reaches the published MAE on the Douban twin, with 16 factors, this many times sooner than "
        "one core of the same machine.",
        "x", 500, 2000, "higher", "sgd_douban",
        partial(best_speedup, data="douban-twin", model="SGD", kernel="fast"),
    ),
    Claim(
        "sgd-ml100k-rmse",
        "SGD with biases has this test RMSE on MovieLens 100K, the mean of five folds.",
        "rating", _SVD["rmse"], _SVD_PLUS_PLUS["rmse"], "lower", "sgd_ml100k",
        partial(mean_over_folds, measure="rmse"), "cpu",
    ),
    Claim(
        "sgd-ml100k-mae",
        "SGD with biases has this test MAE there.",
        "rating", _SVD["mae"], _SVD_PLUS_PLUS["mae"], "lower", "sgd_ml100k",
        partial(mean_over_folds, measure="mae"), "cpu",
    ),
    Claim(
        "rbm-epoch-speedup",
        "An epoch of the fastest Boltzmann machine on the Douban twin takes this many times less than as in the "
        "thesis, weights on the device, 128 hidden units, batches of 100.",
        "x", 10, None, "higher", "rbm_speed", rbm_speedup,
    ),
    Claim(
        "rbm-jester-mae",
        "A tuned Boltzmann machine reaches this test MAE on Jester, part 1, where the thesis's missed 0.71.",
        "rating", None, 0.71, "lower", "rbm_tuning", partial(tuned_error, data="jester-1", metric="mae"),
    ),
    Claim(
        "rbm-ml100k-rmse",
        "A tuned Boltzmann machine reaches this test RMSE on MovieLens 100K.",
        "rating", None, None, "lower", "rbm_tuning", partial(tuned_error, data="ml-100k", metric="rmse"),
    ),
    Claim(
        "blend-ml100k-rmse",
        "A Boltzmann machine blended with the factorizations reaches this test RMSE on MovieLens 100K, five folds, "
        "below that of every part.",
        "rating", partial(best_part, measure="rmse"), _SVD_PLUS_PLUS["rmse"], "lower", "blend_ml100k",
        partial(blend_error, measure="rmse"),
    ),
    Claim(
        "blend-ml100k-mae",
        "It reaches this test MAE there, below that of every part.",
        "rating", partial(best_part, measure="mae"), _SVD_PLUS_PLUS["mae"], "lower", "blend_ml100k",
        partial(blend_error, measure="mae"),
    ),
]  # fmt: skip


def evaluate(claim):
    """A row of the table, a dict of COLUMNS."""
    value, reach = float("nan"), claim.reach
    result = results.recorded(claim.experiment, claim.device)
    if result is not None:
        besides = claim.besides and results.recorded(claim.experiment, claim.besides)
        frame = pd.concat([result.frame, besides.frame], ignore_index=True) if besides else result.frame
        value = claim.value(frame)
    if callable(reach):
        reach = None if result is None else reach(frame)
    met = replace(claim, reach=reach).met(value)
    row = {"claim": claim.id, "unit": claim.unit, "reach": reach, "aim": claim.aim, "value": value, "met": met}
    if row["met"] != "missing":
        path = results.folder(live=False, device=claim.device) / result.source / f"{claim.experiment}.csv"
        row["source_file"] = path.relative_to(results.repository()).as_posix()
        row["commit"] = result.provenance["commit"]
    return row


def table(device, claims=CLAIMS):
    """What the recorded results of a device say of its claims: a DataFrame of COLUMNS, a claim a row.

    met is 'aim', 'reach', 'no', or 'missing' where no full run of the experiment is recorded.
    """
    frame = pd.DataFrame([evaluate(claim) for claim in claims if claim.device == device], columns=COLUMNS)
    return frame.astype({"reach": float, "aim": float})


def overview(*prefixes):
    """What the recorded results of all devices say of the claims whose ids begin so, to be shown.

    Returns
    -------
    DataFrame with the index claim: value, unit, reach, aim, met, what; numbers as text
    """
    devices = dict.fromkeys(claim.device for claim in CLAIMS)
    frame = pd.concat([table(device) for device in devices]).set_index("claim")
    frame = frame[frame.index.str.startswith(prefixes)].assign(what=pd.Series({c.id: c.what for c in CLAIMS}))
    numbers = frame[["value", "reach", "aim"]]
    shown = numbers.map("{:.4g}".format).where(numbers.notna(), "–")
    return frame.assign(**shown)[["value", "unit", "reach", "aim", "met", "what"]]


def as_csv(frame):
    """The text of reach.csv."""
    return frame.to_csv(index=False, float_format="%.9g", lineterminator="\n")


def main():
    """Write and print the table of every device that has claims; return the exit status."""
    for device in dict.fromkeys(claim.device for claim in CLAIMS):
        frame = table(device)
        to = results.folder(live=False, device=device)
        to.mkdir(parents=True, exist_ok=True)
        (to / "reach.csv").write_text(as_csv(frame), encoding="utf-8")
        print(f"{device}\n{frame.drop(columns=['source_file', 'commit']).to_string(index=False, na_rep='-')}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
