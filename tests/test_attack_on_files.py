"""Model files under attack, with a fixed seed: mutated, inflated, cut by a full disk, and what became of them."""

import io
import json
import resource
import subprocess
import sys
import warnings
import zipfile
from collections import Counter

import numpy as np
import pytest

import gpumf
from gpumf import ALS

MUTATIONS = 400
TRAIN = (["a", "a", "b", "b", "c"], ["x", "y", "y", "z", "x"], [1, 2, 3, 4, 5])


@pytest.fixture(scope="module")
def model():
    return ALS(4, device="cpu").fit(TRAIN, 2)


def mutated(data, rng):
    """Bytes with some changed, cut off, doubled, or put elsewhere."""
    content = bytearray(data)
    at, many = int(rng.integers(len(content))), int(rng.integers(1, 64))
    kind = rng.integers(6)
    if kind == 0:
        content[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        content[at : at + many] = rng.bytes(many)
    elif kind == 2:
        del content[at:]
    elif kind == 3:
        del content[at : at + many]
    elif kind == 4:
        content[at:at] = content[max(at - many, 0) : at]
    else:
        content[at : at + 4] = int(rng.choice([0, 1, 2**31 - 1, 2**32 - 1])).to_bytes(4, "little")
    return bytes(content)


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_mutated_files_are_refused_or_are_the_model(suffix, model, tmp_path, record_property):
    path, rng, counts = tmp_path / f"m.{suffix}", np.random.default_rng(35), Counter()
    model.save(path, seen=True)
    whole, wanted = path.read_bytes(), model.predict(["a", "b", "c"], "x")
    places = [place for place in tmp_path.parent.iterdir()]
    for _ in range(MUTATIONS):
        path.write_bytes(mutated(whole, rng))
        counts["tried"] += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = gpumf.load(path, "cpu")
        except ValueError as error:
            assert str(path) in str(error)
            counts["refused"] += 1
            continue
        same = np.array_equal(found.predict(["a", "b", "c"], "x"), wanted) and found.item_ids.tolist() == [
            "x",
            "y",
            "z",
        ]
        counts["accepted" if same else "wrong"] += 1
    record_property("counts", dict(counts))
    print(suffix, dict(counts))
    assert counts["tried"] == MUTATIONS == counts["refused"] + counts["accepted"] and not counts["wrong"]
    assert counts["refused"] > MUTATIONS / 2
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert [place for place in tmp_path.parent.iterdir()] == places


def archive(members, how=zipfile.ZIP_STORED):
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", how) as file:
        warnings.simplefilter("ignore")  # names that come twice
        for name, content in members:
            file.writestr(name, content)
    return made.getvalue()


def npy(shape, dtype="<f4", content=b""):
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, {"descr": dtype, "fortran_order": False, "shape": shape})
    return made.getvalue() + content


def bombs(members):
    """Small files that say that they are large."""
    others = [(name, content) for name, content in members if name != "item_factors.npy"]
    yield archive(members, zipfile.ZIP_DEFLATED), "compressed"
    yield (
        archive([*others, ("item_factors.npy", npy((2**28, 4)) + bytes(1 << 26))], zipfile.ZIP_DEFLATED),
        "compressed",
    )
    for shape in ((2**40, 4), (2**62, 2**62), (-1, 4), (3, 4), (0, 2**60)):
        yield archive([*others, ("item_factors.npy", npy(shape))]), "is not its size|negative|damaged"
    yield archive([*members, members[-1]]), "twice"
    for name in ("../../evil.npy", "/tmp/evil.npy", "evil", "a/b.npy"):
        yield archive([*members, (name, npy((1,), content=bytes(4)))]), "no arrays|it has the arrays"


def test_files_take_no_more_memory_than_they_have(model, tmp_path):
    path = tmp_path / "m.npz"
    model.save(path)
    with zipfile.ZipFile(path) as file:
        members = [(name, file.read(name)) for name in file.namelist()]
    model.save(tmp_path / "m.safetensors")
    whole = (tmp_path / "m.safetensors").read_bytes()
    size = int.from_bytes(whole[:8], "little")
    entries = json.loads(whole[8 : 8 + size])
    entry = entries["item_factors"]
    entries |= {f"more{k}": entry | {"data_offsets": [0, len(whole) - 8 - size], "dtype": "U8"} for k in range(2000)}
    text = json.dumps(entries).encode()
    attacks = [(path, *bomb) for bomb in bombs(members)]
    attacks.append(
        (tmp_path / "m.safetensors", len(text).to_bytes(8, "little") + text + whole[8 + size :], "more than")
    )
    tracemalloc = pytest.importorskip("tracemalloc")
    for at, content, words in attacks:
        at.write_bytes(content)
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match=words):
                gpumf.load(at, "cpu")
            assert tracemalloc.get_traced_memory()[1] < 8 * len(content) + (16 << 20)
        finally:
            tracemalloc.stop()


FULL = """
import resource, sys
from gpumf import ALS
model = ALS(4, device="cpu").fit((["a", "b", "c"], ["x", "y", "x"], [1, 2, 3]), 1)
refused = 0
for limit in range(0, 4000, 250):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        model.save(sys.argv[1])
    except OSError as error:
        assert "cannot be saved" in str(error) and sys.argv[1] in str(error), error
        refused += 1
print(refused)
"""


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_a_full_disk_leaves_the_file_that_was_there(suffix, model, tmp_path):
    path = tmp_path / f"m.{suffix}"
    model.save(path)
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 4
    assert gpumf.load(path, "cpu").predict("a", "x").shape == () and [p.name for p in tmp_path.iterdir()] == [
        path.name
    ]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
