"""No kernel goes untested: after a whole run this looks at what all its processes launched on the processor."""

import pytest

from gpumf import backends
from gpumf.backends import sources
from gpumf.models import als, bayesian, rbm, sgd  # noqa: F401 - they declare their sources

# Sizes, of which tests launch some.
_SIZES = {"FACTORS", "HIDDEN", "LEVELS"}
_PARTIAL = ("keyword", "lf", "deselect", "collectonly")
_KEY = "gpumf/launched"  # what the quick tests launched, until the slow ones have run


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
    if not backends.why_unavailable("emulator"):
        for source, name, defined in backends.device("emulator").launched:
            found |= {(source, name), *((source, key, str(value)) for key, value in defined)}
    return found & wanted()


class Launched:
    """Fails a run of all tests, or of the slow after the quick ones, if a kernel or a version was never launched.

    With pytest-xdist each worker hands over what it launched, and the process that hears of all outcomes judges.
    """

    def __init__(self, config):
        self.config, self.found, self.missing = config, set(), []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.found |= set(map(tuple, getattr(node, "workeroutput", {}).get("launched", ())))

    def _whole(self):
        """Whether all tests ran, or all of a tier, and could launch kernels."""
        part = any(self.config.getoption(option, None) for option in _PARTIAL)
        part |= self._tier() not in ("", "slow", "not slow")
        return (
            self.config.args == self.config.getini("testpaths")
            and not part
            and not backends.why_unavailable("emulator")
        )

    def _tier(self):
        return self.config.getoption("markexpr", None) or ""

    def _add_up(self):
        """Keep what the quick tests launched; add it to what the slow ones did. Return whether that is all."""
        if not self._tier():
            return True
        cache = getattr(self.config, "cache", None)
        quick = None if cache is None else cache.get(_KEY, None)
        if cache is not None:
            cache.set(_KEY, sorted(self.found) if self._tier() == "not slow" else None)
        if self._tier() == "not slow" or quick is None:
            return False
        self.found |= set(map(tuple, quick))
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session):
        self.found |= launched()
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["launched"] = sorted(self.found)
        elif session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and self._whole():
            self.missing = sorted(wanted() - self.found) if self._add_up() else []
            if self.missing:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.missing:
            terminalreporter.section("launched by no test", red=True)
            for missing in self.missing:
                terminalreporter.line(" ".join(missing))
