"""Claims as data: sentences of publications that can turn out false, and what stored results say of them.

`Claim` names a metric and the rows that it takes; `verdict` follows from the 95 % interval and the criterion.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from gpumf_study import metrics, results, spread
from gpumf_study.metrics import NOTHING, Estimate

MISSING = "missing"
VERDICTS = ["replicated", "partly replicated", "not replicated", "inconclusive", "not testable", "not evidence"]
VERDICTS += ["measured", MISSING]
_OF_OWN = {"replicated": "holds", "partly replicated": "holds in part", "not replicated": "does not hold"}
COLUMNS = ["id", "publication", "figure_or_table", "statement", "device", "value", "low", "high", "n", "unit"]
COLUMNS += ["published", "over_published", "at_least", "at_most", "no_effect", "verdict", "source_file", "commit"]


def in_words(verdict: str, publication: str) -> str:
    """How a verdict is shown; a claim of this study, which nobody has published, holds or does not."""
    if publication == "gpumf":
        verdict = _OF_OWN.get(verdict, verdict)
    return "not measured yet" if verdict == MISSING else verdict


@dataclass(frozen=True)
class Criterion:
    """Bounds of the value that count as replicated.

    no_effect : the value that shows no effect, outside of the bounds: 1 for ratios, 0 for differences; None where a
        bound is that itself, so that nothing is partly replicated
    """

    low: float = -np.inf
    high: float = np.inf
    no_effect: float | None = None

    def __post_init__(self):
        if not self.low < self.high or (self.no_effect is not None and self.low <= self.no_effect <= self.high):
            raise ValueError(f"the bounds must be in order and exclude no effect: {self}")


def above(bound: float) -> Criterion:
    """Return the criterion that a value is more than a bound."""
    return Criterion(low=bound)


def below(bound: float) -> Criterion:
    """Return the criterion that a value is less than a bound."""
    return Criterion(high=bound)


def near(published: float, factor: float, no_effect: float = 1.0) -> Criterion:
    """Return the criterion that a value is a published one, up to a factor above 1."""
    low, high = sorted((published / factor, published * factor))
    return Criterion(low, high, no_effect)


@dataclass(frozen=True)
class Claim:
    """A sentence that can turn out false, as data.

    id : unique among all
    publication : one of `experiments.SOURCES`
    figure_or_table : that of the publication, a key of its FIGURES_AND_TABLES, or a section
    statement : as published
    published : the published value; None where it is a direction alone
    metric, select : see `gpumf_study.metrics`; of what cannot be tested the metric is that of the published value,
        None where there is none
    criterion : Criterion; None for a question, which has no published value
    evidence : 'real' or 'synthetic', the data that it is measured on; 'built in' where synthetic data were built to
        show it, as the epochs to an error, by which ALS and SGD are compared
    table : the function of the experiment that makes the table of which `select` takes rows, from its frame; None for
        the frame itself
    missing : what would be needed to test it, where that is not to be had
    device : folder of the result, or several, whose frames follow one another and are told apart by a column
        `machine` with that name; None for that of `results.reference`
    """

    id: str
    publication: str
    figure_or_table: str | None
    statement: str
    published: float | None = None
    metric: str | None = None
    select: dict[str, Any] = field(default_factory=dict)
    criterion: Criterion | None = None
    evidence: str = "real"
    table: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    missing: str | None = None
    device: str | tuple[str, ...] | None = None

    def __post_init__(self):
        if self.evidence not in ("real", "synthetic", "built in"):
            raise ValueError(f"{self.id}: evidence must be 'real', 'synthetic' or 'built in', not {self.evidence!r}")
        if self.metric is None and self.missing is None:
            raise ValueError(f"{self.id}: give a metric, or what is missing")
        if self.metric is not None and self.metric not in metrics.METRICS:
            raise ValueError(f"{self.id}: there is no metric {self.metric!r}; there are {list(metrics.METRICS)}")

    def estimate(self, frame: pd.DataFrame) -> Estimate:
        """Return what the metric takes from a frame of the experiment."""
        if self.missing is not None or self.metric is None:
            return NOTHING
        return metrics.estimate(frame if self.table is None else self.table(frame), self.metric, self.select)


def verdict(claim: Claim, found: Estimate) -> str:
    """Return what an estimate says of a claim, one of VERDICTS.

    An interval inside the bounds is replicated. One that contains a bound is inconclusive, and so is one that is
    unknown. One outside is partly replicated where it shows an effect of the published sign, else not replicated.
    """
    if claim.missing is not None:
        return "not testable"
    if claim.evidence == "built in":
        return "not evidence"
    if np.isnan(found.value):
        return MISSING
    criterion = claim.criterion
    if criterion is None:
        return "measured"
    if criterion.low < found.low and found.high < criterion.high:
        return "replicated"
    if found.low <= criterion.high and found.high >= criterion.low:
        return "inconclusive"
    none = criterion.no_effect
    if none is None:
        return "not replicated"
    of_sign = found.low > none if criterion.low > none else found.high < none
    return "partly replicated" if of_sign else "not replicated"


@lru_cache(maxsize=16)
def _taken(table, *files):
    """What the claims that share a table take from stored results: path, hash of the CSV and device of each."""
    frame = _together([results.read(path) for path, *_ in files])
    made = frame if table is None else table(frame)
    if "device" not in made and "device" in frame and frame.device.nunique() == 1:
        made = made.assign(device=frame.device.iloc[0])  # for the spread between runs on it
    return made


def evaluate(claim: Claim, experiment: str) -> dict[str, Any]:
    """Return a row of claims.csv.

    experiment : name of the experiment that lists the claim

    Return a dict of COLUMNS; the verdict is 'missing' where no full run is recorded
    """
    device = claim.device or results.reference(experiment)
    devices = (device,) if isinstance(device, str) else device
    stored = [] if claim.missing else [results.recorded(experiment, name) for name in devices]
    there = [result for result in stored if result is not None]
    result = there[0] if len(there) == len(devices) else None
    files = ((one.path, one.provenance.get("csv_sha256"), one.device) for one in there)
    found = NOTHING
    if result and claim.metric:
        found = metrics.estimate(_taken(claim.table, *files), claim.metric, claim.select, spread.between_runs())
    row = {key: getattr(claim, key) for key in ("id", "publication", "figure_or_table", "published")}
    row["statement"] = claim.statement + (f" Missing: {claim.missing}." if claim.missing else "")
    row |= {"device": " ".join(devices), "value": found.value, "n": found.n, "unit": found.unit,
            "verdict": verdict(claim, found)}  # fmt: skip
    row |= {key: end if np.isfinite(end) else np.nan for key, end in (("low", found.low), ("high", found.high))}
    row["over_published"] = found.value / claim.published if claim.published else np.nan
    if (bounds := claim.criterion) is not None:
        row |= {"at_least": bounds.low, "at_most": bounds.high, "no_effect": bounds.no_effect}
    if result and not np.isnan(found.value):
        row["source_file"] = " ".join(one.path.relative_to(results.repository()).as_posix() for one in there)
        row["commit"] = " ".join(dict.fromkeys(one.provenance["commit"] for one in there))
    return {key: row.get(key) for key in COLUMNS}


def _together(found):
    """The frame of a result, or those of several, told apart by the column machine."""
    if len(found) == 1:
        return found[0].frame
    return pd.concat([one.frame.assign(machine=one.device) for one in found], ignore_index=True)


def table(pairs: Iterable[tuple[str, Claim]]) -> pd.DataFrame:
    """Return what the recorded results say of claims: a DataFrame of COLUMNS with a row per (experiment, Claim)."""
    frame = pd.DataFrame([evaluate(claim, experiment) for experiment, claim in pairs], columns=COLUMNS)
    return frame.replace([np.inf, -np.inf], np.nan)
