"""The setting of cuMF: its data sets and its machines, beside those of this study; and its count of operations.

After Tan et al. 2018, Tables 1 to 3. What its Table 1 states by order of magnitude is counted here: the operations
that must be done, and the bytes of ratings, of the factors of each rating, and of the matrices. What hardware counts
is in `kernel_counters`.
"""

from functools import partial

import numpy as np
import pandas as pd

from gpumf import backends
from gpumf.ratings import statistics
from gpumf.ratings.synthetic import TWINS
from gpumf.ratings.synthetic_device import TWINS as GPU_TWINS
from gpumf_study import figure_style as style
from gpumf_study.experiments import _limits, _published
from gpumf_study.findings import ByConstruction, Finding, Holds, Near, Open

SETS = ["netflix", "yahoomusic", "hugewiki"]
STEPS = ["get_hermitian", "solve", "SGD"]

PROFILES = {name: {"factors": [25, 50, 100, 200], "measure": name == "full"} for name in ("smoke", "quick", "full")}


def run(factors, measure):
    """Count, and where it is asked for measure what this GPU reaches at best.

    Parameters
    ----------
    factors : list of int, for which operations and bytes of an epoch on Netflix are counted
    measure : bool

    Returns
    -------
    DataFrame with a row a number: table (1 to 3), what (a step, a set, a machine), factors (of Table 1), quantity,
    value
    """
    rows = [("Table 1", step, f, *of) for f in factors for step, found in _counts(f).items() for of in found.items()]
    for name in SETS:
        twin = TWINS.get(name) or GPU_TWINS[f"{name}-synthetic"]
        counted = twin.ratings - (0 if name == "hugewiki" else twin.test)  # of Hugewiki all are published
        here = {"users": twin.users, "items": twin.items, "ratings": counted}
        rows += [("Table 2", name, np.nan, *of) for of in here.items()]
    if measure and backends.available():
        found = backends.device().ceilings()
        rows.append(("Table 3", "here", np.nan, "FP32 TFLOP/s", found["fp32_flops"] / 1e12))
        rows.append(("Table 3", "here", np.nan, "GB/s of a copy", found["copy_bytes_per_second"] / 1e9))
    return pd.DataFrame(rows, columns=["table", "what", "factors", "quantity", "value"])


def _counts(f):
    """Operations, bytes and their ratio of an epoch on Netflix, by step: a dict of dicts."""
    users, items, nnz = statistics.COUNTS["netflix"]
    phases = [_limits.phases(*shape, nnz, f, fused_bias=False) for shape in ((users, items), (items, users))]
    found = {}
    for step in STEPS[:2]:
        moved, flops = np.sum([of[step] for of in phases], axis=0)
        gathered = 2 * 4 * nnz * f if step == "get_hermitian" else 0  # as if no cache answered any
        found[step] = flops, moved + gathered
    _, flops = _limits.epoch_of_updates(users, items, nnz, f)
    found["SGD"] = flops, nnz * (12 + 4 * 4 * f)  # two rows read and written
    return {
        step: {"operations": flops, "bytes": moved, "operations a byte": flops / moved}
        for step, (flops, moved) in found.items()
    }


def summary(frame):
    """The numbers, with the published ones beside them where there are any.

    Returns
    -------
    DataFrame with the index (table, what, factors, quantity): value, published
    """
    stated = [
        _published.value("Table 2", row.quantity, row.what, source="cumf") if row.table == "Table 2" else np.nan
        for row in frame.itertuples()
    ]
    return frame.assign(published=np.array(stated, float)).set_index(["table", "what", "factors", "quantity"])


def figure(frame):
    """Operations a byte against the number of factors, a line a step."""
    figure, ((axis,),) = style.panels(height=3.2, width=6)
    rows = frame[frame.quantity == "operations a byte"]
    for step, colour in zip(STEPS, ("indigo", "red", "blue"), strict=True):
        axis.plot(rows[rows.what == step].set_index("factors").value, "-o", color=style.COLOURS[colour], label=step)
    axis.set(xlabel="factors", ylabel="operations a byte")
    style.log_scale(axis.xaxis)
    style.log_scale(axis.yaxis)
    style.legend(figure, axis, 3)
    return figure


def _exponent(frame, step):
    """That with which operations a byte grow with the number of factors."""
    rows = frame[(frame.what == step) & (frame.quantity == "operations a byte")]
    return float(np.polyfit(np.log(rows.factors), np.log(rows.value), 1)[0]), 0.0, ""


def _shape(frame):
    """The largest distance of users, items and training ratings from the published ones, as a share."""
    table = summary(frame[frame.table == "Table 2"])
    return (table.value / table.published - 1).abs().max(), 0.0, "of it"


def _since(frame, quantity, of_p100):
    here = frame[(frame.what == "here") & (frame.quantity == quantity)].value
    stated = _published.value("Table 3", of_p100, model="Pascal P100", source="cumf")
    return (here.iloc[0] / stated if len(here) else np.nan), np.nan, "x"


FINDINGS = [
    *(
        Finding(
            f"cumf-table-1-{step.lower().replace('_', '-')}",
            "cumf",
            "Table 1",
            f"Operations a byte of {step} grow with the number of factors f as f does.",
            partial(_exponent, step=step),
            Near(1.0, 1.25, neutral=0.0),
        )
        for step in STEPS[:2]
    ),
    Finding(
        "cumf-table-1-sgd",
        "cumf",
        "Table 1",
        "Operations a byte of SGD do not grow with the number of factors.",
        partial(_exponent, step="SGD"),
        Holds(below=0.1),
    ),
    Finding(
        "cumf-table-2",
        "cumf",
        "Table 2",
        "The sets have the published users, items and ratings.",
        _shape,
        ByConstruction(),
    ),
    Finding(
        "cumf-table-3-bandwidth",
        "cumf",
        "Table 3",
        "How many times the 740 GB/s of the P100 does this GPU reach in a copy?",
        partial(_since, quantity="GB/s of a copy", of_p100="bandwidth"),
        Open(),
    ),
    Finding(
        "cumf-table-3-peak",
        "cumf",
        "Table 3",
        "How many times the 11 TFLOP/s of the P100 does this GPU reach in a product in FP32?",
        partial(_since, quantity="FP32 TFLOP/s", of_p100="peak"),
        Open(),
    ),
]
