"""Train, keep, evaluate."""

import inspect
import json
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpumf import ALS, RBM, SGD, BayesianMF, ImplicitALS
from gpumf._util import interrupts
from gpumf._util.validation import brief, integer
from gpumf.command_line.folders import as_text, holds_model, ids_of, kept, output_folder
from gpumf.ratings import DataError, Ratings, dataset_names, load_dataset, read_ratings

_K = 10  # length of the lists that held-back ratings judge
MODELS: dict[str, Any] = {"als": ALS, "bayesian": BayesianMF, "implicit": ImplicitALS, "rbm": RBM, "sgd": SGD}
COLUMNS = "user", "item", "rating"
_PYTHON = {"True": True, "False": False, "None": None}


def fit(options: Namespace) -> tuple[dict, str]:
    """Train and keep a model; what it was trained on, and its last errors on what was held back."""
    if not options.output:  # which Path takes for the current folder
        raise ValueError("--output is empty; name a folder, and check that no shell variable is unset")
    if options.epochs is not None:
        integer("--epochs", options.epochs, 1)
    by_default = options.model is None and not options.json
    if options.model is None:
        options.model = "implicit" if options.rating_column is None else "als"
        if by_default and options.model == "implicit":
            print("gpumf: without a rating column the model is implicit; --model names another", file=sys.stderr)
    kind, output = MODELS[options.model], Path(options.output)
    with output_folder(output) as save:
        model = kind(**_parameters(kind, options), seed=options.seed, device=options.device)
        ratings = _read(options.ratings, options)
        if kind is not ImplicitALS and (ratings.values == 1).all():
            raise ValueError(
                f"{options.ratings}: all ratings are 1, so {options.model} has nothing to predict; give --model "
                "implicit, which is for clicks and purchases"
            )
        train, test = (ratings, None) if options.test is None else ratings.split(options.test, options.seed)
        epochs = {} if options.epochs is None else {"epochs": options.epochs}
        try:
            model.fit(train, validation=test, progress=not options.json, ids=True, **epochs)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_kept_of_interrupted(model, output, save, options.ratings_kept)) from None
        if _saved_whole(model, save, options.ratings_kept):
            raise KeyboardInterrupt(f"interrupted after the last epoch; {output} has the model")
    answer = {"model": options.model, "folder": str(output), "solver": model.solver, "device": model.device}
    answer |= {"users": train.n_users, "items": train.n_items, "ratings": train.nnz, "epochs": model.epoch}
    answer |= {"seconds": float(model.history.seconds.iloc[-1])}
    text = (
        f"{kind.__name__} ({model.solver} on {model.device}) trained on {train.nnz:,} ratings "
        f"of {train.n_users:,} users and {train.n_items:,} items in {answer['seconds']:.3g} s, kept in {output}"
    )
    text += " with the items that each user rated" if options.ratings_kept else " without the items that users rated"
    if test is not None:
        if kind is ImplicitALS:  # whose errors against a preference of 1 say nothing about lists
            found = {f"{name}@{_K}": value for name, value in model.evaluate_ranking(test, _K).items()}
        else:
            found = {name.upper(): value for name, value in model.score(test).items()}
        answer |= {f"test_{name.lower()}": value for name, value in found.items()}
        text += "; held back: " + ", ".join(f"{name} {value:.4f}" for name, value in found.items())
    if by_default and kind is ALS:
        print("gpumf: als predicts ratings; --model implicit makes better recommendations", file=sys.stderr)
    return answer, text


def _kept_of_interrupted(model: Any, output: Path, save: Any, seen: bool) -> str:
    """Keep a model whose training was interrupted, unless the folder has an older one; what to say of it."""
    if not model.epoch:
        return "interrupted"
    said = f"interrupted after epoch {model.epoch}; {output}"
    if holds_model(output):
        return f"{said} keeps its older model"
    _saved_whole(model, save, seen)
    return f"{said} has that model"


def _saved_whole(model: Any, save: Any, seen: bool) -> bool:
    """Save the model, which Ctrl-C does not stop; whether it came."""
    failed = None
    try:
        with interrupts.deferred():
            try:
                save(model, seen=seen)
            except Exception as error:
                failed = error
    except KeyboardInterrupt:
        if not failed:
            return True
    if failed:
        raise failed
    return False


def evaluate(options: Namespace) -> tuple[dict, str]:
    """Errors and rankings on ratings of users and items that the model knows, and how many it was trained on.

    Those are left out where there are others; where there are none, the errors are those of training, and there are
    no rankings. Nor are there of a model that was kept without what users rated.
    """
    import pandas as pd

    integer("k", options.k, 1)
    model = kept(options.model, options.device)
    given = _read(options.ratings, options, one_user=True)
    known = {side: ids_of(model, side) for side in ("user", "item")}
    users, items = (
        pd.Index(as_text(ids), object).get_indexer(pd.Index(as_text(getattr(given, f"{side}_ids")), object))
        for side, ids in known.items()
    )
    users, items = users[given.users], items[given.items]
    both = (users >= 0) & (items >= 0)
    if not both.any():
        raise ValueError(f"{options.ratings} has no rating of a user and an item that {options.model} was trained on")
    shape = {f"n_{side}s": len(ids) for side, ids in known.items()}
    test = Ratings(users[both], items[both], given.values[both], name=given.name, **shape)  # type: ignore[arg-type]
    answer: dict[str, float] = {"ratings": test.nnz, "unknown": given.nnz - test.nnz}
    ranked, note = False, "\nno rankings: the model was kept without what users rated"
    if (seen := model._seen_rows) is not None:
        held_out = ~seen.holds(test.users, test.items)
        answer["in_training"] = test.nnz - int(held_out.sum())
        if ranked := bool(held_out.any()):
            test, count = test.select(held_out), answer["in_training"]
            note = f"\n{count:,} ratings are in the training set: errors and rankings leave them out" if count else ""
        else:
            note = (
                f"\nno rankings: all {test.nnz:,} ratings are in the training set, and recommendations leave them out"
            )
    if not isinstance(model, ImplicitALS):  # whose errors against a preference of 1 say nothing about lists
        answer |= model.score(test)
    if ranked:  # else lists would be of what users rated before
        answer |= {f"{name}@{options.k}": value for name, value in model.evaluate_ranking(test, options.k).items()}
    return answer, "\n".join(f"{name}\t{value:.6g}" for name, value in answer.items()) + note


def _parameters(kind: Any, options: Namespace) -> dict[str, Any]:
    given = {"factors": options.factors, "regularization": options.regularization}
    given |= {"learning_rate": options.learning_rate}
    if kind is RBM:
        given["hidden"] = given.pop("factors")
    given = {name: value for name, value in given.items() if value is not None}
    for name, text in options.others:
        try:
            given[name] = json.loads(text)
        except json.JSONDecodeError:
            given[name] = _PYTHON.get(text, text)
    taken = [name for name in inspect.signature(kind).parameters if name not in ("seed", "device", "options")]
    if unknown := sorted(set(given) - set(taken)):
        raise ValueError(f"{options.model} has no parameter {', '.join(unknown)}; it has {', '.join(taken)}")
    return given


def _read(given: str, options: Namespace, one_user: bool = False) -> Ratings:
    if given in dataset_names().index and not Path(given).exists():
        return _data_set(given, options)
    columns = [getattr(options, f"{name}_column") for name in COLUMNS]
    if not options.header:
        columns = [_position(*pair) for pair in zip(COLUMNS, columns, strict=True)]
    try:
        return read_ratings(given, *columns, header=options.header, duplicates=options.duplicates, one_user=one_user)
    except DataError as error:
        if options.header or "line 1:" not in str(error):
            raise
        raise DataError(f"{error}; if line 1 names the columns, leave out --no-header") from error


def _data_set(name: str, options: Namespace) -> Ratings:
    """A data set by its name; ValueError where an option is given that says how a file is to be read."""
    given = [f"--{column}-column" for column in COLUMNS if getattr(options, f"{column}_column") not in (column, None)]
    given += [] if options.header else ["--no-header"]
    if given:
        raise ValueError(
            f"{name} is the name of a data set, whose columns are known; {', '.join(given)} can be given with a file "
            "alone"
        )
    ratings = load_dataset(name, duplicates=options.duplicates or "error")
    if options.rating_column is None:
        ratings = replace(ratings, values=np.ones_like(ratings.values), scale=None)
    return ratings


def _position(name: str, given: str | None) -> int | None:
    """The position of a column in a file without a header: by default that of its name among `COLUMNS`."""
    if given is None:
        return None
    if given == name:
        return COLUMNS.index(name)
    if not given.isdecimal():
        raise ValueError(f"with --no-header, --{name}-column is a position from 0, not {brief(given)}")
    return int(given)
