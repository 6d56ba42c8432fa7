"""Best items and ranking metrics on every device against the reference."""

import numpy as np
import pytest

import references
from gpumf import ALS
from gpumf._util import threads
from gpumf.backends.cpu import ranking as cpu_ranking
from gpumf.models import factorization, ranking
from gpumf.models.ranking import CpuRanking, KernelRanking, LaunchedRanking, ScoresKernelRanking, popular_items
from gpumf.ratings import DeviceRatings, Ratings
from support import integer_factors, kernels_on, ragged_ratings, seen_ratings

FIRST = np.zeros(1, int)  # the first user alone


def ranking_of(device, *arguments):
    return CpuRanking(*arguments) if device == "cpu" else KernelRanking(*arguments, device)


@pytest.mark.parametrize("k", [1, 10, 33, 128])
@pytest.mark.parametrize(("n_items", "factors"), [(1, 1), (50, 3), (130, 16), (300, 17), (128, 256)])
def test_top_items_match_the_reference(device, n_items, factors, k):
    n_users = 40
    p, q = integer_factors(n_users, factors, k), integer_factors(n_items, factors, k + 1)
    candidates = np.random.default_rng(k).random(n_items) < 0.8
    seen = seen_ratings(n_users, n_items, k).by_user
    users = np.random.default_rng(k + 2).permutation(n_users)[:37]
    items, scores = ranking_of(device, p, q, candidates, seen).top_items(users, k)
    assert (items.dtype, scores.dtype) == (np.int64, np.float32)
    expected_items, expected_scores = references.top_items(p, q, users, candidates, seen, k)
    assert np.array_equal(items, expected_items)
    assert np.array_equal(scores, expected_scores, equal_nan=True)


def test_cpp_finds_what_numba_finds_on_any_number_of_threads(monkeypatch):
    if cpu_ranking.native_top_items() is None:
        pytest.skip("no C++ compiler")
    rng = np.random.default_rng(3)
    p, q = (rng.standard_normal((n, 17), np.float32) for n in (70, 5000))
    seen, users = seen_ratings(70, 5000, 4).by_user, rng.permutation(70)
    some = np.zeros(5000, bool)
    some[rng.choice(5000, 60, replace=False)] = True
    for candidates in (np.ones(5000, bool), rng.random(5000) < 0.8, some, np.zeros(5000, bool)):
        found = []
        for on in (1, 2, 7):
            with threads.limited_to(on):
                found.append(CpuRanking(p, q, candidates, seen).top_items(users, 100))
        for other in found[1:]:
            assert all(np.array_equal(*both, equal_nan=True) for both in zip(other, found[0], strict=True))
        with monkeypatch.context() as patch:
            patch.setattr(cpu_ranking, "native_top_items", lambda: None)
            items, scores = CpuRanking(p, q, candidates, seen).top_items(users, 100)
        assert np.array_equal(items < 0, found[0][0] < 0)
        np.testing.assert_allclose(found[0][1], scores, rtol=1e-4, atol=1e-5)
        # Scores that differ by rounding alone may come in another order.
        assert (items == found[0][0]).mean() > 0.99


def test_lists_of_all_items_are_ordered_and_few_at_a_time(monkeypatch):
    p, q = integer_factors(40, 3, 1), integer_factors(700, 3, 2)
    seen, candidates, users = seen_ratings(40, 700, 3).by_user, np.ones(700, bool), np.arange(40)
    monkeypatch.setattr(ranking, "_MAX_ENTRIES", 5 * 700)
    expected = references.top_items(p, q, users, candidates, seen, 700)
    for found, wanted in zip(CpuRanking(p, q, candidates, seen).top_items(users, 700), expected, strict=True):
        assert np.array_equal(found, wanted, equal_nan=True)


def test_blocks_are_narrower_where_shared_memory_is_short(host, monkeypatch):
    p, q = integer_factors(37, 256, 1), integer_factors(300, 256, 2)
    seen, users, candidates = seen_ratings(37, 300, 3).by_user, np.arange(37), np.ones(300, bool)
    wide = KernelRanking(p, q, candidates, seen, "emulator")
    monkeypatch.setitem(host.facts, "shared_bytes_per_block", 64 << 10)  # of an sm_75
    narrow = KernelRanking(p, q, candidates, seen, "emulator")
    narrower, wider = narrow._items, wide._items
    assert narrower.shape.users < wider.shape.users and narrower.shared(128) <= 64 << 10 < wider.shared(128)
    for found, expected in zip(
        narrow.top_items(users, 128), references.top_items(p, q, users, candidates, seen, 128), strict=True
    ):
        assert np.array_equal(found, expected, equal_nan=True)


def test_top_items_are_the_same_in_20_orders(host):
    p, q = integer_factors(9, 3, 1), integer_factors(150, 3, 2)
    ranking = KernelRanking(p, q, np.ones(150, bool), seen_ratings(9, 150, 3).by_user, "emulator")
    expected = ranking.top_items(np.arange(9), 40)[0]
    for seed in range(20):
        with host.shuffled(seed):
            assert np.array_equal(ranking.top_items(np.arange(9), 40)[0], expected)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1), slice(0, 0), slice(5, 6), "shuffled"])
def test_users_get_to_the_device_while_lists_of_others_are_made(launcher, monkeypatch, order):
    p, q = integer_factors(40, 3, 1), integer_factors(150, 3, 2)
    seen, candidates = seen_ratings(40, 150, 3).by_user, np.ones(150, bool)
    users = np.random.default_rng(4).permutation(40) if order == "shuffled" else np.arange(40)[order]
    happened, in_parts, kept = [], launcher.array_in_parts, []

    def steps_of(steps):
        for end in steps:
            happened.append(end)
            yield end

    def spied(*given):
        there, steps = in_parts(*given)
        return there, steps_of(steps)

    monkeypatch.setattr(launcher, "array_in_parts", spied)
    monkeypatch.setattr(KernelRanking, "_batch", 11)
    ranking = KernelRanking(p, q, candidates, seen, launcher.name, kept.append)
    lists = ranking._lists
    monkeypatch.setattr(ranking, "_lists", lambda *given, **more: happened.append("lists") or lists(*given, **more))
    for _ in range(2):
        expected = references.top_items(p, q, users, candidates, seen, 9)
        for found, wanted in zip(ranking.top_items(users, 9), expected, strict=True):
            assert np.array_equal(found, wanted, equal_nan=True)
    first = happened[: happened.index("lists")]
    assert [end for end in happened if end != "lists"] == [11, 22, 33, 40]
    assert first == [end for end in (11, 22, 33, 40) if end - 11 <= users[:11].max(initial=-1)]
    if order == slice(None):
        assert happened[:8] == [11, "lists", 22, "lists", 33, "lists", 40, "lists"]
    assert np.array_equal(launcher.to_numpy(kept[0]), p) and all(array is kept[0] for array in kept)


def test_users_of_whom_a_part_is_on_the_device_are_not_kept(launcher, monkeypatch):
    train = ragged_ratings(seed=0)
    monkeypatch.setattr(KernelRanking, "_batch", 7)
    model = ALS(4, device=launcher.name, biases=False).fit(train, 2)
    users, lists, launched = np.arange(train.n_users), KernelRanking._top_items, []

    def interrupted(self, *given):
        launched.append(given)
        if len(launched) == 2:
            raise KeyboardInterrupt
        return lists(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(KernelRanking, "_top_items", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.recommend(users)
    assert not model._users_there.was_of((model.user_factors,))
    expected = ALS(4, device=launcher.name, biases=False).fit(train, 2).recommend(users)
    np.testing.assert_equal(model.recommend(users), expected)
    assert model._users_there.was_of((model.user_factors,))


def test_one_list_waits_for_all_users(launcher, monkeypatch):
    p, q, candidates = integer_factors(40, 3, 1), integer_factors(150, 3, 2), np.ones(150, bool)
    monkeypatch.setattr(KernelRanking, "_batch", 11)
    seen = seen_ratings(40, 150, 3).by_user
    ranking = KernelRanking(p, q, candidates, seen, launcher.name, lambda there: None)
    items, _ = ranking.list_of(launcher.array(np.array([39], np.int32)), 9)
    assert np.array_equal(items, references.top_items(p, q, np.array([39]), candidates, seen, 9)[0][0])


def test_an_item_without_a_number_for_a_score_never_comes(device):
    q = np.array([[1], [np.nan], [3]], np.float32)
    items, scores = ranking_of(device, np.ones((1, 1), np.float32), q, np.ones(3, bool), None).top_items(FIRST, 3)
    assert items.tolist() == [[2, 0, -1]] and np.array_equal(scores, [[3, 1, np.nan]], equal_nan=True)


LARGEST = np.finfo(np.float32).max


def test_scores_at_the_end_of_the_numbers_rank_alike(device):
    scores = [-LARGEST, np.inf, np.nan, -np.inf, LARGEST, 0, np.inf]
    q = np.array(scores, np.float32)[:, None]
    items, found = ranking_of(device, np.ones((1, 1), np.float32), q, np.ones(7, bool), None).top_items(FIRST, 7)
    assert items.tolist() == [[1, 6, 4, 5, 0, -1, -1]]
    assert np.array_equal(found, [[np.inf, np.inf, LARGEST, 0, -LARGEST, np.nan, np.nan]], equal_nan=True)


def test_counts_that_float32_does_not_hold_rank_exactly(device):
    counts = np.array([2**24, 2**24 + 1, 0, 2**24 + 2, 2**24])
    items, _ = popular_items(counts, 2, None, 5, device).top_items(np.arange(2), 5)
    assert items.tolist() == [[3, 1, 0, 4, -1]] * 2


def test_metrics_of_a_list_computed_by_hand(device):
    # Best first: items 5, 1, 2, 9. Of the test items 2, 5, 7 the first and the third of the list are hits.
    q = np.array([[0, 8, 7, 0, 0, 9, 0, 0, 0, 6]], np.float32).T
    test = Ratings([0, 0, 0], [7, 2, 5], [1, 1, 1], 1, 10).by_user
    ranking = ranking_of(device, np.ones((1, 1), np.float32), q, np.ones(10, bool), None)
    assert ranking.top_items(FIRST, 4)[0].tolist() == [[5, 1, 2, 9]]
    (metrics,) = ranking.metrics(test, FIRST, 4)
    gain, ideal = 1 + 1 / 2, 1 + 1 / np.log2(3) + 1 / 2
    assert metrics == pytest.approx([2 / 4, 2 / 3, (1 + 2 / 3) / 3, gain / ideal], rel=1e-12)
    assert references.ranking_metrics(np.array([5, 1, 2, 9]), [2, 5, 7]) == pytest.approx(metrics, rel=1e-12)


def test_a_perfect_list_gets_ones_and_a_wrong_one_zeros(device):
    q = np.arange(40, 0, -1, dtype=np.float32)[:, None]
    test = Ratings([0] * 35 + [1] * 2, [*range(35), 38, 39], np.ones(37), 2, 40).by_user
    ranking = ranking_of(device, np.ones((2, 1), np.float32), q, np.ones(40, bool), None)
    perfect, wrong = ranking.metrics(test, np.arange(2), 35)
    assert perfect == pytest.approx([1, 1, 1, 1], rel=1e-12) and not wrong.any()


def test_a_user_without_a_test_item_gets_zeros(device):
    test = Ratings([0], [1], [1], 2, 3).by_user
    ranking = ranking_of(device, np.ones((2, 1), np.float32), np.ones((3, 1), np.float32), np.ones(3, bool), None)
    found, none = ranking.metrics(test, np.arange(2), 3)
    assert found.all() and not none.any()


@pytest.mark.parametrize("k", [1, 5, 40, 128])
def test_metrics_match_the_reference(device, k):
    n_users, n_items = 50, 70
    p, q = integer_factors(n_users, 5, 1), integer_factors(n_items, 5, 2)
    test = ragged_ratings(n_users, n_items, 60, seed=k).by_user
    seen = seen_ratings(n_users, n_items, 3).by_user
    candidates = np.random.default_rng(4).random(n_items) < 0.9
    users = np.flatnonzero(test.counts)[::-1]
    expected = [
        references.ranking_metrics(items, test.indices[test.indptr[user] : test.indptr[user + 1]])
        for user, items in zip(users, references.top_items(p, q, users, candidates, seen, k)[0], strict=True)
    ]
    ranking = ranking_of(device, p, q, candidates, seen)
    ranking._batch = 11
    metrics = ranking.metrics(test, users, k)
    np.testing.assert_allclose(metrics, expected, rtol=1e-12, atol=1e-15)
    assert len(np.unique(metrics[:, 3])) > min(k, 5)


@pytest.fixture(scope="module")
def sets():
    return ragged_ratings(n_users=60, n_items=90, longest=60, seed=12).split(0.3, seed=1)


def fitted(device, train):
    return ALS(8, solver=kernels_on(ALS, device)[-1], device=device, biases=False).fit(train, 3)


def test_rank_averages_over_users_with_a_test_item(device, sets):
    train, test = sets
    model = fitted(device, train)
    users = np.flatnonzero(test.by_user.counts)
    assert len(users) < test.n_users
    items, _ = model.recommend(users, k=7)
    rows = [
        references.ranking_metrics(row, test.items[test.users == user])
        for user, row in zip(users, items, strict=True)
    ]
    expected = dict(zip(("precision", "recall", "map", "ndcg"), np.mean(rows, axis=0), strict=True))
    assert model.evaluate_ranking(test, k=7) == pytest.approx(expected, rel=1e-12)
    assert model.evaluate_ranking(test, k=7) == model.evaluate_ranking(test, k=7)
    assert model.evaluate_ranking(test, k=7, users=users[:1])["recall"] == pytest.approx(rows[0][1])
    known = train.item_counts > 0  # all of which are in a list that is longer
    shares = [known[test.items[test.users == user]].mean() for user in users]
    assert model.evaluate_ranking(test, k=200)["recall"] == pytest.approx(np.mean(shares))
    # What was seen is not found; what is known can be found once nothing counts as seen.
    with pytest.raises(ValueError, match="test ratings are in the training set"):
        model.evaluate_ranking(train, k=7)
    nothing = train.select(np.zeros(train.nnz, bool))
    assert model.evaluate_ranking(train, k=7, seen=nothing)["precision"] > 0


def test_recommend_takes_one_user_or_many(device, sets):
    train, _ = sets
    model = fitted(device, train)
    users = np.arange(train.n_users)
    for k in (5, 100, 300):
        items, ratings = model.recommend(users, k)
        assert items.shape == ratings.shape == (len(users), min(k, train.n_items))
        assert items.dtype == np.int64 and ratings.dtype == np.float32
        assert np.array_equal(items < 0, np.isnan(ratings))
        for user in users[:: len(users) // 5]:
            alone, rated = model.recommend(int(user), k)
            n = len(alone)
            assert np.array_equal(items[user, :n], alone) and (items[user, n:] < 0).all()
            np.testing.assert_allclose(ratings[user, :n], rated, rtol=1e-5)
            np.testing.assert_allclose(rated, model.predict(user, alone), rtol=1e-4)


def test_no_users_have_no_lists(device, sets):
    items, scores = fitted(device, sets[0]).recommend(np.zeros(0, np.int64), 5)
    assert items.shape == scores.shape == (0, 5) and items.dtype == np.int64 and scores.dtype == np.float32


def test_a_user_without_a_training_rating_gets_the_popular_items_at_the_mean(device):
    train = Ratings([0, 0, 1, 1], [0, 2, 2, 3], [1, 2, 5, 4], 3, 5)
    model = fitted(device, train)
    items, ratings = model.recommend(2)
    assert items.tolist() == [2, 0, 3] and ratings == pytest.approx(train.mean)
    assert model.recommend(2, 1, seen=Ratings([2], [2], [1], 3, 5))[0].tolist() == [0]
    both, _ = model.recommend([2, 1], 2)
    assert both.tolist() == [[2, 0], [0, -1]]
    assert model.evaluate_ranking(Ratings([2], [2], [1], 3, 5), 1) == {
        "precision": 1,
        "recall": 1,
        "map": 1,
        "ndcg": 1,
    }


@pytest.mark.parametrize("batch", [1 << 16, 7])
def test_what_a_ranking_reads_is_copied_once_and_not_after_a_new_fit(launcher, monkeypatch, batch):
    monkeypatch.setattr(KernelRanking, "_batch", batch)
    train = ragged_ratings(seed=0)
    model = ALS(4, device=launcher.name, biases=False).fit(train, 2)
    first = model.recommend(np.arange(train.n_users))
    assert "by_user" not in vars(train)  # ordered where the kernel runs
    given, array = [], launcher.array
    with monkeypatch.context() as patch:
        patch.setattr(launcher, "array", lambda values: given.append(values) or array(values))
        patch.setattr(launcher, "array_in_parts", None)
        again = model.recommend(np.arange(train.n_users))
    np.testing.assert_equal(again, first)
    ours = model.user_factors, model.item_factors, train.users, train.items
    assert given and not any(values is of for values in given for of in ours)
    with pytest.raises(ValueError, match="read-only"):
        model.user_factors[0] = 0
    expected = ALS(4, device=launcher.name, biases=False).fit(train, 3).recommend(np.arange(train.n_users))
    np.testing.assert_equal(model.fit(train, 3).recommend(np.arange(train.n_users)), expected)
    others = train.select(np.arange(train.nnz) % 2 == 0)
    assert not np.array_equal(model.recommend(np.arange(train.n_users), seen=others)[0], expected[0])


@pytest.mark.parametrize("kept", [True, False])
def test_what_fit_ordered_on_the_device_is_not_copied_there_again(launcher, monkeypatch, kept):
    """And where it would take much of the memory, it is; the lists are the same."""
    train = ragged_ratings(seed=0)
    monkeypatch.setattr(factorization, "_KEPT", kept * 0.5)
    monkeypatch.setattr(factorization, "_ORDERED_HERE", 0)
    model = ALS(4, device=launcher.name).fit(train, 2)
    made, of = [], DeviceRatings.of
    monkeypatch.setattr(DeviceRatings, "of", lambda *given: made.append(given) or of(*given))
    items, _ = model.recommend(np.arange(train.n_users), k=4)
    assert len(made) == (not kept)
    seen = set(zip(train.users.tolist(), train.items.tolist(), strict=True))
    assert not seen & {(user, item) for user, row in enumerate(items.tolist()) for item in row}
    again, _ = model.recommend(np.arange(train.n_users), k=4, seen=train.select(np.arange(train.nnz)))
    np.testing.assert_array_equal(again, items)


class Given(ScoresKernelRanking, LaunchedRanking):
    """Of scores that are given."""

    def __init__(self, scores, candidates, seen, device):
        super().__init__(scores.shape, candidates, seen, device)
        self._all = self._array(scores)

    def _scores(self, users):
        return self._all[users]


@pytest.mark.parametrize(("n_items", "k"), [(5, 9), (128, 3), (150, 40), (300, 128)])
def test_given_scores_rank_as_on_the_cpu(launcher, n_items, k):
    p, q = integer_factors(9, 3, 1), integer_factors(n_items, 3, 2)  # of which many scores are equal
    candidates, seen = np.arange(n_items) % 7 != 3, seen_ratings(9, n_items, 3).by_user
    given, cpu = Given(p @ q.T, candidates, seen, launcher.name), CpuRanking(p, q, candidates, seen)
    given._batch = 4
    users = np.array([8, 0, 3, 3, 7, 1])
    for actual, expected in zip(given.top_items(users, k), cpu.top_items(users, k), strict=True):
        np.testing.assert_array_equal(actual, expected)
    test = Ratings(np.arange(9), np.arange(9) % n_items, np.ones(9), 9, n_items).by_user
    np.testing.assert_allclose(given.metrics(test, users, k), cpu.metrics(test, users, k), rtol=1e-12)


def test_given_scores_that_are_no_numbers_never_come(launcher):
    scores = np.array([[-LARGEST, np.inf, np.nan, -np.inf, LARGEST, 0, np.inf]], np.float32)
    items, found = Given(scores, np.ones(7, bool), None, launcher.name).top_items(FIRST, 7)
    assert items.tolist() == [[1, 6, 4, 5, 0, -1, -1]] and np.isnan(found[0, 5:]).all()
