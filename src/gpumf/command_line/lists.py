"""Lists of items: for a user, for all, for a new one, and those that are alike."""

from __future__ import annotations

import csv
import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpumf import ImplicitALS
from gpumf._util.validation import brief
from gpumf.command_line.folders import as_text, ids_of, kept, places_of
from gpumf.models.lists import Lists

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

_AT_ONCE = 4096
"""Users whose lists are made together."""


def recommend(options: Namespace) -> tuple[Any, Any]:
    """The best items of a user, of all users, or of a new one, by the ids of the ratings."""
    model = kept(options.model, options.device)
    if not options.seen and not options.new_user and model._seen_rows is None:
        raise ValueError(
            f"{options.model} does not say what users rated, so that recommendations cannot leave it out; add --seen"
        )
    seen = () if options.seen else None
    if options.all_users:
        rows = _all_lists(model, options.k, seen)
        return ({"user": user, "items": found} for user, found in rows), _as_csv(rows)
    items = ids_of(model, "item")
    if options.new_user:
        pairs = _ratings(options.new_user, items, None if isinstance(model, ImplicitALS) else type(model).__name__)
        places = places_of(items, "item", *(item for item, _ in pairs))
        ratings = places, [rating for _, rating in pairs]
        found = model.recommend(ratings=ratings, k=options.k, seen=seen, ids=False)
        return _recommended({"items": _listed(items, *found)}, options)
    users = ids_of(model, "user")
    (place,) = places_of(users, "user", options.user)
    found = model.recommend(place, k=options.k, seen=seen, ids=False)
    return _recommended({"user": users[place : place + 1].tolist()[0], "items": _listed(items, *found)}, options)


def similar(options: Namespace) -> tuple[dict, str]:
    """The items, or users, that are most like one, by the cosine of what the model learned of them."""
    model = kept(options.model, options.device)
    if not isinstance(model, Lists):
        raise ValueError(f"{options.model} holds {type(model).__name__}, which does not compare items")
    side = "item" if options.item is not None else "user"
    ids = ids_of(model, side)
    (place,) = places_of(ids, side, getattr(options, side))
    places, cosines = (model.similar_items if side == "item" else model.similar_users)(place, options.k, ids=False)
    found = _listed(ids, places, cosines, "cosine", side)
    return _answer({side: ids[place : place + 1].tolist()[0], f"{side}s": found}, "cosine", side)


def shown(text: Any) -> str:
    """A text as a terminal may print it: control characters, which could steer it, as Python writes them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def _listed(ids, places, numbers, what="rating", side="item"):
    """A list as dicts of ids and numbers, without the places that are empty."""
    there = places >= 0
    rows = zip(ids[places[there]].tolist(), numbers[there].tolist(), strict=True)
    return [{side: one, what: number} for one, number in rows]


def _answer(answer, what, side="item"):
    return answer, [f"{shown(row[side])}\t{row[what]:.4f}" for row in answer[f"{side}s"]]


def _recommended(answer, options):
    """The answer of one user; a note on stderr where the list is empty."""
    if not answer["items"] and not options.json:
        user = f"user {brief(options.user)}" if "user" in answer else "the new user"
        print(
            f"gpumf: {user} has rated all items, which recommendations leave out; --seen lists them", file=sys.stderr
        )
    return _answer(answer, "rating")


def _all_lists(model, k, seen) -> Iterator[tuple[Any, list]]:
    """(user, list) of all users, one after another."""
    users, items = ids_of(model, "user"), ids_of(model, "item")
    for begin in range(0, len(users), _AT_ONCE):
        places = np.arange(begin, min(begin + _AT_ONCE, len(users)))
        found = model.recommend(places, k=min(k, len(items)), seen=seen, ids=False)
        for user, listed, ratings in zip(users[places].tolist(), *found, strict=True):
            yield user, _listed(items, listed, ratings)


def _as_csv(rows) -> Iterator[str]:
    """The lines of a CSV file: ids as they are for a file or a pipe, as `shown` on a terminal."""
    written = shown if sys.stdout and sys.stdout.isatty() else lambda one: one
    yield "user,item,rank,rating"
    for user, found in rows:
        lines: list[str] = []
        # With line ends of two characters: Python before 3.13 quotes no others than it writes.
        writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n")
        user = written(user)
        writer.writerows(
            (user, written(row["item"]), rank, f"{row['rating']:.6g}") for rank, row in enumerate(found, 1)
        )
        if found:
            yield "\n".join(line.removesuffix("\r\n") for line in lines)


def _ratings(given: list[str], known: np.ndarray, explicit: str | None) -> list[tuple[str, float]]:
    """(item, rating) of ITEM=RATING, or of the lines ITEM,RATING of a CSV file.

    known : ids of the model's items
    explicit : name of a model of explicit ratings, which needs each; for others an item without a rating counts 1
    """
    if len(given) == 1 and os.path.isfile(given[0]):
        if given[0] in as_text(known):
            raise ValueError(
                f"{brief(given[0])} is an item of the model and a file; give {given[0]}=RATING, or the file's path"
            )
        form = "lines ITEM,RATING" if explicit else "lines ITEM,RATING or ITEM"
        expected = f"--new-user takes CSV in UTF-8, {form}, with the header item,rating or without one"
        found = _of_file(given[0], expected)
    else:
        expected = "give ITEM=RATING, or a file of lines ITEM,RATING"
        parts = [text.rpartition("=") for text in given]
        found = [("--new-user", *((item, rating) if equals else (rating, None))) for item, equals, rating in parts]
        if len(given) == 1 and found[0][2] is None and given[0] not in as_text(known):
            raise ValueError(f"there is no file {brief(given[0])}, and the model knows no item of this name")
    pairs = []
    for where, item, rating in found:
        if rating is None and explicit:
            raise ValueError(
                f"{where}: item {brief(item)} has no rating, which {explicit} needs; {expected}. Items alone are for "
                "--model implicit"
            )
        try:
            pairs.append((item, 1.0 if rating is None else float(rating)))
        except ValueError as error:
            raise ValueError(f"{where}: {brief(rating)} is not a number; {expected}") from error
    return pairs


def _of_file(path: str, expected: str) -> list[tuple[str, str, str | None]]:
    """(place, item, rating or None) of the lines of a CSV file, the first of which may be the header item,rating.

    expected : what messages say of its form
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            rows = [(f"{path}, line {reader.line_num}", *map(str.strip, row)) for row in reader if row]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8; {expected}") from error
    except csv.Error as error:
        raise ValueError(f"{path}: {error}; {expected}") from error
    if rows and rows[0][1:] in (("item", "rating"), ("item",)):
        rows = rows[1:]
    if not rows:
        raise ValueError(f"{path} has no ratings; {expected}")
    for where, item, *others in rows:
        if len(others) > 1:
            raise ValueError(f"{where}: {1 + len(others)} fields where at most 2 belong; {expected}")
        if not others and any(delimiter in item for delimiter in "\t;"):
            raise ValueError(f"{where}: no comma in {brief(item)}; {expected}")
    return [(where, item, others[0] if others else None) for where, item, *others in rows]
