"""Positions, keys and offsets beyond 32 bits, where they can be had without the ratings that they belong to."""

import numpy as np
import pytest

from gpumf._util.counter_rng import high_product, random_positions, splitmix64, splitmix64_inverse
from gpumf._util.sorting import stable_order
from gpumf.solvers.als_base import segments_of
from support import hashed

FAR = 2**33
POSITIONS = [0, 1, 2**31 - 1, 2**31, 2**32, 2**32 + 1, FAR + 7, 2**63, 2**64 - 1]


def test_a_hash_is_that_of_all_64_bits_and_is_inverted():
    x = np.array(POSITIONS, np.uint64)
    assert splitmix64(x).tolist() == list(map(hashed, POSITIONS))
    assert splitmix64_inverse(splitmix64(x)).tolist() == POSITIONS
    assert int(splitmix64(np.uint64(0))) == 0xE220A8397B1DCDAF, "the first of the stream of seed 0"


def test_the_upper_half_of_a_product_is_exact():
    a = np.array(POSITIONS, np.uint64)
    for b in POSITIONS:
        assert high_product(a, np.uint64(b)).tolist() == [x * b >> 64 for x in POSITIONS]


@pytest.mark.parametrize("n", [5, 2**31 + 11, 2**33 + 1, 2**62])
def test_draws_far_along_a_stream_are_positions_below_n(n):
    key, draws = 2**63 + 3, [0, 2**31, 2**32 + 1, 2**40]
    found = random_positions(key, draws, n)
    assert found.tolist() == [hashed(key + draw) * n >> 64 for draw in draws]
    assert found.dtype == np.int64 and (found >= 0).all() and (found < n).all()
    assert len({*random_positions(key, np.arange(FAR, FAR + 50), 2**62).tolist()}) == 50


@pytest.mark.parametrize("n", [2**31, 2**40, 2**61, 2**63])
def test_an_order_by_large_keys_is_stable(n):
    rng = np.random.default_rng(0)
    keys = rng.choice([0, 1, n // 2, n - 2, n - 1], 40)
    assert np.array_equal(stable_order(keys, n), np.argsort(keys, kind="stable"))


@pytest.mark.parametrize("bits", [23, 24, 25])
def test_keys_and_positions_share_63_bits_or_are_sorted_otherwise(bits):
    """At the last n whose packed integers fit, and at the first whose do not."""
    keys = np.array([2**bits - 1, 0, 2**bits - 1, 1] * 2)
    for n in (2 ** (63 - 3), 2 ** (63 - 3) + 1):
        large = keys + (n - 2**bits)
        assert np.array_equal(stable_order(large, n), np.argsort(large, kind="stable"))


def test_segments_of_rows_far_behind_keep_their_offsets():
    counts = np.array([3, 0, 20_000, 8192, 8193])
    near = np.concatenate([[0], np.cumsum(counts)])
    segments, slots = segments_of(near + FAR)
    expected, same = segments_of(near)
    assert slots == same == 3 + 2
    assert (segments["begin"] - FAR).tolist() == expected["begin"].tolist()
    for name in ("length", "row", "part", "parts", "slot", "count"):
        assert np.array_equal(segments[name], expected[name])
    assert segments["length"].sum() == counts.sum()
    by_row = sorted(zip(segments["row"], segments["part"], segments["begin"] - FAR, segments["length"], strict=True))
    ends = {}
    for row, part, begin, length in by_row:
        assert begin == ends.get(row, near[row]) and (part == 0) == (row not in ends)
        ends[row] = begin + length
    assert ends == {row: near[row + 1] for row in range(5)}
