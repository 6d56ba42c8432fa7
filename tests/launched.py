"""No kernel goes untested: after a whole run this looks at what all its processes launched on the processor."""

import pytest

from gpumf import gpu
from gpumf.gpu import sources
from gpumf.models import als, rbm, sgd  # noqa: F401 - they declare their sources

# Sizes, of which tests launch some.
_SIZES = {"FACTORS", "HIDDEN", "LEVELS"}
_PARTIAL = ("keyword", "markexpr", "lf", "deselect", "collectonly")


def wanted():
    """(source, kernel) of every kernel and (source, definition, value) of every version: a set of tuples of str."""
    versions = {
        (source, key, str(value))
        for source in sources.every()
        for key, values in sources.declared(source).variants.items()
        for value in (() if key in _SIZES else values)
    }
    return versions | set(sources.all_kernels())


def launched():
    """Those that this process launched."""
    found = set()
    if not gpu.why_unavailable("host"):
        for source, name, defined in gpu.device("host").launched:
            found |= {(source, name), *((source, key, str(value)) for key, value in defined)}
    return found & wanted()


class Launched:
    """Fails a run of all tests after which a kernel or a version was never launched.

    With pytest-xdist each worker hands over what it launched, and the process that hears of all outcomes judges.
    """

    def __init__(self, config):
        self.config, self.found, self.missing = config, set(), []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.found |= set(map(tuple, getattr(node, "workeroutput", {}).get("launched", ())))

    def _whole(self):
        """Whether all tests ran, and could launch kernels."""
        given = any(self.config.getoption(option, None) for option in _PARTIAL)
        return self.config.args == self.config.getini("testpaths") and not given and not gpu.why_unavailable("host")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session):
        self.found |= launched()
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["launched"] = sorted(self.found)
        elif session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and self._whole():
            self.missing = sorted(wanted() - self.found)
            if self.missing:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.missing:
            terminalreporter.section("launched by no test", red=True)
            for missing in self.missing:
                terminalreporter.line(" ".join(missing))
