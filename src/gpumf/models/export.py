"""Factors as plain matrices, for libraries that search nearest neighbours: hnswlib, Faiss, cuVS."""

from __future__ import annotations

import numpy as np

from gpumf._util.validation import flag
from gpumf.models.factorization import Factorization


def export_factors(model: Factorization, *, cosine: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(queries, vectors): rows of users and items whose inner products order items as `recommend` does.

    Libraries for inner products (Faiss `IndexFlatIP`, cuVS `inner_product`, hnswlib `ip`) take both as they are. With
    cosine=True each item gets one more column sqrt(M^2 - |q_i|^2), M the largest |q_i|, and each user a zero: all
    items are then of length M, so that cosines, and Euclidean distances, order them as inner products do (Bachrach et
    al. 2014):

    >>> import numpy as np
    >>> from gpumf import ALS
    >>> from gpumf.ratings import Ratings
    >>> k = np.arange(100)
    >>> ratings = Ratings(k // 5, k * 3 % 10, k % 5 + 1, n_users=20, n_items=10)
    >>> model = ALS(2, device="cpu").fit(ratings, epochs=3)
    >>> queries, vectors = export_factors(model, cosine=True)
    >>> queries.shape, vectors.shape, bool(np.ptp(np.linalg.norm(vectors, axis=1)) < 1e-4)
    ((20, 5), (10, 5), True)

    With hnswlib, whose search is approximate, and the nearer to exact the larger its `ef`:

    >>> import hnswlib
    >>> rated = np.flatnonzero(ratings.item_counts)
    >>> index = hnswlib.Index(space="cosine", dim=vectors.shape[1])
    >>> index.init_index(max_elements=len(rated))
    >>> index.add_items(vectors[rated], rated)
    >>> index.set_ef(100)
    >>> items, _ = index.knn_query(queries[3], k=5)
    >>> items[0].tolist() == model.recommend(3, k=5, seen=())[0].tolist()
    True

    Parameters
    ----------
    model : fitted Factorization; biases are columns of its factors
    cosine : bool, augment for cosines

    Returns
    -------
    (queries, vectors) : float32 (n_users, d) and (n_items, d), C-contiguous; a predicted rating is their inner
        product and, of a model with biases, the model's mean

    Raises
    ------
    NotFittedError : the model is not fitted
    TypeError : a model whose predictions are no inner products
    """
    if not isinstance(model, Factorization):
        raise TypeError(f"{type(model).__name__} does not predict by inner products; give ALS, ImplicitALS or SGD")
    model._check_fitted()
    flag("cosine", cosine)
    queries, vectors = (np.ascontiguousarray(array, np.float32) for array in model._learned)
    if not cosine:
        return queries, vectors
    squares = (vectors.astype(np.float64) ** 2).sum(axis=1)
    rest = np.sqrt(squares.max() - squares)
    zeros = np.zeros((len(queries), 1), np.float32)
    return np.hstack([queries, zeros]), np.hstack([vectors, rest[:, None].astype(np.float32)])
