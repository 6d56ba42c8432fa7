"""What the recorded results come to: every finding, and which results are older than the code that they measure.

`python -m gpumf.reports findings` writes data/results/findings.csv and prints it; `... stale` lists the results whose
kernels or modules have changed since they were recorded.
"""

import sys
from functools import cache

import pandas as pd

from gpumf import dependencies, experiments, findings, results


@cache
def _changed(name, device):
    """See `dependencies.changed`; a result is looked at once."""
    return dependencies.changed(results.load(name, device))


def table():
    """Every finding.

    Returns
    -------
    DataFrame of findings.COLUMNS, a finding a row; `current` is missing where it is unknown whether the code has
    changed
    """
    pairs = experiments.findings()
    frame = findings.table(pairs)
    names = [name for name, _ in pairs]
    current = []
    for name, row in zip(names, frame.itertuples(), strict=True):
        changed = _changed(name, row.device) if isinstance(row.source_file, str) else None
        current.append(None if changed is None else not changed)
    return frame.assign(current=pd.Series(current, dtype=object))


def as_csv(frame):
    """The text of findings.csv."""
    return frame.to_csv(index=False, float_format="%.9g", lineterminator="\n")


def coverage(frame):
    """How many of the publications' figures and tables are measured: what cannot be tested does not count.

    Returns
    -------
    DataFrame with the index source and the columns measured, artefacts
    """
    artefacts = experiments.artefacts()
    measured = frame[~frame.word.isin([findings.MISSING, "not testable"])][["source", "artefact"]].drop_duplicates()
    counts = artefacts.merge(measured.assign(measured=1), how="left").groupby("source", sort=False)
    return counts.agg(measured=("measured", "count"), artefacts=("artefact", "size"))


def overview(ids="", source=None, artefact=None):
    """Findings to be shown in a chapter.

    Parameters
    ----------
    ids : str or tuple of str that begin the ids of the findings shown
    source, artefact : of those shown

    Returns
    -------
    DataFrame with the index id: statement, measured, promised (target and stretch, or the published value), word

    Raises
    ------
    ValueError : where there is none
    """
    wanted = {"source": source, "artefact": artefact}
    wanted = {key: value for key, value in wanted.items() if value is not None}
    pairs = [
        (experiment, finding)
        for experiment, finding in experiments.findings()
        if finding.id.startswith(ids) and all(getattr(finding, key) == value for key, value in wanted.items())
    ]
    if not pairs:
        raise ValueError(f"there are no findings whose ids begin with {ids!r} and that have {wanted}")
    frame = findings.table(pairs)
    rows = frame.apply(formatted, axis=1, result_type="expand")
    return frame[["id", "statement"]].join(rows).set_index("id")


def found(name, profile):
    """Of an experiment the recorded result of the reference machine, then what this machine measures.

    Returns
    -------
    list of results.Result, those of the two that there are
    """
    recorded = results.recorded(name)
    live = None if experiments.why_unavailable(name) else experiments.run(name, profile)
    return [result for result in (recorded, live) if result]


def formatted(row):
    """The numbers of a row, as text: a dict of measured, promised, word."""
    unit = "" if pd.isna(row.unit) or row.unit == "rating" else f" {row.unit}"
    spread = (row.high - row.low) / 2
    around = f" ± {float(format(spread, '.1g')):g}" if spread > 0 else ""
    measured = "–" if pd.isna(row.value) else f"{row.value:.4g}{around}{unit}"
    bounds = {"published": row.published, "target": row.target, "stretch": row.stretch}
    promised = ", ".join(f"{name} {value:g}" for name, value in bounds.items() if not pd.isna(value))
    return {"measured": measured, "promised": promised or "–", "word": findings.how_far(row)}


def times(factor):
    """A factor, to three digits."""
    return f"{factor:,.0f}" if factor >= 100 else f"{factor:.3g}"


def stale():
    """The recorded results whose code has changed since: a dict of path -> changed files, None where unknown."""
    found = {}
    for path in sorted((results.repository() / "data/results").glob("*/*/*.csv")):
        changed = _changed(path.stem, path.parent.parent.name)
        if changed is None or changed:
            found[path.relative_to(results.repository()).as_posix()] = changed
    return found


def _some(changed):
    """Of many changed files the first few, and how many they are."""
    if changed is None:
        return "no one can tell"
    rest = len(changed) - _NAMED
    return ", ".join(changed[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


_NAMED = 4


def main(arguments):
    """Do what the only argument says; return the exit status."""
    if arguments == ["findings"]:
        frame = table()
        to = results.repository() / "data/results/findings.csv"
        to.write_text(as_csv(frame), encoding="utf-8")
        shown = frame[["id", "value", "low", "high", "unit", "published", "target", "stretch"]].map(
            lambda value: f"{value:.4g}" if isinstance(value, float) else value
        )
        shown["word"] = [findings.how_far(row) for row in frame.itertuples()]
        print(shown.replace("nan", "").fillna("").to_string(index=False))
        for source, row in coverage(frame).iterrows():
            print(f"{source}: {row.measured} of {row.artefacts} figures and tables measured")
        return 0
    if arguments == ["stale"]:
        for path, changed in stale().items():
            print(f"{path}: {_some(changed)}")
        return 0
    print("usage: python -m gpumf.reports findings | stale", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
