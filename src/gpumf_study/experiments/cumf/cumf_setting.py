"""The setting of cuMF: operations and bytes of an epoch, its data sets, and its GPUs beside this one.

Source: Tan et al. 2018, Tables 1 to 3. What Table 1 states by order of magnitude is counted: the operations that must
be done, and the bytes of ratings, of the factors of each rating, and of the matrices. What hardware counts is in
`kernel_counters`.
"""

import numpy as np
import pandas as pd

from gpumf import backends
from gpumf.ratings import statistics
from gpumf.ratings.synthetic import RECIPES
from gpumf.ratings.synthetic_device import RECIPES as GPU_RECIPES
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim
from gpumf_study.experiments import _limits, _published

SETS = ["netflix", "yahoomusic", "hugewiki"]
STEPS = ["get_hermitian", "solve", "SGD"]
CEILINGS = {"fp32_flops": "peak", "copy_bytes_per_second": "bandwidth"}  # and what Table 3 calls them

PROFILES = {name: {"factors": [25, 50, 100, 200], "measure": name == "full"} for name in ("smoke", "quick", "full")}


def run(factors, measure):
    """Count for each number of factors, on Netflix; where `measure`, measure what this GPU reaches at best."""
    rows = [
        {"task": "Table 1", "data": "netflix", "variant": step, "factors": f, "metric": metric, "value": float(value)}
        for f in factors
        for step, found in _counts(f).items()
        for metric, value in found.items()
    ]
    for name in SETS:
        synthetic = RECIPES.get(name) or GPU_RECIPES[f"{name}-synthetic"]
        counted = synthetic.ratings - (0 if name == "hugewiki" else synthetic.test)  # of Hugewiki all are published
        here = {"users": synthetic.users, "items": synthetic.items, "ratings": counted}
        rows += [{"task": "Table 2", "data": name, "metric": metric, "value": float(n)} for metric, n in here.items()]
    if measure and backends.available():
        found = backends.device().ceilings()
        rows += [{"task": "Table 3", "device": "cuda", "metric": name, "value": found[name]} for name in CEILINGS]
    return pd.DataFrame(rows)


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


def figure(frame):
    """Draw operations a byte against the number of factors, a line a step."""
    figure, ((axis,),) = style.panels(height=3.2, width=6)
    rows = frame[frame.metric == "operations a byte"]
    for step, colour in zip(STEPS, ("indigo", "red", "blue"), strict=True):
        series = rows[rows.variant == step].set_index("factors").value
        axis.plot(series, "-o", color=style.COLOURS[colour], label=step)
    axis.set(xlabel="factors", ylabel="operations a byte")
    style.log_scale(axis.xaxis)
    style.log_scale(axis.yaxis)
    style.legend(figure, axis, 3)
    return figure


def off_published(frame):
    """Return by which share the numbers of the data sets differ from those of Table 2."""
    rows = frame[frame.task == "Table 2"]
    stated = [_published.value("Table 2", row.metric, row.data, source="cumf") for row in rows.itertuples()]
    return rows.assign(value=(rows.value / stated - 1).abs())


def over_p100(frame):
    """Return what this GPU reaches over what Table 3 states of a P100."""
    rows = frame[frame.task == "Table 3"]
    stated = [_published.value("Table 3", CEILINGS[name], model="Pascal P100", source="cumf") for name in rows.metric]
    scale = rows.metric.map({"fp32_flops": 1e12, "copy_bytes_per_second": 1e9})
    return rows.assign(value=rows.value / scale / stated)


CLAIMS = [
    Claim("cumf-table-2", "cumf", "Table 2",
          "Share by which users, items and ratings differ from the published, median.", metric="median",
          select={"column": "value"}, table=off_published, evidence="built in"),
    *(Claim(f"cumf-table-3-{name}", "cumf", "Table 3", f"{what} of this GPU over that of a P100.", metric="median",
            select={"column": "value", "times": 1, "where": {"metric": metric}}, table=over_p100)
      for name, metric, what in (
          ("bandwidth", "copy_bytes_per_second", "Bandwidth of a copy"),
          ("peak", "fp32_flops", "FP32 rate of a product"),
      )),
]  # fmt: skip
