"""The statistics of the data sets and of their twins, beside the published ones (thesis, Tables 6.1 and 6.2)."""

import pandas as pd

from gpumf.ratings import describe, published_shapes
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim
from gpumf_study.experiments import identity, present_ratings

_REAL = ["ml-100k", "ml-latest-small", "jester-1", "douban-monti"]

PROFILES = {
    "quick": {"data": [*_REAL, "ml-100k-synthetic", "ml-1m-synthetic", "jester-synthetic", "douban-synthetic"]},
    "full": {
        "data": [
            *_REAL,
            *(
                "ml-100k-synthetic",
                "ml-1m-synthetic",
                "ml-10m-synthetic",
                "ml-20m-synthetic",
                "jester-synthetic",
                "douban-synthetic",
            ),
            "netflix-synthetic",
        ]
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"]}


def run(data):
    """Describe the sets that are on this machine, the twins, and what is published of either.

    Returns
    -------
    DataFrame with a row a set and source: data, source ('published', 'real' or 'twin'), and the columns of
    `describe`
    """
    frames, identities = [], []
    for ratings in present_ratings(data):
        identities.append(identity(ratings))
        source = "twin" if ratings.name.endswith("-synthetic") else "real"
        frames.append(describe(ratings).assign(source=source))
    frame = pd.concat([published_shapes().assign(source="published"), *frames])
    frame.insert(0, "data", frame.index.str.removesuffix("-synthetic"))
    frame.insert(1, "source", frame.pop("source"))
    frame = frame.sort_values(["data", "source"], kind="stable", ignore_index=True)
    frame.attrs["datasets"] = identities
    return frame


COUNTS = [
    "users",
    "items",
    "ratings",
    *(f"{side}_{count}" for side in ("user", "item") for count in ("min", "mean", "max")),
]


def summary(frame):
    """How far each twin is from what is published, from the frame of `run`.

    Returns
    -------
    DataFrame with the index data and the columns COUNTS: twin over published less one, missing where nothing is
    published
    """
    twins, published = (frame[frame.source == source].set_index("data")[COUNTS] for source in ("twin", "published"))
    return (twins / published.reindex(twins.index) - 1).dropna(how="all")


def figure(frame):
    """The filled share of the matrix against the number of ratings, a mark a set and source."""
    figure, ((axis,),) = style.panels(height=4.2)
    for source, colour, mark in (("published", "black", "x"), ("real", "blue", "o"), ("twin", "orange", "+")):
        sets = frame[frame.source == source].dropna(subset="ratings")
        axis.plot(sets.ratings, 100 * sets.density, mark, color=style.COLOURS[colour], label=source, markersize=9)
    for row in frame.drop_duplicates("data").itertuples():
        axis.annotate(row.data, (row.ratings, 100 * row.density), (6, 4), textcoords="offset points", size=8)
    axis.set(xlabel="ratings", ylabel="filled share of the matrix (%)")
    style.log_scale(axis.xaxis)
    style.log_scale(axis.yaxis)
    style.legend(figure, axis, 3)
    return figure


def deviations(frame):
    """Return by data set how far the counts of its synthetic data set are off at most, as a share: x_off."""
    return summary(frame).abs().max(axis=1).rename("x_off").reset_index()


CLAIMS = [
    Claim(
        f"thesis-{artefact.lower().replace(' ', '-')}",
        "thesis",
        artefact,
        f"Ratings per user and item of {data.title()} (synthetic): the largest share by which a count is off.",
        metric="median",
        select={"column": "x_off", "where": {"data": data}},
        evidence="built in",
        table=deviations,
    )
    for artefact, data in (("Table 6.1", "douban"), ("Table 6.2", "jester"))
]
