"""The same updates in many orders."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study.experiments.gpumf import race_demonstration


def test_every_rating_of_the_matrix_is_one_of_five_and_every_run_has_its_groups_and_seed(monkeypatch):
    seen = []

    def updates(ratings, p, q, rate, regularization, key, n_updates, n_groups, seed):
        seen.append((ratings, n_updates, n_groups, seed))
        return p, q, None

    monkeypatch.setattr(race_demonstration, "updates", updates)
    monkeypatch.setattr(race_demonstration, "lost_share", lambda trace: 0.25)
    frame = race_demonstration.run([1, 4], seeds=2, n_users=30, n_items=20, factors=8, n_updates=60)
    ratings = seen[0][0]
    assert np.unique(ratings.values).tolist() == [1, 2, 3, 4, 5] and ratings.nnz == 600
    assert len(set(zip(ratings.users, ratings.items, strict=True))) == 600
    assert [what[1:] for what in seen] == [(60, groups, seed) for groups in (1, 4) for seed in (0, 1)]
    frame = frame.pivot(index=["x_groups", "repeat"], columns="metric", values="value")
    assert frame.index.tolist() == [(1, 0), (1, 1), (4, 0), (4, 1)]
    # Nothing was moved: as far from the factors of one after another as these went.
    assert frame.distance.to_list() == pytest.approx([1] * 4) and (frame.lost_share == 0.25).all()


def test_runs_are_summed_up_by_medians():
    rows = [(groups, seed, groups / 10 + seed, groups + seed, 1.0) for groups in (1, 4) for seed in (0, 1, 5)]
    frame = pd.DataFrame(rows, columns=["x_groups", "repeat", "lost_share", "distance", "rmse"])
    frame = frame.melt(["x_groups", "repeat"], var_name="metric")
    assert race_demonstration.summary(frame).distance.to_dict() == {1: 2, 4: 5}
