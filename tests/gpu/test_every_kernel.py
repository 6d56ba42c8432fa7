"""No kernel goes untested: after all others, this file looks at what they launched on the processor."""

import re

import pytest

from gpumf.gpu import sources
from support import ROOT


@pytest.mark.last
@pytest.mark.parametrize(("source", "name"), sources.all_kernels())
def test_some_test_launched_it(whole_run, host, source, name):
    assert (source, name) in host.launched


MODELS = [source for source in sources.every() if re.match("(als|rbm|sgd)/(?!.*(errors|shape))", source)]


@pytest.mark.parametrize("source", MODELS)
def test_its_header_says_where_its_gain_is_measured(source):
    text = (sources.kernels_folder() / source).read_text()
    (chapter,) = re.findall(r"^// .* gains is measured in (book/\w+\.ipynb)\.$", text, re.MULTILINE)
    assert (ROOT / chapter).is_file()
