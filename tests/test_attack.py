"""Attacks with a fixed seed, and what became of them: tried, refused, accepted, wrong.

On model files: mutated, inflated, cut by a full disk. By threads, forks, kills (tests/attack.py) and other users.
"""

import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import gpumf
from gpumf import ALS, RBM, SGD, BayesianMF, Blend, ImplicitALS
from refusals import contents
from support import ROOT, outside_make, slow

TRAIN = (["a", "a", "b", "b", "c"], ["x", "y", "y", "z", "x"], [1, 2, 3, 4, 5])
LARGE = ([7, 7, 2**63 + 5, 2**63 + 5, 9], [1, 2, 2, 3, 1], [1, 2, 3, 4, 5])
ODD = ["null", "-1", "NaN", "true", "0.5", "2147483648", "9" * 400, '"x"', "[]", "{}", "[[[[1]]]]", r'"\ud800"']
"""JSON that a header may have anywhere."""


@pytest.fixture(scope="module")
def models():
    """A model of every class, with ids that are words or large, and a blend."""
    made = [ALS(3, device="cpu").fit(TRAIN, 2), ImplicitALS(3, device="cpu").fit(LARGE, 1)]
    made += [
        SGD(2, device="cpu").fit(TRAIN, 2, TRAIN),
        RBM(3, device="cpu").fit(TRAIN, 1),
        BayesianMF(2).fit(TRAIN, 4),
    ]
    return [*made, Blend(made[0], made[4], weights=[0.5, 0.5])]


@pytest.fixture(scope="module")
def model(models):
    return models[0]


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


def with_other_header(data, suffix, rng):
    """A whole file, checksums and all, one value of whose header is another one, or is missing."""
    if suffix == "npz":
        arrays = dict(np.load(io.BytesIO(data)))
        header = json.loads(str(arrays["header"]))
    else:
        size = 8 + int.from_bytes(data[:8], "little")
        entries = json.loads(data[8:size])
        header = json.loads(entries["__metadata__"]["gpumf"])
    node = header
    while node:
        key = rng.choice(list(node)) if isinstance(node, dict) else int(rng.integers(len(node)))
        inner = node[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.2:
            break
        node = inner
    if isinstance(node, dict) and rng.random() < 0.2:
        del node[key]
    else:
        node[key] = "@"
    text = json.dumps(header).replace('"@"', ODD[rng.integers(len(ODD))])
    made = io.BytesIO()
    if suffix == "npz":
        np.savez(made, **arrays | {"header": text})
        return made.getvalue()
    entries["__metadata__"] = {"gpumf": text}  # without a checksum, as of other programs
    told = json.dumps(entries).encode()
    return len(told).to_bytes(8, "little") + told + data[size:]


def content(model):
    """All that a file says of a model."""
    header, arrays = model._content(True) if not isinstance(model, Blend) else ({}, {})
    inner = [content(one) for one in getattr(model, "models", ())]
    bytes_ = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}
    return repr(header), bytes_, inner, repr(getattr(model, "weights", None))


def used(model):
    """Ask a model what it may answer, or refuse with an error of the package."""
    for use in (
        lambda: model.predict(0, 0, ids=False),
        lambda: model.recommend(0, 2, ids=False),
        lambda: repr(model),
    ):
        try:
            use()
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            assert (last.line or "").startswith("raise"), error


@pytest.mark.parametrize("trials", [20, *slow(200)])
@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
@pytest.mark.filterwarnings("ignore")
def test_mutated_files_are_refused_or_are_the_model(suffix, trials, models, tmp_path, record_property):
    """As many again have a header that says something else, and may be another model then: one that works."""
    path, rng, counts = tmp_path / f"m.{suffix}", np.random.default_rng(35), Counter()
    for model in models:
        path.unlink(missing_ok=True)  # what the last turn damaged, which save leaves as it is
        model.save(path, seen=True)
        whole, wanted = path.read_bytes(), content(gpumf.load(path, "cpu"))
        for trial in range(2 * trials):
            path.write_bytes(mutated(whole, rng) if trial % 2 else with_other_header(whole, suffix, rng))
            counts["tried"] += 1
            try:
                found = gpumf.load(path, "cpu")
            except ValueError as error:
                assert str(path) in str(error) and len(str(error)) < 1000
                counts["refused"] += 1
                continue
            if trial % 2:
                counts["accepted" if content(found) == wanted else "wrong"] += 1
            else:
                used(found)
                counts["accepted"] += 1
        assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    record_property("counts", dict(counts))
    print(suffix, dict(counts))
    assert counts["tried"] == counts["refused"] + counts["accepted"] and counts["refused"] > counts["tried"] / 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("trials", [(200, 50, 3), *slow(((2000, 500, 40),))])
def test_threads_forks_and_kills_change_no_answer_and_no_file(trials, tmp_path, record_property):
    wanted = dict(zip(("threads", "forks", "kills"), trials, strict=True))
    command = [sys.executable, ROOT / "tests/attack.py", tmp_path, *(f"{kind}={n}" for kind, n in wanted.items())]
    path = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    done = subprocess.run(command, capture_output=True, text=True, env=outside_make() | path)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    record_property("counts", counts)
    print(counts)
    for kind, found in counts.items():
        assert found["tried"] == wanted[kind] == found["refused"] + found["accepted"] and not found["wrong"], kind
    assert counts.keys() == wanted.keys()


OTHER_USER = """
import os, sys, tempfile, warnings
warnings.simplefilter("ignore")
import gpumf
from gpumf._util import paths
from gpumf.backends import compile
model = gpumf.ALS(2, device="cpu").fit((["a", "b"], ["x", "y"], [1, 2]), 1)
folder, temporary = sys.argv[1], str(compile._temporary())
os.seteuid(65534)
taken, names = 0, sorted(os.listdir(folder))
for name in names:
    os.environ["XDG_CACHE_HOME"] = os.path.join(folder, name)
    assert str(compile.cached("cpu/als.so", "key")).startswith(temporary)
    try:
        paths.make_private(paths.cache())
        taken += 1
    except OSError:
        pass
try:
    model.save(os.path.join(folder, "m.npz"))
    taken += 1
except OSError:
    pass
print(len(names) + 1, taken)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="to be another user needs root")
def test_no_other_user_has_code_loaded_or_files_changed(record_property):
    """Caches of root, of a third user, open to all and linked: refused by nobody, who keeps code in none of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        places = ("root", 0, 0o755), ("all", 0, 0o777), ("third", 1234, 0o777), ("open", 65534, 0o777)
        for where, owner, mode in places:
            cache = folder / where / "gpumf"
            (cache / "cpu").mkdir(parents=True)
            (cache / "cpu/als-0.so").write_bytes(b"poison")
            for place in (cache.parent, cache, cache / "cpu"):
                os.chown(place, owner, -1)
                place.chmod(mode)
        (folder / "linked").mkdir()
        (folder / "linked/gpumf").symlink_to(folder / "open/gpumf")
        before = contents(folder)
        done = subprocess.run([sys.executable, "-c", OTHER_USER, name], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        tried, taken = map(int, done.stdout.split())
        record_property("counts", {"tried": tried, "refused": tried - taken, "wrong": taken})
        assert (tried, taken) == (6, 0) and contents(folder) == before


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
        yield archive([*members, (name, npy((1,), content=bytes(4)))]), "no arrays|differ by"


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
