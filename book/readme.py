"""Write what is recorded into README.md, kernels/README.md and the pages of the book that are made of tables.

Names of files as arguments: only these. With --check: only say whether they are current.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

import gains
from gpumf.ratings.synthetic.recipes import RECIPES
from gpumf_study import benchmarks, ledger, results
from gpumf_study.experiments.gpumf import original_programs
from gpumf_study.experiments.thesis import speedups

ROOT = Path(__file__).resolve().parent.parent
_MARKED = re.compile(r"(<!-- results(?: of (?P<part>\w+))?:.*?-->\n).*?(<!-- end of results -->)", re.DOTALL)

# Rows of benchmarks.csv that README shows: each with the row that holds its end-to-end time, if there is one.
HEADLINES = {
    "als-f100-ms": "fit-als-f100-s",
    "implicit-f64-ms": "fit-implicit-f64-s",
    "sgd-k128-gups": "fit-sgd-k128-s",
    "als-hugewiki-s": None,
    "recommend-all-s": "recommend-all-s",
    "implicit-cpu-x": None,
    "gowalla-recall20": None,
    "ml100k-rmse": None,
}


@dataclass(frozen=True)
class Sentence:
    """A sentence on one claim, for as long as that has the verdict for which it was written.

    claim : id
    verdict : as the ledger calls it
    text : with formats, names `value`, `published`, `percent` (of value), `excess` (of value over 1, in percent),
        `lower` (minus the value) and `inverse` (1 over the value)
    """

    claim: str
    verdict: str
    text: str

    def written(self, frame):
        """The sentence as a line of a list.

        Raises
        ------
        ValueError : the claim is gone, or its verdict is another one now: the sentence has to be revised
        """
        rows = frame[frame.id == self.claim]
        verdict = rows.verdict.iloc[0] if len(rows) else "no claim"
        if verdict != self.verdict:
            raise ValueError(f"{self.claim} is {verdict!r}, no longer {self.verdict!r}: revise {self.text!r}")
        row = rows.iloc[0]
        numbers = {"percent": 100 * row.value, "excess": 100 * (row.value - 1), "lower": -row.value}
        numbers["inverse"] = 1 / row.value if row.value else float("inf")
        return "- " + self.text.format(value=row.value, published=row.published, **numbers)


SURPRISES = [
    Sentence(
        "thesis-table-6.3-als-douban-synthetic",
        "partly replicated",
        "Our version of the ALS kernel of 2015, launched as published, is {value:.1f} times as fast on an H200 as a "
        "single-threaded CPU of today. Published: {published:.0f} times. Its 32 blocks leave most of an H200 idle.",
    ),
    Sentence(
        "thesis-fig-4.5",
        "partly replicated",
        "Copying the weights of an RBM to the GPU for each update, and back after each weight update, makes an epoch "
        "{value:.0f} times as long, extrapolated from a part of it. Published: {published:.0f} times.",
    ),
    Sentence(
        "thesis-rbm-threshold",
        "not replicated",
        "The RBM of the thesis does not reach a test MAE of 0.71 on Jester. With its setting ours ends at "
        "{value:.3f} on Jester part 1; for how many epochs it trained is not published.",
    ),
]
WORSE = [
    Sentence(
        "blend-ml100k-mae-gain",
        "not replicated",
        "A blend of RBM, SGD and ALS, fitted for RMSE, has a test MAE that is {lower:.4f} above that of SGD alone "
        "(MovieLens 100K).",
    ),
    Sentence(
        "esgd-transfers-hidden",
        "measured",
        "ESGD could copy some ratings to the GPU while it works on others. In our version, an iteration then takes "
        "{inverse:.1f} times as long (MovieLens 10M, synthetic).",
    ),
    Sentence(
        "thesis-other-uses-linear",
        "measured",
        "ALS completes the worst of six pictures {lower:.1f} dB below linear interpolation of the known pixels.",
    ),
]


def _table(head, rows):
    lines = [f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows]]
    return "\n".join([*lines, ""])


# Benchmarks


def headlines(frame):
    """Eight rows of benchmarks.csv, in Markdown: training time, end-to-end time and the best public program."""
    frame = frame.set_index("id", drop=False)
    rows = []
    for id, end_to_end in HEADLINES.items():
        row = frame.loc[id]
        whole, public = "–", row.best_public
        if end_to_end is not None:
            scope = frame.task[end_to_end].partition("end to end, ")[2]  # "10 iterations"
            whole = benchmarks.with_interval(frame.loc[end_to_end]) + f", {scope}" * bool(scope)
        if pd.isna(public) and end_to_end is not None:
            public = frame.best_public[end_to_end]
            public = public if pd.isna(public) or id == end_to_end else f"end to end: {public}"
        whole = "the same" if id == end_to_end else whole
        task = row.task + _text(row.factors, ", {:.0f} factors")
        rows.append(
            [
                task,
                row.data,
                f"**{benchmarks.with_interval(row)}**",
                whole,
                "–" if pd.isna(public) else public,
                row.machine,
            ]
        )
    note = (
        "In brackets: the 95 % interval; of times and their ratios with the differences between runs. End to end: "
        "the whole call of `fit` or `recommend`, with preprocessing and transfers, after kernels are compiled. "
        "Synthetic: with the shape of that data set."
    )
    head = ["task", "data", "ours", "end to end", "public program, or published value", "on"]
    return _table(head, rows) + f"\n{note}\n"


def _text(value, form="{}"):
    return "" if pd.isna(value) else form.format(value)


# Claims


def answer(frame):
    """The main results in Markdown: the library's times, one published speed-up today, and how many claims hold."""
    goals, recorded = _benchmarks().set_index("id"), results.load("speedups")
    douban = speedups.summary(recorded.frame).query("data == 'douban-synthetic' and model == 'ALS'")
    ours = douban[douban.solver == "tensor_core"].iloc[0]
    same = frame[frame.id == SURPRISES[0].claim].iloc[0]
    published = frame[frame.publication != "gpumf"]
    verdicts = [*ledger.SHOWN, "not measured yet", "not judged"]
    totals = ledger.counts(frame).reindex(columns=verdicts, fill_value=0).sum()
    yes, partly, no, unclear, missing, others = totals
    threads = results.load("implicit_seconds").provenance["cpu_count"]
    unmeasured = f", {missing} not measured" if missing else ""
    programs = results.load("original_programs")
    beside = original_programs.fastest(programs.frame)
    seconds = beside[beside.x_beside == original_programs.CUMF_ALS].groupby("solver").seconds.median()
    algorithm = seconds["cumf_cg_fp16"] / seconds["tensor_core"]
    elsewhere = ledger.repeated().set_index("id").value_before["programs-als-time"]
    gpu, trained = recorded.provenance["gpu"].removeprefix("NVIDIA "), RECIPES["netflix"]
    if {programs.provenance["gpu"], results.load("fit_seconds").provenance["gpu"]} != {recorded.provenance["gpu"]}:
        raise ValueError("the sentences on the library and the study are of one kind of GPU: revise them")
    millions = (trained.ratings - trained.test) / 1e6
    return (
        f"- **Library.** On {millions:.0f} million training ratings (Netflix, synthetic), ten iterations of "
        f"ALS with 100 factors take **{goals.value['fit-als-f100-s']:.2f} s** end to end on one {gpu}. "
        f"To RMSE 0.92 our ALS trains **{goals.value['cumf-als-x']:.0f} times** as fast as the program cuMF_ALS "
        f"there ({elsewhere:.0f} on another host), and {algorithm:.0f} times as fast as our version of its "
        f"algorithm. On {threads} CPU threads, an iteration of `ImplicitALS` on these ratings is "
        f"**{goals.value['implicit-cpu-x']:.1f} times** as fast as implicit's "
        f"({goals.low['implicit-cpu-x']:.1f} to {goals.high['implicit-cpu-x']:.1f}).\n"
        f"- **Study.** In 2015 a thesis trained ALS on a GPU **{same.published:.0f} times** as fast as on a "
        f"single-threaded CPU. Our version of its kernel, with the same 32 blocks on an {gpu}, is "
        f"**{same.value:.1f} times** ({same.low:.1f} to {same.high:.1f}) as fast as one thread today. "
        f"Our fastest ALS is **{ours.single:.0f} times** as fast in training and {ours.single_end_to_end:.0f} times "
        f"end to end (Douban, synthetic). Of {len(published)} claims and questions, "
        f"**{yes} are replicated**, {partly} partly and {no} not; {unclear} inconclusive{unmeasured}, "
        f"{others} not judged.\n"
    )


def counts(frame):
    """A row a publication: its figures and tables that are measured, and its claims by verdict, in Markdown."""
    rows = ledger.counts(frame)
    return _table(list(rows), rows.astype(str).to_numpy().tolist()) + f"\n{ledger.NOT_JUDGED}\n"


def study(frame):
    """What README says about the study, in Markdown."""
    lines = [counts(frame), "Three surprises:"]
    lines += [sentence.written(frame) for sentence in SURPRISES]
    lines += ["", "Three things that came out worse than hoped:"]
    lines += [sentence.written(frame) for sentence in WORSE]
    return "\n".join([*lines, ""])


def _benchmarks():
    return pd.read_csv(benchmarks.path())


TEXTS = {
    "README.md": lambda: {
        "answer": answer(ledger.table()),
        "benchmarks": headlines(_benchmarks()),
        "study": study(ledger.table()),
    },
    "book/intro.md": lambda: {"answer": answer(ledger.table()), "counts": counts(ledger.table())},
    "kernels/README.md": lambda: {None: gains.table()},
}


def _replaced(path, old, new, check):
    """Whether a file's text is another one; it is written unless `check`."""
    if new != old and not check:
        path.write_text(new, encoding="utf-8")
    return new != old


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
        status |= _replaced(ROOT / name, old, new, check)
        for path in sorted((ROOT / "kernels").rglob("*.cu")) if name == "kernels/README.md" else ():
            old, file = path.read_text(encoding="utf-8"), path.relative_to(ROOT / "kernels").as_posix()
            status |= _replaced(path, old, gains.with_measured(old, file), check)
    return int(status) if check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
