"""The ledger: every claim once, with what was measured and the page that shows it."""

import re
from html import escape

import pandas as pd

from gpumf_study import chapters, claims, experiments, reports, results

TITLES = {
    "thesis": "Kampffmeyer, master's thesis, 2015",
    "cu2rec": "cu2rec (Greenquist, Kilitcioglu)",
    "cumf": "cuMF-ALS (Tan et al., 2018)",
    "newgpusgd": "NewGPUSGD (Li et al., 2019)",
    "esgd": "ESGD (Nassar et al.)",
}
SHOWN = ["replicated", "partly replicated", "not replicated", "inconclusive"]
NOT_JUDGED = (
    "Each claim is judged by the 95 % interval of what was measured. *Not judged*: there is no published value to "
    "compare with, the claim cannot be tested here, or synthetic data were built to show it."
)


def table():
    """Return the claims of the publications and of this study, as claims.csv judges them.

    Return a DataFrame of `claims.COLUMNS`, with experiment and data ('real' or 'synthetic')
    """
    pairs = {one.id: (name, one) for name, one in experiments.claims()}
    frame = pd.read_csv(results.repository() / "data/results/claims.csv")  # as `make claims` wrote it
    frame = frame[frame.id.isin(pairs)].reset_index(drop=True)
    return frame.assign(
        experiment=[pairs[id][0] for id in frame.id],
        data=["real" if pairs[id][1].evidence == "real" else "synthetic" for id in frame.id],
    )


def counts(frame):
    """Return the figures and tables that are measured, and the claims by verdict: a row a publication.

    frame : of `table`
    """
    known, rows = reports.coverage(frame), {}
    for source, title in TITLES.items():
        verdicts = frame[frame.publication == source].verdict.value_counts()
        of = known.loc[source]
        row = {"figures and tables measured": f"{of.measured} of {of.listed}, {of.partly} in part"}
        rows[title] = row | {verdict: int(verdicts.get(verdict, 0)) for verdict in SHOWN}
        rows[title]["not measured yet"] = int(verdicts.get(claims.MISSING, 0))
        rows[title]["not judged"] = int(verdicts.drop([*SHOWN, claims.MISSING], errors="ignore").sum())
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("publication").reset_index()


def as_html(frame):
    """Return the claims as a table in HTML, which the book's script lets readers filter and keep as CSV.

    frame : of `table`
    """
    pages, rows = chapters.pages(), []
    for row in frame.itertuples():
        page = pages.get(row.experiment)
        where = escape(row.figure_or_table if isinstance(row.figure_or_table, str) else "–")
        unit = f" {row.unit}" if isinstance(row.unit, str) else ""
        verdict = "not measured yet" if row.verdict == claims.MISSING else row.verdict
        if verdict == "partly replicated" and not pd.isna(row.published):
            verdict += f" ({row.value / row.published:.2g} of the published)"
        measured = not pd.isna(row.value)
        rows.append({"publication": escape(re.split(r"[,(]", TITLES.get(row.publication, "this study"))[0].strip()),
                     "figure or table": f'<a href="{page}.html">{where}</a>' if page else where,
                     "claim": escape(row.statement), "published": _number(row.published),
                     "measured": _number(row.value) + unit * measured,
                     "95 % interval": "–" if pd.isna(row.low) else f"{_number(row.low)} to {_number(row.high)}",
                     "n": _number(row.n if measured else None), "data": row.data,
                     "on": _machines(row.device) if measured else "–", "verdict": escape(verdict)})  # fmt: skip
    return pd.DataFrame(rows).to_html(index=False, escape=False, border=0, classes="dataframe filterable")


def _number(value):
    return "–" if pd.isna(value) else f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.3g}"


def _machines(devices):
    """The GPUs that folders of results are named after, in short: 'H100, 2 x H200'."""
    names = []
    for device in devices.split():
        gpu, count = results.machine_of(device)
        names.append("CPU" if gpu == "cpu" else f"{count} x " * bool(count) + gpu.split("-")[1].upper())
    return ", ".join(names)
