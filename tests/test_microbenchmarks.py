"""The microbenchmarks compute what they say, on every device that runs kernels."""

import numpy as np
import pytest

from gpumf.experiments import elementwise_cube


@pytest.mark.parametrize("side", [1, 31, 32, 70])
@pytest.mark.parametrize("access", ["coalesced", "strided"])
def test_the_cube_of_every_element(launcher, access, side):
    a = np.random.default_rng(side).standard_normal((side, side), np.float32)
    result = launcher.empty(a.shape, np.float32)
    elementwise_cube.cube(launcher, access)(launcher.array(a), result)
    assert np.allclose(launcher.to_numpy(result), a**3, rtol=1e-6)
