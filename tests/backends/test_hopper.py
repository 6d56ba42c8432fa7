"""Hopper's own instructions behind functions: products of a warpgroup, barriers in shared memory."""

import numpy as np
import pytest

from gpumf import backends
from gpumf.solvers.als_tensor_core import is_hopper
from support import KERNELS, slow

SOURCE = KERNELS / "hopper.cu"


@pytest.fixture
def hopper(launcher):
    """The devices that have these instructions."""
    if launcher.name == "cuda" and not is_hopper(launcher.facts):
        pytest.skip("only compute capability 9.0 has them")
    return launcher


@pytest.mark.parametrize(
    "columns",
    [16, 208, 256, *slow(8, 32, 48, 64, 72, 80, 96, 112, 128, 136, 144, 160, 176, 192, 200, 224, 240)],
)
def test_products_of_a_strip(hopper, columns):
    width = -(-columns // 64) * 64
    rows = np.random.default_rng(columns).standard_normal((16, width)).astype(np.float16)
    result = hopper.empty((64, columns), np.float32)
    kernel = hopper.kernel(SOURCE, "strip", WGMMA=1, COLUMNS=columns)
    kernel(1, 128, hopper.array(rows.view(np.uint16)), result)
    exact = 2 * rows[:, :64].T.astype(np.float64) @ rows[:, :columns]
    np.testing.assert_allclose(hopper.to_numpy(result), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("columns", [16, 128, *slow(32, 48, 64, 80, 96, 112)])
def test_products_of_a_strip_in_registers(hopper, columns):
    width = -(-columns // 64) * 64
    rows = np.random.default_rng(columns).standard_normal((16, width)).astype(np.float16)
    result, pair = hopper.empty((64, columns), np.float32), hopper.empty((64, 2), np.float32)
    kernel = hopper.kernel(KERNELS / "hopper_registers.cu", "strip_of_registers", WGMMA=1, COLUMNS=columns)
    kernel(1, 128, hopper.array(rows.view(np.uint16)), result, pair)
    exact = rows[:, :64].T.astype(np.float64) @ rows
    np.testing.assert_allclose(hopper.to_numpy(result), exact[:, :columns], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(hopper.to_numpy(pair), 2 * exact[:, :2], rtol=1e-5, atol=1e-5)


def handed_over(device, rounds=5):
    """What the kernel made of values, and what it should have."""
    values, result = np.arange(32 * rounds, dtype=np.int32) ** 2, device.empty(rounds, np.int32)
    kernel = device.kernel(SOURCE, "hand_over", WGMMA=1, COLUMNS=16)
    kernel(1, 96, device.array(values), np.int32(rounds), result)
    return device.to_numpy(result), values.reshape(rounds, 32).sum(axis=1)


def test_what_one_warp_fetches_others_use(hopper):
    assert np.array_equal(*handed_over(hopper))


@pytest.mark.parametrize("seed", range(6))
def test_in_any_order_barriers_hold_back_who_comes_too_early(host, seed):
    with host.shuffled(seed):
        assert np.array_equal(*handed_over(host))


@pytest.mark.parametrize(
    ("fault", "said"), [("nobody_arrives", "a barrier"), ("one_is_missing", "a barrier of some threads")]
)
def test_who_waits_for_ever_is_an_error(host, fault, said):
    with pytest.raises(backends.DeviceError, match=rf"{fault}: thread .* waits for ever at {said} \(\w+\.\w+:\d+\)"):
        host.kernel(KERNELS / "hopper_faults.cu", fault)(1, 64, np.zeros(64, np.float32))


def test_a_barrier_that_nobody_has_initialized_is_an_error(host):
    with pytest.raises(backends.DeviceError, match=r"reads 8 bytes of static shared memory .*, which no thread"):
        host.kernel(KERNELS / "hopper_faults.cu", "uninitialized")(1, 64, np.zeros(64, np.float32))
