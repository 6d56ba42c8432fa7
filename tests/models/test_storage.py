"""Models in files: what they hold, and files that are not whole or not theirs."""

import errno
import json
import sys

import numpy as np
import pandas as pd
import pytest

import gpumf
from gpumf import ALS, RBM, Blend, ImplicitALS
from gpumf.models import archive, replacing
from gpumf.models.tensors import open_tensors
from gpumf.models.times import Times


def contents(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def with_header(arrays, **changes):
    header = json.loads(str(arrays["header"])) | changes
    return arrays | {"header": json.dumps({k: v for k, v in header.items() if v != "missing"})}


def test_arrays_of_a_machine_have_its_shapes(sets, tmp_path):
    path = tmp_path / "model.npz"
    RBM(4, solver="sequential").fit(sets[0], 1).save(path)
    arrays = contents(path)
    for name, rows in (
        ("item_weights", np.s_[:, :2]),
        ("visible_biases", np.s_[:, :2]),
        ("hidden_biases", np.s_[:2]),
    ):
        np.savez(path, **arrays | {name: arrays[name][rows].copy()})
        with pytest.raises(ValueError, match="damaged"):
            RBM.load(path, device="cpu")


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_a_loaded_model_finds_defaults_of_its_own(suffix, sets, tmp_path):
    """What `fit` found for parameters that were left out is kept for new users, and not for the next training set."""
    train, path = sets[0], tmp_path / f"m.{suffix}"
    model = ImplicitALS(4, alpha=2.0, device="cpu").fit(train.split(0.5)[0], 1)
    model.save(path)
    loaded = gpumf.load(path, device="cpu")
    assert loaded.hyperparameters == model.hyperparameters and loaded._shares == model._shares
    assert {loaded.get_params()[name] for name in ("regularization", "unobserved_weight")} == {None}
    lists = [one.recommend(ratings={0: 3.0}, ids=False) for one in (loaded, model)]
    assert all(map(np.array_equal, *lists))
    assert np.array_equal(loaded.fit(train, 1).user_factors, model.fit(train, 1).user_factors)
    assert loaded.hyperparameters == model.hyperparameters


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_numbers_that_load_refuses_are_not_saved(suffix, sets, tmp_path):
    model, path = ALS(4, device="cpu").fit(sets[0], 1), tmp_path / f"m.{suffix}"
    model.save(path)
    before = path.read_bytes()
    model.item_factors[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"cannot be saved.*item_factors has numbers that are not finite"):
        model.save(path)
    assert path.read_bytes() == before and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("epoch", 10),
        ("user_ids", np.array(["a", "a", "b"], object)),
        ("history", pd.DataFrame({"seconds": [0.0], "epoch": [1], "rmse": [1.0], "mae": [1.0]})),
        ("times", Times(train=-1.0)),
    ],
)
def test_what_load_refuses_is_not_saved(name, wrong, tmp_path):
    model, path = ALS(2, device="cpu").fit((list("abc"), list("xyx"), [1, 2, 3]), 1), tmp_path / "m.npz"
    model.save(path)
    before = path.read_bytes()
    setattr(model, name, wrong)
    with pytest.raises(ValueError, match="the model cannot be saved, as it could not be loaded"):
        model.save(path)
    assert path.read_bytes() == before


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


def of_0_2_0(path):
    """Make a file what gpumf 0.2.0 would have written."""
    arrays = contents(path)
    header = json.loads(str(arrays["header"]))
    times = header["times"] | {"prepare": 0.5, "wall": 2.0}
    del times["preprocess"], times["end_to_end"], header["units"], header["arrays"]
    if header["model"] == "RBM":
        del header["parameters"]["biases"], arrays["level_values"], arrays["user_biases"], arrays["item_biases"]
    np.savez(path, **arrays | {"header": json.dumps(header | {"times": times})})


@pytest.mark.parametrize(
    "model", [ALS(2, biases=True, device="cpu"), RBM(4, biases=False, solver="sequential")], ids=["als", "rbm"]
)
def test_files_of_0_2_0_are_read(model, sets, tmp_path):
    path = tmp_path / "model.npz"
    model.fit(sets[0], 1).save(path)
    of_0_2_0(path)
    loaded = gpumf.load(path, device="cpu")
    assert np.array_equal(loaded.predict([0, 1], [2, 3]), model.predict([0, 1], [2, 3]))
    assert (loaded.times.preprocess, loaded.times.end_to_end) == (0.5, 2.0)
    assert loaded.get_params()["biases"] is model.biases
    loaded.save(path)
    again = gpumf.load(path, device="cpu")
    assert np.array_equal(again.fold_in(sets[1])._learned[0], loaded.fold_in(sets[1])._learned[0])


def test_a_wrong_device_is_no_damage_of_the_file(sets, tmp_path):
    path = tmp_path / "model.npz"
    model = ALS(2, device="cpu").fit(sets[0], 1)
    model.save(path)
    for load in (ALS.load, gpumf.load):
        with pytest.raises(ValueError, match=r"^device must be"):
            load(path, device="tpu")
    Blend(model, weights=[1]).save(path)
    with pytest.raises(ValueError, match=r"^device must be"):
        Blend.load(path, device="tpu")


@pytest.mark.parametrize("suffix", ["csv", "npz", "safetensors"])
def test_a_file_that_is_no_model_is_not_replaced(suffix, sets, tmp_path):
    path, model = tmp_path / f"mine.{suffix}", ALS(2, device="cpu").fit(sets[0], 1)
    np.savez(tmp_path / "arrays.npz", ratings=np.arange(4))
    path.write_bytes((tmp_path / "arrays.npz").read_bytes() if suffix == "npz" else b"user,item,rating\n1,2,3\n")
    before = path.read_bytes()
    for one in (model, Blend(model, weights=[1])):
        with pytest.raises(ValueError, match=f"mine.{suffix} holds something else than a model"):
            one.save(path)
    assert path.read_bytes() == before
    path.write_bytes(b"")
    model.save(path)
    Blend(model, weights=[1]).save(path)
    assert isinstance(gpumf.load(path, device="cpu"), Blend), "a model is replaced, by one of another class too"


def test_a_file_is_mapped_only_where_that_is_asked_for(sets, tmp_path, monkeypatch):
    path, model = tmp_path / "model.safetensors", ALS(2, device="cpu").fit(sets[0], 1)
    model.save(path)
    monkeypatch.setattr(np, "memmap", None)
    assert np.array_equal(ALS.load(path, device="cpu").item_factors, model.item_factors)
    with pytest.raises(ValueError, match="not a saved model"):
        ALS.load(path, device="cpu", mmap=True)
    with open_tensors(path) as (_, read):
        with open(path, "r+b") as other:
            other.truncate(path.stat().st_size - 8)
        with pytest.raises(ValueError, match="is cut short"):
            read()


def test_errors_name_what_the_user_named_and_not_a_file_beside_it(tmp_path):
    with pytest.raises(FileNotFoundError) as missing, replacing.replacing(tmp_path / "no/scores.json"):
        pass
    assert missing.value.filename == str(tmp_path / "no/scores.json")
    with pytest.raises(IsADirectoryError) as folder:
        replacing.open_file(tmp_path)
    assert folder.value.filename == str(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_that_lead_nowhere_are_refused_as_files_are(sets, tmp_path):
    model = ALS(2, device="cpu").fit(sets[0], 1)
    for name, target in (("loop", "loop"), ("there", "back"), ("back", "there")):
        (tmp_path / name).symlink_to(target)
    for name in ("loop", "there"):
        with pytest.raises(OSError, match="the model cannot be saved") as refused:
            model.save(tmp_path / name)
        assert refused.value.errno == errno.ELOOP and (tmp_path / name).is_symlink()


@pytest.mark.parametrize(("failures", "loads"), [(3, True), (1000, False)])
def test_python_may_fail_to_parse_while_other_threads_do(sets, tmp_path, monkeypatch, failures, loads):
    """As CPython 3.11 does: 'AST constructor recursion depth mismatch'."""
    path, read, left = tmp_path / "model.npz", archive.npy.read_array_header_1_0, [failures]
    model = ALS(4, device="cpu").fit(sets[0], 1)
    model.save(path)

    def fails_at_first(file):
        left[0] -= 1
        if left[0] >= 0:
            raise SystemError("AST constructor recursion depth mismatch (before=39, after=44)")
        return read(file)

    monkeypatch.setattr(archive.npy, "read_array_header_1_0", fails_at_first)
    if loads:
        assert np.array_equal(gpumf.load(path, device="cpu").user_factors, model.user_factors) and left[0] < 0
    else:
        with pytest.raises(ValueError, match="is not a saved model: SystemError"):
            gpumf.load(path, device="cpu")
