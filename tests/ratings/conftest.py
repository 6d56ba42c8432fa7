"""Where the tests of data sets look for files."""

import pytest


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUMF_DATA", str(tmp_path))
    return tmp_path
