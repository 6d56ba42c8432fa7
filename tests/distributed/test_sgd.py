"""SGD in workers x workers blocks."""

import pytest

from gpumf import SGD
from gpumf.distributed import fit
from gpumf.ratings import load_dataset


@pytest.fixture(scope="module")
def sets():
    return load_dataset("ml-100k-synthetic").split(seed=0)


# Options, and by how much the RMSE of two seeds of one worker differs on so small a data set.
CASES = [
    ({"solver": "ordered", "biases": True}, 1e-3),
    ({"solver": "ordered"}, 3e-3),
    ({"solver": "ordered_parallel", "biases": False}, 3e-3),
]


@pytest.mark.parametrize(("options", "within"), CASES)
def test_the_error_after_as_many_epochs_is_that_of_one_worker(client, sets, options, within):
    """Within what another order of the ratings makes; one worker has the same order."""
    train, test = sets
    one = SGD(8, device="cpu", **options).fit(train, 6, test)
    for workers in (1, 3):
        made = fit(SGD(8, device="cpu", **options), train, 6, test, client=client, workers=workers, attempts=1)
        allowed = within if workers > 1 or "parallel" in options["solver"] else 1e-6
        assert abs(made.history.rmse.iloc[-1] - one.history.rmse.iloc[-1]) < allowed
        assert made.score(test)["rmse"] == pytest.approx(made.history.rmse.iloc[-1], abs=1e-6)
        if workers == 1:
            assert made.history.rmse.iloc[-1] < made.history.rmse.iloc[0] - 0.02
