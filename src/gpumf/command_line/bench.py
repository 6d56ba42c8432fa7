"""This machine beside a recorded one: seconds per epoch of ALS and SGD on a small synthetic data set.

`bench.json` beside this module holds what was recorded, with the parameters; `make bench-reference` writes it from a
stored result.
"""

import json
from argparse import Namespace
from importlib import resources
from typing import Any

from gpumf import backends
from gpumf._util.validation import integer
from gpumf.models import ALS, SGD
from gpumf.ratings import Ratings, load_dataset

FILE = resources.files(__package__).joinpath("bench.json")
_DATA = "ml-100k-synthetic"  # which has the shape of the recorded data set
_MODELS = {"ALS": ALS, "SGD": SGD}


def reference() -> dict[str, Any]:
    """What `bench.json` says: where, data, factors, parameters (model -> arguments) and seconds (a list of rows)."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def run(options: Namespace) -> tuple[dict, str]:
    """One table: a row per solver, with its seconds per epoch here and as recorded."""
    epochs = integer("epochs", options.epochs, 1)
    recorded = reference()
    usable = {"cpu", "cuda"} if backends.available() else {"cpu"}
    train, _ = load_dataset(_DATA).split(0.2, seed=0)
    rows = []
    for row in recorded["seconds"]:
        here = _seconds(row, recorded, train, epochs) if row["device"] in usable else None
        times = None if here is None else here / row["recorded"]
        rows.append({**row, "here": here, "here_over_recorded": times})
    answer = {"data": train.name, "recorded": recorded["where"], "seconds_per_epoch": rows}
    import pandas as pd

    shown = pd.DataFrame(rows).to_string(index=False, na_rep="-", float_format=lambda value: f"{value:.3g}")
    title = f"Seconds per epoch with {recorded['factors']} factors: here on {_DATA}, recorded on {recorded['data']}"
    return answer, f"{title}\n{shown}\n{recorded['where']}"


def _seconds(row: dict, recorded: dict, train: Ratings, epochs: int) -> float:
    """Median seconds of an epoch of a solver on this machine, after a fit of one epoch, which may compile."""
    model = _MODELS[row["model"]](
        recorded["factors"], biases=False, solver=row["solver"], **recorded["parameters"][row["model"]]
    )
    model.fit(train, 1)
    return float(model.fit(train, epochs).history.seconds.diff().median())
