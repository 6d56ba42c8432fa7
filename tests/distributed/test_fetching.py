"""ALS whose factors nobody has all of: batches, what they fetch, and the same answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumf import ALS, ImplicitALS
from gpumf.distributed import fit
from gpumf.distributed.fetching import batches_of
from support import ragged_ratings, scattered

pytestmark = pytest.mark.slow


@given(st.integers(0, 2**32 - 1), st.integers(5, 40), st.integers(0, 30))
def test_batches_have_each_row_once_and_few_enough_columns(seed, n_rows, more):
    rows = ragged_ratings(n_users=n_rows, n_items=25, longest=12, seed=seed).by_user
    most = max(int(np.diff(rows.indptr).max()), 1) + more
    at = 0
    for batch in batches_of(rows, most):
        assert batch.rows.start == at < batch.rows.stop and len(batch.needed) <= most
        cut = batch.ratings
        for k, row in enumerate(range(batch.rows.start, batch.rows.stop)):
            mine, whole = (slice(*of.indptr[n : n + 2]) for of, n in ((cut, k), (rows, row)))
            assert np.array_equal(batch.needed[cut.indices[mine]], rows.indices[whole])
            assert np.array_equal(cut.values[mine], rows.values[whole])
        at = batch.rows.stop
    assert at == n_rows


def test_as_many_rows_as_there_are_columns_make_one_batch():
    rows = ragged_ratings(n_users=70, n_items=25, longest=12, seed=3).by_user
    assert len(batches_of(rows, 25)) == 1 < len(batches_of(rows, 13))


@pytest.fixture(scope="module")
def sets():
    return scattered(60, 45, 700, seed=5).split(0.2, seed=0)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"biases": False}, {"solver": "parallel_cg"}, {"weighted": False}])
def test_it_is_learned_what_one_worker_learns(client, sets, workers, options):
    train, test = sets
    one = ALS(4, 0.2, device="cpu", **options).fit(train, 3, test)
    most = int(max(train.user_counts.max(), train.item_counts.max()))
    made = fit(ALS(4, 0.2, device="cpu", **options), train, 3, test, client=client, workers=workers, max_rows=most)
    for side in ("user_factors", "item_factors"):
        assert np.allclose(getattr(made, side), getattr(one, side), atol=1e-5)
    assert np.allclose(made.history[["rmse", "mae"]], one.history[["rmse", "mae"]], atol=1e-5)


def test_it_goes_on_from_a_checkpoint_and_keeps_the_best(client, sets, tmp_path):
    train, test = sets
    path, most = tmp_path / "checkpoint", 60

    def stop(row):
        if row["epoch"] == 2 and not (tmp_path / "once").exists():
            (tmp_path / "once").touch()
            raise RuntimeError("interrupted")

    options = {"client": client, "workers": 2, "max_rows": most, "checkpoint": path, "keep": "best", "attempts": 1}
    with pytest.raises(RuntimeError, match="interrupted"):
        fit(ALS(4, 0.2, device="cpu"), train, 5, test, stop=stop, **options)
    assert path.exists()
    made = fit(ALS(4, 0.2, device="cpu"), train, 5, test, **options)
    one = ALS(4, 0.2, device="cpu").fit(train, 5, test, keep="best")
    assert np.allclose(made.user_factors, one.user_factors, atol=1e-5) and len(made.history) == 6


@pytest.mark.parametrize(
    ("model", "options", "says"),
    [
        (ALS(4, device="cpu"), {"max_rows": 2}, "a row has .* ratings"),
        (ALS(4, device="cpu"), {"max_rows": 0}, "max_rows"),
        (ALS(4, device="cpu"), {"max_rows": 50, "item_update": "gather"}, "without item_update"),
        (ImplicitALS(4, device="cpu"), {"max_rows": 50}, "implicit feedback"),
    ],
)
def test_what_cannot_be_fetched_is_refused(client, sets, model, options, says):
    with pytest.raises(ValueError, match=says):
        fit(model, sets[0], 1, client=client, attempts=1, **options)
