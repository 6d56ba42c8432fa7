"""No kernel goes untested: after all others, this file looks at what they launched on the processor."""

import pytest

from gpumf.gpu import sources


@pytest.mark.last
@pytest.mark.parametrize(("source", "name"), sources.all_kernels())
def test_some_test_launched_it(whole_run, host, source, name):
    assert (source, name) in host.launched
