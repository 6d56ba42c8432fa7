"""Products of triangular and symmetric matrices in blocks, and by them triangular systems, against float64."""

from types import SimpleNamespace

import numpy as np
import pytest

from gpumf.backends import blas, triangles

WIDTH = 200
COLUMNS = [8, 64, 512]  # blocks of one size, with a smaller last one, and a single block


def of_tf32(values):
    """Without the last 13 bits."""
    return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(values.dtype)


def parts(values):
    high = of_tf32(values)
    return high, values - high


def rounding(a, b, made, transposed=False, add=False):
    """`blas.product` of operands that are cut off to TF32, as on a GPU."""
    blas.product(of_tf32(np.ascontiguousarray(a)), of_tf32(np.ascontiguousarray(b)), made, transposed, add)


@pytest.fixture(params=[False, True])
def system(request):
    """(transposed, right sides, U, solution), float64; U has the condition number 1,000, and solutions are small."""
    transposed, rng = request.param, np.random.default_rng(3)
    basis, _ = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))
    upper = np.linalg.qr((basis * np.geomspace(1, 1e-3, WIDTH)) @ basis.T)[1].astype(np.float32).astype(np.float64)
    rows = rng.standard_normal((130, WIDTH)) @ (upper.T if transposed else upper)
    rows = rows.astype(np.float32).astype(np.float64)
    return transposed, rows, upper, np.linalg.solve(upper if transposed else upper.T, rows.T).T


def off(made, exact):
    return np.linalg.norm(made - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize("columns", COLUMNS)
def test_gram(launcher, columns):
    rows = np.random.default_rng(1).standard_normal((300, WIDTH)).astype(np.float32)
    exact = np.triu(rows.T.astype(np.float64) @ rows)
    made, given = launcher.empty((WIDTH, WIDTH), np.float32), launcher.array(rows)
    made[...] = np.nan
    triangles.gram(launcher.blas, given, made, columns)
    assert off(np.triu(launcher.to_numpy(made)), exact) < 1e-3
    triangles.gram(launcher.blas, given, made, columns, add=True)
    made = launcher.to_numpy(made)
    assert off(np.triu(made), 2 * exact) < 1e-3
    assert np.isnan(made[-1, 0]) == (columns < WIDTH)  # what need not be known is not worked out


def solved(blas, rows, upper, columns, transposed):
    """X of X U = rows or X U^T = rows by the inverse."""
    inverse, made = upper * 0, rows * np.float32(np.nan)
    inverse.reshape(-1)[:: WIDTH + 1] = 1
    blas.solve(inverse, upper)
    (high, low), (rows, left) = parts(inverse), parts(rows)
    triangles.product(blas, [(left, high), (rows, low), (rows, high)], made, columns, transposed)
    return made


@pytest.mark.parametrize("columns", COLUMNS)
def test_ill_conditioned_systems(launcher, system, columns):
    transposed, rows, upper, exact = system
    given = [launcher.array(values.astype(np.float32)) for values in (rows, upper)]
    made = launcher.to_numpy(solved(launcher.blas, *given, columns, transposed))
    assert off(made, exact) < 2e-4


def test_two_parts_of_tf32_are_as_good_as_fp32(system):
    (transposed, *given), exact = system[:3], system[3]
    rows, upper = (values.astype(np.float32) for values in given)
    device, directly = SimpleNamespace(product=rounding, solve=blas.solve), rows.copy()
    blas.solve(directly, upper, transposed)
    assert off(solved(device, rows, upper, 64, transposed), exact) < 4 * off(directly, exact)
    inverse, made = np.eye(WIDTH, dtype=np.float32), np.empty_like(rows)
    blas.solve(inverse, upper)
    for pair in [(rows, inverse)], [(a, inverse) for a in parts(rows)], [(rows, part) for part in parts(inverse)]:
        triangles.product(device, pair, made, 64, transposed)
        assert off(made, exact) > 3e-4  # FP16 leaves no more


@pytest.mark.parametrize("transposed", [False, True])
def test_products_leave_zeros_out_and_other_columns_alone(launcher, transposed):
    """Below its diagonal U may have anything outside of the blocks beside it."""
    rng = np.random.default_rng(2)
    a, upper = rng.standard_normal((50, 24)).astype(np.float32), rng.standard_normal((24, 24)).astype(np.float32)
    upper = np.where(np.arange(24) // 8 < np.arange(24)[:, None] // 8, np.nan, np.triu(upper)).astype(np.float32)
    exact = np.triu(upper).astype(np.float64)
    wide = launcher.array(np.full((50, 40), 7, np.float32))
    made = wide[:, 8:32]
    triangles.product(launcher.blas, [(launcher.array(a), launcher.array(upper))], made, 8, transposed)
    found = launcher.to_numpy(wide)
    assert off(found[:, 8:32], a @ (exact.T if transposed else exact)) < 1e-3
    assert (found[:, :8] == 7).all() and (found[:, 32:] == 7).all()
