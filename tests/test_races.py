"""The races of Hogwild, demonstrated: each order gives what arithmetic says it must."""

import numpy as np

from gpumf.experiments import race_demonstration, race_steps


def test_two_updates_step_by_step(host):
    frame = race_steps.run(seeds=40)
    p, (q, _), rate = race_steps.USER[0, 0], race_steps.ITEMS[:, 0], race_steps.RATE
    # Update 0 draws the rating 1, update 1 the rating 5.
    first, second = (lambda p, rating=r: p - rate * (p * q - rating) * q for r in (1, 5))
    expected = {
        ("both count", 0): second(first(p)),
        ("both count", 1): first(second(p)),
        ("update 0 is lost", 0): second(p),
        ("update 1 is lost", 1): first(p),
    }
    seen = set()
    for _, steps in frame.groupby("seed"):
        assert list(steps.step) == list(range(8))
        writes = steps[(steps.array == "user_factors") & (steps.access == "write")]
        case = steps.outcome.iloc[0], writes.group.iloc[0]
        assert np.isclose(steps.user_factor, expected[case], rtol=1e-6).all()
        seen.add(case)
    assert seen == set(expected)


def test_one_group_is_sequential_and_more_lose_more(host):
    frame = race_demonstration.run([1, 2, 16], seeds=6, n_users=12, n_items=9, factors=5, n_updates=150)
    one, two, many = (runs for _, runs in frame.groupby("groups"))
    assert (one.lost_share == 0).all() and (one.distance < 1e-5).all() and one.distance.nunique() == 1
    assert two.lost_share.between(0.001, 0.5).all() and two.rmse.nunique() == 6
    assert many.lost_share.mean() > 2 * two.lost_share.mean() and many.distance.mean() > two.distance.mean()
