"""Products, factors and triangular systems on the CPU and by cuBLAS, against float64."""

import numpy as np
import pytest


@pytest.fixture
def given(launcher):
    """(device, its arrays and float64's): rows, and a positive definite matrix."""
    device, rng, width = launcher, np.random.default_rng(5), 1_300
    rows = rng.standard_normal((1_400, width)).astype(np.float32)
    matrix = rows.T @ rows / len(rows) + np.eye(width, dtype=np.float32)
    return device, device.array(rows), device.array(matrix), rows.astype(np.float64), matrix.astype(np.float64)


def assert_near(device, made, exact, bound):
    made = device.to_numpy(made)
    assert np.linalg.norm(made - exact) < bound * np.linalg.norm(exact)


def test_products(given):
    device, rows, matrix, exact_rows, exact_matrix = given
    made = device.empty(matrix.shape, np.float32)
    made[...] = np.nan
    device.blas.cross(rows, rows, made)
    assert_near(device, made, exact_rows.T @ exact_rows, 1e-3)
    device.blas.cross(rows, rows, made, add=True)
    assert_near(device, made, 2 * exact_rows.T @ exact_rows, 1e-3)
    device.blas.cross(rows, rows[::-1].copy(), made)
    assert_near(device, made, exact_rows.T @ exact_rows[::-1], 1e-3)
    for transposed in (False, True):
        made = device.empty(rows.shape, np.float32)
        made[...] = np.nan
        device.blas.product(rows, matrix, made, transposed=transposed)
        assert_near(device, made, exact_rows @ exact_matrix, 1e-3)
        # One that is not symmetric tells the two apart.
        device.blas.product(matrix, rows[: len(matrix)], made[: len(matrix)], transposed=transposed)
        of_b = exact_rows[: len(matrix)]
        assert_near(device, made[: len(matrix)], exact_matrix @ (of_b.T if transposed else of_b), 1e-3)


@pytest.mark.parametrize("transposed", [False, True])
def test_triangular_systems(given, transposed):
    device, rows, matrix, exact_rows, exact_matrix = given
    device.blas.factor(matrix)
    upper = np.linalg.cholesky(exact_matrix).T
    assert_near(device, device.xp.triu(matrix), upper, 1e-5)
    device.blas.solve(rows, matrix, transposed=transposed)
    exact = np.linalg.solve(upper if transposed else upper.T, exact_rows.T).T
    assert_near(device, rows, exact, 1e-3)
