"""This machine beside the recorded one: seconds of an epoch of ALS and SGD with 16 factors on 80,000 ratings."""

import os
import sys
from argparse import Namespace
from contextlib import nullcontext, redirect_stderr
from pathlib import Path

import pandas as pd

from gpumf import datasets, places, results
from gpumf.arguments import integer

_NAME, _DATA = "first_comparison", "ml-100k"
_KEYS = ["model", "kernel", "device"]


def run(options: Namespace) -> tuple[dict, str]:
    """One table: a solver a row, seconds of an epoch here and as recorded."""
    from gpumf.experiments.thesis import first_comparison

    epochs = integer("epochs", options.epochs, 1)
    recorded = _recorded()
    data = _DATA if datasets.names().present[_DATA] else f"{_DATA}-twin"
    # A bar fills a log.
    with open(os.devnull, "w") as nowhere, nullcontext() if sys.stderr.isatty() else redirect_stderr(nowhere):
        parameters = first_comparison.PARAMETERS
        here = first_comparison.run([data], als_epochs=epochs, sgd_epochs=epochs, repeats=1, parameters=parameters)
    there = recorded.frame[recorded.frame.data == _DATA]
    table = pd.DataFrame({"here": _seconds(here), "recorded": _seconds(there)}).reset_index()
    table["times"] = table.here / table.recorded
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    answer = {"data": data, "recorded": recorded.where, "seconds_an_epoch": rows}
    shown = table.to_string(index=False, na_rep="-", float_format=lambda value: f"{value:.3g}")
    return answer, f"Seconds of an epoch on {data}, 16 factors, here and as recorded\n{shown}\n{recorded.where}"


def _seconds(frame: pd.DataFrame) -> pd.Series:
    """Of an epoch, by solver: the median of the repeats' means."""
    last = frame.sort_values("epoch").groupby([*_KEYS, "repeat"]).last()
    return (last.seconds / last.epoch).groupby(_KEYS).median()


def _recorded() -> results.Result:
    installed = Path(__file__).parents[1] / "recorded" / f"{_NAME}.csv"
    return results.load(_NAME) if places.checkout() else results.read(installed)
