"""Write what `gpumf bench` compares with: seconds per epoch of the stored result of `first_comparison`.

`make bench-reference` writes `bench.json` of the command line, whose numbers all follow from the stored result.
"""

import json
import sys

from gpumf.command_line import bench
from gpumf_study import results
from gpumf_study.experiments.thesis import first_comparison
from gpumf_study.experiments.tuning import chosen

_DATA = "ml-100k"


def text(result):
    """Return what `bench.json` is to hold, from the Result of `first_comparison`."""
    frame = result.frame[(result.frame.data == _DATA) & result.frame.epoch.notna()]
    keys = ["model", "solver", "device"]
    last = frame.sort_values("epoch").groupby([*keys, "repeat"]).last()
    seconds = (last.seconds / last.epoch).groupby(keys).median()
    rows = [
        {"model": model, "solver": solver, "device": device, "recorded": float(f"{value:.4g}")}
        for (model, solver, device), value in seconds.items()
    ]
    parameters = result.provenance["parameters"]["parameters"]
    facts = {"where": result.where, "data": _DATA, "factors": first_comparison.FACTORS}
    facts["parameters"] = {model: chosen(parameters, _DATA, model) for model in ("ALS", "SGD")}
    facts["seconds"] = rows
    return json.dumps(facts, indent=1) + "\n"


def main():
    """Write `bench.json` from the stored result; return the exit status."""
    bench.FILE.write_text(text(results.load("first_comparison")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
