"""Schedules of the learning rate."""

import pytest

from gpumf import SGD
from gpumf.solvers import schedules
from support import ragged_ratings


def test_schedules_follow_their_formulas():
    rmses = [2.0, 1.0, 0.9, 0.95, 0.95, 0.94, 0.96]
    assert schedules.Constant().rate(0.1, rmses) == 0.1
    assert schedules.Power(0.3).rate(0.1, rmses) == pytest.approx(0.1 / (1 + 0.3 * 6**1.5))
    # Two epochs without a better one, twice.
    assert [schedules.Patience(2, 0.5).rate(0.1, rmses[:k]) for k in (1, 4, 5, 6, 7)] == [0.1, 0.1, 0.05, 0.05, 0.025]
    for schedule in (schedules.Constant(), schedules.Power(0.3), schedules.Patience(3, 0.9)):
        assert schedules.from_dict(schedules.to_dict(schedule)) == schedule


def test_an_error_equal_to_the_least_is_no_improvement():
    # The rate falls in the second epoch in a row that only equals the first, and the count starts again.
    rates = [schedules.Patience(2, 0.5).rate(0.1, [1.0] * k) for k in range(1, 6)]
    assert rates == [0.1, 0.1, 0.05, 0.05, 0.025]


def test_a_schedule_reaches_the_kernel(device):
    train, test = ragged_ratings(n_users=60, longest=30, seed=3).split(0.2)
    kernel = "sequential" if device == "cpu" else "kato_hosino"
    model = SGD(5, solver=kernel, device=device, schedule=schedules.Power(1e9), biases=False)
    model.fit(train, 3, test)
    assert model.history.rmse.diff().abs().iloc[1] > 1e-3 and model.history.rmse.diff().abs().iloc[2:].max() < 1e-6
    with pytest.raises(ValueError, match="validation"):
        SGD(5, solver=kernel, device=device, schedule=schedules.Patience(), biases=False).fit(train, 1)


@pytest.mark.parametrize(
    ("schedule", "wrong"),
    [
        (schedules.Power, {"beta": -0.1}),
        (schedules.Power, {"power": 0}),
        (schedules.Power, {"power": -1.5}),
        (schedules.Power, {"power": "1"}),
        (schedules.Patience, {"patience": 0}),
        (schedules.Patience, {"patience": 1.5}),
        (schedules.Patience, {"decay": 0}),
        (schedules.Patience, {"decay": 1.1}),
    ],
)
def test_a_schedule_that_is_none_is_refused(schedule, wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"^{name} must be"):
        schedule(**wrong)
    with pytest.raises(ValueError, match=f"^{name} must be"):
        schedules.from_dict({"name": schedule.__name__, **wrong})
