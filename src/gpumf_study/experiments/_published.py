"""What the publications state in words or in tables: `published.csv`, beside this module, none read off a figure."""

from functools import cache
from importlib import resources

import pandas as pd


@cache
def table():
    """All of it.

    Return a DataFrame with a row a value: source, figure_or_table, section (where it stands), data ('douban',
    'netflix', .., or missing where it is of no data set), model, quantity, value, unit
    """
    with resources.files(__package__).joinpath("published.csv").open() as file:
        return pd.read_csv(file)


@cache
def value(figure_or_table, quantity, data=None, model=None, source="thesis"):
    """The one value of a figure or table, such as 'Figure 6.1', that these words name; None where there is none.

    data : name of a data set of any size, such as 'jester-1'
    """
    rows = table()
    rows = rows[(rows.source == source) & (rows.figure_or_table == figure_or_table) & (rows.quantity == quantity)]
    if data is not None:
        rows = rows[rows.data.isin([data, family(data)])]
    if model is not None:
        rows = rows[rows.model == model]
    return rows.value.item() if len(rows) else None


def threshold(data):
    """The test MAE that counts as trained on a set of the thesis (section 6.5); None for other sets."""
    return value("Section 6.5", "threshold", data)


def family(data):
    """What the thesis calls the data set that this one is, is part of, or has the shape of."""
    return data.split("-")[0]
