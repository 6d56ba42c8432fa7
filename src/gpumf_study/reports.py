"""What the recorded results show: `python -m gpumf_study.reports` writes claims.csv and prints it."""

import sys

from gpumf_study import claims, experiments, results


def as_csv(frame):
    """Return the text of claims.csv."""
    return frame.to_csv(index=False, float_format="%.9g", lineterminator="\n")


NO_MEASUREMENT = [claims.MISSING, "not testable", "not evidence"]


def coverage(frame):
    """Return how many of the publications' figures and tables are measured: `measured` if all their claims are.

    frame : of `claims.table`

    Return a DataFrame with the index source and the columns measured, partly (some of their claims), listed
    """
    of = frame.assign(yes=~frame.verdict.isin(NO_MEASUREMENT)).groupby(["publication", "figure_or_table"]).yes
    found = of.agg(measured="all", some="any").astype(int).rename_axis(["source", "figure_or_table"]).reset_index()
    counts = experiments.figures_and_tables().merge(found, how="left").fillna({"measured": 0, "some": 0})
    counts = counts.groupby("source", sort=False).agg(
        measured=("measured", "sum"), some=("some", "sum"), listed=("figure_or_table", "size")
    )
    return counts.assign(partly=counts.some - counts.measured).drop(columns="some").astype(int)


def main():
    """Write and print the table of claims; return the exit status."""
    frame = claims.table(experiments.claims())
    (results.repository() / "data/results/claims.csv").write_text(as_csv(frame), encoding="utf-8")
    shown = frame[["id", "value", "low", "high", "n", "unit", "published", "verdict"]]
    print(shown.to_string(index=False, na_rep="", float_format="{:.4g}".format))
    for source, row in coverage(frame).iterrows():
        print(f"{source}: {row.measured} of {row.listed} figures and tables measured, {row.partly} more partly")
    return 0


if __name__ == "__main__":
    sys.exit(main())
