"""How many updates count."""

import numpy as np

from gpumf_study.experiments.gpumf import lost_updates as experiment


def test_of_rows_with_many_ratings_about_as_many_are_marked_and_of_others_all():
    side = experiment.Side(experiment.scattered(4, 3000, 8000), "users")
    marked = np.bincount(side.rows[side.marked], minlength=4)
    assert (side.n_ratings > 10 * experiment.MARKED).all()
    assert (abs(marked - experiment.MARKED) < 5 * experiment.MARKED**0.5).all()
    assert experiment.Side(side.ratings, "items").marked.all()
