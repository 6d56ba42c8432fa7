"""Statistics of real and synthetic data sets and the published ones (thesis, Tables 6.1 and 6.2)."""

import pandas as pd

from gpumf.ratings import describe, published_shapes
from gpumf_study.claims import Claim
from gpumf_study.experiments import present_ratings

_REAL = ["ml-100k", "ml-latest-small", "jester-1", "douban-monti"]

PROFILES = {
    "quick": {"data": [*_REAL, "ml-100k-synthetic", "ml-1m-synthetic", "jester-synthetic", "douban-synthetic"]},
    "full": {"data": [*_REAL,
                      *("ml-100k-synthetic", "ml-1m-synthetic", "ml-10m-synthetic", "ml-20m-synthetic",
                        "jester-synthetic", "douban-synthetic"),
                      "netflix-synthetic"]},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"]}


def run(data):
    """Describe the data sets that are on this computer, the synthetic ones, and what is published of either.

    A row is a metric, one of the columns of `describe`; `variant` is 'published', 'real' or 'synthetic'.
    """
    frames = [published_shapes().assign(variant="published")]
    for ratings in present_ratings(data):
        source = "synthetic" if ratings.name.endswith("-synthetic") else "real"
        frames.append(describe(ratings).assign(variant=source))
    frame = pd.concat(frames)
    frame = frame.assign(data=frame.index.str.removesuffix("-synthetic"), task="describe")
    frame = frame.sort_values(["data", "variant"], kind="stable")
    return frame.melt(["data", "variant", "task"], var_name="metric").dropna(subset="value").reset_index(drop=True)


def table(frame):
    """Return a row a data set and source: data, source, and the metrics as columns."""
    found = frame.pivot(index=["data", "variant"], columns="metric", values="value")[frame.metric.unique()]
    return found.reset_index().rename(columns={"variant": "source"})


COUNTS = [
    "users", "items", "ratings",
    *(f"{side}_{count}" for side in ("user", "item") for count in ("min", "mean", "max")),
]  # fmt: skip


def summary(frame):
    """Return by data set how far the COUNTS of a synthetic one are from the published ones, as shares."""
    rows = table(frame).set_index("data")
    made, published = (rows[rows.source == source].reindex(columns=COUNTS) for source in ("synthetic", "published"))
    return (made / published.reindex(made.index) - 1).dropna(how="all")


def deviations(frame):
    """Return by data set how far the counts of its synthetic data set are off at most, as a share: x_off."""
    return summary(frame).abs().max(axis=1).rename("x_off").reset_index()


CLAIMS = [
    Claim(f"thesis-{figure_or_table.lower().replace(' ', '-')}", "thesis", figure_or_table,
          f"Ratings per user and item of {data.title()} (synthetic): the largest share by which a count is off.",
          metric="median", select={"column": "x_off", "where": {"data": data}}, evidence="built in", table=deviations)
    for figure_or_table, data in (("Table 6.1", "douban"), ("Table 6.2", "jester"))
]  # fmt: skip
