"""The browser that opens pages."""

import fcntl
import os
import shutil
import subprocess
import sys

import pytest

from support import ROOT

BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]


def pytest_collection_modifyitems(items):
    """Have test_pdf.py run last: while a process builds the book for test_book.py, another would only wait for it."""
    items.sort(key=lambda item: item.path.name == "test_pdf.py")


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium of this system."""
    playwright = pytest.importorskip("playwright.sync_api")  # which a machine that only runs the GPU tests may lack
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    try:
        driver = playwright.sync_playwright().start()
    except Exception:
        pytest.skip("Playwright does not start; on Debian and Ubuntu it needs the package libatomic1")
    chromium = driver.chromium.launch(
        executable_path=executable, args=["--no-sandbox", "--disable-gpu"], timeout=120_000
    )
    yield chromium
    chromium.close()
    driver.stop()


@pytest.fixture(scope="session")
def html(browser, tmp_path_factory):
    """The folder of the rendered book, built if need be (but not where no browser would open it).

    It is built once for all processes of a run: while one builds, another would find files that it deletes at last.
    """
    built = tmp_path_factory.getbasetemp().parent / f"book-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    with built.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.stat().st_size:
            build = [sys.executable, ROOT / "book/build.py", "--profile", "quick"]
            assert subprocess.run(build, stdin=subprocess.DEVNULL).returncode == 0
            lock.write("built")
    return ROOT / "build/quick/_build/html"
