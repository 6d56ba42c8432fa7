"""The browser that opens pages."""

import shutil
import subprocess
import sys

import pytest

from support import ROOT

BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]


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
def html(browser):
    """The folder of the rendered book, built if need be (but not where no browser would open it)."""
    build = [sys.executable, ROOT / "book/build.py", "--profile", "quick"]
    assert subprocess.run(build, stdin=subprocess.DEVNULL).returncode == 0
    return ROOT / "build/quick/_build/html"
