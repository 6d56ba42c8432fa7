"""Downloads, from a server on this machine: complete, changed, truncated, absent."""

import functools
import hashlib
import http.server
import sys
import threading
import zipfile
from dataclasses import replace

import pytest

from gpumf.ratings import DataError, __main__, load_dataset, sources
from gpumf.ratings.download import download, downloadable


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Serve a folder, let ml-100k come from it, and let data go to another; returns both folders."""
    served, data = tmp_path / "served", tmp_path / "data"
    served.mkdir()
    with zipfile.ZipFile(served / "ml-100k.zip", "w") as archive:
        archive.writestr("ml-100k/u.data", "1\t10\t4\t0\n2\t10\t5\t0\n")
    checksum = "md5:" + hashlib.md5((served / "ml-100k.zip").read_bytes()).hexdigest()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=served))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/ml-100k.zip"
    source = replace(sources.SOURCES["ml-100k"], archives=((address, checksum),))
    monkeypatch.setitem(sources.SOURCES, "ml-100k", source)
    monkeypatch.setenv("GPUMF_DATA", str(data))
    yield served, data
    server.shutdown()
    server.server_close()


def test_download_then_load(site):
    _, data = site
    assert download("ml-100k") == [data / "ml-100k" / "ml-100k.zip"]
    assert load_dataset("ml-100k", allow_incomplete=True).nnz == 2


def test_without_what_downloads_the_extra_is_named(site, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match=r'needs the package pooch: install .*"gpumf\[data\]"'):
        download("ml-100k")


def test_a_file_that_is_there_is_not_fetched_again(site):
    served, _ = site
    download("ml-100k")
    (served / "ml-100k.zip").unlink()
    assert len(download("ml-100k")) == 1


@pytest.mark.parametrize(
    "change", [lambda content: content[:-20], lambda content: content + b"x", lambda content: b""]
)
def test_a_wrong_checksum_leaves_nothing(site, change):
    served, data = site
    path = served / "ml-100k.zip"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=r"ml-100k.zip: the download does not have the checksum md5:.*try again"):
        download("ml-100k")
    assert [path for path in data.rglob("*") if path.is_file()] == []


def test_an_address_that_does_not_answer(site):
    served, _ = site
    (served / "ml-100k.zip").unlink()
    with pytest.raises(DataError, match=r"ml-100k.zip cannot be downloaded: 404"):
        download("ml-100k")


@pytest.mark.parametrize("name", ["netflix", "douban", "nonsense"])
def test_sets_that_may_not_be_downloaded(name):
    with pytest.raises(DataError, match=f"'{name}' cannot be downloaded; ml-100k, "):
        download(name)


def test_every_download_is_from_its_publisher_with_a_checksum():
    lengths = {"md5": 32, "sha256": 64}
    for name in downloadable():
        for address, checksum in sources.SOURCES[name].archives:
            assert address.startswith(("https://files.grouplens.org/", "https://eigentaste.berkeley.edu/"))
            kind, _, digest = checksum.partition(":")
            assert len(digest) == lengths[kind] and int(digest, 16)


def test_the_command(site, capsys):
    assert __main__.main(["ml-100k"]) == 0
    assert "ml-100k.zip" in capsys.readouterr().out
    assert __main__.main(["netflix"]) == 1
    assert "'netflix' cannot be downloaded" in capsys.readouterr().err
    assert __main__.main(["--list"]) == 0
    assert "douban-synthetic" in capsys.readouterr().out


def test_the_help_says_what_is_downloaded_without_names(capsys):
    with pytest.raises(SystemExit):
        __main__.main(["--help"])
    assert "without names: ml-100k, ml-latest-small, jester" in " ".join(capsys.readouterr().out.split())
