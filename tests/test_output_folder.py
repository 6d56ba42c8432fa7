"""The folder of `gpumf fit`: what is in it stays, and readers meet one whole model."""

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import gpumf
from gpumf import ALS, search
from gpumf.command_line import main
from gpumf.models import replacing
from gpumf.models.times import Clock
from support import planted

RATINGS, _ = planted(30, 20, noise=0.1)
FIT = ["--factors", "2", "--epochs", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    """Two files of the same users, whose items have other names."""
    train = RATINGS
    folder = tmp_path_factory.mktemp("ratings")
    for start in "ab":
        rows = [f"u{u},{start}{i},{r:g}" for u, i, r in zip(train.users, train.items, train.values, strict=True)]
        (folder / f"{start}.csv").write_text("\n".join(["user,item,rating", *rows]))
    return {start: str(folder / f"{start}.csv") for start in "ab"}


def tree(folder):
    """Of all that is below a folder: mode and digest of the content, or where a link leads."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            os.readlink(path)
            if path.is_symlink()
            else hashlib.sha256(path.read_bytes()).hexdigest() * path.is_file()
            if path.is_file()
            else "",
        )
        for path in sorted(folder.rglob("*"))
    }


def model_of(ratings, folder):
    assert main(["fit", ratings["a"], *FIT, "-o", str(folder)]) == 0


FOREIGN = {
    "sources beside a model": lambda at: [(at / "source.py").write_text("x"), (at / ".git").mkdir()],
    "a hidden file": lambda at: (at / ".env").write_text("secret"),
    "a folder": lambda at: (at / "deep/er").mkdir(parents=True),
    "a link": lambda at: (at / "link").symlink_to(at.parent),
    "ratings of another program": lambda at: (at / "ratings.npz").write_bytes(b"PK"),
    "a model of another program": lambda at: np.savez(at / "model.npz", weights=np.arange(3)),
    "a model that is no archive": lambda at: (at / "model.npz").write_text("mine"),
    "a folder named as a model": lambda at: [(at / "model.npz").unlink(), (at / "model.npz").mkdir()],
    "a pipe named as a model": lambda at: [(at / "model.npz").unlink(), os.mkfifo(at / "model.npz")],
    "a device named as a model": lambda at: [(at / "model.npz").unlink(), (at / "model.npz").symlink_to("/dev/zero")],
    "a name like one of a killed save": lambda at: (at / ".model.npz.7.saving").write_text("mine"),
    "a save of another file": lambda at: (at / f".other.npz.{'0' * 16}.saving").write_text("mine"),
}


@pytest.mark.parametrize("with_model", [True, False])
@pytest.mark.parametrize("what", FOREIGN)
def test_a_folder_with_foreign_files_keeps_every_byte(what, with_model, ratings, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "m"
    model_of(ratings, folder)
    FOREIGN[what](folder)
    if not with_model and "model" not in os.path.splitext(what)[0]:
        (folder / "model.npz").unlink()
    before = tree(tmp_path)
    monkeypatch.setattr(ALS, "fit", lambda *_, **__: pytest.fail("it is refused before the training"))
    capsys.readouterr()
    for given in (str(folder), f"{folder}/", os.path.relpath(folder)):
        assert main(["fit", ratings["b"], *FIT, "-o", given]) == 1
        err = capsys.readouterr().err
        assert "which gpumf fit did not write" in err and err.count("\n") == 1
    assert tree(tmp_path) == before


def test_a_model_is_kept_beside_files_of_file_managers_and_loaded_by_its_folder(ratings, tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m/.DS_Store").write_text("theirs")
    model_of(ratings, tmp_path / "m")
    assert (tmp_path / "m/.DS_Store").read_text() == "theirs"
    by_folder, by_file = (gpumf.load(tmp_path / name, "cpu") for name in ("m", "m/model.npz"))
    assert np.array_equal(by_folder.user_factors, by_file.user_factors)
    with pytest.raises(OSError, match="no model can be read"):
        gpumf.load(tmp_path)


def test_ratings_that_0_2_0_kept_beside_the_model_stay(ratings, tmp_path):
    model_of(ratings, tmp_path / "m")
    arrays = "model", "users", "items", "values", "user_ids", "item_ids"
    np.savez(tmp_path / "m/ratings.npz", **dict.fromkeys(arrays, "als"))
    before = (tmp_path / "m/ratings.npz").read_bytes()
    assert main(["fit", ratings["b"], *FIT, "-o", str(tmp_path / "m")]) == 0
    assert gpumf.load(tmp_path / "m", "cpu").item_ids[0].startswith("b")
    assert (tmp_path / "m/ratings.npz").read_bytes() == before
    np.savez(tmp_path / "m/ratings.npz", **dict.fromkeys(arrays[1:], "als"))
    assert main(["fit", ratings["a"], *FIT, "-o", str(tmp_path / "m")]) == 1


def test_the_folder_of_the_ratings_is_refused(ratings, tmp_path, monkeypatch):
    shutil.copy(ratings["a"], tmp_path / "ratings.csv")
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    for output in (".", "", "../" + tmp_path.name, "ratings.csv", "ratings.csv/m"):
        assert main(["fit", "ratings.csv", *FIT, "-o", output]) == 1
    assert tree(tmp_path) == before


def test_a_link_to_a_folder_is_followed_and_stays(ratings, tmp_path, capsys):
    (tmp_path / "target").mkdir()
    (tmp_path / "m").symlink_to("target")
    (tmp_path / "nowhere").symlink_to("gone")
    for start in "ab":
        assert main(["fit", ratings[start], *FIT, "-o", str(tmp_path / "m")]) == 0
    assert os.readlink(tmp_path / "m") == "target" and os.listdir(tmp_path / "target") == ["model.npz"]
    assert gpumf.load(tmp_path / "target/model.npz", "cpu").item_ids[0].startswith("b")
    capsys.readouterr()
    assert main(["fit", ratings["a"], *FIT, "-o", str(tmp_path / "nowhere")]) == 1
    assert "exists and is no folder" in capsys.readouterr().err and os.readlink(tmp_path / "nowhere") == "gone"


def test_a_fit_that_fails_leaves_the_model_and_no_new_folders(ratings, tmp_path, monkeypatch, capsys):
    model_of(ratings, tmp_path / "m")
    before = tree(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    for folder in ("m", "deep/er"):
        assert main(["fit", ratings["b"], *FIT, "-o", str(tmp_path / folder)]) == 1
        assert "No space left" in capsys.readouterr().err
    with pytest.raises(OSError, match=r"No space left on device: '.*scores'"):
        search(ALS(device="cpu"), {"factors": [1]}, RATINGS, 1, folds=2, resume=tmp_path / "scores")
    assert tree(tmp_path) == before


def test_a_folder_that_cannot_be_written_is_told_before_training(ratings, tmp_path, monkeypatch, capsys):
    (tmp_path / "m").mkdir()
    monkeypatch.setattr(ALS, "fit", lambda *_, **__: pytest.fail("it is told before the training"))
    monkeypatch.setattr(replacing.os, "open", lambda *_: (_ for _ in ()).throw(OSError(13, "Permission denied")))
    for folder in ("m", "deep/er"):
        assert main(["fit", ratings["a"], *FIT, "-o", str(tmp_path / folder)]) == 1
        assert capsys.readouterr().err == f"gpumf: {tmp_path / folder}/model.npz: Permission denied\n"
    assert os.listdir(tmp_path) == ["m"]


def interrupted_in(monkeypatch, epoch):
    def interrupt(self, solver, number, rows):
        if number == epoch:
            raise KeyboardInterrupt
        solver.epoch(number)

    monkeypatch.setattr(ALS, "_epoch", interrupt)


TEN = ["--factors", "2", "--epochs", "10", "--device", "cpu", "--json"]


def test_an_interrupted_fit_keeps_the_epochs_done(ratings, tmp_path, monkeypatch, capsys):
    interrupted_in(monkeypatch, 3)
    folder = tmp_path / "deep/m"
    assert main(["fit", ratings["a"], *TEN, "-o", str(folder)]) == 130
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"gpumf: interrupted after epoch 3; {folder} has that model\n")
    assert os.listdir(folder) == ["model.npz"]
    model = gpumf.load(folder, "cpu")
    assert model.epoch == 3 and len(model.recommend("u3", k=3)[0]) <= 3
    before = tree(tmp_path)
    assert main(["fit", ratings["b"], *TEN, "-o", str(folder)]) == 130
    assert capsys.readouterr().err == f"gpumf: interrupted after epoch 3; {folder} keeps its older model\n"
    assert tree(tmp_path) == before


def test_a_fit_that_is_interrupted_in_its_first_epoch_leaves_nothing(ratings, tmp_path, monkeypatch, capsys):
    interrupted_in(monkeypatch, 0)
    assert main(["fit", ratings["a"], *TEN, "-o", str(tmp_path / "deep/m")]) == 130
    assert capsys.readouterr().err == "gpumf: interrupted\n" and os.listdir(tmp_path) == []


@pytest.fixture
def interrupting(monkeypatch):
    """Have a function of a module, or of a class, be interrupted when it begins, and do its work, or raise, then."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(owner, name, failing=None):
        work = getattr(owner, name)

        def interrupted(*given):
            signal.raise_signal(signal.SIGINT)
            if failing:
                raise failing
            return work(*given)

        monkeypatch.setattr(owner, name, interrupted)

    yield interrupt
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("first", [2, None])
@pytest.mark.parametrize("when", [(os, "fsync"), (Clock, "stop")])
def test_an_interrupt_waits_for_a_whole_model(ratings, tmp_path, monkeypatch, interrupting, capsys, first, when):
    if first is not None:
        interrupted_in(monkeypatch, first)
    interrupting(*when)
    assert main(["fit", ratings["a"], *TEN, "-o", str(tmp_path / "m")]) == 130
    epoch, folder = first or 10, tmp_path / "m"
    in_the_end = first is None and when[0] is os
    said = f"the last epoch; {folder} has the model" if in_the_end else f"epoch {epoch}; {folder} has that model"
    assert capsys.readouterr().err == f"gpumf: interrupted after {said}\n"
    assert os.listdir(folder) == ["model.npz"] and gpumf.load(folder, "cpu").epoch == epoch


def test_a_model_that_cannot_be_saved_is_told_in_any_case(ratings, tmp_path, monkeypatch, interrupting, capsys):
    interrupted_in(monkeypatch, 2)
    interrupting(os, "fsync", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert main(["fit", ratings["a"], *TEN, "-o", str(tmp_path / "m")]) == 1
    assert "No space left on device" in capsys.readouterr().err and os.listdir(tmp_path) == []


def test_others_see_nothing_of_a_new_folder(ratings, tmp_path):
    before = os.umask(0o022)
    try:
        model_of(ratings, tmp_path / "m")
        assert (tmp_path / "m").stat().st_mode & 0o777 == 0o700
        (tmp_path / "m").chmod(0o750)
        (tmp_path / "m/model.npz").chmod(0o640)
        model_of(ratings, tmp_path / "m")
    finally:
        os.umask(before)
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o750, "what the user chose stays"
    assert (tmp_path / "m/model.npz").stat().st_mode & 0o777 == 0o640


def test_readers_never_fail_and_meet_one_fit(ratings, tmp_path):
    folder = tmp_path / "m"
    model_of(ratings, folder)
    refits = 30
    code = (
        "import sys, gpumf.command_line as c\n"
        "for k in range(int(sys.argv[1])):\n"
        "    files = sys.argv[2:4]\n"
        f"    assert c.main(['fit', files[k % 2], *{FIT!r}, '-o', sys.argv[4]]) == 0\n"
    )
    refitting = subprocess.Popen(
        [sys.executable, "-c", code, str(refits), ratings["b"], ratings["a"], str(folder)], stdout=subprocess.DEVNULL
    )
    failures, met = [], set()

    def read():
        while refitting.poll() is None:
            try:
                model = gpumf.load(folder / "model.npz", "cpu")
                items, _ = model.recommend("u3", k=5)
                starts = {item[0] for item in (*items, *model.item_ids)}
                assert len(starts) == 1
                met.update(starts)
                assert main(["recommend", str(folder), "--user", "u3", "--device", "cpu"]) == 0
            except Exception as error:
                failures.append(repr(error))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert refitting.wait() == 0 and not failures and met == {"a", "b"}
    assert os.listdir(folder) == ["model.npz"]


KILLED = """
import os, signal, sys
from gpumf import ALS
from gpumf.models import replacing
model = ALS(2, device="cpu").fit((["a", "b"], ["x", "y"], [1, 2]), 1)
os.fsync = lambda _: (print("saving", flush=True), os.kill(os.getpid(), signal.{name}), sys.stdin.read())
model.save(sys.argv[1])
"""


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_what_a_killed_save_left_is_cleared_by_the_next(suffix, tmp_path):
    path, model = tmp_path / f"m.{suffix}", ALS(2, device="cpu").fit((["a", "b"], ["x", "y"], [1, 2]), 1)
    model.save(path)
    whole = path.read_bytes()
    code = KILLED.format(name="SIGKILL")
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code, str(path)], stdin=subprocess.DEVNULL, capture_output=True)
        assert done.returncode == -9 and path.read_bytes() == whole
    left = {entry.name for entry in tmp_path.iterdir()} - {path.name}
    assert all(replacing.leftover(name, path) for name in left)
    others = [f".m.{suffix}.7.saving", f".n.{suffix}.{'0' * 16}.saving", f"m.{suffix}.saving", f".m.{suffix}.99"]
    for name in others:
        (tmp_path / name).write_text("mine")
    (tmp_path / f".m.{suffix}.{'1' * 16}.saving").symlink_to(path)
    (tmp_path / f".m.{suffix}.{'2' * 16}.saving").mkdir()
    code = KILLED.format(name="SIGCONT")
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as saving:
        assert saving.stdout.readline() == b"saving\n"
        before = {entry.name for entry in tmp_path.iterdir()}
        model.save(path)
        assert {entry.name for entry in tmp_path.iterdir()} == before, "the file that a process writes stays"
        saving.stdin.close()
    assert saving.returncode == 0
    kept = {path.name, *others} | {f".m.{suffix}.{digit * 16}.saving" for digit in "12"}
    assert {entry.name for entry in tmp_path.iterdir()} == kept
    assert gpumf.load(path, "cpu").user_ids.tolist() == ["a", "b"]


@pytest.mark.parametrize("letter", ["a", "\u00e9", "\u2603"])
def test_names_as_long_as_a_file_system_takes_are_saved_to(letter, tmp_path):
    model = ALS(2, device="cpu").fit((["a", "b"], ["x", "y"], [1, 2]), 1)
    size = len(letter.encode())
    for length in (230, 231, 240, 255):
        path = tmp_path / (letter * ((length - 4) // size) + "n" * ((length - 4) % size) + ".npz")
        left = tmp_path / f".{path.name.encode()[: 230 - 230 % size].decode()}.{'0' * 16}.saving"
        if length == 255:
            left.write_text("of a process that was killed")
            assert replacing.leftover(left.name, path)
        model.save(path)
        assert gpumf.load(path, "cpu").user_ids.tolist() == ["a", "b"] and not left.exists()
        assert len(os.fsencode(path.name)) == length and os.listdir(tmp_path) == [path.name]
        path.unlink()
    with pytest.raises(OSError, match="File name too long"):
        replacing.check_writable(tmp_path / ("n" * 256))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="files of another user need root")
def test_files_of_another_user_are_not_cleared(tmp_path):
    model = ALS(2, device="cpu").fit((["a", "b"], ["x", "y"], [1, 2]), 1)
    name = tmp_path / f".m.npz.{'0' * 16}.saving"
    name.write_text("theirs")
    os.chown(name, 12345, -1)
    model.save(tmp_path / "m.npz")
    assert name.read_text() == "theirs"


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_a_pipe_or_a_device_is_neither_waited_for_nor_replaced(suffix, tmp_path):
    model = ALS(2, device="cpu").fit((["a", "b"], ["x", "y"], [1, 2]), 1)
    os.mkfifo(tmp_path / f"pipe.{suffix}")
    (tmp_path / f"device.{suffix}").symlink_to("/dev/zero")
    before = tree(tmp_path)
    for name in ("pipe", "device"):
        path = tmp_path / f"{name}.{suffix}"
        for use in (
            lambda path=path: gpumf.load(path, "cpu"),
            lambda path=path: model.save(path),
            lambda path=path: search(model, {"factors": [1]}, model._training, 1, folds=2, resume=path),
        ):
            with pytest.raises(OSError, match="no regular file"):
                use()
    assert tree(tmp_path) == before


def test_both_formats_have_the_same_mode(tmp_path):
    model = ALS(2, device="cpu").fit((["a", "b"], ["x", "y"], [1, 2]), 1)
    for mask in (0o022, 0o077, 0o002):
        before = os.umask(mask)
        try:
            for suffix in ("npz", "safetensors"):
                model.save(tmp_path / f"{mask}.{suffix}")
        finally:
            os.umask(before)
        modes = {(tmp_path / f"{mask}.{suffix}").stat().st_mode & 0o777 for suffix in ("npz", "safetensors")}
        assert modes == {0o666 & ~mask}


def test_a_model_is_loaded_by_the_class_that_its_file_names(tmp_path):
    columns = ["a", "b", "c"], ["x", "y", "x"], [1, 2, 1]
    kinds = gpumf.ALS, gpumf.ImplicitALS, gpumf.SGD, gpumf.RBM
    for kind in kinds:
        model = kind(4, device="cpu").fit(columns, 1)
        for suffix in ("npz", "safetensors"):
            model.save(tmp_path / f"m.{suffix}")
            loaded = gpumf.load(tmp_path / f"m.{suffix}", "cpu", mmap=suffix == "safetensors")
            assert type(loaded) is kind and np.array_equal(loaded.predict("a", ["x"]), model.predict("a", ["x"]))
    gpumf.Blend(model, weights=[1.0]).save(tmp_path / "b.npz")
    assert type(gpumf.load(tmp_path / "b.npz", "cpu")) is gpumf.Blend
    arrays = dict(np.load(tmp_path / "b.npz"))
    header = json.loads(str(arrays["header"])) | {"model": "os"}
    np.savez(tmp_path / "c.npz", **arrays | {"header": json.dumps(header)})
    with pytest.raises(ValueError, match="there is no model 'os'; there are ALS"):
        gpumf.load(tmp_path / "c.npz")
