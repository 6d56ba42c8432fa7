"""The ratings from before and new ones, of models that take these in without training anew."""

from dataclasses import replace

import numpy as np

from gpumf.models.checks import check_finite, check_training


def with_new(model, new):
    """(new, whole): the new ratings, checked, and those that a model was trained on with them, on the host.

    Parameters
    ----------
    model : fitted Model
    new : Ratings of its users and items, or what `fit` makes them of

    Raises
    ------
    NotFittedError : the model is not fitted
    ValueError : its training set is not known; ratings of others, or not finite
    """
    model._check_fitted()
    if model._training is None:
        raise ValueError("the training set is not known here; use fit(train, warm_start=True)")
    new = model._like(new, "new").on_host()
    check_training(new, None)
    model._check_shape(new)
    check_finite(new, None)
    return new, _renewed(model._training.on_host(), new)


def _renewed(before, new):
    """Both sets in one, with the new rating of a pair that both have."""
    n = before.n_items
    old = before.select(~np.isin(before.users * np.int64(n) + before.items, new.users * np.int64(n) + new.items))
    columns = {name: np.concatenate([getattr(r, name) for r in (old, new)]) for name in ("users", "items", "values")}
    return replace(old, **columns, times=None)
