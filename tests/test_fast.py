"""`fast`, and the draws of the schemes with replacement."""

from pathlib import Path

import numpy as np
import pytest

from gpumf.cpu import sgd
from gpumf.hashing import high_product, random_positions

KERNELS = Path(__file__).parent / "kernels"


@pytest.mark.parametrize("n", [1, 7, 10**8, 3 << 30, 2**32 + 5, 2**63 - 1])
def test_positions_are_the_high_product_everywhere(launcher, n):
    key, first = 2**64 - 40, 2**33
    drawn = random_positions(key, first + np.arange(64), n)
    assert drawn.min() >= 0 and drawn.max() < n
    compiled = [int(sgd.random_position(np.uint64(key), np.uint64(first + t), np.uint64(n))) for t in range(64)]
    assert drawn.tolist() == compiled
    result = launcher.empty(64, np.int64)
    kernel = launcher.kernel(KERNELS / "random.cu", "positions")
    kernel(2, 32, np.uint64(key), np.uint64(first), np.int64(n), result)
    assert np.array_equal(launcher.to_numpy(result), drawn)


def test_the_high_product_is_exact():
    a, b = np.random.default_rng(0).integers(0, 2**64, (2, 1000), dtype=np.uint64)
    a[:2], b[:2] = 2**64 - 1, [2**64 - 1, 2**32]
    assert high_product(a, b).tolist() == [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("n", [3 << 30, 3 << 31, 5 << 40])
def test_draws_are_uniform_for_large_sets_too(n):
    # 32 bits onto 3 * 2^30 positions would hit those of one remainder twice as often, and onto more miss some.
    draws = random_positions(5, np.arange(60_000), n)
    for buckets, k in ((draws % 3, 3), (draws % 4, 4), (draws * 16 // n, 16)):
        counts, expected = np.bincount(buckets, minlength=k), len(draws) / k
        assert len(counts) == k and ((counts - expected) ** 2 / expected).sum() < k + 5 * np.sqrt(2 * k)
