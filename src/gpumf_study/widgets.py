"""What readers of the book can touch: recorded frames as JSON, a static picture, and a script that makes them move.

Each function returns a `Widget`. A notebook shows it as HTML that holds the data and the picture; in the rendered
book `book/_static/gpumf.js` puts controls and a drawing in the picture's place. Nothing is loaded from elsewhere.
"""

import io
import json
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gpumf_study import figure_style as style
from gpumf_study.experiments import _limits
from gpumf_study.experiments.gpumf import race_steps
from gpumf_study.experiments.thesis import crossover as experiment

_DASHES = {"--": "7 4", "-.": "8 3 2 3", ":": "2 3"}
_DIGITS = 5
_AS_IT_IS = " /:=;,'()*+!-._"


@dataclass(frozen=True)
class Widget:
    """Data for one of the kinds that the script knows.

    kind : 'race', 'convergence', 'crossover' or 'roofline'
    data : plain values
    static : what stands there without the script
    alt : what the static picture shows, in words
    """

    kind: str
    data: dict[str, Any]
    static: Figure
    alt: str

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        # No text of the data may end the element that holds it.
        data = json.dumps(self.data, allow_nan=False).replace("</", "<\\/")
        return (
            f'<div class="gpumf-widget" data-kind="{self.kind}"><div class="gpumf-static">{self._picture()}</div>'
            f'<script type="application/json">{data}</script></div>'
        )

    def _picture(self) -> str:
        file = io.BytesIO()
        self.static.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        # Not in base64, which a server could hardly compress.
        return f'<img src="data:image/svg+xml,{quote(file.getvalue(), _AS_IT_IS)}" alt="{escape(self.alt)}">'


def _rounded(values):
    """Floats of few digits as JSON has them: None for what is missing or diverged."""
    return [float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else None for value in values]


def race(steps: pd.DataFrame, static: Figure) -> Widget:
    """Two updates of one user in the orders that `race_steps` recorded, one order for each outcome."""
    orders: list[dict[str, Any]] = []
    steps = steps.rename(columns=lambda name: name.removeprefix("x_"))
    for _, order in steps.groupby("repeat"):
        told = {"outcome": order.outcome.iloc[0], "first": int(order.group.iloc[0]), "steps": _replayed(order)}
        if not any((told["outcome"], told["first"]) == (one["outcome"], one["first"]) for one in orders):
            orders.append(told)
    orders.sort(key=lambda one: (one["outcome"], one["first"]))
    data = {"ratings": [rating for _, rating in sorted(_ratings(steps).items())],
            "user": float(race_steps.USER[0, 0]), "items": race_steps.ITEMS[:, 0].tolist(), "rate": race_steps.RATE,
            "orders": orders}  # fmt: skip
    alt = "The share of the orders tried in which both updates count, and in which one of them is lost."
    return Widget("race", data, static, alt)


def _ratings(steps):
    """The rating of each update, by the item that it moves: a dict of group -> float."""
    of_items = steps[steps.array == "item_factors"].groupby("group").element.first()
    ratings = dict(zip(race_steps.RATINGS.items.tolist(), race_steps.RATINGS.values.tolist(), strict=True))
    return {int(group): ratings[item] for group, item in of_items.items()}


def _replayed(order):
    """Of each read and write of an order what it reads or writes."""
    memory = {"user_factors": race_steps.USER[:, 0].tolist(), "item_factors": race_steps.ITEMS[:, 0].tolist()}
    ratings, held, steps = _ratings(order), {}, []
    for step in order.itertuples():
        if step.access == "read":
            held[step.group, step.array] = memory[step.array][step.element]
        else:
            p, q = held[step.group, "user_factors"], held[step.group, "item_factors"]
            error = p * q - ratings[step.group]
            mine, other = (p, q) if step.array == "user_factors" else (q, p)
            moved = mine - race_steps.RATE * (error * other + race_steps.REGULARIZATION * mine)
            memory[step.array][step.element] = moved
        value = round(float(memory[step.array][step.element]), _DIGITS)
        of_user = step.array == "user_factors"
        steps.append({"update": int(step.group), "access": step.access,
                      "cell": "p" if of_user else f"q{step.element}", "value": value})  # fmt: skip
    return steps


def convergence(frame: pd.DataFrame, model: str, static: Figure, main: list[str], metric: str = "rmse") -> Widget:
    """Test error of every solver against epochs or seconds of training, medians over the repeats.

    frame : DataFrame with a row an epoch: data, scheme, repeat, epoch, seconds, and the metric
    model : 'SGD', 'ALS' or 'RBM', whose solvers they are
    static : Figure of the same
    main : the solvers that are shown until a reader chooses others
    metric : 'rmse' or 'mae'
    """
    sets: dict[str, list[dict[str, Any]]] = {}
    for (data, scheme), runs in frame.groupby(["data", "scheme"], sort=False):
        look = style.LOOKS[model, scheme]
        median = runs[runs.epoch > 0].groupby("epoch")[["seconds", metric]].median()
        line = {"name": look.name, "colour": style.COLOURS[look.colour],
                "dash": next((dash for mark, dash in _DASHES.items() if look.line.startswith(mark)), ""),
                "main": scheme in main, "on": str(runs.device.iloc[0]), "epochs": median.index.tolist(),
                "seconds": _rounded(median.seconds), "errors": _rounded(median[metric])}  # fmt: skip
        sets.setdefault(style.data_name(str(data)), []).append(line)
    names = ", ".join(sets)
    alt = f"Test {metric.upper()} of the solvers of {model} on {names}, against epochs and seconds of training."
    return Widget("convergence", {"metric": metric.upper(), "sets": sets}, static, alt)


def crossover(frame: pd.DataFrame, static: Figure) -> Widget:
    """Which of ALS and SGD reaches the same error faster, in each setting of the fastest versions in `crossover`."""
    table = experiment.summary(frame)
    table = table[(table.variant == "fastest") & table.ratio.notna()]
    idle = experiment.reached_by_biases(frame)
    sizes = frame.drop_duplicates(["data", "x_density"]).set_index(["data", "x_density"])
    settings = [{"data": style.data_name(row.data), "density": float(f"{row.density:.3g}"),
                 "users": int(sizes.x_n_users[row.data, row.density]),
                 "items": int(sizes.x_n_items[row.data, row.density]), "row": float(f"{row.row_ratings:.4g}"),
                 "factors": int(row.factors), "ratio": float(f"{row.ratio:.3g}"),
                 "counts": (row.data, row.density, row.factors) not in idle}
                for row in table.itertuples()]  # fmt: skip
    colours = {model: style.COLOURS[style.MODELS[model][0]] for model in ("ALS", "SGD")}
    alt = "Which of ALS and SGD reaches the same error faster, by ratings per user or item and number of factors."
    alt += " Settings whose error user and item biases reach alone are gray and do not count."
    return Widget("crossover", {"settings": settings, "colours": colours}, static, alt)


def roofline(frame: pd.DataFrame, ceilings: pd.DataFrame, static: Figure) -> Widget:
    """User and item updates of every solver of ALS in `als_versions`, under the GPU's roofs of `ceilings`."""
    roofs = ceilings[ceilings.device == "cuda"].set_index("metric").value
    frame = frame[(frame.model == "ALS") & (frame.device == "cuda") & frame.x_step.isin(["users", "items"])]
    settings = []
    for (data, factors), of_setting in frame.groupby(["data", "factors"], sort=False):
        versions = []
        for solver, runs in of_setting.groupby("solver", sort=False):
            look = style.LOOKS["ALS", str(solver)]
            versions.append({"name": look.name, "colour": style.COLOURS[look.colour],
                             "products": "fp16" if solver in _limits.HALF_PRODUCTS else "fp32",
                             "steps": [_placed(side, runs[runs.x_step == side], roofs)
                                       for side in ("users", "items")]})  # fmt: skip
        settings.append({"name": f"{style.data_name(str(data))}, {factors} factors", "versions": versions})
    names = {"copy_bytes_per_second": "bandwidth", "fp16_flops": "fp16", "fp32_flops": "fp32"}
    data = {"settings": settings, "roofs": {key: float(f"{roofs[name]:.4g}") for name, key in names.items()}}
    alt = "Operations a second of the versions of ALS against operations a byte, under the roofs measured on the GPU."
    return Widget("roofline", data, static, alt)


def _placed(side, runs, roofs):
    """Where an update stands: by the bytes that it cannot avoid, and by those of one row a rating."""
    flops, least = runs.x_flops.iloc[0], runs.x_bytes.iloc[0]
    gathered = least + runs.x_gather_seconds.iloc[0] * roofs["copy_bytes_per_second"]
    seconds = runs.seconds.median()
    numbers = _rounded((seconds, flops / seconds, flops / least, flops / gathered))
    return {"side": side} | dict(zip(("seconds", "rate", "intensity", "gathered"), numbers, strict=True))
