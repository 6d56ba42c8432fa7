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
    "a future format": ("als.npz", of_header(format=99), ALS, r"ALS \(format 99\).*; a newer gpumf wrote it"),
    "no format": ("als.npz", of_header(format="gone"), ALS, "format None"),
    "another class": ("als.npz", lambda data: data, SGD, "als.npz holds ALS .*, not SGD"),
    "a model for a blend": ("als.npz", lambda data: data, Blend, "als.npz holds ALS .*, not Blend"),
    "a blend for a model": (
        "blend.npz", lambda data: data, ImplicitALS, "blend.npz holds Blend .*, not Implicit"),
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
    "tensors, another class": ("als.safetensors", lambda data: data, RBM, "holds ALS .*, not RBM"),
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
    "load, a null": (lambda model, at: ALS.load(at / "a\0b.npz"), ValueError, "path must not have a NUL byte"),
    "save, a null": (lambda model, at: model.save(at / "a\0b.npz"), ValueError, "path must not have a NUL byte"),
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


# What `gpumf` is called with beside the files of `here`, and its sentence. `fit` writes to m, unless it says more.
FIT = {
    "no such file": ("nothing.csv", r"there is no file nothing\.csv"),
    "an unknown set": ("ml-7", "there is no file ml-7"),
    "an empty name": ("", "there is no file ''"),
    "a null in a name": ("a\0b", "path must not have a NUL byte"),
    "no address": ("http://127.0.0.1:9/r.csv", "http://127.0.0.1:9/r.csv cannot be read"),
    "a store that is not known": ("nowhere://r.csv", "nowhere://r.csv cannot be read"),
    "a file of another kind": ("text", ".*text"),
    "an empty file": ("nothing/empty", ".*empty"),
    "a damaged zip": ("broken.zip", ".*broken.zip"),
    "a damaged Parquet file": ("broken.parquet", ".*broken.parquet.*complete Parquet file"),
    "a folder with a damaged file": (".", ".*broken.parquet.*complete Parquet file"),
    "a folder without ratings": ("nothing", ".*is a folder without CSV"),
    "a column that is not there": ("r.csv --user-column who", ".*who"),
    "one column for two": ("r.csv --user-column item", ".*three columns"),
    "no factors": ("r.csv --factors 0", "factors must be an integer from 1"),
    "too many factors": ("r.csv --factors 9999999999", "factors must be an integer"),
    "a list as factors": ("r.csv --set factors [1]", "factors must be an integer"),
    "a negative lambda": ("r.csv --regularization -1", "regularization must be a number"),
    "lambda that is no number": ("r.csv --regularization nan", "regularization must be"),
    "a rate of ALS": ("r.csv --learning-rate 1", "als has no parameter learning_rate; it"),
    "another parameter": ("r.csv --set depth 3", "als has no parameter depth; it has"),
    "a solver that is not there": ("r.csv --set solver x", "ALS has no solver 'x'"),
    "a rate for implicit": ("r.csv --model implicit --set alpha x", "alpha must be"),
    "an object as a value": ("r.csv --set biases {}", "biases must be 'damped'"),
    "a schedule": ('r.csv --model sgd --set schedule {"name":"x"}', "schedule must be one of"),
    "steps": ("r.csv --model rbm --set gibbs_steps [[1,2]]", "gibbs_steps must be"),
    "epochs below 0": ("r.csv --epochs -1", "--epochs must be an integer from 1"),
    "no epochs": ("r.csv --epochs 0", "--epochs must be an integer from 1"),
    "a folder named as a file": ("r.csv -o new.npz", "--output is a folder, in which the model is model.npz"),
    "a share above 1": ("r.csv --test 2", "test must lie between 0 and 1"),
    "a share nan": ("r.csv --test nan", "test must lie between 0 and 1"),
    "a share that leaves none": ("r.csv --test 0.001", ".*leaves an empty set"),
    "a negative seed": ("r.csv --seed -1", "seed must be an integer from 0"),
    "another device": ("r.csv --device tpu", "device must be 'auto'"),
    "a folder of something else": ("r.csv -o nothing", ".*holds empty, which gpumf fit did not write"),
    "a file in the way": ("r.csv -o text/m", ".*text"),
    "a rate that diverges": (
        "r.csv --model sgd --set biases false --learning-rate 1e30", "epoch 1 ended with .* not finite"),
}  # fmt: skip
OTHERS = {
    "no model": ("recommend nowhere --user a", "nowhere holds no model; `gpumf fit"),
    "no such user": ("recommend model --user u99", "the model knows no user 'u99'; it knows 3"),
    "no items": ("recommend model --user a -k 0", "k must be an integer from 1"),
    "a model of no byte": ("recommend empty --user a", ".*empty/model.npz"),
    "a model that begins as one": ("recommend begun --user a", ".*begun/model.npz"),
    "half a model": ("recommend half --user a", ".*half/model.npz"),
    "a model of nothing": ("evaluate nothing r.csv", "nothing holds no model"),
    "no file to evaluate": ("evaluate nothing none.csv", "nothing holds no model"),
    "ratings of strangers": ("evaluate model strangers", ".*no rating of a user and an item"),
    "rankings of length 0": ("evaluate model r.csv -k 0", "k must be an integer from 1"),
    "no epochs to time": ("bench --epochs 0", "epochs must be an integer from 1"),
}
COMMANDS = {
    name: (f"fit {given}" if "-o" in given else f"fit {given} -o m", said) for name, (given, said) in FIT.items()
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with ratings, a model of them, and files that are neither."""
    folder = tmp_path_factory.mktemp("here")
    table = "user,item,rating\na,x,1\na,y,2\nb,x,3\nb,z,4\nc,y,5\n"
    files = {"r.csv": table, "text": "neither\nof these\n", "strangers": "user,item,rating\nA,b,1\nC,b,2\n"}
    files |= {"broken.zip": "PK\3\4", "broken.parquet": "PAR1", "nothing/empty": "", "empty/model.npz": ""}
    for name, text in (files | {"begun/model.npz": "PK\3\4", "half/model.npz": ""}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    assert main(["fit", str(folder / "r.csv"), "--factors", "2", "--device", "cpu", "-o", str(folder / "model")]) == 0
    whole = (folder / "model/model.npz").read_bytes()
    (folder / "half/model.npz").write_bytes(whole[: len(whole) // 2])
    return folder


@table(COMMANDS | OTHERS)
def test_commands_that_cannot_be_done(case, here, monkeypatch, capsys):
    given, words = case
    monkeypatch.chdir(here)
    before = contents(here)
    assert main(given.split(" ")) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("gpumf: ") and err.count("\n") == 1 and "Traceback" not in err
    assert re.match(f"gpumf: {words}", err), err
    assert contents(here) == before


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
