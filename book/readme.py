"""Write the results in README.md from what is recorded; with --check, only say whether they are current."""

import re
import sys
from pathlib import Path

from gpumf import claims, results, verdicts
from gpumf.experiments.thesis.first_comparison import FACTORS, summary
from gpumf.experiments.thesis.speedups import PUBLISHED_KERNELS

README = Path(__file__).resolve().parent.parent / "README.md"
_CPU = {"sequential": "one core", "parallel": "all cores"}
_MARKED = re.compile(r"(<!-- results:.*?-->\n).*?(<!-- end of results -->)", re.DOTALL)


def promises():
    """The table, in Markdown, of all claims."""
    devices = {claim.id: claim.device.upper().replace("-", " ") for claim in claims.CLAIMS}
    lines = ["| what | measured | to be reached | hoped for | on |", "| --- | --- | --- | --- | --- |"]
    for row in claims.overview("").itertuples():
        unit = "" if row.unit == "rating" else f" {row.unit}"
        bounds = [value if value == "–" else value + unit for value in (row.reach, row.aim)]
        lines.append(f"| {row.what} | **{row.value}{unit}** | {' | '.join(bounds)} | {devices[row.Index]} |")
    return "\n".join([*lines, ""])


def comparison(result):
    """The table, in Markdown, of what `first_comparison` recorded: the CPU, the thesis's kernels and the fastest."""
    lines = [
        "| data | model | on | best RMSE | best MAE | seconds an epoch | seconds to MAE | speed-up over one core |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    rows = summary(result.frame)
    fastest = rows.loc[rows.groupby(["data", "model"]).seconds_per_epoch.idxmin()]
    shown = rows.kernel.isin([*_CPU, *PUBLISHED_KERNELS]) | rows.index.isin(fastest.index)
    for row in rows[shown].itertuples():
        reached = row.seconds_to_threshold == row.seconds_to_threshold
        to_mae = (
            f"{row.seconds_to_threshold:.3g} ({row.threshold}) | {verdicts.times(row.speedup)}"
            if reached
            else "– | –"
        )
        lines.append(
            f"| {row.data} | {row.model} | {_CPU.get(row.kernel, f'GPU, `{row.kernel}`')} "
            f"| {row.best_rmse:.4f} | {row.best_mae:.4f} | {row.seconds_per_epoch:.3g} | {to_mae} |"
        )
    cores = result.provenance["cpu_count"]
    note = (
        f"{FACTORS} factors, 80 % of the ratings for training, errors on the rest. {result.where} All cores: the "
        f"{cores} of the same machine. Training alone is timed; a dash: not reached in the epochs given. Twins are "
        "synthetic."
    )
    return "\n".join([note, "", *lines, ""])


def main(arguments):
    """Rewrite README.md; return the exit status."""
    old = README.read_text(encoding="utf-8")
    text = promises() + "\n" + comparison(results.load("first_comparison"))
    new = _MARKED.sub(lambda m: m[1] + text + m[2], old)
    if arguments == ["--check"]:
        return int(new != old)
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
