"""Where data files are looked for, and archives that are damaged."""

import gzip
import zipfile

import pytest

from gpumf.ratings import DataError, files, load_dataset
from small_files import archive, lines, load, write


def test_packed_or_not_has_one_sha256(data):
    text = lines("{u}\t{i}\t{r}\t0")
    plain = write(data / "ml-100k" / "u.data", text)
    first = load("ml-100k")
    plain.unlink()
    archive(data / "ml-100k.zip", {"ml-100k/u.data": text})
    second = load("ml-100k")
    assert first.sha256 == second.sha256
    assert len(first.sha256) == 64


def test_zip_with_a_damaged_member(data):
    path = archive(data / "ml-100k" / "ml-100k.zip", {"u.data": lines("{u}\t{i}\t{r}\t0")})
    content = bytearray(path.read_bytes())
    content[50:60] = bytes(10)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"ml-100k.zip is truncated or not a zip archive"):
        load("ml-100k")


def test_a_data_folder_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUMF_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"nowhere/ml-1m \(there is no such folder\) or .*/data/raw/ml-1m"):
        load_dataset("ml-1m")
    monkeypatch.setenv("GPUMF_DATA", "~nobody-of-this-name/data")
    with pytest.raises(ValueError, match=r"GPUMF_DATA=~nobody-of-this-name/data names no folder"):
        load_dataset("ml-1m")


@pytest.mark.parametrize("packing", ["plain", "gzip", "zip"])
def test_a_part_of_a_file_is_read_as_it_is_unpacked(packing, tmp_path):
    content = bytes(range(256))
    path = tmp_path / packing
    if packing == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("part", content)
    else:
        path.write_bytes(gzip.compress(content) if packing == "gzip" else content)
    file = files.DataFile(path, "part" if packing == "zip" else None)
    assert file.size == 256 and file.plain == (packing == "plain")
    for begin, end in ((0, 256), (3, 7), (200, 201), (17, 17)):
        assert file.read(begin, end) == content[begin:end]
