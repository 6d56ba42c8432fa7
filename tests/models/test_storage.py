"""Models in files: what they hold, and files that are not whole or not theirs."""

import json

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, RBM, SGD
from gpumf.models import replacing
from support import MODELS


@MODELS
def test_save_and_load(model, sets, tmp_path):
    train, test = sets
    fitted = model(8, 0.07, seed=3, solver="sequential").fit(train, 3, test)
    fitted.save(tmp_path / "model.npz")
    loaded = model.load(tmp_path / "model.npz", device="cpu")
    assert np.array_equal(loaded.predict(test.users, test.items), fitted.predict(test.users, test.items))
    pd.testing.assert_frame_equal(loaded.history, fitted.history)
    assert loaded._parameters == fitted._parameters
    assert np.array_equal(loaded.recommend(4, seen=train)[0], fitted.recommend(4)[0])
    assert loaded.score(test)["mae"] == pytest.approx(fitted.score(test)["mae"], rel=1e-6)
    loaded.fit(train, 1, warm_start=True)
    assert loaded.history.epoch.iloc[-1] == 4


def test_load_refuses_other_files(sets, tmp_path):
    ALS(4, solver="sequential", biases=False).fit(sets[0], 1).save(tmp_path / "als.npz")
    with pytest.raises(ValueError, match="holds a ALS"):
        SGD.load(tmp_path / "als.npz")
    data = (tmp_path / "als.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(data[: len(data) // 2])
    np.savez(tmp_path / "other.npz", a=np.arange(3))
    for name in ("cut.npz", "other.npz"):
        with pytest.raises(ValueError, match="not a saved model"):
            ALS.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        ALS.load(tmp_path / "absent.npz")


def test_a_save_that_fails_leaves_the_old_file(sets, tmp_path, monkeypatch):
    path, savez = tmp_path / "model.npz", np.savez
    ALS(4, solver="sequential", seed=1, biases=False).fit(sets[0], 1).save(path)
    old = path.read_bytes()
    model = ALS(4, solver="sequential", seed=2, biases=False).fit(sets[0], 1)

    def full_disk(file, **arrays):
        savez(file, **{name: arrays[name] for name in list(arrays)[:2]})
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full_disk)
        with pytest.raises(OSError, match="No space"):
            model.save(path)
        patch.undo()
        patch.setattr(replacing.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
        with pytest.raises(OSError, match="Input/output"):
            model.save(path)
    assert path.read_bytes() == old and [p.name for p in tmp_path.iterdir()] == ["model.npz"]
    model.save(path)
    assert ALS.load(path, device="cpu").seed == 2 and [p.name for p in tmp_path.iterdir()] == ["model.npz"]


def contents(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def with_header(arrays, **changes):
    header = json.loads(str(arrays["header"])) | changes
    return arrays | {"header": json.dumps({k: v for k, v in header.items() if v != "missing"})}


HOSTILE = {
    "fewer item rows": lambda a: a | {"item_factors": a["item_factors"][:-1]},
    "fewer user rows": lambda a: a | {"user_factors": a["user_factors"][:5]},
    "fewer columns": lambda a: a | {"item_factors": a["item_factors"][:, :3]},
    "float64": lambda a: a | {"item_factors": a["item_factors"].astype(np.float64)},
    "another byte order": lambda a: a | {"item_factors": a["item_factors"].astype(">f4")},
    "objects": lambda a: a | {"item_factors": a["item_factors"].astype(object)},
    "one dimension": lambda a: a | {"item_factors": a["item_factors"].ravel()},
    "NaN": lambda a: a | {"item_factors": np.full_like(a["item_factors"], np.nan)},
    "no array": lambda a: {k: v for k, v in a.items() if k != "item_factors"},
    "no counts": lambda a: {k: v for k, v in a.items() if k != "item_counts"},
    "negative counts": lambda a: a | {"item_counts": -a["item_counts"] - 1},
    "counts as floats": lambda a: a | {"item_counts": a["item_counts"] * 1.0},
    "one array more": lambda a: a | {"extra": np.arange(3)},
    "no header": lambda a: {k: v for k, v in a.items() if k != "header"},
    "no JSON": lambda a: a | {"header": "{"},
    "a list": lambda a: a | {"header": "[]"},
    "no parameters": lambda a: with_header(a, parameters="missing"),
    "unknown parameters": lambda a: with_header(a, parameters={"size": 3}),
    "parameters that are none": lambda a: with_header(a, parameters=3),
    "wrong parameters": lambda a: with_header(a, parameters={"factors": -4}),
    "more factors": lambda a: with_header(a, parameters={"factors": 5}),
    "no mean": lambda a: with_header(a, mean="missing"),
    "a mean that is none": lambda a: with_header(a, mean=float("nan")),
    "a scale that is none": lambda a: with_header(a, scale=["a", 5]),
    "no epoch": lambda a: with_header(a, epoch="missing"),
    "an epoch beyond the history": lambda a: with_header(a, epoch=9999),
    "no history": lambda a: with_header(a, history={}),
    "a ragged history": lambda a: with_header(a, history={"epoch": [0], "seconds": [], "rmse": [], "mae": []}),
    "another format": lambda a: with_header(a, format=99),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_files_are_refused(what, sets, tmp_path):
    path = tmp_path / "model.npz"
    ALS(4, solver="sequential", biases=False).fit(sets[0], 1).save(path)
    arrays = contents(path)
    np.savez(path, **arrays)
    ALS.load(path, device="cpu")
    np.savez(path, **HOSTILE[what](arrays))
    with pytest.raises(ValueError, match=str(path)):
        ALS.load(path, device="cpu")


def test_no_part_of_a_file_is_a_model(sets, tmp_path):
    path = tmp_path / "model.npz"
    RBM(4, solver="sequential").fit(sets[0], 1).save(path)
    whole = path.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="not a saved model"):
            RBM.load(path, device="cpu")
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    with pytest.raises(ValueError, match="not a saved model"):
        RBM.load(path, device="cpu")
    path.write_bytes(whole)
    arrays = contents(path)
    for name, rows in (
        ("item_weights", np.s_[:, :2]),
        ("visible_biases", np.s_[:, :2]),
        ("hidden_biases", np.s_[:2]),
    ):
        np.savez(path, **arrays | {name: arrays[name][rows].copy()})
        with pytest.raises(ValueError, match="damaged"):
            RBM.load(path, device="cpu")


def test_the_package_safetensors_reads_what_is_saved(sets, tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    for model in (ALS(4, device="cpu").fit(sets[0], 1), RBM(4, device="cpu").fit(sets[0], 1)):
        model.save(tmp_path / "m.safetensors", seen=True)
        arrays = numpy.load_file(tmp_path / "m.safetensors")
        for name in model._arrays:
            assert arrays[name].dtype == np.float32 and np.array_equal(arrays[name], getattr(model, name))
        assert np.array_equal(arrays["user_known"], model._user_known)
        assert np.array_equal(arrays["item_counts"], model._item_counts)


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
@pytest.mark.parametrize("names", [lambda n: n * 3 + 1, lambda n: np.array([f"é{k:03}" for k in n], object)])
def test_ids_and_what_was_seen_are_kept(suffix, names, sets, tmp_path):
    train, path = sets[0], tmp_path / f"model.{suffix}"
    model = ALS(4, device="cpu").fit((names(train.users), names(train.items), train.values), 1)
    model.save(path, seen=True)
    wanted, ratings = model.recommend(model.user_ids[:9], 5)
    for mmap in (False, True)[: 1 + (suffix == "safetensors")]:
        loaded = ALS.load(path, device="cpu", mmap=mmap)
        assert isinstance(loaded.user_factors, np.memmap) == mmap
        found, same = loaded.recommend(model.user_ids[:9], 5)
        assert np.array_equal(found, wanted) and np.array_equal(same, ratings)
        assert loaded.ids and np.array_equal(loaded.item_ids, model.item_ids)
    model.save(path)
    with pytest.raises(ValueError, match="seen=True"):
        ALS.load(path, device="cpu").recommend(model.user_ids[0])
    with pytest.raises(ValueError, match="not known"):
        ALS.load(path, device="cpu").save(path, seen=True)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("user_ids", lambda a: a[:-1]),
        ("user_ids", lambda a: a.astype(np.int32)),
        ("item_ids_offsets", lambda a: a[::-1]),
        ("item_ids_text", lambda a: a[:-1]),
        ("item_ids_text", lambda a: a | 0x80),
        ("seen_indices", lambda a: a + 1000),
        ("seen_indices", lambda a: a[::-1].copy()),
        ("seen_indptr", lambda a: a[1:]),
    ],
)
def test_hostile_ids_are_refused(name, change, sets, tmp_path):
    train, path = sets[0], tmp_path / "model.npz"
    text = np.array([f"i{k:03}" for k in train.items], object)
    ALS(2, device="cpu").fit((train.users * 2 + 1, text, train.values), 1).save(path, seen=True)
    arrays = contents(path)
    np.savez(path, **arrays | {name: change(arrays[name])})
    with pytest.raises(ValueError, match="damaged"):
        ALS.load(path, device="cpu")


def test_files_of_the_format_before_are_read(sets, tmp_path):
    path = tmp_path / "model.npz"
    model = ALS(2, device="cpu").fit(sets[0], 1)
    model.save(path)
    arrays = with_header(contents(path), format=4, ids="missing")
    np.savez(path, **arrays)
    assert np.array_equal(ALS.load(path, device="cpu").user_factors, model.user_factors)
    with pytest.raises(ValueError, match="safetensors"):
        ALS.load(path, device="cpu", mmap=True)
