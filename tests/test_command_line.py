"""The command `gpumf`: what it prints, what it keeps, and what it says of what does not do."""

import csv
import io
import json
import os
import shlex
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import gpumf
from gpumf import ALS, RBM, SGD
from gpumf.command_line import bench, bench_kernel, main
from gpumf.ratings import Ratings, read_ratings
from support import planted


@pytest.fixture(scope="module")
def table():
    """Ratings of users and items with names, as files have them."""
    train, _ = planted(30, 20, noise=0.1)
    return pd.DataFrame(
        {"user": [f"u{u}" for u in train.users], "item": [f"i{i}" for i in train.items], "rating": train.values}
    )


@pytest.fixture(scope="module")
def ratings(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("ratings") / "ratings.csv"
    table.to_csv(path, index=False)
    return str(path)


@pytest.fixture(scope="module")
def model(ratings, tmp_path_factory):
    """The folder of a model that knows them."""
    folder = str(tmp_path_factory.mktemp("model") / "m")
    assert main(["fit", ratings, "--factors", "4", "--epochs", "3", "--device", "cpu", "-o", folder]) == 0
    return folder


@pytest.fixture
def said(capsys):
    """What a command prints, read if it is JSON; of one that is `refused`, the error."""

    def run(*words, refused=0):
        command = " ".join(map(str, words)).split()
        capsys.readouterr()
        assert main(command) == refused
        out, err = capsys.readouterr()
        assert not (out if refused else err if "--json" in command else "")
        if "--json" in command and not refused:
            one, *more = map(json.loads, out.splitlines())
            return [one, *more] if more else one
        return err if refused else out

    return run


@pytest.fixture
def fit(said, tmp_path):
    """Fit on the CPU; returns what it prints. The model goes to m, where nothing else is said."""
    return lambda *words: said("fit", *words, "--device cpu", *(() if "-o" in words else ("-o", tmp_path / "m")))


def test_a_fit_keeps_the_model_and_says_the_errors_on_what_it_held_back(ratings, fit, tmp_path):
    folder = tmp_path / "deep/m"
    command = ratings, "--factors 4 --test 0.2", "-o", folder
    found = fit(*command, "--json")
    assert found["model"] == "als" and found["users"] == 30 and 0 < found["test_rmse"] < 1
    assert ALS.load(folder / "model.npz", device="cpu").factors == 4
    assert "held back: RMSE" in fit(*command), "an older model is replaced"
    assert os.listdir(folder.parent) == ["m"]


@pytest.mark.parametrize("options", ["implicit", "sgd --learning-rate 0.01", "rbm --set levels 3", "bayesian"])
def test_every_model_recommends(options, table, fit, said, tmp_path):
    path = tmp_path / "whole.csv"
    table.assign(rating=table.rating.rank(pct=True).mul(2.99).astype(int) + 1).to_csv(path, index=False)
    fit(path, "--factors 4 --epochs 1 --model", options)
    assert len(said("recommend", tmp_path / "m", "--user u3 -k 2 --device cpu").splitlines()) == 2


def test_items_are_recommended_by_their_names_and_not_those_that_are_rated(model, table, said):
    found = said("recommend", model, "--user u3 -k 5 --json")["items"]
    rated = set(table.item[table.user == "u3"])
    assert found and not rated & {row["item"] for row in found}
    predicted = [row["rating"] for row in found]
    assert predicted == sorted(predicted, reverse=True)
    lines = said("recommend", model, "--user u3 -k 20 --seen").splitlines()
    assert rated < {line.split("\t")[0] for line in lines}


def test_what_a_fit_holds_back_teaches_the_model_nothing(table, fit, tmp_path):
    """With other ratings in the cells that are held back the model has the same bits, and other errors."""
    path, kept = tmp_path / "ratings.csv", []
    table.to_csv(path, index=False)
    ratings = read_ratings(path, "user", "item", "rating")
    _, test = ratings.split(0.2, 0)
    held = set(zip(ratings.user_ids[test.users], ratings.item_ids[test.items], strict=True))
    places = [pair in held for pair in zip(table.user, table.item, strict=True)]
    assert sum(places) == test.nnz
    for changed in (table, table.assign(rating=table.rating.where(~np.array(places), 10 - table.rating))):
        changed.to_csv(path, index=False)
        error = fit(path, "--factors 4 --test 0.2 --json")["test_rmse"]
        kept.append((*ALS.load(tmp_path / "m/model.npz", device="cpu")._learned, error))
    assert all(map(np.array_equal, kept[0][:-1], kept[1][:-1])) and kept[0][-1] != kept[1][-1]


def test_an_evaluation_is_that_of_the_api_without_ratings_of_the_training_set(model, table, said, tmp_path):
    path = tmp_path / "test.csv"
    unseen = pd.MultiIndex.from_product([sorted(set(table.user)), sorted(set(table.item))], names=["user", "item"])
    unseen = unseen.difference(pd.MultiIndex.from_frame(table[["user", "item"]]))[::3].to_frame(index=False)
    test = unseen.assign(rating=3.0)
    pd.concat([table.sample(60, random_state=1), test]).to_csv(path, index=False)
    found = said("evaluate", model, path, "-k 3 --json")
    assert found["in_training"] == 60 and found["ratings"] == 60 + len(test)
    assert "60 ratings are in the training set: errors and rankings leave them out" in said("evaluate", model, path)
    loaded = ALS.load(model + "/model.npz", device="cpu")
    error = loaded.predict(test.user.to_numpy(), test.item.to_numpy()) - test.rating.to_numpy()
    assert found["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-5)
    assert found["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)
    precision = []
    for user, liked in test.groupby("user").item:
        items, _ = loaded.recommend(user, k=3, seen=table)
        assert not set(items) & set(table.item[table.user == user])
        precision.append(np.isin(items, list(liked)).sum() / 3)
    assert found["precision@3"] == pytest.approx(np.mean(precision))


def test_an_evaluation_counts_what_the_model_does_not_know(model, table, said, tmp_path):
    strangers = pd.DataFrame({"user": ["new", "u1"], "item": ["i1", "other"], "rating": [1, 2]})
    path = tmp_path / "test.csv"
    pd.concat([table.head(50), strangers]).rename(columns={"user": "who"}).sample(frac=1, random_state=0).to_csv(path)
    command = "evaluate", model, path, "--user-column who -k 3"
    found = said(*command, "--json")
    assert found["ratings"] == found["in_training"] == 50 and found["unknown"] == 2 and found["rmse"] < 0.5
    assert not [name for name in found if "@" in name], "lists leave out what the model was trained on"
    assert "no rankings: all 50 ratings are in the training set" in said(*command)


def test_this_machine_is_shown_beside_the_recorded_one(said, monkeypatch):
    reference = bench.reference()
    recorded = (
        ("ALS", "sequential", "cpu", 0.002),
        ("SGD", "ordered", "cpu", 0.004),
        ("ALS", "tensor_core", "cuda", 0.001),
    )
    reference["seconds"] = [
        dict(zip(("model", "solver", "device", "recorded"), row, strict=True)) for row in recorded
    ]
    monkeypatch.setattr(bench, "reference", lambda: reference)
    monkeypatch.setattr(bench.backends, "available", lambda: False)
    found = said("bench --epochs 2 --json")
    assert found["data"] == "ml-100k-synthetic" and found["recorded"] == reference["where"]
    *on_cpu, on_gpu = found["seconds_per_epoch"]
    for row, (*_, seconds) in zip(on_cpu, recorded[:2], strict=True):
        assert row["here"] > 0 and np.isclose(row["here_over_recorded"], row["here"] / seconds)
    assert on_gpu["here"] is on_gpu["here_over_recorded"] is None
    shown = said("bench --epochs 1")
    assert "tensor_core" in shown and reference["where"] in shown


KERNEL_FILES = {
    "sgd/fast": {"fast"},
    "sgd/cu2rec": {"cu2rec"},
    "sgd/kato_hosino.cu": {"kato_hosino"},
    "als/wmma_simple": {"wmma_simple"},
    "als/warpgroups": {"warpgroups"},
    "als/cumf/cg": {"cumf_cg", "cumf_cg_fp16"},
    "rbm/thesis": {"thesis"},
}


@pytest.mark.emulator
@pytest.mark.parametrize("kernel", KERNEL_FILES)
def test_a_kernel_file_is_checked(host, said, monkeypatch, kernel):
    monkeypatch.setattr(bench_kernel.backends, "available", lambda: False)
    found = said("bench-kernel", kernel, "--factors 5 --json")["solvers"]
    assert {row["solver"] for row in found} == KERNEL_FILES[kernel]
    assert all(0 < row["error"] < 0.01 and row["ms_per_epoch"] is None for row in found)


@pytest.mark.emulator
def test_a_kernel_file_that_is_wrong_or_unknown_is_refused(host, said, monkeypatch):
    monkeypatch.setattr(bench_kernel.backends, "available", lambda: False)
    replayed = bench_kernel.reference.als_update
    for wrong in (1.03, np.nan):
        monkeypatch.setattr(bench_kernel.reference, "als_update", lambda *given, by=wrong: by * replayed(*given))
        assert "wmma_simple: off by" in said("bench-kernel als/wmma_simple --factors 5", refused=1)
    assert "no solver launches als/none.cu; choose from" in said("bench-kernel als/none", refused=1)


@pytest.mark.emulator
@pytest.mark.parametrize(("model", "solver"), [(ALS, "thesis_shared"), (SGD, "fast"), (RBM, "fast")])
def test_epochs_of_a_kernel_file_are_timed(host, monkeypatch, model, solver):
    small = Ratings(np.arange(60) // 6, np.arange(60) % 6, np.arange(60) % 5 + 1, 10, 6, scale=(1, 5))
    monkeypatch.setattr(bench_kernel, "load_dataset", lambda name: small)
    assert bench_kernel._milliseconds(model, solver, 3, "emulator") > 0


def test_recorded_seconds_are_positive():
    assert min(row["recorded"] for row in bench.reference()["seconds"]) > 0


def test_seconds_per_epoch_are_those_of_the_history(monkeypatch):
    class Fitted:
        def __init__(self, factors, **options):
            assert (factors, options) == (16, {"biases": False, "solver": "ordered", "regularization": 0.1})

        def fit(self, train, epochs):
            self.history = pd.DataFrame({"seconds": np.cumsum([0, 9, *[3] * (epochs - 1)])})  # the first is slow
            return self

    monkeypatch.setattr(bench, "_MODELS", {"SGD": Fitted})
    row = {"model": "SGD", "solver": "ordered"}
    assert bench._seconds(row, {"factors": 16, "parameters": {"SGD": {"regularization": 0.1}}}, None, 4) == 3


def test_info_says_what_there_is(said):
    found = said("info --json")
    assert found["gpumf"] == gpumf.__version__ and found["devices"]["cpu"] == "available"
    assert "device emulator:" in said("info")


@pytest.mark.parametrize("arguments", [[], ["train"], ["fit"], ["fit", "x"], ["recommend", "m"], ["info", "-x"]])
def test_a_call_that_it_does_not_know_shows_how(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2 and "usage: gpumf" in capsys.readouterr().err


def test_it_runs_as_a_module_and_with_its_version():
    done = subprocess.run([sys.executable, "-m", "gpumf", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"gpumf {gpumf.__version__}\n"


def test_an_interrupt_of_the_imports_ends_it_without_a_traceback():
    code = (
        "import runpy, sys\n"
        "class Interrupted:\n"
        "    def find_spec(name, *_):\n"
        "        if name == 'gpumf.command_line.bench': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted)\n"
        "sys.argv = ['gpumf', 'info']\n"
        "runpy.run_module('gpumf', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_command_starts_without_pandas():
    code = "import gpumf.command_line, sys; print('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of another kind")
def test_closed_streams_cost_no_work_and_no_answer(table, tmp_path):
    table.to_csv(tmp_path / "r.csv", index=False)

    def run(words):
        command = f"{shlex.quote(sys.executable)} -m gpumf {words}"
        return subprocess.run(command, shell=True, capture_output=True, text=True, cwd=tmp_path)

    for folder, closed in (("a", "2>&-"), ("b", ">&-")):
        done = run(f"fit r.csv -o {folder} --factors 2 --epochs 2 {closed}")
        assert done.returncode == 0 and "Traceback" not in done.stderr and (tmp_path / folder / "model.npz").is_file()
    for command in ("recommend a --all-users", "similar a --item i4 --json", "evaluate a r.csv"):
        done = run(f"{command} >&-")
        assert done.returncode == 1 and done.stderr == "gpumf: standard output is closed; redirect it to a file\n"
    done = run("fit - -o c <&-")
    assert done.returncode == 1 and done.stderr == "gpumf: standard input is closed; give a file\n"


def test_an_encoding_that_lacks_an_id_is_told_with_what_to_do(table, tmp_path):
    table.assign(user="ü" + table.user.astype(str)).to_csv(tmp_path / "r.csv", index=False)
    gpumf = [sys.executable, "-m", "gpumf"]
    subprocess.run(
        [*gpumf, "fit", "r.csv", "-o", "m", "--epochs", "2"], cwd=tmp_path, check=True, capture_output=True
    )
    words, old = [*gpumf, "recommend", "m", "--all-users"], {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    of_utf8 = {name: os.environ | old | {"PYTHONUTF8": name} for name in ("0", "1")}
    done = {name: subprocess.run(words, cwd=tmp_path, capture_output=True, env=of_utf8[name]) for name in of_utf8}
    assert done["1"].returncode == 0 and "ü".encode() in done["1"].stdout
    told = done["0"].stderr.decode()
    assert done["0"].returncode == 1 and "has no '\\xfc'; set PYTHONUTF8=1" in told


def test_lists_of_all_users_are_csv(model, table, said):
    lists = "recommend", model, "-k 3 --device cpu"
    found = pd.read_csv(io.StringIO(said(*lists, "--all-users")))
    assert list(found) == ["user", "item", "rank", "rating"]
    assert set(found.user) == set(table.user) and found.groupby("user").size().max() == 3
    assert not set(zip(found.user, found.item, strict=True)) & set(zip(table.user, table.item, strict=True))
    assert found.rating.between(table.rating.min(), table.rating.max()).all()
    one = said(*lists, "--user u3 --json")
    assert [row["item"] for row in one["items"]] == found[found.user == "u3"].item.tolist()
    assert one in said(*lists, "--all-users --json")


def test_a_new_user_gets_lists_of_pairs_and_of_files(model, said, tmp_path):
    (tmp_path / "named.csv").write_text("item,rating\ni1,5\ni2,1\ni3,4\n")
    (tmp_path / "plain.csv").write_text("i1,5\ni2,1\ni3,4")
    of = "recommend", model, "--device cpu --new-user"
    first, *others = [
        said(*of, given, "-k 4 --json")["items"]
        for given in ("i1=5 i2=1 i3=4", tmp_path / "named.csv", tmp_path / "plain.csv")
    ]
    assert others == [first, first] and len(first) == 4
    assert not {"i1", "i2", "i3"} & {row["item"] for row in first}
    wrongs = {
        "i1=high": "ITEM=RATING",
        "i99=3": "no item 'i99'",
        "i1=1 i1=2": "twice",
        "none.csv": "there is no file 'none.csv'",
    }
    for wrong, words in wrongs.items():
        assert words in said(*of, wrong, refused=1)


def test_ids_may_begin_with_a_dash(table, fit, said, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # of the help
    table.assign(user="-" + table.user, item="-" + table.item).to_csv(tmp_path / "dashes.csv", index=False)
    fit(tmp_path / "dashes.csv", "--factors 2 --epochs 2")
    of = tmp_path / "m", "--device cpu -k 3 --json"
    assert said("recommend", *of, "--user=-u1")["user"] == "-u1"
    assert said("similar", *of, "--item=-i1")["item"] == "-i1"
    both = said("recommend", *of, "--new-user=-i1=5 --new-user=-i2=4")["items"]
    (tmp_path / "new.csv").write_text("-i1,5\n-i2,4\n")
    assert both == said("recommend", *of, "--new-user", tmp_path / "new.csv")["items"]
    for command, flags in (("recommend", ("--user=ID", "--new-user=ITEM=RATING")), ("similar", ("--item=ID",))):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert set(flags) <= set(capsys.readouterr().out.split())


def test_items_without_ratings_are_for_implicit_feedback(model, ratings, fit, said, tmp_path):
    (tmp_path / "items.csv").write_text("item\ni1\ni2\n")
    (tmp_path / "none.csv").write_text("")
    for given in ("i1 i2", "i1", "i1=5 i2", tmp_path / "items.csv"):
        err = said("recommend", model, "--device cpu --new-user", given, refused=1)
        assert "has no rating, which ALS needs" in err and "implicit" in err
    fit(ratings, "--model implicit --factors 4 --epochs 2")
    of = "recommend", tmp_path / "m", "--device cpu -k 3 --json --new-user"
    wanted = said(*of, "i1=1 i2=1")
    assert said(*of, "i1 i2") == wanted == said(*of, tmp_path / "items.csv")
    assert "none.csv has no ratings" in said(*of, tmp_path / "none.csv", refused=1)


def test_an_item_and_a_file_of_one_name_are_told_apart(model, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "i1").write_text("")
    assert "'i1' is an item of the model and a file" in said("recommend", model, "--new-user i1", refused=1)
    assert len(said("recommend", model, "--device cpu --new-user i1=5 -k 2 --json")["items"]) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"i1;5\n", "line 1: no comma in 'i1;5'"),
        (b"item,rating\ni1,5\ni2,good\n", "line 3: 'good' is not a number"),
        (b"i1,\n", "line 1: '' is not a number"),
        (b"i1\n", "line 1: item 'i1' has no rating, which ALS needs"),
        (b"i1,5\ni2,5,i3,3\n", "line 2: 4 fields where at most 2 belong"),
        (b"item,rating,time\ni1,5,7\n", "line 1: 3 fields where at most 2 belong"),
        (b"", "has no ratings"),
        (b"\n\n", "has no ratings"),
        (b"item,rating\n", "has no ratings"),
        ("\u00e9,5".encode("latin-1"), "is not text in UTF-8"),
        (b'i1,5\n"' + b"x" * 200_000, "field larger than field limit"),
    ],
)
def test_a_file_of_a_new_user_that_is_wrong_is_named_with_its_form(model, said, tmp_path, content, words):
    (tmp_path / "new.csv").write_bytes(content)
    err = said("recommend", model, "--device cpu --new-user", tmp_path / "new.csv", refused=1)
    assert str(tmp_path / "new.csv") in err and words in err and "CSV in UTF-8, lines ITEM,RATING" in err


def test_implicit_feedback_is_evaluated_by_its_lists(table, fit, said, tmp_path):
    table.head(200).to_csv(tmp_path / "train.csv", index=False)
    fit(tmp_path / "train.csv", "--model implicit --factors 4 --epochs 2")
    table.to_csv(tmp_path / "all.csv", index=False)
    found = said("evaluate", tmp_path / "m", tmp_path / "all.csv", "--json")
    assert 0 < found["ndcg@10"] <= 1 and "rmse" not in found and "mae" not in found
    assert found["in_training"] == 200 < found["ratings"]


def test_files_of_models_and_blends_are_used_as_folders_are(table, model, said, tmp_path):
    parts = [ALS(4, device="cpu").fit(table, 2), SGD(4, device="cpu", learning_rate=0.01).fit(table, 2)]
    blend = gpumf.Blend(*parts, weights=[0.5, 0.5])
    blend.save(tmp_path / "blend.npz", seen=True)
    items, _ = blend.recommend("u3", k=3)
    found = said("recommend", tmp_path / "blend.npz", "--user u3 -k 3 --json --device cpu")["items"]
    assert [row["item"] for row in found] == items.tolist()
    assert said("recommend", f"{model}/model.npz", "--user u3") == said("recommend", model, "--user u3")
    table.to_csv(tmp_path / "r.csv", index=False)
    parts[0].save(tmp_path / "unseen.npz", seen=False)
    assert "kept without what users rated" in said("evaluate", tmp_path / "unseen.npz", tmp_path / "r.csv")
    assert "is not a saved model" in said("evaluate", tmp_path / "r.csv", tmp_path / "r.csv", refused=1)


def test_a_user_who_has_seen_everything_is_told_so(table, fit, model, said, capsys, tmp_path):
    items = sorted(set(table.item))
    whole = pd.DataFrame({"user": "u0", "item": items, "rating": 3.0})
    pd.concat([table[table.user != "u0"], whole]).to_csv(tmp_path / "r.csv", index=False)
    fit(tmp_path / "r.csv", "--factors 4 --epochs 1")
    for folder, whom, name in (
        (tmp_path / "m", ["--user", "u0"], "user 'u0'"),
        (model, ["--new-user", *(f"{item}=3" for item in items)], "the new user"),
    ):
        capsys.readouterr()
        assert main(["recommend", str(folder), "--device", "cpu", *whom]) == 0
        out, err = capsys.readouterr()
        assert not out and f"{name} has rated all items" in err and "--seen" in err
        assert said("recommend", folder, "--device cpu --json", *whom)["items"] == []
        assert len(said("recommend", folder, "--device cpu --seen -k 3", *whom).splitlines()) == 3


def test_implicit_feedback_that_is_held_back_judges_lists(ratings, fit, tmp_path):
    command = ratings, "--model implicit --factors 4 --epochs 2 --test 0.2"
    found = fit(*command, "--json")
    assert 0 < found["test_ndcg@10"] <= 1 and "test_rmse" not in found
    assert f"held back: precision@10 {found['test_precision@10']:.4f}, recall@10" in fit(*command)


def test_errors_name_flags_and_not_arguments_of_python(fit, said, tmp_path):
    (tmp_path / "twice.csv").write_text("user,item,rating\na,x,1\na,x,2\nb,y,3\n")
    (tmp_path / "clicks.csv").write_text("user,item\na,x\nb,y\n")
    for name, flag in (("twice", "give --duplicates mean, last or sum"), ("clicks", "or --no-rating-column where")):
        err = said("fit", tmp_path / f"{name}.csv", "-o", tmp_path / "m", refused=1)
        assert flag in err and "rating=" not in err and "duplicates=" not in err


def test_the_first_line_of_a_file_without_a_header_is_a_rating(table, ratings, fit, said, tmp_path):
    path, swapped = tmp_path / "u.data", tmp_path / "swapped.data"
    table.assign(time=7).to_csv(path, sep="\t", header=False, index=False)
    table[["item", "user", "rating"]].to_csv(swapped, sep="\t", header=False, index=False)
    short = "--factors 4 --epochs 3 --json"
    assert "--no-header" in said("fit", path, "-o", tmp_path / "m", refused=1)
    wanted = fit(ratings, short)
    for given in ([path], [swapped, "--user-column 1 --item-column 0"]):
        found = fit(*given, "--no-header", short)
        assert found["ratings"] == wanted["ratings"] == len(table) and found["users"] == wanted["users"]
        assert said("evaluate", tmp_path / "m", ratings, "--device cpu --json")["unknown"] == 0
    assert said("evaluate", tmp_path / "m", path, "--no-header --device cpu --json")["ratings"] == len(table)
    err = said("fit", path, "--no-header --user-column who -o", tmp_path / "m", refused=1)
    assert "--user-column is a position from 0, not 'who'" in err
    err = said("fit", path, "--no-header --rating-column 9 -o", tmp_path / "m", refused=1)
    named = said("fit", ratings, "--no-header -o", tmp_path / "m", refused=1)
    assert "line 1:" in named and "leave out --no-header" in named
    assert "no column 9 among 4" in err and "leave --no-header out" in err and "header=" not in err


def test_values_have_the_spelling_of_python_or_json(ratings, fit, tmp_path):
    for value in ("False", "false"):
        fit(ratings, "--epochs 1 --set biases", value)
        assert ALS.load(tmp_path / "m/model.npz", device="cpu").biases is False


def test_an_empty_name_of_a_folder_is_refused(ratings, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["fit", ratings, "--epochs", "1", "-o", ""]) == 1
    assert "--output is empty" in capsys.readouterr().err and not os.listdir(tmp_path)


def test_ratings_of_one_user_can_be_evaluated(model, table, said, tmp_path):
    one = table[table.user == "u3"]
    one.to_csv(tmp_path / "one.csv", index=False)
    assert said("evaluate", model, tmp_path / "one.csv", "--device cpu --json")["ratings"] == len(one)
    assert "by one user" in said("fit", tmp_path / "one.csv", "-o", tmp_path / "m", refused=1)


def test_similar_items_and_users(model, said):
    for side, one in (("item", "i4"), ("user", "u4")):
        command = "similar", model, f"--{side} {one} -k 3 --device cpu"
        found = said(*command, "--json")[f"{side}s"]
        assert len(found) == 3 and one not in {row[side] for row in found}
        assert -1 <= found[-1]["cosine"] <= found[0]["cosine"] <= 1.001
        assert said(*command).startswith(f"{found[0][side]}\t")
    assert "no item 'none'" in said("similar", model, "--item none", refused=1)


def test_ids_that_are_integers_are_integers_in_json(table, fit, said, tmp_path):
    numbered = table.assign(**{side: table[side].str[1:].astype(int) for side in ("user", "item")})
    numbered.to_csv(tmp_path / "r.csv", index=False)
    fit(tmp_path / "r.csv", "--factors 2 --epochs 1")
    folder = tmp_path / "m"
    one, every = (said("recommend", folder, whom, "--json") for whom in ("--user 3", "--all-users"))
    assert one["user"] == 3 and one in every
    for side in ("user", "item"):
        assert said("similar", folder, f"--{side} 4 --json")[side] == 4


def test_without_ratings_nothing_of_them_is_kept(ratings, fit, said, tmp_path):
    command, folder = (ratings, "--factors 2 --epochs 1"), tmp_path / "m"
    assert "with the items that each user rated" in fit(*command)
    with np.load(folder / "model.npz") as file:
        assert "seen_indices" in file.files and not {"values", "ratings"} & set(file.files)
    assert "without the items that users rated" in fit(*command, "--no-ratings")
    with np.load(folder / "model.npz") as file:
        assert not [name for name in file.files if name.startswith("seen")]
    assert "add --seen" in said("recommend", folder, "--user u1", refused=1)
    assert said("recommend", folder, "--user u1 --seen") and said("recommend", folder, "--new-user i1=3")
    assert not [name for name in said("evaluate", folder, ratings, "--json") if "@" in name]


def test_clicks_need_no_ratings(table, fit, said, tmp_path):
    clicks, command = tmp_path / "clicks.csv", "--model implicit --factors 4"
    pd.concat([table, table.head(40)])[["user", "item"]].to_csv(clicks, index=False)
    assert "no column 'rating'" in said("fit", clicks, command, "-o", tmp_path / "m", refused=1)
    assert fit(clicks, command, "--no-rating-column --json")["ratings"] == len(table)
    assert said("recommend", tmp_path / "m", "--user u3")


def test_clicks_make_lists_unless_a_model_is_named(table, said, capsys, tmp_path):
    clicks = tmp_path / "clicks.csv"
    table[["user", "item"]].to_csv(clicks, index=False)
    command = "fit", clicks, "--no-rating-column --epochs 1 --device cpu -o", tmp_path / "m"
    assert said(*command, "--factors 4 --json")["model"] == "implicit"
    assert main(" ".join(map(str, (*command, "--factors", 4))).split()) == 0
    out, err = capsys.readouterr()
    assert out.startswith("ImplicitALS") and "the model is implicit" in err
    for name in ("als", "sgd", "rbm"):
        err = said(*command, "--model", name, refused=1)
        assert "all ratings are 1" in err and "--model implicit" in err


def test_ratings_make_predictions_unless_a_model_is_named(ratings, capsys, tmp_path):
    command = ["fit", str(ratings), "--factors", "2", "--epochs", "1", "-o", str(tmp_path / "m")]
    for options, notes in (([], 1), (["--model", "als"], 0), (["--json"], 0)):
        assert main([*command, *options]) == 0
        assert capsys.readouterr().err.count("--model implicit makes better recommendations") == notes


@pytest.mark.parametrize(
    "words", [["recommend", "m", "--user", "u1", "--user", "u2"], ["similar", "m", *["--item", "i"] * 2]]
)
def test_an_option_of_one_value_is_not_given_twice(capsys, words):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert "can be given once" in capsys.readouterr().err


def test_ratings_from_standard_input(ratings, fit, monkeypatch):
    with open(ratings, "rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read())))
    assert fit("- --epochs 1 --json")["users"] == 30


def test_predictions_are_shown_within_the_scale(fit, said, tmp_path):
    rng = np.random.default_rng(1)
    rows = [f"u{u},i{i},{rng.choice([1, 5])}" for u in range(30) for i in range(12) if rng.random() < 0.5]
    (tmp_path / "r.csv").write_text("\n".join(["user,item,rating", *rows]))
    fit(tmp_path / "r.csv", "--factors 4 --set regularization 0.001")
    loaded = gpumf.load(tmp_path / "m/model.npz", "cpu")
    loaded.clip = False
    _, ratings = loaded.recommend(np.arange(len(loaded.user_ids)), 9, seen=(), ids=False)
    assert np.nanmax(ratings) > 5, "or this test says nothing"
    shown = said("recommend", tmp_path / "m", "--all-users --seen -k 12")
    assert pd.read_csv(io.StringIO(shown)).rating.between(1, 5).all()


def test_ids_cannot_steer_a_terminal(fit, said, tmp_path, monkeypatch):
    evil, told, folder = "i\x1b]0;owned\x07\x1b[2J", "\\x1b]0;owned\\x07", tmp_path / "m"
    rows = [f"u{u},{evil if i == 0 else i},{(u + i) % 5}" for u in range(9) for i in range(9) if u != 3 or i]
    (tmp_path / "r.csv").write_text("\n".join(["user,item,rating", *rows]))
    fit(tmp_path / "r.csv", "--epochs 1")
    of_all = "recommend", folder, "--all-users -k 9"
    assert told in said("recommend", folder, "--user u3") and told in said("similar", folder, "--item 5")
    err = said("recommend", folder, "--user", evil, refused=1)
    assert "\x1b" not in err and "x1b" in err
    assert evil in {row["item"] for row in said("recommend", folder, "--user u3 --json")["items"]}
    assert evil in said(*of_all), "a file or a pipe has ids as they are"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out = said(*of_all)
    assert "\x1b" not in out and told in out


def test_help_leads_to_the_model_that_makes_lists(capsys):
    for command in ([], ["fit"]):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        said = capsys.readouterr().out
        assert "implicit" in said and "als" in said
    assert "which items each user rated" in " ".join(said.split())
    assert "gpumf.load(FOLDER)" in said


@pytest.mark.parametrize("command", ["fit ml-100k-synthetic -o", "evaluate {model} ml-100k-synthetic"])
def test_options_of_files_are_refused_with_the_name_of_a_data_set(model, said, tmp_path, command):
    first, _, last = command.format(model=model).rpartition(" ")
    command = first, last, *([tmp_path / "m"] if last == "-o" else [])
    for option in ("--no-header", "--user-column who", "--item-column 1", "--rating-column stars"):
        err = said(*command, option, refused=1)
        assert "ml-100k-synthetic is the name of a data set" in err and option.split()[0] in err


def test_a_data_set_is_read_without_its_ratings_or_with_one_of_a_pair(said, tmp_path, monkeypatch):
    command = "fit", "ml-100k-synthetic --model als --no-rating-column -o", tmp_path / "m"
    assert "all ratings are 1" in said(*command, refused=1)
    (tmp_path / "ml-100k").mkdir()
    (tmp_path / "ml-100k/u.data").write_text("1\t1\t5\t0\n2\t1\t5\t0\n1\t1\t3\t0\n")
    monkeypatch.setenv("GPUMF_DATA", str(tmp_path))
    command = "fit", "ml-100k -o", tmp_path / "m"
    assert "give --duplicates mean, last or sum" in said(*command, refused=1)
    assert "holds 2 of 943 users" in said(*command, "--duplicates last", refused=1)


@pytest.fixture(scope="module")
def odd(table, tmp_path_factory):
    """The folder of a model of which a user and an item have long ids, and the ids of two end with NUL alone."""
    others = {"u5": "u4\0", "i5": "i4\0", "u6": "u" * 2**20, "i6": "i" * 2**20}
    folder = tmp_path_factory.mktemp("odd")
    given = table.assign(**{side: table[side].replace(others) for side in ("user", "item")})
    given.to_parquet(folder / "odd.parquet")
    ALS(4, device="cpu").fit(read_ratings(folder / "odd.parquet"), 2, ids=True).save(folder / "model.npz", seen=True)
    return folder


def test_a_long_id_takes_no_more_memory_than_it_has(odd, said):
    commands = (
        "recommend {} --user u3", "recommend {} --new-user i1=5", "similar {} --item i1", "similar {} --user u1",
        "evaluate {} {}/odd.parquet",
    )  # fmt: skip
    for command in commands:
        tracemalloc.start()
        try:
            assert said(command.format(odd, odd))
            assert tracemalloc.get_traced_memory()[1] < 50 << 20, command
        finally:
            tracemalloc.stop()


def test_ids_that_end_with_nul_are_others(table, odd, said):
    assert said("evaluate", odd, odd / "odd.parquet", "--json")["unknown"] == 0
    plain, nul = (said("recommend", odd, "--json --seen --user", user)["items"] for user in ("u4", "u4\0"))
    assert plain != nul
    assert "no user 'u1\\x00'" in said("recommend", odd, "--user u1\0", refused=1)


@pytest.mark.parametrize(("args", "words"), [((), ""), (("Unable to allocate 9 GiB",), ": Unable to allocate 9 GiB")])
def test_a_memory_that_is_too_small_is_told_in_a_line(model, said, monkeypatch, args, words):
    def failing(*_, **__):
        raise MemoryError(*args)

    monkeypatch.setattr(ALS, "recommend", failing)
    assert said("recommend", model, "--user u3", refused=1) == f"gpumf: the memory is too small{words}\n"


def test_lists_of_all_users_quote_line_ends_in_ids(table, said, tmp_path):
    ends = {"u1": "u\r1", "u2": "u\n2", "i1": "i\r\n1", "i2": 'i"2'}
    given = table.assign(user=table.user.replace(ends), item=table.item.replace(ends))
    ALS(4, device="cpu").fit(Ratings.from_pandas(given), 2, ids=True).save(tmp_path / "model.npz")
    found = list(csv.reader(io.StringIO(said("recommend", tmp_path, "--all-users --seen -k 20"), newline="")))
    assert all(len(row) == 4 for row in found)
    assert {row[0] for row in found[1:]} == set(given.user) and {row[1] for row in found[1:]} == set(given.item)
