"""Write what is recorded into README.md, intro.md and kernels/README.md, or into those of them that are named.

With --check, only say whether they are current.
"""

import re
import sys
from pathlib import Path

import gains
from gpumf_study import chapters, experiments, findings, reports, results
from gpumf_study import figure_style as style
from gpumf_study.experiments import _reconciled
from gpumf_study.experiments.thesis.first_comparison import BASELINES, FACTORS, summary
from gpumf_study.experiments.thesis.speedups import PUBLISHED_KERNELS

ROOT = Path(__file__).resolve().parent.parent
_MARKED = re.compile(r"(<!-- results(?: of (?P<part>\w+))?:.*?-->\n).*?(<!-- end of results -->)", re.DOTALL)


def coverage(frame):
    """One sentence on how many of the publications' figures and tables are measured, and what became of them."""
    counts = reports.coverage(frame)
    of_sources = ", ".join(f"{row.measured} of {row.artefacts} of {source}" for source, row in counts.iterrows())
    published = frame[(frame.source != "gpumf") & (frame.word != findings.MISSING)]
    words = published.word.value_counts()
    listed = ", ".join(f"{words[word]} {word}" for word in findings.WORDS if word in words)
    return (
        f"{counts.measured.sum()} of the {counts.artefacts.sum()} figures and tables of the five publications are "
        f"measured so far ({of_sources}). Of {len(published)} findings on them, and on the questions left open: "
        f"{listed}.\n"
    )


def artefacts(frame):
    """The publications' figures and tables in Markdown: a table a source, a row an artefact, its page and words."""
    pages, known, blocks = chapters.pages(), experiments.artefacts(), []
    for source, counts in reports.coverage(frame).iterrows():
        rows = ["| figure or table | what it says | what became of it |", "| --- | --- | --- |"]
        for artefact in known[known.source == source].itertuples():
            of_it = frame[(frame.source == source) & (frame.artefact == artefact.artefact)]
            of_pages = of_it.experiment.map(pages).dropna().mode()  # the one with most of its findings
            page = None if of_pages.empty else of_pages[0]
            name = f"[{artefact.artefact}]({page}.ipynb)" if page else artefact.artefact
            words = of_it.word.value_counts()
            listed = ", ".join(
                f"{words[word]} {word}" if len(of_it) > 1 else word for word in findings.WORDS if word in words.index
            )
            rows.append(f"| {name} | {artefact.statement} | {listed} |")
        title = f"{_TITLES[source]}: {counts.measured} of {counts.artefacts} measured"
        blocks.append("\n".join([f":::{{dropdown}} {title}", ":open:", *rows, ":::", ""]))
    return "\n".join(blocks)


_TITLES = {
    "thesis": "Kampffmeyer's thesis",
    "cu2rec": "cu2rec",
    "cumf": "cuMF-ALS",
    "newgpusgd": "NewGPUSGD",
    "esgd": "ESGD",
}


def promises(frame):
    """The table, in Markdown, of what this study promises, and of what it measured beside that."""
    lines = ["| model | data | factors | what is measured | measured | target | stretch | word | on |"]
    lines += ["| --- " * 9 + "|"]
    for row in frame[frame.source == "gpumf"].itertuples():
        shown = reports.formatted(row)
        bounds = " | ".join("–" if bound != bound else f"{bound:g}" for bound in (row.target, row.stretch))
        name, cards = results.machine_of(row.device)
        device = (f"{cards} x " if cards else "") + name.upper().replace("-", " ")
        lines.append(f"| {row.statement} | **{shown['measured']}** | {bounds} | {shown['word']} | {device} |")
    return "\n".join([*lines, ""])


def comparison(result):
    """The table, in Markdown, of what `first_comparison` recorded: the CPU, the thesis's kernels and the fastest."""
    lines = [
        "| data | model | on | RMSE | MAE | seconds an epoch | seconds to MAE, training / wall "
        "| speed-up over one core, training / wall | over all cores |",
        "| --- " * 9 + "|",
    ]
    rows = summary(result.frame)
    fastest = rows.loc[rows.groupby(["data", "model"]).seconds_per_epoch.idxmin()]
    kernels = [kernel for of in BASELINES.values() for kernel in of.values()]
    shown = rows.kernel.isin([*kernels, "sequential", *PUBLISHED_KERNELS]) | rows.index.isin(fastest.index)
    for row in rows[shown].itertuples():
        look = style.LOOKS[row.model, row.kernel].name
        where = f"GPU, `{row.kernel}`" if row.device == "cuda" else look
        errors = _around(row.rmse, row.rmse_spread), _around(row.mae, row.mae_spread)
        to_mae = f"{_both(row.seconds_to_threshold, row.wall_to_threshold, '{:.3g}'.format)} ({row.threshold})"
        times = (
            _both(row.speedup, row.wall_speedup, reports.times),
            _both(row.over_all_cores, row.wall_over_all_cores, reports.times),
        )
        cells = row.data, row.model, where, *errors, f"{row.seconds_per_epoch:.3g}", to_mae, *times
        lines.append(f"| {' | '.join(cells)} |")
    cores, repeats = result.provenance["cpu_count"], result.frame.repeat.nunique()
    searched = result.provenance["parameters"]["parameters"]
    others = [name for name in rows.data.unique() if name not in searched]
    not_searched = f", of {', '.join(others)} the best of a few values on one split, not recorded" * bool(others)
    language = "C++" if _reconciled.native_als(result) else "Numba"
    note = (
        f"{FACTORS} factors, 80 % of the ratings for training, errors on the rest after the last epoch, parameters "
        f"of `tuned.toml`{not_searched}, {repeats} {'repeat' if repeats == 1 else 'repeats'} (±: half of what "
        f"they cover). {result.where} All cores: the {cores} of the same machine; their ALS is {language}, of SGD "
        "the baselines take each rating once. A dash: not reached in the epochs given, or not measured. Twins are "
        "synthetic."
    )
    return "\n".join([note, "", *lines, ""])


def _around(value, spread):
    """An error and, where it is known, its spread."""
    return f"{value:.4f}" + (f" ± {spread:.1g}" if spread == spread else "")


def _both(train, wall, text):
    """Two numbers side by side, a dash for one that is missing."""
    return " / ".join("–" if number != number else text(number) for number in (train, wall))


def _readme():
    frame = findings.table(experiments.findings())
    return "\n".join([coverage(frame), promises(frame), comparison(results.load("first_comparison"))])


def _intro():
    pairs = experiments.findings()
    frame = findings.table(pairs).assign(experiment=[name for name, _ in pairs])
    return {"coverage": coverage(frame), "artefacts": artefacts(frame)}


TEXTS = {
    "README.md": lambda: {None: _readme()},
    "book/intro.md": _intro,
    "kernels/README.md": lambda: {None: gains.table()},
}


def main(arguments):
    """Rewrite the marked parts of the named files, of all by default; return the exit status."""
    check = "--check" in arguments
    status = 0
    for name in [name for name in arguments if name != "--check"] or TEXTS:
        parts = TEXTS[name]()
        old = (ROOT / name).read_text(encoding="utf-8")
        new = _MARKED.sub(lambda m, parts=parts: m[1] + parts[m["part"]] + m[3], old)
        if name == "kernels/README.md":
            new = gains.with_every_source(new)
        if not check:
            (ROOT / name).write_text(new, encoding="utf-8")
        status |= new != old
    return int(status) if check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
