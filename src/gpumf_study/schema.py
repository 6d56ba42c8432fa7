"""The columns that every stored result has, checked when it is stored.

A row is one measurement: seconds of a phase, or the value of a metric, or a metric after an epoch with the seconds of
training until then. A run is all rows that agree in every column but EPOCHS and MEASURED.
"""

import numpy as np
import pandas as pd

COLUMNS = {
    "data": "str",  # data set
    "task": "str",  # what is done, as 'fit', 'recommend' or 'read'
    "model": "str",  # estimator, as 'ALS', or program
    "solver": "str",
    "variant": "str",  # option of the solver, or version of the data or of the order
    "device": "str",  # 'cuda', 'cpu' or 'emulator'
    "threads": "int",  # of the CPU
    "factors": "int",
    "repeat": "int",
    "epoch": "int",
    "phase": "str",  # one of PHASES
    "seconds": "float",  # of the phase; where there is an epoch, of all epochs until then
    "metric": "str",  # name of what `value` is
    "value": "float",  # missing where a training diverged
}
PHASES = "preprocess", "transfer", "train", "compile", "end_to_end"
MEASURED = "seconds", "value"
_WITHIN_A_RUN = {"epoch", "phase", "seconds", "metric", "value"}


def run_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns that tell runs apart: labels, parameters and the repeat."""
    return [column for column in frame if column not in _WITHIN_A_RUN]


def validated(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a result in the order of COLUMNS, without the columns that nothing stands in.

    frame : DataFrame whose columns are in COLUMNS or begin with 'x_'

    Raise ValueError where a column is unknown or of another kind, a phase is unknown, a row measures nothing, or two
    rows have the same labels.
    """
    if frame.empty:
        raise ValueError("a result has no rows")
    own = [column for column in frame if column.startswith("x_")]
    if unknown := set(frame) - set(COLUMNS) - set(own):
        raise ValueError(f"columns that are not of the schema begin with 'x_': {sorted(unknown)}")
    attrs, frame = frame.attrs, frame[[column for column in COLUMNS if column in frame] + own]
    frame = frame.loc[:, frame.notna().any()].reset_index(drop=True)
    frame.attrs = attrs
    for column in frame.columns.difference(own):
        if not _fits(frame[column].dropna(), COLUMNS[column]):
            raise ValueError(f"{column} takes {COLUMNS[column]}, not {frame[column].dtype}")
    if "phase" in frame and not set(frame.phase.dropna()) <= set(PHASES):
        raise ValueError(f"phases are {PHASES}, not {sorted(set(frame.phase.dropna()) - set(PHASES))}")
    given = [frame[column].notna() for column in ("seconds", "metric") if column in frame]
    if not given or not np.logical_or.reduce(given).all():
        raise ValueError("a row has neither seconds nor a metric")
    if "value" in frame and ("metric" not in frame or (frame.value.notna() & frame.metric.isna()).any()):
        raise ValueError("a value has no metric")
    labels = frame.columns.difference(MEASURED)
    if (twice := frame.duplicated(list(labels))).any():
        raise ValueError(f"two rows have the same labels: {frame.loc[twice, labels].iloc[0].to_dict()}")
    return frame


def _fits(values, kind):
    if kind == "str":
        return all(isinstance(value, str) for value in values)
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        return False
    return kind == "float" or bool((values == values.round()).all() and (values >= 0).all())
