"""The protocol of strong generalization: who is held out, and what is folded in and judged."""

from typing import ClassVar

import numpy as np
import pytest

from gpumf import ALS, ImplicitALS
from gpumf.models import strong_generalization
from support import ragged_ratings

RATINGS = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)


class Told(ImplicitALS):
    """Notes what it is trained on and folds in, and what its lists are judged by."""

    told: ClassVar = []

    def fit(self, train, *arguments, **named):
        self.told.append(train)
        return super().fit(train, *arguments, **named)

    def fold_in(self, ratings, **named):
        self.told.append(ratings)
        return super().fold_in(ratings, **named)

    def evaluate_ranking(self, test, *arguments, **named):
        self.told.append(test)
        return super().evaluate_ranking(test, *arguments, **named)


def test_users_of_strong_generalization_are_unknown_and_their_ratings_in_two_parts():
    Told.told.clear()
    found = strong_generalization(Told(2, device="cpu"), RATINGS, 2, users=0.3, known=0.6, k=3, seed=1)
    train, given, left = Told.told
    held = np.setdiff1d(RATINGS.users, train.users)
    assert len(held) == round(0.3 * (RATINGS.user_counts > 1).sum()) == given.n_users == left.n_users
    pairs = [set(zip(held[part.users].tolist(), part.items.tolist(), strict=True)) for part in (given, left)]
    rated = np.isin(RATINGS.users, held) & (train.item_counts[RATINGS.items] > 0)
    whole = zip(RATINGS.users[rated].tolist(), RATINGS.items[rated].tolist(), strict=True)
    assert not pairs[0] & pairs[1] and pairs[0] | pairs[1] == set(whole)
    several = given.user_counts + left.user_counts > 1
    assert (given.user_counts[several] > 0).all() and (left.user_counts[several] > 0).all()
    expected = (
        Told(2, device="cpu").fit(train, 2).fold_in(given).evaluate_ranking(left, 3, users=np.flatnonzero(several))
    )
    assert {name: found[name] for name in expected} == expected and found["users"] == several.sum()


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"users": 0.0}, ValueError, "users must be a number above 0 and below 1"),
        ({"known": 1.0}, ValueError, "known must be a number above 0 and below 1"),
        ({"users": 0.001}, ValueError, "no held-out user has two ratings"),
        ({"ratings": [1]}, TypeError, "takes Ratings, not list"),
        ({"model": "als"}, TypeError, "model must be one of gpumf"),
    ],
)
def test_what_strong_generalization_refuses(given, error, words):
    with pytest.raises(error, match=words):
        strong_generalization(**{"model": ALS(2, device="cpu"), "ratings": RATINGS, "epochs": 1} | given)
