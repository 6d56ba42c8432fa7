"""No kernel goes untested: after all others, this file looks at what they launched on the processor."""

import re

import pytest

from gpumf.gpu import sources
from support import ROOT


@pytest.mark.last
@pytest.mark.parametrize(("source", "name"), sources.all_kernels())
def test_some_test_launched_it(whole_run, host, source, name):
    assert (source, name) in {(source, name) for source, name, _ in host.launched}


# Sizes, of which tests launch some.
SIZES = {"FACTORS", "HIDDEN", "LEVELS"}
VERSIONS = [
    (source, key, value)
    for source in sources.every()
    for key, values in sources.declared(source).variants.items()
    for value in (() if key in SIZES else values)
]


@pytest.mark.last
@pytest.mark.parametrize(("source", "key", "value"), VERSIONS)
def test_some_test_launched_the_version(whole_run, host, source, key, value):
    assert (key, value) in {pair for launched, _, defined in host.launched if launched == source for pair in defined}


MODELS = [source for source in sources.every() if re.match("(als|rbm|sgd)/(?!.*(errors|shape))", source)]


@pytest.mark.parametrize("source", MODELS)
def test_its_header_says_where_its_gain_is_measured(source):
    text = (sources.kernels_folder() / source).read_text()
    (chapter,) = re.findall(r"^// .* gains is measured in (book/\w+\.ipynb)\.$", text, re.MULTILINE)
    assert (ROOT / chapter).is_file()
