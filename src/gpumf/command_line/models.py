"""Train, keep, recommend, evaluate. A model's folder holds it, and the ratings and ids that it was trained on."""

import inspect
import json
import os
import shutil
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from gpumf import ALS, RBM, SGD, ImplicitALS, datasets
from gpumf.datasets import Ratings

MODELS: dict[str, Any] = {"als": ALS, "implicit": ImplicitALS, "rbm": RBM, "sgd": SGD}
_MODEL, _RATINGS = "model.npz", "ratings.npz"


def fit(options: Namespace) -> tuple[dict, str]:
    """Train and keep a model; what it was trained on, and its last errors on what was held back."""
    kind, output = MODELS[options.model], Path(options.output)
    if output.exists() and not (output / _MODEL).is_file():
        raise ValueError(f"{output} exists and is no folder of a model; give another --output")
    output.parent.mkdir(parents=True, exist_ok=True)
    model = kind(**_parameters(kind, options), seed=options.seed, device=options.device)
    ratings = _read(options.ratings, options)
    train, test = (ratings, None) if options.test is None else ratings.split(options.test, options.seed)
    model.fit(train, options.epochs, test, progress=not options.json)
    beside = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.parent))
    try:
        model.save(beside / _MODEL)
        _keep(train, options.model, beside / _RATINGS)
        if output.exists():
            shutil.rmtree(output)
        beside.chmod(0o755)
        os.replace(beside, output)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    answer = {"model": options.model, "folder": str(output), "solver": model.solver, "device": model.device}
    answer |= {"users": train.n_users, "items": train.n_items, "ratings": train.nnz, "epochs": model.epoch}
    answer |= {"seconds": float(model.history.seconds.iloc[-1])}
    text = (
        f"{kind.__name__} ({model.solver} on {model.device}) trained on {train.nnz:,} ratings "
        f"of {train.n_users:,} users and {train.n_items:,} items in {answer['seconds']:.3g} s, kept in {output}"
    )
    if test is not None:
        errors = model.score(test)
        answer |= {f"test_{name}": value for name, value in errors.items()}
        text += "; held back: " + ", ".join(f"{name.upper()} {value:.4f}" for name, value in errors.items())
    return answer, text


def recommend(options: Namespace) -> tuple[dict, str]:
    """The best items of a user, by the ids of the ratings."""
    model, train = _kept(options)
    user = _position(train, options.user)
    positions, predicted = model.recommend(user, k=options.k, seen=() if options.seen else train)
    items = train.item_ids[positions].tolist()
    found = [{"item": item, "rating": float(rating)} for item, rating in zip(items, predicted, strict=True)]
    return {"user": options.user, "items": found}, "\n".join(f"{row['item']}\t{row['rating']:.4f}" for row in found)


def evaluate(options: Namespace) -> tuple[dict, str]:
    """Errors and rankings on ratings, of those of users and items that the model knows."""
    model, train = _kept(options)
    given = _read(options.ratings, options)
    users, items = (_matched(getattr(given, side), getattr(train, side)) for side in ("user_ids", "item_ids"))
    users, items = users[given.users], items[given.items]
    known = (users >= 0) & (items >= 0)
    if not known.any():
        raise ValueError(f"{options.ratings} has no rating of a user and an item that {options.model} was trained on")
    test = Ratings(users[known], items[known], given.values[known], train.n_users, train.n_items, name=given.name)
    answer = {"ratings": test.nnz, "unknown": given.nnz - test.nnz} | model.score(test)
    answer |= {f"{name}@{options.k}": value for name, value in model.rank(test, options.k, seen=train).items()}
    return answer, "\n".join(f"{name}\t{value:.6g}" for name, value in answer.items())


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
            given[name] = text
    taken = [name for name in inspect.signature(kind).parameters if name not in ("seed", "device", "options")]
    if unknown := sorted(set(given) - set(taken)):
        raise ValueError(f"{options.model} has no parameter {', '.join(unknown)}; it has {', '.join(taken)}")
    return given


def _read(given: str, options: Namespace) -> Ratings:
    if not Path(given).exists() and given in datasets.names().index:
        return datasets.load(given)
    return datasets.read(given, options.user_column, options.item_column, options.rating_column)


def _keep(train: Ratings, kind: str, path: Path) -> None:
    columns: dict[str, Any] = {name: getattr(train, name) for name in ("users", "items", "values")}
    columns |= {side: _plain(getattr(train, side)) for side in ("user_ids", "item_ids")}
    np.savez(path, model=kind, **columns)


def _plain(ids: np.ndarray) -> np.ndarray:
    """Ids without Python objects, which only pickle stores."""
    ids = np.asarray(ids)
    return ids if ids.dtype.kind in "iuU" else ids.astype(str)


def _kept(options: Namespace) -> tuple[Any, Ratings]:
    folder = Path(options.model)
    if not (folder / _MODEL).is_file():
        raise ValueError(f"{folder} holds no model; `gpumf fit RATINGS -o {folder}` makes one")
    try:
        with np.load(folder / _RATINGS, allow_pickle=False) as file:
            columns = {name: file[name] for name in file.files}
        kind = MODELS[str(columns.pop("model"))]
        shape = {"n_users": len(columns["user_ids"]), "n_items": len(columns["item_ids"])}
        train = Ratings(**columns, **shape)  # type: ignore[arg-type]
    except Exception as error:  # whatever damaged bytes make NumPy and zipfile raise
        raise ValueError(f"{folder / _RATINGS} is damaged ({error}); train again") from error
    model = kind.load(folder / _MODEL, device=options.device)
    return model, train


def _position(train: Ratings, user: str) -> int:
    ids = train.user_ids
    found = np.flatnonzero(ids.astype(str) == user)
    if not len(found):
        raise ValueError(f"the model knows no user {user!r}; it knows {len(ids):,}, such as {ids[0]}")
    return int(found[0])


def _matched(given: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Where each of the given ids is among the known ones, -1 where it is not."""
    import pandas as pd

    return pd.Index(_plain(known).astype(str)).get_indexer(_plain(given).astype(str))
