"""The ledger: every claim once, with what was measured and the page that shows it.

`python -m gpumf_study.ledger` judges all claims by the recorded results, writes claims.csv and prints it.
"""

import re
import sys
from html import escape

import pandas as pd

from gpumf_study import chapters, claims, experiments, results

TITLES = {
    "thesis": "Kampffmeyer, master's thesis, 2015",
    "cu2rec": "cu2rec (Greenquist, Kilitcioglu)",
    "cumf": "cuMF-ALS (Tan et al., 2018)",
    "newgpusgd": "NewGPUSGD (Li et al., 2019)",
    "esgd": "ESGD (Nassar et al.)",
}
BEFORE = "1.0.0"  # the release whose table of claims is kept
NO_MEASUREMENT = [claims.MISSING, "not testable", "not evidence"]
SHOWN = ["replicated", "partly replicated", "not replicated", "inconclusive"]
NOT_JUDGED = (
    "Each claim is judged by the 95 % interval of what was measured. *Not judged*: there is no published value or "
    "criterion, the claim cannot be tested here, or synthetic data were built to show it."
)


def table():
    """Return the claims of the publications and of this study, as claims.csv judges them.

    Return a DataFrame of `claims.COLUMNS`, with experiment, metric and data ('real' or 'synthetic')
    """
    pairs = {one.id: (name, one) for name, one in experiments.claims()}
    frame = pd.read_csv(results.repository() / "data/results/claims.csv")  # as `make claims` wrote it
    frame = frame[frame.id.isin(pairs)].reset_index(drop=True)
    return frame.assign(
        experiment=[pairs[id][0] for id in frame.id],
        metric=[pairs[id][1].metric for id in frame.id],
        data=["real" if pairs[id][1].evidence == "real" else "synthetic" for id in frame.id],
    )


def repeated():
    """Return the claims that this release and `BEFORE` measured, each in runs of its own and with an interval.

    Return a DataFrame of `claims.COLUMNS`, those of `BEFORE` with the suffix _before, and apart: whether the two
    intervals have no number in common
    """
    folder = results.repository() / "data/results"
    now, before = (pd.read_csv(folder / name) for name in ("claims.csv", f"claims-{BEFORE}.csv"))
    both = now.merge(before, on=["id", "statement"], suffixes=("", "_before"))
    both = both[both.commit != both.commit_before].dropna(subset=["low", "high", "low_before", "high_before"])
    return both.assign(apart=(both.low > both.high_before) | (both.high < both.low_before))


def coverage(frame):
    """Return how many of the publications' figures and tables are measured: `measured` if all their claims are.

    frame : of `claims.table`

    Return a DataFrame with the index source and the columns measured, partly (some of their claims), listed
    """
    of = frame.assign(yes=~frame.verdict.isin(NO_MEASUREMENT)).groupby(["publication", "figure_or_table"]).yes
    found = of.agg(measured="all", some="any").astype(int).rename_axis(["source", "figure_or_table"]).reset_index()
    every = experiments.figures_and_tables().merge(found, how="left").fillna({"measured": 0, "some": 0})
    every = every.groupby("source", sort=False).agg(
        measured=("measured", "sum"), some=("some", "sum"), listed=("figure_or_table", "size")
    )
    return every.assign(partly=every.some - every.measured).drop(columns="some").astype(int)


def counts(frame):
    """Return the figures and tables that are measured, and the claims by verdict: a row a publication.

    A verdict that no claim has is left out.

    frame : of `table`
    """
    known, rows = coverage(frame), {}
    for source, title in TITLES.items():
        verdicts = frame[frame.publication == source].verdict.value_counts()
        of = known.loc[source]
        row = {"figures and tables measured": f"{of.measured} of {of.listed}, {of.partly} in part"}
        rows[title] = row | {verdict: int(verdicts.get(verdict, 0)) for verdict in SHOWN}
        rows[title]["not measured yet"] = int(verdicts.get(claims.MISSING, 0))
        rows[title]["not judged"] = int(verdicts.drop([*SHOWN, claims.MISSING], errors="ignore").sum())
    found = pd.DataFrame.from_dict(rows, orient="index")
    return found.loc[:, found.ne(0).any()].rename_axis("publication").reset_index()


def as_csv(frame):
    """Return the text of claims.csv."""
    return frame.to_csv(index=False, float_format="%.9g", lineterminator="\n")


def as_html(frame):
    """Return the claims as a table in HTML, which the book's script lets readers filter and keep as CSV.

    frame : of `table`
    """
    pages, rows = chapters.pages(), []
    for row in frame.itertuples():
        page = pages.get(row.experiment)
        where = escape(row.figure_or_table if isinstance(row.figure_or_table, str) else "–")
        unit = (of_row := _unit(row)) and f" {of_row}"
        verdict = claims.in_words(row.verdict, row.publication)
        if verdict == "partly replicated" and not pd.isna(row.published):
            verdict += f" ({row.value / row.published:.2g} times the published value)"
        measured = not pd.isna(row.value)
        rows.append({"claim": escape(row.statement), "verdict": escape(verdict),
                     "published (replicated if)": _published(row, unit),
                     "measured": chapters.digits(row.value) + unit * measured,
                     "95 % interval": chapters.between(row.low, row.high),
                     "n": chapters.digits(row.n if measured else None), "data": row.data if measured else "–",
                     "on": _machines(row.device) if measured else "–",
                     "publication": escape(re.split(r"[,(]", TITLES.get(row.publication, "this study"))[0].strip()),
                     "figure or table": f'<a href="{page}.html">{where}</a>' if page else where})  # fmt: skip
    return pd.DataFrame(rows).to_html(index=False, escape=False, border=0, classes="dataframe filterable")


def _unit(row):
    """Return the unit of a claim's values, '' for none: that of claims.csv or, if not measured, of its metric.

    row : of `table`
    """
    if isinstance(row.unit, str) and row.unit:
        return row.unit
    return {"ratio": "x", "ratio_of_ratios": "x", "growth": "x", "percent_more": "%"}.get(row.metric, "")


def _published(row, unit):
    """The published value, and the bounds of what counts as replicated: '10 x (5 to 20)', '– (above 1)', '–'."""
    bounds = chapters.between(row.at_least, row.at_most)
    return chapters.digits(row.published) + unit * pd.notna(row.published) + f" ({bounds})" * (bounds != "–")


def _machines(devices):
    """The GPUs that folders of results are named after, in short: 'H100, 2 x H200'."""
    names = []
    for device in devices.split():
        gpu, count = results.machine_of(device)
        names.append("CPU" if gpu == "cpu" else f"{count} x " * bool(count) + gpu.split("-")[1].upper())
    return ", ".join(names)


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
