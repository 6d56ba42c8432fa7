"""Lists of items that tensor cores screened against those of `top_items`: the same bits."""

import re

import numpy as np
import pytest

import nvrtc
import references
from gpumf import ALS
from gpumf.backends import sources
from gpumf.models import ranking
from gpumf.models.ranking import SCREENED, ItemColumns, KernelRanking
from gpumf.solvers.base import shape_of
from support import integer_factors, ragged_ratings, seen_ratings, slow


@pytest.fixture
def screened_alike(launcher, monkeypatch):
    """Returns the lists by screened items, once it has found that they are those of all scores, bit by bit."""

    def top_items(p, q, k, candidates=None, seen=None, users=None):
        candidates = np.ones(len(q), bool) if candidates is None else candidates
        users = np.arange(len(p)) if users is None else users
        found = []
        for least in (1 << 40, 0):
            monkeypatch.setattr(ranking, "_SCREENED_USERS", least)
            one = KernelRanking(p, q, candidates, seen, launcher.name)
            assert (one._items.screened(len(users)) is None) == (least > 0)
            found.append(one.top_items(users, k))
        for screened, wanted in zip(found[1], found[0], strict=True):
            assert np.array_equal(screened.view(np.uint8), wanted.view(np.uint8))
        return found[1]

    return top_items


def normal_factors(rows, factors, seed, sigma=0.0):
    """Normal factors, in rows whose norms have a tail as heavy as `sigma`."""
    rng = np.random.default_rng(seed)
    scale = np.exp(sigma * rng.standard_normal((rows, 1)))
    return (rng.standard_normal((rows, factors)) * scale).astype(np.float32)


@pytest.mark.parametrize(
    ("n_users", "n_items", "factors", "k"),
    [
        (1, 1, 1, 1),
        (40, 333, 16, 10),
        (300, 530, 16, 33),
        (5, 700, 100, 100),
        *slow((33, 170, 16, 128), (1, 333, 3, 128), (257, 300, 17, 1), (64, 95, 112, 10), (70, 80, 113, 32)),
        *slow((40, 97, 129, 10), (33, 200, 208, 64), (3, 130, 209, 5), (37, 250, 255, 128), (20, 96, 256, 10)),
    ],
)
@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_lists_are_those_of_all_scores(screened_alike, n_users, n_items, factors, k, sigma):
    p, q = normal_factors(n_users, factors, k), normal_factors(n_items, factors, k + 1, sigma)
    rng = np.random.default_rng(k + 2)
    seen = seen_ratings(max(n_users, 6), n_items, k).by_user if n_users > 5 else None
    users = rng.permutation(n_users)[: max(1, n_users - 3)]
    items, scores = screened_alike(p, q, k, rng.random(n_items) < 0.9, seen, users)
    assert (items.dtype, scores.dtype) == (np.int64, np.float32) and len(items) == len(users)


@pytest.mark.parametrize("k", [1, 10, 128])
def test_of_equal_scores_the_lower_position_wins(screened_alike, k):
    p, q = integer_factors(40, 3, k), integer_factors(300, 3, k + 1)
    candidates, seen = np.random.default_rng(k).random(300) < 0.8, seen_ratings(40, 300, k).by_user
    found = screened_alike(p, q, k, candidates, seen)
    expected = references.top_items(p, q, np.arange(40), candidates, seen, k)
    assert all(np.array_equal(*both, equal_nan=True) for both in zip(found, expected, strict=True))


def test_scores_that_are_all_equal_come_in_order(screened_alike):
    q = np.repeat(normal_factors(1, 16, 1), 200, axis=0)
    items, _ = screened_alike(normal_factors(9, 16, 2), q, 40)
    assert (items == np.arange(40)).all()
    q = np.tile(normal_factors(20, 16, 3), (10, 1))[np.random.default_rng(4).permutation(200)]
    screened_alike(normal_factors(9, 16, 2), q, 40)


def test_users_and_items_of_zeros_are_at_the_first_positions(screened_alike):
    p, q = normal_factors(40, 16, 1), normal_factors(700, 16, 2, 1.0)
    p[::3], q[5::7], q[11] = 0, 0, -0.0
    seen = seen_ratings(40, 700, 3).by_user
    items, scores = screened_alike(p, q, 33, seen=seen)
    first = np.setdiff1d(np.arange(700), seen.indices[seen.indptr[36] : seen.indptr[37]])[:33]
    assert items[36].tolist() == first.tolist() and not scores[36].any()


LARGEST = np.finfo(np.float32).max
EXTREMES = [0.0, -0.0, 1e-45, -1e-45, 1e-42, 1e-38, 1e-30, 1e-19, 2.0**-60, 1e-10, 1.0, 1e10, 2.0**60, 1e19, 1e25]
EXTREMES += [1e35, -1e35, LARGEST, -LARGEST, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("k", [1, 10, 128])
@pytest.mark.parametrize("order", [1, -1, 0])
def test_rows_that_half_precision_cannot_hold_are_ranked_alike(screened_alike, k, order):
    rng = np.random.default_rng(1)

    def rows(n, seed):
        """Rows as large or as small as all extremes, rows with one of them among normal numbers, and normal rows."""
        result = normal_factors(n, 16, seed)
        for j, extreme in enumerate(EXTREMES):
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                result[j] *= np.float32(extreme)
            result[len(EXTREMES) + j, j % 16] = extreme
            result[2 * len(EXTREMES) + j] = extreme
        return result[rng.permutation(n)]

    p, q = rows(90, 2), rows(250, 3)
    if order:
        with np.errstate(over="ignore"):
            q = q[np.argsort(np.linalg.norm(q, axis=1))[::order]]
    items, _ = screened_alike(p, q, k, seen=seen_ratings(90, 250, 4).by_user)
    assert (items >= 0).any(axis=1).sum() > 60


def test_scores_that_overflow_are_equal(screened_alike):
    """Infinite scores of rows of which the lower position has the smaller norm, and is visited later."""
    p, q = np.full((3, 16), 1e25, np.float32), np.full((100, 16), 1e14, np.float32)
    q *= np.linspace(1, 2, 100, dtype=np.float32)[:, None]
    p[1] *= -1
    items, scores = screened_alike(p, q, 5)
    assert items[0].tolist() == [0, 1, 2, 3, 4] and np.isinf(scores[0]).all() and (items[1] < 0).all()


def test_numbers_that_underflow_count(screened_alike):
    p, q = normal_factors(20, 16, 1) * np.float32(1e-20), normal_factors(200, 16, 2) * np.float32(1e-22)
    screened_alike(p, q, 10)
    screened_alike(p, q * np.float32(1e-3), 10)


def test_users_who_have_seen_all_get_nothing(screened_alike):
    p, q = normal_factors(40, 16, 1), normal_factors(60, 16, 2)
    seen = seen_ratings(40, 60, 3).by_user
    items, _ = screened_alike(p, q, 10, seen=seen)
    assert (items[0] < 0).all() and (items[1] >= 0).sum() == 1
    items, _ = screened_alike(p, q, 10, np.zeros(60, bool))
    assert (items < 0).all()
    few = np.isin(np.arange(60), [7, 31, 32, 59])
    items, _ = screened_alike(p, q, 10, few)
    assert ((items >= 0).sum(axis=1) == 4).all()


def aligned_row(sign=1):
    """A row of norm 1 whose factors half precision rounds down by nearly 2^-11 each, or up."""
    row = np.full(64, 2.0**-3 * (1 + sign * 0.99 * 2.0 ** (-11 if sign > 0 else -12)), np.float32)
    row[63] = np.sqrt(1 - (row[:63].astype(np.float64) ** 2).sum())
    return row


@pytest.mark.parametrize("scores", [(0.999, 0.9999), (0.85, 0.9)])
def test_an_item_that_half_precision_ranks_wrongly_is_found(screened_alike, scores):
    """Others of larger norms, which come first, have scores above what its product says, or nearly its norm."""
    row, rng = aligned_row(), np.random.default_rng(1)
    beside = rng.standard_normal((128, 64))
    beside -= np.outer(beside @ row, row)
    beside *= 3 / np.linalg.norm(beside, axis=1, keepdims=True)
    others = np.linspace(*scores, 128)[:, None] * row + beside
    assert np.float16(row) @ np.float16(row).astype(np.float64) < 0.9991
    items, _ = screened_alike(np.repeat(row[None], 40, axis=0), np.vstack([others, row]).astype(np.float32), 1)
    assert (items == 128).all()


def products_of_halves(launcher, p, q):
    """Of rows as the kernel takes them, in float64, and what they approximate: cosines."""
    halves = []
    for rows in (p, q):
        candidates = launcher.array(np.ones(len(rows), np.uint8))
        records = launcher.to_numpy(ItemColumns(rows, launcher).screened(1 << 20).records(candidates))
        width = records.shape[1] - 8
        items = records[:, width + 2 : width + 4].copy().view(np.int32)[:, 0]
        chosen = np.empty((len(rows), width))
        chosen[items[items >= 0]] = records[items >= 0, :width].view(np.float16)
        halves.append(chosen)
    p, q = (rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1)[:, None] for rows in (p, q))
    return halves[0] @ halves[1].T, p @ q.T


def test_products_of_halves_are_as_near_as_the_margin_is_derived_from(launcher):
    bound = 2.0**-10 * (1 + 2.0**-8)
    rng, largest = np.random.default_rng(1), 0.0
    normal = normal_factors(200, 64, 2, 2.0)
    heavy = (normal * np.exp(3 * rng.standard_normal((200, 64)))).astype(np.float32)  # many subnormal halves
    aligned = np.array([aligned_row(), aligned_row(-1), -aligned_row(), 2.0**40 * aligned_row()], np.float32)
    signs = rng.choice([-1, 1], (50, 64)).astype(np.float32)
    for rows in (normal, heavy, np.vstack([aligned, signs * aligned[0], np.abs(heavy)])):
        found, cosines = products_of_halves(launcher, rows, rows)
        largest = max(largest, np.abs(found - cosines).max())
        assert np.abs(found - cosines).max() < bound
    assert largest > 0.95 * 2.0**-10, "no rows are as bad as the bound allows"


def test_the_margin_covers_the_errors_of_all_steps():
    """As the header of the source derives it."""
    code = (sources.kernels_folder() / SCREENED).read_text()
    margin = float.fromhex(re.search(r"MARGIN = (\S+)f;", code)[1])
    u, factors, norm = 2.0**-24, 256, 1 + 2.0**-22
    halves = (2.0**-11 + 2.0**-23) * norm + 2.0**-25 * factors**0.5
    products = halves * norm + (norm + halves) * halves
    sums, scores, threshold = factors / 16 * 17 * 2.0**-22 * 1.01, 2 * (factors + 1) * u * 1.01, 2.0**-21
    assert products < 2.0**-10 + 2.0**-18 and sums < 3 * 2.0**-15 and scores < 2.0**-14
    assert products + sums + scores + threshold < margin < 1.2 * 2.0**-10


def test_lists_are_the_same_in_any_order_of_threads(host, monkeypatch):
    monkeypatch.setattr(ranking, "_SCREENED_USERS", 0)
    p, q = integer_factors(9, 3, 1), integer_factors(150, 3, 2)
    one = KernelRanking(p, q, np.ones(150, bool), seen_ratings(9, 150, 3).by_user, "emulator")
    expected = one.top_items(np.arange(9), 40)[0]
    for seed in range(5):
        with host.shuffled(seed):
            assert np.array_equal(one.top_items(np.arange(9), 40)[0], expected)


@pytest.mark.parametrize(
    ("facts", "warps"),
    [
        ({}, 8),
        ({"shared_bytes_per_block": 163 << 10, "compute_capability": "8.0"}, 8),
        ({"shared_bytes_per_block": 99 << 10, "compute_capability": "12.0"}, 4),
        ({"shared_bytes_per_block": 64 << 10, "compute_capability": "8.0"}, None),
        ({"compute_capability": "7.5"}, None),
    ],
)
def test_a_device_screens_if_it_has_the_shared_memory_and_the_tensor_cores(host, monkeypatch, facts, warps):
    for name, value in facts.items():
        monkeypatch.setitem(host.facts, name, value)
    p, q = normal_factors(256, 16, 1), normal_factors(90, 16, 2)
    items = ItemColumns(q, host)
    least = ranking._SCREENED_USERS * host.facts["multiprocessors"]
    assert items.screened(least - 1) is None
    screened = items.screened(least)
    assert (screened and screened.shape.block) == (warps and 32 * warps) and items.screened(least + 1) is screened
    found = KernelRanking(p, items, np.ones(90, bool), None, "emulator").top_items(np.arange(256), 5)[0]
    monkeypatch.setattr(ranking, "_SCREENED_USERS", 1 << 40)
    wanted = KernelRanking(p, q, np.ones(90, bool), None, "emulator").top_items(np.arange(256), 5)[0]
    assert np.array_equal(found, wanted)
    if warps:  # most of all
        widest = shape_of(host, SCREENED, FACTORS=256, WARPS=warps).work_bytes
        assert widest <= host.facts["shared_bytes_per_block"]


def test_rows_too_wide_for_registers_are_not_screened(host):
    assert ranking.screening(host, 256, 1 << 20) and ranking.screening(host, 257, 1 << 20) is None


def test_a_fit_to_many_users_compiles_ahead_what_screens(host, monkeypatch):
    asked = []
    monkeypatch.setattr(host, "compile_ahead", lambda variants: asked.append(dict(variants).get(SCREENED)))
    for n_users in (150, 300):
        model = ALS(4, device="emulator", biases=False).fit(ragged_ratings(n_users, seed=1), 1)
        model.recommend(np.arange(n_users), 3)
    assert asked == [None, {"FACTORS": 4, "WARPS": 8}]
    assert (SCREENED, "top_items_screened") in {launch[:2] for launch in host.launched}


@pytest.mark.skipif(nvrtc.why_unavailable() is not None, reason=str(nvrtc.why_unavailable()))
@pytest.mark.parametrize(("factors", "registers"), [(100, 128), (256, 255), *slow((1, 128), (128, 128), (129, 255))])
def test_users_stay_in_registers(factors, registers):
    for sm, warps in ((80, 8), (86, 4), (90, 8), (100, 8), (120, 4)):  # as their shared memory allows
        found = nvrtc.resources(SCREENED, sm, FACTORS=factors, WARPS=warps)
        (kernel,) = (one for one in found if one["kernel"] == "top_items_screened")
        assert kernel["registers"] <= registers
        assert kernel["spill_store_bytes"] == kernel["spill_load_bytes"] == kernel["stack_bytes"] == 0
