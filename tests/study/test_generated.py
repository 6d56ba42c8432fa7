"""Files of recorded results; the times that `gpumf.suggest` rests on, judged on data sets left out."""

import tomllib

import numpy as np
import pandas as pd
import pytest

from gpumf import suggestion
from gpumf_study import generated, results
from gpumf_study.experiments import _expected

TRUE = {"ALS": (-12.0, 0.5, 0.25, 1.0), "SGD": (-13.0, 1.0, 0.5, -0.5)}
SIZES = {"a": (900, 1700), "b": (25_000, 100), "c": (6000, 3700), "d": (400, 90)}
KERNELS = {"ALS": "tensor_core", "SGD": "fast"}


def timed(turned="", extra=()):
    """A frame of `crossover` whose seconds are just those of TRUE; of the sets turned, those of the other model."""
    rows = []
    for data, (users, items) in SIZES.items():
        for share in (0.01, 0.1):
            nnz = round(share * users * items)
            for f in (8, 32, 128):
                for model, kernel in [*KERNELS.items(), *extra]:
                    by = {"ALS": "SGD", "SGD": "ALS"}[model] if data in turned else model
                    seconds = np.exp(np.dot(TRUE[by], suggestion.terms(users, items, nnz, f)))
                    rows += [
                        (data, share, users, items, nnz, share, "fastest", model, kernel, f, k, seconds, 0.7)
                        for k in range(2)
                    ]
    columns = ["data", "x_share", "x_n_users", "x_n_items", "x_nnz", "x_density", "variant", "model", "solver"]
    frame = pd.DataFrame(rows, columns=[*columns, "factors", "repeat", "seconds", "value"])
    return frame.assign(x_level=0.7, x_biases_mae=0.8)


def written(store, frame, **where):
    result = store("crossover", frame, **where)
    return tomllib.loads(generated.suggested([result]))[result.device]


@pytest.mark.parametrize("name", generated.FILES)
def test_a_file_is_that_of_the_recorded_results(name, monkeypatch, tmp_path, capsys):
    file, text = generated.FILES[name]
    monkeypatch.setitem(generated.FILES, name, (tmp_path / "file", text))
    generated.main(name)
    assert file.read_text(encoding="utf-8") == (tmp_path / "file").read_text(), f"run `make {name}`"
    assert generated.recordings()[0].device == results.reference("crossover")


def test_the_times_that_were_planted_are_found():
    weights = _expected.time_weights(_expected.fastest_versions(timed()))
    for (model, kernel), found in weights.items():
        assert kernel == KERNELS[model] and found == pytest.approx(TRUE[model])
    table = _expected.expected(timed())
    assert table.expected.to_numpy() == pytest.approx(table.seconds.to_numpy())


def test_what_is_expected_of_a_data_set_was_not_fitted_to_it():
    of_others = _expected.expected(timed(turned="a")).set_index(["data", "model"]).sort_index()
    true = _expected.expected(timed()).set_index(["data", "model"]).sort_index()
    assert of_others.expected.loc["a"].to_numpy() == pytest.approx(true.expected.loc["a"].to_numpy())
    seen = _expected.expected(timed(turned="a"), left_out=False).set_index(["data", "model"]).sort_index()
    assert seen.expected.loc["a"].to_numpy() != pytest.approx(true.expected.loc["a"].to_numpy())


def test_the_sooner_version_of_a_model_counts_and_one_that_did_not_arrive_does_not():
    frame = timed(extra=[("SGD", "hogwild")])
    of_hogwild = frame.solver == "hogwild"
    faster = frame.assign(seconds=frame.seconds.where(~of_hogwild, 1e-9))
    assert set(_expected.named(faster).faster) == {"SGD"} == set(_expected.named(faster).named)
    never = frame.assign(seconds=frame.seconds.where(~of_hogwild | (frame.repeat == 0)))
    pd.testing.assert_frame_equal(_expected.named(never), _expected.named(timed()))
    nobody = frame.assign(seconds=frame.seconds.where(frame.model == "ALS"))
    assert _expected.named(nobody).empty


def test_one_data_set_alone_says_nothing_of_others(store):
    alone = timed().query("data == 'a'")
    assert _expected.expected(alone).expected.isna().all() and _expected.named(alone).empty
    fit = written(store, alone)
    assert fit["told"] > 0 and np.isnan(fit["accuracy"]) and np.isnan(fit["solvers"]["ALS"]["tensor_core"]["within"])
