"""Lists for users whom a model was not trained on: the protocol of strong generalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpumf._util.validation import MAX_SEED, integer, number
from gpumf.models.estimator import Model, check_model
from gpumf.ratings import Ratings


def strong_generalization(
    model: Model,
    ratings: Ratings,
    epochs: int | None = None,
    *,
    users: float = 0.1,
    known: float = 0.8,
    k: int = 10,
    seed: int = 0,
    **fitting: Any,
) -> dict[str, float]:
    """Train a copy of a model without some users, fold these in by a part of their items, and rank the others.

    The protocol of Marlin (2004), as Liang et al. (2018) use it for lists: the model has never seen the users whom it
    is judged on. Their `recall` divides by min(k, n), not by the number n of a user's test items as
    `evaluate_ranking` does.

    Parameters
    ----------
    model : of gpumf with `fold_in`; it stays as it is
    ratings : Ratings
    epochs : int, by default that of the model's `fit`
    users : share of the users that are held out, drawn at random of those with two ratings or more
    known : share of a held-out user's ratings by which the user is folded in, at least one and not all, drawn at
        random; the others are the test set. Items that no other user has rated are left out of both
    k : int, length of the lists
    seed : int, of the draws
    **fitting : of `fit`

    Returns
    -------
    dict of precision, recall, map, ndcg, as of `evaluate_ranking`; users, the number of those judged; seconds of
        `fit`

    Raises
    ------
    TypeError : no model of gpumf, no Ratings
    ValueError : shares outside 0..1, no held-out user with two ratings; otherwise as of `fit`

    >>> import numpy as np
    >>> from gpumf import ImplicitALS
    >>> from gpumf.models import strong_generalization
    >>> from gpumf.ratings import Ratings
    >>> r = np.arange(100)
    >>> ratings = Ratings(r // 5, r * 3 % 10, np.ones(100), n_users=20, n_items=10)
    >>> found = strong_generalization(ImplicitALS(2, device="cpu"), ratings, epochs=3, users=0.25, k=3)
    >>> found["users"], 0 <= found["recall"] <= 1
    (5, True)
    """
    if not isinstance(ratings, Ratings):
        raise TypeError(f"strong_generalization() takes Ratings, not {type(ratings).__name__}")
    check_model(model, "ImplicitALS(64)")
    users, known = (number(name, share, above=0, below=1) for name, share in (("users", users), ("known", known)))
    rng = np.random.default_rng(integer("seed", seed, 0, MAX_SEED))
    several = np.flatnonzero(ratings.user_counts > 1)
    held = np.sort(rng.permutation(several)[: round(users * len(several))])
    apart = np.isin(ratings.users, held)
    train = ratings.select(~apart)
    apart &= train.item_counts[ratings.items] > 0
    rows, items, values = (column[apart] for column in (ratings.users, ratings.items, ratings.values))
    order = np.lexsort((rng.random(len(rows)), rows))
    rows, items, values = np.searchsorted(held, rows[order]), items[order], values[order]
    counts = np.bincount(rows, minlength=len(held))
    place = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    given = place < np.clip(np.round(known * counts), 1, np.maximum(counts - 1, 0))[rows]
    parts = [Ratings(rows[of], items[of], values[of], max(len(held), 1), ratings.n_items) for of in (given, ~given)]
    judged = parts[0].user_counts > 0
    if not judged.any():
        raise ValueError("no held-out user has two ratings of items that others have rated; hold out more users")
    fitted = type(model)(**model.get_params()).fit(train, model._epochs_or_default(epochs), **fitting)
    found = fitted.fold_in(parts[0]).evaluate_ranking(parts[1], k, users=np.flatnonzero(judged), ids=False)
    return found | {"users": int(judged.sum()), "seconds": fitted.times.end_to_end}
