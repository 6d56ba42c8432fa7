"""Ratings that are streamed, a chunk after another."""

import numpy as np
import pytest

from gpumf import SGD
from gpumf.solvers.chunks import Chunks
from support import one_rating_a_row, ragged_ratings, schemes


@schemes
def test_streamed_ratings_give_the_same_result(launcher, kernel, options):
    ratings = ragged_ratings(n_users=40, n_items=30, longest=20, seed=1)
    if not SGD.solver_classes()[kernel].streams:
        with pytest.raises(ValueError, match="takes from all ratings"):
            SGD(5, solver=kernel, device=launcher.name, chunk=90, biases=False, **options)
        return
    # One group, or one rating at a time, where more would race; of ESGD's blocks, those that share no row do not.
    if kernel == "esgd":
        ratings = one_rating_a_row(300)
    options = options | {"fast": {"parts": 5}, "bsgd": {"batch": 1}, "esgd": {"th_size": 1, "st": 8}}.get(kernel, {})
    common = {"biases": False, "device": launcher.name, "threads": None if kernel == "kato_hosino" else 1}
    fits = [SGD(5, solver=kernel, chunk=chunk, **common, **options).fit(ratings, 2) for chunk in (None, 90)]
    for side in ("user_factors", "item_factors"):
        assert np.array_equal(getattr(fits[0], side), getattr(fits[1], side))


def test_chunks_are_whole_pieces_in_order(launcher):
    values, pieces = np.arange(100, dtype=np.float32), np.array([0, 10, 10, 40, 41, 90, 100])
    for most, expected in ((None, 1), (1000, 1), (50, 3), (1, 6)):
        chunks = Chunks(launcher, (values, values.astype(np.int32)), pieces, most)
        for _ in range(2):
            parts = [(*bounds, launcher.to_numpy(a), launcher.to_numpy(b)) for *bounds, (a, b) in chunks]
            assert len(parts) == expected
            assert np.array_equal(np.concatenate([a for *_, a, _ in parts]), values)
            for first, end, begin, a, b in parts:
                assert begin == pieces[first] and len(a) == pieces[end] - begin and np.array_equal(a, b)


def test_ratings_that_do_not_fit_are_streamed(host, monkeypatch):
    monkeypatch.setattr(type(host), "free_bytes", staticmethod(lambda: 1000))
    values, pieces = np.arange(500, dtype=np.float32), np.arange(501)
    assert len(list(Chunks(host, (values,), pieces))) == 5
    assert len(list(Chunks(host, (values[:150],), pieces[:151]))) == 1
