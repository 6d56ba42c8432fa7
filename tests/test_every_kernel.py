"""No kernel goes untested: after all others, this file looks at what they launched on the processor."""

import pytest

from gpumf.gpu import sources


def kernels():
    folder = sources.kernels_folder()
    return [
        (path.relative_to(folder).as_posix(), name) for path in folder.rglob("*.cu") for name in sources.kernels(path)
    ]


@pytest.mark.last
@pytest.mark.parametrize(("source", "name"), sorted(kernels()))
def test_some_test_launched_it(whole_run, host, source, name):
    assert (source, name) in host.launched
