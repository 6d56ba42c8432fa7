"""What a finding is: one sentence that can turn out false, and a rule that says of a measurement whether it did.

Claims of this study and what publications conclude are findings alike. An experiment lists its own in FINDINGS; here
they are judged by recorded results, and nothing is measured.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from gpumf_study import claims, results
from gpumf_study.claims import Claim

MISSING = "missing"
COLUMNS = ["id", "source", "artefact", "statement", "device", "value", "low", "high", "unit", "published", "target"]
COLUMNS += ["stretch", "word", "source_file", "commit"]


@dataclass(frozen=True)
class Near:
    """The value is a published one.

    published : float, positive
    within : float above 1, the factor by which the value may be larger or smaller
    neutral : the value that would show no effect; 1 for ratios

    >>> [Near(10.0, within=1.5).word(value, spread=0.1) for value in (8.0, 3.0, 0.5)]
    ['reproduced', 'same direction', 'contradicted']
    """

    published: float
    within: float
    neutral: float = 1.0

    def word(self, value: float, spread: float) -> str:
        """'reproduced' inside the tolerance, else 'same direction' beyond `neutral` by more than the spread on the
        side of the published value, else 'contradicted'."""
        if self.published / self.within <= value <= self.published * self.within:
            return "reproduced"
        side = 1 if self.published > self.neutral else -1
        return "same direction" if side * (value - self.neutral) > spread else "contradicted"


@dataclass(frozen=True)
class Holds:
    """The value is above, or below, a bound, by more than its spread and more than a margin.

    >>> Holds(above=1.0).word(1.5, spread=0.1), Holds(above=1.0).word(1.5, spread=0.6)
    ('reproduced', 'tie')
    """

    above: float | None = None
    below: float | None = None
    margin: float = 0.0

    def __post_init__(self):
        if (self.above is None) == (self.below is None):
            raise ValueError(f"one of above and below is the bound, not both or neither: {self.above}, {self.below}")

    def word(self, value: float, spread: float) -> str:
        """'reproduced' or 'contradicted'; 'tie' where the gap is inside the spread or the margin."""
        gap = value - self.above if self.below is None else self.below - value  # type: ignore[operator]
        if abs(gap) <= max(spread, self.margin):
            return "tie"
        return "reproduced" if gap > 0 else "contradicted"


@dataclass(frozen=True)
class Target:
    """The value is as good as what was promised before it was measured.

    target, stretch : what has to be met, and the better value that is aimed at, or None
    better : 'lower' or 'higher'

    >>> [Target(2.0, stretch=1.0).word(value, spread=0.0) for value in (0.9, 1.5, 3.0)]
    ['stretch', 'target', 'short']
    """

    target: float
    stretch: float | None = None
    better: str = "lower"

    def word(self, value: float, spread: float) -> str:
        """'stretch', 'target' or 'short': what the worse end of the spread meets."""
        worse = value + spread if self.better == "lower" else value - spread

        def meets(bound):
            return bound is not None and (worse <= bound if self.better == "lower" else worse >= bound)

        return "short" if not meets(self.target) else "stretch" if meets(self.stretch) else "target"


@dataclass(frozen=True)
class ByConstruction:
    """The data were made to show it, so that it counts for nothing."""

    def word(self, value: float, spread: float) -> str:
        return "by construction"


@dataclass(frozen=True)
class Open:
    """A question; the value answers it.

    missing : what it would take, where it cannot be asked here
    """

    missing: str | None = None

    def word(self, value: float, spread: float) -> str:
        return "answered" if self.missing is None else "not testable"


WORDS = ["reproduced", "same direction", "contradicted", "tie", "stretch", "target", "short", "by construction"]
WORDS += ["answered", "not testable", MISSING, *claims.VERDICTS]


@dataclass(frozen=True)
class Finding:
    """One sentence that can turn out false.

    id : unique among all
    publication : its key, or 'gpumf'
    figure_or_table : its figure, table or section; None where there is none
    statement : as it was published or promised; a promise as 'model | data | factors | what is measured'
    value : function of the frame, or frames, of the experiment: (value, spread, unit), the spread being half the
        width of what the repeats or seeds cover, NaN where there is one alone
    rule : one of the classes above; None where nothing is measured yet
    devices : folders of the results; where there are several, the function gets a frame of each; where there is none,
        that of `results.reference`
    """

    id: str
    publication: str
    figure_or_table: str | None
    statement: str
    value: Callable | None = None
    rule: "Near | Holds | Target | ByConstruction | Open | None" = None
    devices: tuple[str, ...] = ()


# Values and their spreads


def median(values: ArrayLike) -> tuple[float, float]:
    """(median, half the range) of repeats; the spread of one alone is not known, nor anything of none.

    >>> median([1.0, 2.0, 4.0])
    (2.0, 1.5)
    """
    values = np.asarray(values, float)
    middle = float(np.median(values)) if len(values) else np.nan
    return middle, float(np.ptp(values) / 2) if len(values) > 1 else np.nan


def ratio(numerators: ArrayLike, denominators: ArrayLike) -> tuple[float, float]:
    """(ratio of the medians, its spread) of two lots of repeats; spreads that are not known count as none."""
    (above, spread_above), (below, spread_below) = median(numerators), median(denominators)
    spreads = np.array([spread_above / above, spread_below / below])
    value = above / below
    known = spreads[~np.isnan(spreads)]
    return value, float(value * np.hypot.reduce(known)) if len(known) else np.nan


def times(seconds: pd.Series, slower: Any, faster: Any) -> tuple[float, float, str]:
    """How many times as long one takes as another: (ratio, spread, 'x'), of NaN where one of them was not measured.

    Parameters
    ----------
    seconds : Series of repeats, indexed by what was timed
    slower, faster : of that index
    """
    lots = [seconds[seconds.index == key] for key in (slower, faster)]
    return (*ratio(*lots), "x") if all(map(len, lots)) else (np.nan, np.nan, "x")


# Judging


def evaluate(finding: Finding | Claim, experiment: str | None) -> dict[str, Any]:
    """A row of the table.

    Parameters
    ----------
    finding : Finding
    experiment : name of the experiment that lists it; None for what nothing measures yet

    Returns
    -------
    dict of COLUMNS; the word is 'missing' where no full run is recorded, or the value is NaN
    """
    if isinstance(finding, Claim):
        return _claimed(finding, experiment)
    rule = finding.rule
    row: dict[str, Any] = {"id": finding.id, "source": finding.publication, "artefact": finding.figure_or_table}
    row["statement"] = finding.statement
    devices = finding.devices or (results.reference(experiment),)
    row |= {"device": devices[0], "word": MISSING}
    row |= {key: getattr(rule, key, np.nan) for key in ("published", "target", "stretch")}
    if isinstance(rule, Open) and rule.missing:
        return row | {"word": rule.word(np.nan, np.nan), "statement": f"{finding.statement} Missing: {rule.missing}."}
    if experiment is None or rule is None or finding.value is None:
        return row
    found = [result for device in devices if (result := results.recorded(experiment, device))]
    if len(found) < len(devices):
        return row
    value, spread, unit = finding.value(*(result.frame for result in found))
    if pd.isna(value):
        return row
    first = found[0]
    return row | {
        "value": value,
        "low": value - spread,
        "high": value + spread,
        "unit": unit,
        "word": rule.word(value, 0.0 if pd.isna(spread) else spread),
        "source_file": first.path.relative_to(results.repository()).as_posix(),
        "commit": first.provenance["commit"],
    }


def _claimed(claim, experiment):
    """The same of a Claim."""
    row = claims.evaluate(claim, experiment)
    return {
        **{key: row[key] for key in COLUMNS if key in row},
        "source": row["publication"],
        "artefact": row["figure_or_table"],
        "word": row["verdict"],
    }


def table(pairs: Iterable[tuple[str | None, Finding | Claim]]) -> pd.DataFrame:
    """What the recorded results say of findings.

    pairs : of (experiment, Finding), as of `evaluate`

    Returns
    -------
    DataFrame of COLUMNS, a finding a row
    """
    frame = pd.DataFrame([evaluate(finding, experiment) for experiment, finding in pairs], columns=COLUMNS)
    numbers = ["value", "low", "high", "published", "target", "stretch"]
    return frame.astype(dict.fromkeys(numbers, float))


def how_far(row: Any) -> str:
    """The word; where only the sign is the published one, also the value over the published one."""
    if row.word not in ("same direction", "partly replicated"):
        return row.word
    return f"{row.word}, {row.value / row.published:.2g} times the published"
