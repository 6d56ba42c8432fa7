"""Plugins of pytest: one notes which functions and kernels each test reaches, one runs chosen tests in an order."""

import functools
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import pytest


def busy():
    """Seconds that processors have worked for this process and its children, whoever else they work for."""
    return sum(use.ru_utime + use.ru_stime for use in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


class Reach:
    """Notes of every test that passes: seconds, functions of src ('path:qualified name'), kernels ('path').

    Seconds are those of `busy`. What a shared fixture reaches, and how long it takes, counts for each test that has
    it. A function that Numba compiles is reached by a call of it, and so are those that it calls.
    """

    def __init__(self, root):
        self.tests, self._shared = {}, {}
        self._home = f"{Path(root) / 'src'}/"
        self._root = f"{root}/"
        self._seen, self._kernels, self._now = set(), set(), [set(), 0.0, True]
        functools.cache = self._noting_cache

    def _noting_cache(self, function):
        """functools.cache, where what a call has reached, and its seconds, count for each later one."""
        cached, known = functools.lru_cache(None)(function), {}

        @functools.wraps(function)
        def call(*arguments, **named):
            key, misses = (arguments, tuple(sorted(named.items()))), cached.cache_info().misses
            outer, started = (self._seen, self._kernels), busy()
            self._seen, self._kernels = set(), set()
            try:
                return cached(*arguments, **named)
            finally:
                if cached.cache_info().misses > misses:
                    known[key] = self._seen, self._kernels, busy() - started
                    outer[0].update(self._seen)
                    outer[1].update(self._kernels)
                elif key in known:
                    outer[0].update(known[key][0])
                    outer[1].update(known[key][1])
                    self._now[1] += known[key][2]
                self._seen, self._kernels = outer

        call.cache_clear, call.cache_info = cached.cache_clear, cached.cache_info
        return call

    def _event(self, frame, event, argument):
        code = frame.f_code
        if code.co_filename.startswith(self._home) and code.co_name != "<module>":
            self._seen.add(code)
            if code.co_qualname == "_Late.__call__":
                self._compiled(frame.f_locals["self"])
        return None

    def _compiled(self, late):
        function = late._function
        if function.__code__ in self._seen:
            return
        self._seen.add(function.__code__)
        for name in function.__code__.co_names:
            other = function.__globals__.get(name)
            if type(other).__name__ == "_Late":
                self._compiled(other)

    def _described(self, codes):
        return {f"{code.co_filename.removeprefix(self._root)}:{code.co_qualname}" for code in codes}

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self):
        from hypothesis import settings

        from gpumf.backends import emulator

        # A few examples reach what many do.
        settings.register_profile("reach", settings.get_profile("few"), max_examples=5)
        settings.load_profile("reach")
        run = emulator.Kernel._run
        reach = self

        def noted(kernel, *arguments):
            source = Path(reach._root, "kernels", kernel.source)  # those for tests are given by their whole path
            reach._kernels.add(source.relative_to(reach._root).as_posix())
            return run(kernel, *arguments)

        emulator.Kernel._run = noted

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.scope == "function":
            yield
            return
        before = set(self._seen), set(self._kernels)
        started = busy()
        yield
        reached = self._described(self._seen - before[0])
        self._shared[fixturedef.argname] = (reached | self._kernels - before[1], busy() - started)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        self._now = [set(), 0.0, True]
        yield
        reached, seconds, passed = self._now
        if passed:
            for name in getattr(item, "fixturenames", ()):
                if name in self._shared:
                    reached |= self._shared[name][0]
            self.tests[item.nodeid] = {"seconds": round(seconds, 3), "reached": sorted(reached)}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self):
        yield from self._phase()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self):
        yield from self._phase()

    def _phase(self):
        self._seen, self._kernels = set(), set()
        started = busy()
        sys.settrace(self._event)
        yield
        sys.settrace(None)
        self._now[1] += busy() - started
        self._now[0] |= self._described(self._seen) | self._kernels

    def pytest_runtest_logreport(self, report):
        if report.outcome != "passed":
            self._now[2] = False


class Chosen:
    """Runs the tests of `nodes`, in their order, and remembers the first that fails."""

    def __init__(self):
        self.nodes, self.noticed = [], None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        place = {node: k for k, node in enumerate(self.nodes)}
        items[:] = sorted((i for i in items if i.nodeid in place), key=lambda i: place[i.nodeid])

    def pytest_runtest_logreport(self, report):
        if report.failed and self.noticed is None:
            self.noticed = report.nodeid

    def pytest_collectreport(self, report):
        if report.failed and self.noticed is None:
            self.noticed = report.nodeid or "collection"
