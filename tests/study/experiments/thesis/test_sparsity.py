"""ALS on fewer ratings."""

from gpumf_study.experiments.thesis import parameter_search, sparsity
from support import ragged_ratings


def test_thinning_fills_the_share_that_was_asked_for():
    ratings = ragged_ratings(seed=0)
    part = sparsity.thinned(ratings, 0.1, seed=1)
    assert part.nnz == round(0.1 * ratings.n_users * ratings.n_items) and part.n_users == ratings.n_users
    assert sparsity.thinned(ratings, 0.999) is ratings
    few = parameter_search.first_users(ratings, 10)
    assert few.n_users == 10 and few.nnz == (ratings.users < 10).sum() and few.users.max() < 10
