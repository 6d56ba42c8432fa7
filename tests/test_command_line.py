"""The command `gpumf`: what it prints, what it keeps, and what it says of what does not do."""

import io
import json
import os
import subprocess
import sys

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


def test_a_fit_keeps_the_model_and_says_the_errors_on_what_it_held_back(ratings, tmp_path, capsys):
    folder = tmp_path / "deep/m"
    command = ["fit", ratings, "--factors", "4", "--test", "0.2", "--device", "cpu", "-o", str(folder)]
    assert main([*command, "--json"]) == 0
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert err == "" and said["model"] == "als" and said["users"] == 30 and 0 < said["test_rmse"] < 1
    assert ALS.load(folder / "model.npz", device="cpu").factors == 4
    assert main(command) == 0, "an older model is replaced"
    assert "held back: RMSE" in capsys.readouterr().out and os.listdir(folder.parent) == ["m"]


@pytest.mark.parametrize(
    ("kind", "options"),
    [("implicit", []), ("sgd", ["--learning-rate", "0.01"]), ("rbm", ["--set", "levels", "3"])],
)
def test_every_model_recommends(kind, options, table, tmp_path, capsys):
    path = tmp_path / "whole.csv"
    table.assign(rating=table.rating.rank(pct=True).mul(2.99).astype(int) + 1).to_csv(path, index=False)
    command = ["fit", str(path), "--model", kind, "--factors", "4", "--epochs", "1", "--device", "cpu"]
    assert main([*command, *options, "-o", str(tmp_path / "m")]) == 0, capsys.readouterr().err
    assert main(["recommend", str(tmp_path / "m"), "--user", "u3", "-k", "2", "--device", "cpu"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_items_are_recommended_by_their_names_and_not_those_that_are_rated(model, table, capsys):
    assert main(["recommend", model, "--user", "u3", "-k", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["items"]
    rated = set(table.item[table.user == "u3"])
    assert found and not rated & {row["item"] for row in found}
    predicted = [row["rating"] for row in found]
    assert predicted == sorted(predicted, reverse=True)
    assert main(["recommend", model, "--user", "u3", "-k", "20", "--seen"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rated < {item for item, _ in lines}


def test_what_a_fit_holds_back_teaches_the_model_nothing(table, tmp_path, capsys):
    """With other ratings in the cells that are held back the model has the same bits, and other errors."""
    path, kept = tmp_path / "ratings.csv", []
    for mirrored in (False, True):
        table.to_csv(path, index=False)
        ratings = read_ratings(path, "user", "item", "rating")
        changed = table.copy()
        if mirrored:
            _, test = ratings.split(0.2, 0)
            held = set(zip(ratings.user_ids[test.users], ratings.item_ids[test.items], strict=True))
            places = [pair in held for pair in zip(table.user, table.item, strict=True)]
            assert sum(places) == test.nnz
            changed.loc[places, "rating"] = 10 - changed.rating[places]
        changed.to_csv(path, index=False)
        command = ["fit", str(path), "--factors", "4", "--test", "0.2", "--device", "cpu", "-o", str(tmp_path / "m")]
        assert main([*command, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        model = ALS.load(tmp_path / "m/model.npz", device="cpu")
        kept.append((model.user_factors, model.item_factors, said["test_rmse"]))
    assert all(map(np.array_equal, kept[0][:2], kept[1][:2])) and kept[0][2] != kept[1][2]


def test_an_evaluation_is_that_of_the_api_and_ranks_no_item_of_the_training_set(model, table, tmp_path, capsys):
    path = tmp_path / "test.csv"
    test = table.sample(60, random_state=1)
    unseen = [(u, i) for u in sorted(set(table.user)) for i in sorted(set(table.item))]
    unseen = sorted(set(unseen) - set(zip(table.user, table.item, strict=True)))[::3]
    test = pd.concat([test, pd.DataFrame(unseen, columns=["user", "item"]).assign(rating=3.0)])
    test.to_csv(path, index=False)
    assert main(["evaluate", model, str(path), "-k", "3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    loaded = ALS.load(model + "/model.npz", device="cpu")
    predicted = loaded.predict(test.user.to_numpy(), test.item.to_numpy())
    error = predicted - test.rating.to_numpy()
    assert said["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-5)
    assert said["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)
    precision = []
    for user, liked in test.groupby("user").item:
        items, _ = loaded.recommend(user, k=3, seen=table)
        assert not set(items) & set(table.item[table.user == user])
        precision.append(np.isin(items, list(liked)).sum() / 3)
    assert said["precision@3"] == pytest.approx(np.mean(precision))


def test_an_evaluation_counts_what_the_model_does_not_know(model, table, tmp_path, capsys):
    known = table.head(50)
    strangers = pd.DataFrame({"user": ["new", "u1"], "item": ["i1", "other"], "rating": [1, 2]})
    path = tmp_path / "test.csv"
    pd.concat([known, strangers]).rename(columns={"user": "who"}).sample(frac=1, random_state=0).to_csv(path)
    assert main(["evaluate", model, str(path), "--user-column", "who", "-k", "3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ratings"] == 50 and said["unknown"] == 2 and said["rmse"] < 0.5 and 0 <= said["ndcg@3"] <= 1


def test_this_machine_is_shown_beside_the_recorded_one(capsys, monkeypatch):
    reference = bench.reference()
    reference["seconds"] = [
        {"model": "ALS", "solver": "sequential", "device": "cpu", "recorded": 0.002},
        {"model": "SGD", "solver": "ordered", "device": "cpu", "recorded": 0.004},
        {"model": "ALS", "solver": "tensor_core", "device": "cuda", "recorded": 0.001},
    ]
    monkeypatch.setattr(bench, "reference", lambda: reference)
    monkeypatch.setattr(bench.backends, "available", lambda: False)
    assert main(["bench", "--epochs", "2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["data"] == "ml-100k-synthetic" and said["recorded"] == reference["where"]
    als, sgd, on_gpu = said["seconds_per_epoch"]
    for row, recorded in (als, 0.002), (sgd, 0.004):
        assert row["here"] > 0 and np.isclose(row["here_over_recorded"], row["here"] / recorded)
    assert on_gpu["here"] is on_gpu["here_over_recorded"] is None
    assert main(["bench", "--epochs", "1"]) == 0
    shown = capsys.readouterr().out
    assert "tensor_core" in shown and reference["where"] in shown


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("kernel", "solvers"),
    [
        ("sgd/fast", {"fast"}),
        ("sgd/cu2rec", {"cu2rec"}),
        ("sgd/kato_hosino.cu", {"kato_hosino"}),
        ("als/wmma_simple", {"wmma_simple"}),
        ("als/cumf/cg", {"cumf_cg", "cumf_cg_fp16"}),
        ("rbm/thesis", {"thesis"}),
    ],
)
def test_a_kernel_file_is_checked(host, capsys, monkeypatch, kernel, solvers):
    monkeypatch.setattr(bench_kernel.backends, "available", lambda: False)
    assert main(["bench-kernel", kernel, "--factors", "5", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {row["solver"] for row in said["solvers"]} == solvers
    assert all(0 < row["error"] < 0.01 and row["ms_per_epoch"] is None for row in said["solvers"])


@pytest.mark.emulator
def test_a_kernel_file_that_is_wrong_or_unknown_is_refused(host, capsys, monkeypatch):
    monkeypatch.setattr(bench_kernel.backends, "available", lambda: False)
    replayed = bench_kernel.reference.als_update
    for wrong in (lambda *given: 1.03 * replayed(*given), lambda *given: np.nan * replayed(*given)):
        monkeypatch.setattr(bench_kernel.reference, "als_update", wrong)
        assert main(["bench-kernel", "als/wmma_simple", "--factors", "5"]) == 1
        assert "wmma_simple: off by" in capsys.readouterr().err
    assert main(["bench-kernel", "als/none"]) == 1
    assert "no solver launches als/none.cu; choose from" in capsys.readouterr().err


@pytest.mark.emulator
@pytest.mark.parametrize(("model", "solver"), [(ALS, "thesis_shared"), (SGD, "fast"), (RBM, "fast")])
def test_epochs_of_a_kernel_file_are_timed(host, monkeypatch, model, solver):
    small = Ratings(np.arange(60) // 6, np.arange(60) % 6, np.arange(60) % 5 + 1, 10, 6, scale=(1, 5))
    monkeypatch.setattr(bench_kernel, "load_dataset", lambda name: small)
    assert bench_kernel._milliseconds(model, solver, 3, "emulator") > 0


def test_seconds_per_epoch_are_those_of_the_history(monkeypatch):
    class Fitted:
        def __init__(self, factors, **options):
            assert (factors, options) == (16, {"biases": False, "solver": "ordered", "regularization": 0.1})

        def fit(self, train, epochs):
            self.history = pd.DataFrame({"seconds": np.linspace(0, 3 * epochs, epochs + 1)})
            return self

    monkeypatch.setattr(bench, "_MODELS", {"SGD": Fitted})
    row = {"model": "SGD", "solver": "ordered"}
    assert bench._seconds(row, {"factors": 16, "parameters": {"SGD": {"regularization": 0.1}}}, None, 4) == 3


def test_info_says_what_there_is(capsys):
    assert main(["info", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["gpumf"] == gpumf.__version__ and said["devices"]["cpu"] == "available"
    assert main(["info"]) == 0
    assert "device emulator:" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["train"], ["fit"], ["fit", "x"], ["recommend", "m"], ["info", "-x"]])
def test_a_call_that_it_does_not_know_shows_how(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2 and "usage: gpumf" in capsys.readouterr().err


def test_it_runs_as_a_module_and_with_its_version():
    done = subprocess.run([sys.executable, "-m", "gpumf", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"gpumf {gpumf.__version__}\n"


def test_lists_of_all_users_are_csv(model, table, capsys):
    assert main(["recommend", model, "--all-users", "-k", "3", "--device", "cpu"]) == 0
    found = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert list(found) == ["user", "item", "rank", "rating"]
    assert set(found.user) == set(table.user) and found.groupby("user").size().max() == 3
    assert not set(zip(found.user, found.item, strict=True)) & set(zip(table.user, table.item, strict=True))
    assert found.rating.between(table.rating.min(), table.rating.max()).all()
    assert main(["recommend", model, "--user", "u3", "-k", "3", "--json", "--device", "cpu"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert [row["item"] for row in one["items"]] == found[found.user == "u3"].item.tolist()
    assert main(["recommend", model, "--all-users", "-k", "3", "--json", "--device", "cpu"]) == 0
    assert one in [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_new_user_gets_lists_of_pairs_and_of_files(model, table, tmp_path, capsys):
    pairs = ["i1=5", "i2=1", "i3=4"]
    said = []
    (tmp_path / "named.csv").write_text("item,rating\ni1,5\ni2,1\ni3,4\n")
    (tmp_path / "plain.csv").write_text("i1,5\ni2,1\ni3,4")
    for given in (pairs, [str(tmp_path / "named.csv")], [str(tmp_path / "plain.csv")]):
        assert main(["recommend", model, "--new-user", *given, "-k", "4", "--json", "--device", "cpu"]) == 0
        said.append(json.loads(capsys.readouterr().out)["items"])
    assert said[0] == said[1] == said[2] and len(said[0]) == 4
    assert not {"i1", "i2", "i3"} & {row["item"] for row in said[0]}
    for wrong, words in ((["i1=high"], "ITEM=RATING"), (["i99=3"], "no item 'i99'"), (["i1=1", "i1=2"], "twice")):
        assert main(["recommend", model, "--new-user", *wrong]) == 1
        assert words in capsys.readouterr().err


def test_similar_items_and_users(model, capsys):
    for side, one in (("item", "i4"), ("user", "u4")):
        assert main(["similar", model, f"--{side}", one, "-k", "3", "--json", "--device", "cpu"]) == 0
        found = json.loads(capsys.readouterr().out)[f"{side}s"]
        assert len(found) == 3 and one not in {row[side] for row in found}
        assert -1 <= found[-1]["cosine"] <= found[0]["cosine"] <= 1.001
        assert main(["similar", model, f"--{side}", one, "-k", "3", "--device", "cpu"]) == 0
        assert capsys.readouterr().out.startswith(f"{found[0][side]}\t")
    assert main(["similar", model, "--item", "none"]) == 1
    assert "no item 'none'" in capsys.readouterr().err


def test_without_ratings_nothing_of_them_is_kept(ratings, tmp_path, capsys):
    command = ["fit", ratings, "--factors", "2", "--epochs", "1", "--device", "cpu", "-o", str(tmp_path / "m")]
    assert main(command) == 0
    assert "with what each user rated, without the ratings" in capsys.readouterr().out
    with np.load(tmp_path / "m/model.npz") as file:
        assert "seen_indices" in file.files and not {"values", "ratings"} & set(file.files)
    assert main([*command, "--no-ratings"]) == 0
    assert "without what users rated" in capsys.readouterr().out
    with np.load(tmp_path / "m/model.npz") as file:
        assert not [name for name in file.files if name.startswith("seen")]
    assert main(["recommend", str(tmp_path / "m"), "--user", "u1"]) == 1
    assert "add --seen" in capsys.readouterr().err
    assert main(["recommend", str(tmp_path / "m"), "--user", "u1", "--seen"]) == 0
    assert main(["recommend", str(tmp_path / "m"), "--new-user", "i1=3"]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "m"), ratings, "--json"]) == 0
    assert not [name for name in json.loads(capsys.readouterr().out) if "@" in name]


def test_clicks_need_no_ratings(table, tmp_path, capsys):
    clicks = pd.concat([table, table.head(40)])[["user", "item"]]
    clicks.to_csv(tmp_path / "clicks.csv", index=False)
    command = ["fit", str(tmp_path / "clicks.csv"), "--model", "implicit", "--factors", "4", "--device", "cpu"]
    assert main([*command, "-o", str(tmp_path / "m")]) == 1
    assert "no column 'rating'" in capsys.readouterr().err
    assert main([*command, "--no-rating-column", "-o", str(tmp_path / "m"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ratings"] == len(table)
    assert main(["recommend", str(tmp_path / "m"), "--user", "u3"]) == 0


def test_ratings_from_standard_input(ratings, tmp_path, monkeypatch, capsys):
    with open(ratings, "rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read())))
    assert main(["fit", "-", "--epochs", "1", "--device", "cpu", "-o", str(tmp_path / "m"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["users"] == 30


def test_predictions_are_shown_within_the_scale(tmp_path, capsys):
    rng = np.random.default_rng(1)
    rows = [f"u{u},i{i},{rng.choice([1, 5])}" for u in range(30) for i in range(12) if rng.random() < 0.5]
    (tmp_path / "r.csv").write_text("\n".join(["user,item,rating", *rows]))
    command = [
        "fit",
        str(tmp_path / "r.csv"),
        "--factors",
        "4",
        "--device",
        "cpu",
        "--set",
        "regularization",
        "0.001",
    ]
    assert main([*command, "-o", str(tmp_path / "m")]) == 0
    loaded = gpumf.load(tmp_path / "m/model.npz", "cpu")
    loaded.clip = False
    _, ratings = loaded.recommend(np.arange(len(loaded.user_ids)), 9, seen=(), ids=False)
    assert np.nanmax(ratings) > 5, "or this test says nothing"
    capsys.readouterr()
    assert main(["recommend", str(tmp_path / "m"), "--all-users", "--seen", "-k", "12"]) == 0
    assert pd.read_csv(io.StringIO(capsys.readouterr().out)).rating.between(1, 5).all()


def test_ids_cannot_steer_a_terminal(tmp_path, capsys, monkeypatch):
    evil = "i\x1b]0;owned\x07\x1b[2J"
    rows = [f"u{u},{evil if i == 0 else i},{(u + i) % 5}" for u in range(9) for i in range(9) if u != 3 or i]
    (tmp_path / "r.csv").write_text("\n".join(["user,item,rating", *rows]))
    folder = str(tmp_path / "m")
    assert main(["fit", str(tmp_path / "r.csv"), "--epochs", "1", "--device", "cpu", "-o", folder]) == 0
    for command in (["recommend", folder, "--user", "u3"], ["similar", folder, "--item", "5"]):
        assert main(command) == 0
        assert "\\x1b]0;owned\\x07" in capsys.readouterr().out
    assert main(["recommend", folder, "--user", evil]) == 1
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err and "x1b" in err
    assert main(["recommend", folder, "--user", "u3", "--json"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and evil in {row["item"] for row in json.loads(out)["items"]}
    of_all = ["recommend", folder, "--all-users", "-k", "9"]
    assert main(of_all) == 0
    assert evil in capsys.readouterr().out, "a file or a pipe has ids as they are"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(of_all) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\\x1b]0;owned\\x07" in out


def test_help_leads_to_the_model_that_makes_lists(capsys):
    for command in ([], ["fit"]):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        said = capsys.readouterr().out
        assert "implicit" in said and "als" in said
    assert "which items each user rated" in " ".join(said.split())
