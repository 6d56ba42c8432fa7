"""Models in files, the command line and the variables of `make`: what is refused, and that nothing is left of it."""

import io
import json
import pickle
import re
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD, Blend, ImplicitALS
from gpumf.command_line import main
from gpumf.ratings import Ratings
from refusals import contents, refused, table
from support import ROOT, outside_make

TRAIN = Ratings([0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 0], [1, 2, 3, 4, 5, 3], 3, 3)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a model in both formats, and a blend."""
    folder = tmp_path_factory.mktemp("saved")
    model = ALS(2, device="cpu").fit(TRAIN, 1)
    model.save(folder / "als.npz")
    Blend(model, weights=[1.0]).save(folder / "blend.npz")
    pytest.importorskip("safetensors")
    model.save(folder / "als.safetensors")
    return folder


def of_header(**changes):
    """A damage: other values in the header of an .npz file."""

    def damage(data):
        with np.load(io.BytesIO(data)) as file:
            arrays = dict(file)
        header = json.loads(str(arrays.pop("header")))
        arrays["header"] = json.dumps({name: value for name, value in (header | changes).items() if value != "gone"})
        made = io.BytesIO()
        np.savez(made, **arrays)
        return made.getvalue()

    return damage


def of_arrays(**changes):
    def damage(data):
        with np.load(io.BytesIO(data)) as file:
            arrays = dict(file) | changes
        made = io.BytesIO()
        np.savez(made, **{name: array for name, array in arrays.items() if array is not None})
        return made.getvalue()

    return damage


def a_zip(_):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("readme.txt", "no model")
    return made.getvalue()


def of_length(length):
    return lambda data: length.to_bytes(8, "little") + data[8:]


def swapped(old, new):
    return lambda data: data.replace(old, new)


# Which file, how it is damaged, by which class it is loaded, what it says.
DAMAGED = {
    "empty": ("als.npz", lambda data: b"", ALS, "als.npz is not a saved model"),
    "a word": ("als.npz", lambda data: b"model", ALS, "als.npz is not a saved model"),
    "half of it": ("als.npz", lambda data: data[: len(data) // 2], ALS, "als.npz is not a saved model"),
    "all but its end": ("als.npz", lambda data: data[:-1], ALS, "als.npz is not a saved model"),
    "another zip": ("als.npz", a_zip, ALS, "als.npz is not a saved model"),
    "a pickle": ("als.npz", lambda data: pickle.dumps({"header": 1}), ALS, "als.npz is not a saved model"),
    "pickles within": (
        "als.npz", of_arrays(user_factors=np.array([{}], object)), ALS, "als.npz is not a saved model.*has objects"),
    "a plain array": ("als.npz", lambda data: b"\x93NUMPY\1\0", ALS, "als.npz is not a saved model"),
    "a future format": ("als.npz", of_header(format=99), ALS, r"ALS \(format 99\), not a ALS \(format 5\)|format 99"),
    "no format": ("als.npz", of_header(format="gone"), ALS, "format None"),
    "another class": ("als.npz", lambda data: data, SGD, "als.npz holds a ALS .*, not a SGD"),
    "a model for a blend": ("als.npz", lambda data: data, Blend, "als.npz holds a ALS .*, not a Blend"),
    "a blend for a model": (
        "blend.npz", lambda data: data, ImplicitALS, "blend.npz holds a Blend .*, not a Implicit"),
    "other parameters": ("als.npz", of_header(parameters={"depth": 3}), ALS, "als.npz is damaged.*depth"),
    "no parameters": ("als.npz", of_header(parameters="gone"), ALS, "als.npz is damaged.*parameters"),
    "parameters out of range": ("als.npz", of_header(parameters={"factors": 0}), ALS, "damaged.*factors must be"),
    "a mean of a word": ("als.npz", of_header(mean="3"), ALS, "als.npz is damaged.*mean must be a number"),
    "a scale of one": ("als.npz", of_header(scale=[1]), ALS, "als.npz is damaged.*scale"),
    "a history of none": ("als.npz", of_header(history={}), ALS, "als.npz is damaged.*history"),
    "a history of lists": ("als.npz", of_header(history=[[1]]), ALS, "als.npz is damaged.*history"),
    "another epoch": ("als.npz", of_header(epoch=7), ALS, "als.npz is damaged.*epoch must be an integer"),
    "times of words": ("als.npz", of_header(times={"train": "long"}), ALS, "als.npz is damaged.*train must be"),
    "a list for a header": ("als.npz", of_arrays(header=json.dumps([1])), ALS, "als.npz is not a saved model"),
    "no factors": ("als.npz", of_arrays(item_factors=None), ALS, "als.npz is damaged.*item_factors"),
    "more arrays": ("als.npz", of_arrays(more=np.ones(3)), ALS, "als.npz is damaged.*more"),
    "nan": ("als.npz", of_arrays(item_factors=np.full((3, 4), np.nan, np.float32)), ALS, "damaged.*not finite"),
    "64 bits": ("als.npz", of_arrays(item_factors=np.ones((3, 4))), ALS, "als.npz is damaged.*float64"),
    "other shapes": ("als.npz", of_arrays(item_factors=np.ones((3, 5), np.float32)), ALS, "damaged.*item_factors"),
    "counts below 0": ("als.npz", of_arrays(item_counts=np.int64([1, -1, 1])), ALS, "damaged.*negative counts"),
    "counts as floats": ("als.npz", of_arrays(item_counts=np.ones(3)), ALS, "als.npz is damaged.*item_counts"),
    "no counts": ("als.npz", of_arrays(item_counts=None), ALS, "als.npz is damaged.*item_counts"),
    "another byte order": ("als.npz", of_arrays(item_factors=np.ones((3, 4), ">f4")), ALS, "als.npz is damaged.*>f4"),
    "one dimension": ("als.npz", of_arrays(item_factors=np.ones(12, np.float32)), ALS, "damaged.*item_factors"),
    "no header": ("als.npz", of_arrays(header=None), ALS, "als.npz is not a saved model"),
    "no JSON": ("als.npz", of_arrays(header="{"), ALS, "als.npz is not a saved model"),
    "more factors": ("als.npz", of_header(parameters={"factors": 5}), ALS, "als.npz is damaged"),
    "no mean": ("als.npz", of_header(mean="gone"), ALS, "als.npz is damaged.*mean"),
    "no epoch": ("als.npz", of_header(epoch="gone"), ALS, "als.npz is damaged.*epoch"),
    "a ragged history": (
        "als.npz", of_header(history={"epoch": [0], "seconds": []}), ALS, "als.npz is damaged"),
    "counts of no dimension": ("als.npz", of_arrays(item_counts=np.int64(3)), ALS, "als.npz is damaged"),
    "a blend of words": ("blend.npz", of_header(models="als"), Blend, "blend.npz is damaged"),
    "a blend of none": ("blend.npz", of_header(models=[]), Blend, "blend.npz is damaged.*arrays of no model"),
    "a blend of others": ("blend.npz", of_header(models=[{"model": "os"}]), Blend, "blend.npz is damaged.*os"),
    "a blend's weights": ("blend.npz", of_header(weights=[2.0]), Blend, "blend.npz is damaged.*weights must be"),
    "tensors, empty": ("als.safetensors", lambda data: b"", ALS, "als.safetensors is not a saved model"),
    "tensors, half": ("als.safetensors", lambda data: data[: len(data) // 2], ALS, "als.safetensors is not a saved"),
    "tensors, length": ("als.safetensors", of_length(2**60), ALS, "als.safetensors is not a saved model"),
    "tensors, no length": ("als.safetensors", of_length(0), ALS, "als.safetensors is not a saved model"),
    "tensors, types": ("als.safetensors", swapped(b'"F32"', b'"F99"'), ALS, "als.safetensors is not a saved model"),
    "tensors, offsets": (
        "als.safetensors", swapped(b'offsets":[0,', b'offsets":[9,'), ALS, "als.safetensors is not a saved model"),
    "tensors, metadata": (
        "als.safetensors", swapped(b"__metadata__", b"__metadatb__"), ALS, "als.safetensors is not a saved model"),
    "tensors, another class": ("als.safetensors", lambda data: data, RBM, "holds a ALS .*, not a RBM"),
}  # fmt: skip


@table(DAMAGED)
def test_files_that_are_no_models(case, saved, tmp_path):
    name, damage, kind, words = case
    path = tmp_path / name
    path.write_bytes(damage((saved / name).read_bytes()))
    before = contents(tmp_path)
    refused(lambda: kind.load(path, device="cpu"), ValueError, words)
    if path.suffix == ".safetensors":
        refused(lambda: kind.load(path, device="cpu", mmap=True), ValueError, words)
    assert contents(tmp_path) == before


PLACES = {
    "load, missing": (lambda model, at: ALS.load(at / "none.npz"), FileNotFoundError, "none.npz"),
    "load, a folder": (lambda model, at: ALS.load(at), IsADirectoryError, "."),
    "load, tensors missing": (lambda model, at: ALS.load(at / "none.safetensors"), FileNotFoundError, "none.safet"),
    "load, a number": (lambda model, at: ALS.load(7), TypeError, "path must be a str or os.PathLike, not int"),
    "load, none": (lambda model, at: Blend.load(None), TypeError, "path must be a str or os.PathLike, not NoneType"),
    "load, device": (lambda model, at: ALS.load(at / "m.npz", "tpu"), ValueError, "device must be 'auto'.*'tpu'"),
    "load, mapped": (lambda model, at: ALS.load(at / "m.npz", mmap=True), ValueError, "save .* as a .safetensors"),
    "load, map": (lambda model, at: ALS.load(at / "m.npz", mmap="r"), ValueError, "mmap must be True or False"),
    "save, no folder": (
        lambda model, at: model.save(at / "no/m.npz"), FileNotFoundError, "no/m.npz.*No such|No such.*no/m.npz"),
    "save, below a file": (lambda model, at: model.save(at / "m.npz/m.npz"), OSError, "m.npz/m.npz"),
    "save, a folder": (lambda model, at: model.save(at / "folder"), OSError, "folder"),
    "save, tensors, no folder": (
        lambda model, at: model.save(at / "no/m.safetensors"), FileNotFoundError, "no/m.safe"),
    "save, where none may": (lambda model, at: model.save("/proc/m.npz"), OSError, "/proc/m.npz"),
    "save, a number": (lambda model, at: model.save(7), TypeError, "path must be a str or os.PathLike, not int"),
    "save, seen": (lambda model, at: model.save(at / "n.npz", seen="yes"), ValueError, "seen must be True or False"),
    "save, a blend": (
        lambda model, at: Blend(model, weights=[1]).save(at / "no/b.npz"), FileNotFoundError, "no/b.npz"),
    "save, unseen": (
        lambda model, at: ALS.load(at / "m.npz", "cpu").save(at / "n.npz", seen=True),
        ValueError, "training set is not"),
}  # fmt: skip


@table(PLACES)
def test_places_where_no_model_is_or_can_be(case, tmp_path):
    call, error, words = case
    model = ALS(2, device="cpu").fit(TRAIN, 0)
    model.save(tmp_path / "m.npz")
    (tmp_path / "folder").mkdir()
    before = contents(tmp_path)
    refused(lambda: call(model, tmp_path), error, words)
    assert contents(tmp_path) == before


# What `gpumf` is called with, beside a folder with ratings, and its sentence.
COMMANDS = {
    "a rate for implicit": (
        ["fit", "r.csv", "--model", "implicit", "--set", "alpha", "x", "-o", "m"], "alpha must be"),
    "an object as a value": (["fit", "r.csv", "--set", "biases", "{}", "-o", "m"], "biases must be 'damped'"),
    "a list as factors": (["fit", "r.csv", "--set", "factors", "[1]", "-o", "m"], "factors must be an integer"),
    "a schedule": (
        ["fit", "r.csv", "--model", "sgd", "--set", "schedule", '{"name": "x"}', "-o", "m"],
        "schedule must be one of"),
    "steps": (
        ["fit", "r.csv", "--model", "rbm", "--set", "gibbs_steps", "[[1, 2]]", "-o", "m"], "gibbs_steps must be"),
    "a damaged zip": (["fit", "broken.zip", "-o", "m"], "broken.zip"),
    "a damaged Parquet file": (["fit", "broken.parquet", "-o", "m"], "broken.parquet.*complete Parquet file"),
    "a folder with a damaged file": (["fit", ".", "-o", "m"], "broken.parquet.*complete Parquet file"),
    "a folder without ratings": (["fit", "empty", "-o", "m"], "is a folder without CSV"),
    "no address": (["fit", "http://127.0.0.1:9/r.csv", "-o", "m"], "http://127.0.0.1:9/r.csv cannot be read"),
    "a store that is not known": (["fit", "nowhere://r.csv", "-o", "m"], "nowhere://r.csv cannot be read"),
    "an unknown set": (["fit", "ml-7", "-o", "m"], "there is no file ml-7"),
    "an empty name": (["fit", "", "-o", "m"], "there is no file ''"),
    "a null in a name": (["fit", "a\0b", "-o", "m"], "there is no file"),
    "a share that leaves none": (["fit", "r.csv", "--test", "0.001", "-o", "m"], "leaves an empty set"),
    "a share nan": (["fit", "r.csv", "--test", "nan", "-o", "m"], "test must lie between 0 and 1"),
    "a rate that diverges": (
        ["fit", "r.csv", "--model", "sgd", "--set", "biases", "false", "--learning-rate", "1e30", "-o", "m"],
        "epoch 1 ended with .* not finite; lower learning_rate"),
    "a model of nothing": (["evaluate", "empty", "r.csv"], "empty holds no model"),
    "no file to evaluate": (["evaluate", "empty", "none.csv"], "empty holds no model"),
}  # fmt: skip


@table(COMMANDS)
def test_commands_that_cannot_be_done(case, tmp_path, monkeypatch, capsys):
    arguments, words = case
    (tmp_path / "r.csv").write_text("user,item,rating\na,x,1\na,y,2\nb,x,3\nb,z,4\nc,y,5\n")
    for name, data in (("broken.zip", b"PK\3\4"), ("broken.parquet", b"PAR1")):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("gpumf: ") and err.count("\n") == 1 and "Traceback" not in err
    assert re.search(words, err), err
    assert contents(tmp_path) == before


NO_SUCH = "/nowhere/python"
TARGETS = {
    "a notebook unsaid": (["notebook"], "Say which one, as in: make notebook NB=method"),
    "no such notebook": (["notebook", "NB=nothing"], "nothing"),
    "no such interpreter": (["experiment", f"PYTHON={NO_SUCH}"], f"There is no {NO_SUCH}, which PYTHON names"),
    "an interpreter that is a folder": (["packages", "PYTHON=/tmp"], "There is no /tmp, which PYTHON names"),
    "no such experiment": (["experiment", "NAME=nothing"], "nothing"),
    "an experiment unsaid": (["experiment"], "experiment|usage"),
    "no such profile": (["experiment", "NAME=als_netflix", "ARGS=--profile slow"], "slow"),
    "no such parameter": (["experiment", "NAME=als_netflix", "ARGS=colour=red"], "colour"),
    "a parameter without a value": (["experiment", "NAME=als_netflix", "ARGS=epochs"], "epochs"),
    "no such set": (["data", "ARGS=nothing"], "nothing"),
    "no such record": (["record", "NAME=nothing"], "nothing"),
    "no such factors": (["kernels", "ARGS=many"], "many"),
    "no such target": (["everything"], "No rule to make target"),
}


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@table(TARGETS)
def test_targets_that_cannot_be_made(case):
    arguments, words = case
    if not any(argument.startswith("PYTHON=") for argument in arguments):
        arguments = [*arguments, f"PYTHON={sys.executable}"]
    before = subprocess.run(["git", "status", "--short"], cwd=ROOT, capture_output=True, text=True).stdout
    done = subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, env=outside_make())
    said = [line for line in done.stderr.splitlines() if not line.startswith("make: ***") or "No rule" in line]
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert re.search(words, "\n".join(said)), done.stderr
    assert len(said) <= 4, done.stderr
    assert subprocess.run(["git", "status", "--short"], cwd=ROOT, capture_output=True, text=True).stdout == before
