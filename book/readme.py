"""Write the table of results in README.md from the recorded results; with --check, only say whether it is current."""

import re
import sys
from pathlib import Path

from gpumf import results
from gpumf.experiments.first_comparison import FACTORS, summary

README = Path(__file__).resolve().parent.parent / "README.md"
_CPU = {"sequential": "one core", "parallel": "all cores"}
_MARKED = re.compile(r"(<!-- results:.*?-->\n).*?(<!-- end of results -->)", re.DOTALL)


def table(result):
    """The table, in Markdown, of what `first_comparison` recorded."""
    lines = [
        "| data | model | on | best RMSE | best MAE | seconds an epoch | seconds to MAE | speed-up over one core |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in summary(result.frame).itertuples():
        reached = row.seconds_to_threshold == row.seconds_to_threshold
        lines.append(
            f"| {row.data} | {row.model} | {_CPU.get(row.kernel, f'GPU, `{row.kernel}`')} "
            f"| {row.best_rmse:.4f} | {row.best_mae:.4f} "
            f"| {row.seconds_per_epoch:.3g} | "
            + (f"{row.seconds_to_threshold:.3g} ({row.threshold}) | {row.speedup:.3g} |" if reached else "– | – |")
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
    new = _MARKED.sub(lambda m: m[1] + table(results.load("first_comparison")) + m[2], old)
    if arguments == ["--check"]:
        return int(new != old)
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
