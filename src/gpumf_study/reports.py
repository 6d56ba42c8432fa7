"""What the recorded results show: `python -m gpumf_study.reports` writes claims.csv and prints it."""

import sys

from gpumf_study import claims, experiments, results


def as_csv(frame):
    """Return the text of claims.csv."""
    return frame.to_csv(index=False, float_format="%.9g", lineterminator="\n")


def coverage(frame):
    """Return how many of the publications' figures and tables are measured: what cannot be tested does not count.

    frame : of `claims.table`

    Returns
    -------
    DataFrame with the index source and the columns measured, artefacts
    """
    columns = {"publication": "source", "figure_or_table": "artefact"}
    measured = frame[~frame.verdict.isin([claims.MISSING, "not testable"])].rename(columns=columns)
    measured = measured[["source", "artefact"]].drop_duplicates().assign(measured=1)
    counts = experiments.artefacts().merge(measured, how="left").groupby("source", sort=False)
    return counts.agg(measured=("measured", "count"), artefacts=("artefact", "size"))


def found(name, profile):
    """Of an experiment the recorded result of the reference machine, then what this machine measures.

    Returns
    -------
    list of results.Result, those of the two that there are
    """
    recorded = results.recorded(name)
    live = None if experiments.why_unavailable(name) else experiments.run(name, profile)
    return [result for result in (recorded, live) if result]


def main():
    """Write and print the table of claims; return the exit status."""
    frame = claims.table(experiments.claims())
    (results.repository() / "data/results/claims.csv").write_text(as_csv(frame), encoding="utf-8")
    shown = frame[["id", "value", "low", "high", "n", "unit", "published", "verdict"]]
    print(shown.to_string(index=False, na_rep="", float_format="{:.4g}".format))
    for source, row in coverage(frame).iterrows():
        print(f"{source}: {row.measured} of {row.artefacts} figures and tables measured")
    return 0


if __name__ == "__main__":
    sys.exit(main())
