"""Parameters in place of those of a profile or of a chapter: what they may be."""

from gpumf.ratings import dataset_names


def fitted(name, value, default):
    """The value in the form of the one that it replaces.

    A single value stands for a list of one where the other is a list, and a number for every entry of a dict of
    numbers. A number above zero is replaced by such a one, a share by one of at most 1.

    name : str, of the parameter
    value : a plain value, as YAML or JSON has them
    default : the value that it replaces; in place of None goes anything

    Raise ValueError where the value is of another kind, or names no data set.

    >>> fitted("factors", 32, [[16, 32]]), fitted("epochs", 5, {"ALS": 8, "SGD": 20})
    ([[32]], {'ALS': 5, 'SGD': 5})
    """
    try:
        found = _as(value, 0 if name == "seed" else default)  # any may be drawn with, 0 too
        if name == "data":
            _check_data(found, default)
        if name == "share" and found > 1:
            raise ValueError("at most 1, the whole")
    except ValueError as error:
        raise ValueError(f"{name} must be {error}, not {value!r}") from None
    return found


def _as(value, default):
    if default is None:
        return value
    if isinstance(default, list | tuple):
        numbers = [one for one in default if _number(one)]
        if numbers:
            sample = max(numbers, key=lambda one: isinstance(one, float)) if len(numbers) == len(default) else None
        else:
            sample = default[0] if default else None
        return [_as(one, sample) for one in (value if isinstance(value, list | tuple) else [value])]
    if isinstance(default, dict):
        if _number(value) and all(map(_number, default.values())):
            return {key: _as(value, number) for key, number in default.items()}
        if not isinstance(value, dict):
            raise ValueError(f"a dict, as {default!r},")
        return value
    if _number(default):
        whole = isinstance(default, int)
        if not _number(value) or (whole and value != int(value)) or value < 0 or (default > 0 and value == 0):
            kind = "a whole number" if whole else "a number"
            raise ValueError(f"{kind} {'above 0' if default > 0 else 'from 0 on'}, as {default!r}")
        return int(value) if whole else value
    if not isinstance(value, type(default)):
        raise ValueError(f"{'true or false' if isinstance(default, bool) else 'a name'}, as {default!r}")
    return value


def _number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_data(found, default):
    def names(value):
        return value if isinstance(value, list | tuple | dict) else [value]

    known = list(dict.fromkeys([*dataset_names().index, *names(default)]))  # an experiment may have sets of its own
    for name in names(found):
        if name not in known and not str(name).endswith("-synthetic"):
            raise ValueError(f"one of {', '.join(known)}")
