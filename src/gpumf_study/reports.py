"""What the recorded results show: `python -m gpumf_study.reports` writes findings.csv and claims.csv."""

import sys

import pandas as pd

from gpumf_study import claims, experiments, findings, results


def claimed():
    """The claims, as data: a list of (experiment, Claim)."""
    return [pair for pair in experiments.findings() if isinstance(pair[1], claims.Claim)]


def as_csv(frame):
    """The text of findings.csv or claims.csv."""
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
    wanted = {"publication": source, "figure_or_table": artefact}
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


def main():
    """Write and print the table of findings; return the exit status."""
    frame = findings.table(experiments.findings())
    to = results.repository() / "data/results"
    (to / "findings.csv").write_text(as_csv(frame), encoding="utf-8")
    (to / "claims.csv").write_text(as_csv(claims.table(claimed())), encoding="utf-8")
    shown = frame[["id", "value", "low", "high", "unit", "published", "target", "stretch"]].map(
        lambda value: f"{value:.4g}" if isinstance(value, float) else value
    )
    shown["word"] = [findings.how_far(row) for row in frame.itertuples()]
    print(shown.replace("nan", "").fillna("").to_string(index=False))
    for source, row in coverage(frame).iterrows():
        print(f"{source}: {row.measured} of {row.artefacts} figures and tables measured")
    return 0


if __name__ == "__main__":
    sys.exit(main())
