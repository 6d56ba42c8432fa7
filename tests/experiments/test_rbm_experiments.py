"""What the experiments on Boltzmann machines make of what they measure, and their figures."""

import numpy as np
import pandas as pd
import pytest

from gpumf import RBM, datasets, results
from gpumf import figure_style as style
from gpumf.experiments.gpumf import blend_ml100k, rbm_features
from gpumf.experiments.thesis import rbm_speed, rbm_tuning, stale_rbm
from gpumf.models.rbm.divergence import batch_order
from support import ragged_ratings

CEILINGS = {"copy_bytes_per_second": 1e9, "fp32_flops": 1e9}


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Makes a Result of a frame, kept where nobody looks."""
    monkeypatch.setattr(results, "repository", lambda: tmp_path)
    return lambda frame: results.store("x", frame, {}, results.provenance(), live=True, source="gpumf")


def labelled(figure):
    return figure.get_supxlabel().startswith("Measured") and all(
        axis.get_xlabel() for axis in figure.axes if axis.get_visible()
    )


# Tuning


@pytest.fixture(scope="module")
def tuning():
    others = {"learning_rate": [0.3, 1e-6], "hidden": [3], "gibbs_steps": [2, [[0, 1], [1, 2]]]}
    return rbm_tuning.run(["ml-100k-twin"], others, [3], "sequential", seeds=2)


def test_each_parameter_is_changed_alone_and_the_search_goes_on_from_the_best(tuning):
    choices, tests = (tuning[tuning.step == step] for step in ("choice", "test"))
    rates = rbm_tuning.changed_alone(tuning, "ml-100k-twin", "learning_rate")
    assert set(rates.learning_rate) == {0.02, 0.3, 1e-6} and set(rates.hidden) == {128}
    steps = rbm_tuning.changed_alone(tuning, "ml-100k-twin", "gibbs_steps")
    assert set(steps.gibbs_steps) == {"T = 1", "T = 2", "T = 1, from epoch 1 on 2"}
    best = rates.loc[rates.rmse.idxmin()].learning_rate
    assert set(choices[choices.hidden == 3].learning_rate) == {rbm_tuning.THESIS["learning_rate"], best}
    settings = choices.groupby([*rbm_tuning.THESIS, "epoch"], sort=False).size()
    assert (settings == 1).all(), "no setting is trained twice"
    tuned = tests[tests.setting == "tuned"]
    assert list(tests.setting) == ["thesis"] * 2 + ["tuned"] * 2 and list(tuned.seed) == [0, 1]
    last = choices[(choices.learning_rate == best) & (choices.hidden == tuned.hidden.iloc[0])]
    winner = last.loc[last.rmse.idxmin()]
    assert last.gibbs_steps.nunique() == 3, "the values of the last parameter, with the best of those before"
    assert (tuned[[*rbm_tuning.THESIS, "epoch"]] == winner[[*rbm_tuning.THESIS, "epoch"]]).all(axis=None)
    assert tests.accuracy.between(0.2, 0.9).all() and choices.accuracy.isna().all()
    row = rbm_tuning.summary(tuning).set_index("setting").loc["tuned"]
    assert row.rmse == tuned.rmse.mean() and row.rmse_deviation == pytest.approx(tuned.rmse.std())


def test_curves_are_drawn_a_parameter_each(tuning, stored):
    figure = style.save(rbm_tuning.figure(tuning), stored(tuning))
    lines = [[line for line in axis.lines if not line.get_label().startswith("_")] for axis in figure.axes]
    assert [len(of) for of in lines] == [3, 2, 3]
    curve = rbm_tuning.changed_alone(tuning, "ml-100k-twin", "hidden").query("hidden == 3 and epoch > 0").rmse
    np.testing.assert_allclose(lines[1][0].get_ydata(), curve)
    assert labelled(figure)


# Speed


def test_the_least_work_of_an_epoch_is_that_of_its_batches():
    ratings, model = ragged_ratings(seed=0), RBM(6, batch=7, gibbs_steps=2, kernel="sequential")
    model.fit(ratings, 0)
    trainer = model.trainer(ratings)
    order = batch_order(0, 0, len(trainer.batches))
    items = sum(len(np.unique(trainer.batches[int(b)].items)) for b in order)
    share, moved, flops = rbm_speed._work(trainer.batches, order, ratings.nnz, model)
    assert share == 1 and moved == 5 * ratings.nnz + 8 * items * 5 * 7
    assert flops == 6 * (ratings.nnz * (3 + 20 + 11) + 2 * items * 5)
    parts = [rbm_speed._work(trainer.batches, order[k : k + 1], ratings.nnz, model) for k in range(len(order))]
    np.testing.assert_allclose(np.sum(parts, axis=0), [share, moved, flops])


@pytest.mark.parametrize(
    ("kernel", "weights"),
    [("sequential", "device"), ("thesis", "device"), ("thesis", "transfer"), ("fast", "device")],
)
def test_versions_are_timed_whole_and_by_updates(kernel, weights, host):
    ratings = ragged_ratings(12, 9, 6, seed=1)
    device = "cpu" if kernel == "sequential" else "host"
    model = RBM(4, batch=5, kernel=kernel, weights=weights, device=device)
    rows = pd.DataFrame(rbm_speed._timings(model, ratings, 1, weights == "transfer", 3, CEILINGS))
    updates = set(rbm_speed.UPDATES) if kernel == "thesis" else set()
    assert set(rows.part) == {"prepare", "epoch"} | updates
    epochs = rows[rows.part == "epoch"]
    assert len(epochs) == (1 if weights == "transfer" else 3)
    assert (epochs.share < 1).all() == (weights == "transfer")
    np.testing.assert_allclose(rows.epoch_seconds * rows.share, rows.seconds)
    np.testing.assert_allclose(epochs.fraction_of_limit * epochs.epoch_seconds, epochs.limit_seconds)
    assert (rows.seconds > 0).all() and rows.limit_seconds[rows.part != "epoch"].isna().all()


@pytest.fixture
def speeds():
    """Epochs of every version, and the updates of the thesis's."""
    rows = []
    for kernel, weights, seconds, share in (
        ("sequential", "device", 40.0, 0.1),
        ("thesis", "transfer", 20.0, 0.5),
        ("thesis", "device", 10.0, 1.0),
        ("fast", "device", 0.5, 1.0),
    ):
        parts = {"prepare": 3.0, "epoch": seconds}
        if kernel == "thesis":
            parts |= {update: seconds / 4 for update in rbm_speed.UPDATES}
        device = "cpu" if kernel == "sequential" else "cuda"
        for part, of_epoch in parts.items():
            for repeat in (-1, 0, 1):
                limit = 0.1 if part == "epoch" else np.nan
                time = of_epoch + repeat / 100
                row = "a", kernel, weights, device, 128, part, repeat, share, time * share, time, limit, limit / time
                rows.append(row)
    columns = ["data", "kernel", "weights", "device", "hidden", "part", "repeat", "share", "seconds", "epoch_seconds"]
    return pd.DataFrame(rows, columns=[*columns, "limit_seconds", "fraction_of_limit"])


def test_versions_are_summed_up_against_the_thesis_with_weights_on_the_device(speeds):
    table = rbm_speed.summary(speeds).set_index("version")
    assert list(table.speedup) == [0.25, 0.5, 1, 20] and list(table.share) == [0.1, 0.5, 1, 1]
    assert table.loc["thesis, transfer", list(rbm_speed.UPDATES)].tolist() == [5, 5, 5]
    assert table.spread.to_numpy() == pytest.approx(0.02) and pd.isna(table["weight update"]["fast"])
    (finding,) = [f for f in rbm_speed.FINDINGS if f.id == "rbm-epoch-speedup"]
    assert finding.value(speeds)[0] == 20 and pd.isna(finding.value(speeds[speeds.kernel == "sequential"])[0])


def test_epochs_and_updates_are_drawn_and_what_is_extrapolated_is_hatched(speeds, stored):
    figure = style.save(rbm_speed.figure_updates(speeds), stored(speeds))
    moved, kept = figure.axes[0].containers
    assert [bar.get_height() for bar in moved] == [20, 5, 5, 5] and next(iter(kept)).get_height() == 10
    assert labelled(figure)
    figure = style.save(rbm_speed.figure(speeds), stored(speeds))
    measured, limits = figure.axes[0].containers
    assert [bar.get_width() for bar in measured] == [0.5, 10, 20, 40]
    assert [bool(bar.get_hatch()) for bar in measured] == [False, False, True, True]
    assert [bar.get_width() for bar in limits] == pytest.approx([0.1] * 4) and labelled(figure)


# Blends


@pytest.fixture(scope="module")
def blends():
    grids = {
        "RBM": {"hidden": [8], "learning_rate": [0.05, 1e-6]},
        "SGD": {"factors": [4], "regularization": [0.1], "beta": [0.01]},
        "ALS": {"factors": [4], "regularization": [0.1, 50.0]},
    }
    kernels = dict.fromkeys(blend_ml100k.MODELS, "sequential")
    return blend_ml100k.run("ml-100k-twin", 2, grids, {"RBM": 6, "SGD": 8, "ALS": 4}, kernels, 2)


def test_models_and_weights_are_chosen_on_held_out_training_ratings_alone(blends):
    assert set(blends.fold) == {0, 1}
    for _, fold in blends.groupby("fold"):
        choices, tests = (fold[fold.step == step] for step in ("choice", "test"))
        for name in blend_ml100k.MODELS:
            best = choices.loc[choices[choices.model == name].rmse.idxmin()]
            judged = tests[tests.model == name]
            assert len(judged) == 2 and (judged.epochs == best.epochs).all()
            keys = ["learning_rate"] if name == "RBM" else ["regularization"]
            assert (judged[keys] == best[keys]).all(axis=None)
        for names in blend_ml100k.BLENDS:
            blended = fold[fold.model == " + ".join(names)]
            weights = blended[[f"weight_{name}" for name in names]]
            assert weights.sum(axis=1).to_numpy() == pytest.approx(1)
            for metric, fitted in blended.groupby("fitted_to"):
                assert len(fitted) == 3 and (weights.loc[fitted.index].nunique() == 1).all(), (
                    "of the held-out ratings"
                )
                of_parts = choices[choices.model.isin(names)].groupby("model")
                best = choices.loc[of_parts.rmse.idxmin(), metric].min()
                assert fitted[fitted.step == "choice"][metric].item() <= best + 1e-6


def test_blends_are_summed_up_over_folds_and_seeds_and_drawn(blends, stored):
    table = blend_ml100k.summary(blends).set_index(["measure", "model"])
    names = [*blend_ml100k.MODELS, *(" + ".join(names) for names in blend_ml100k.BLENDS)]
    tests = blends[blends.step == "test"]
    for measure in ("rmse", "mae"):
        of = table.loc[measure]
        assert list(of.index) == names and pd.isna(of.weight_ALS["RBM + SGD"]) and of.spread["SGD"] > 0
        assert of["mean"]["RBM"] == pytest.approx(tests[tests.model == "RBM"][measure].mean())
        both = tests[(tests.model == "RBM + SGD") & (tests.fitted_to == measure)]
        assert of["mean"]["RBM + SGD"] == pytest.approx(both[measure].mean())
        found = {finding.id: finding.value(blends)[0] for finding in blend_ml100k.FINDINGS}
        best = of["mean"][["RBM", "SGD", "ALS"]].min()
        assert found[f"blend-ml100k-{measure}"] == of["mean"]["RBM + SGD + ALS"]
        assert found[f"blend-ml100k-{measure}-gain"] == pytest.approx(best - of["mean"]["RBM + SGD + ALS"])
    figure = style.save(blend_ml100k.figure(blends), stored(blends))
    for axis, measure in zip(figure.axes, ("rmse", "mae"), strict=True):
        points, means = axis.lines[:2]
        assert len(points.get_xdata()) == 2 * len(names)
        np.testing.assert_allclose(means.get_xdata(), table.loc[measure]["mean"])
    assert labelled(figure)


def test_a_blend_is_held_to_what_is_published_and_to_its_best_part():
    names = [*blend_ml100k.MODELS, " + ".join(blend_ml100k.MODELS)]

    def words(blend, apart=0.0):
        rows = [
            (fold, "test", seed, name, np.nan if " + " not in name else "rmse", error + seed * apart)
            for fold in (0, 1)
            for seed in (0, 1)
            for name, error in zip(names, (0.93, 0.91, 0.92, blend), strict=True)
        ]
        frame = pd.DataFrame(rows, columns=["fold", "step", "seed", "model", "fitted_to", "rmse"]).assign(mae=0.7)
        frame[[f"weight_{name}" for name in blend_ml100k.MODELS]] = 0.3
        found = {f.id: f.rule.word(*f.value(frame)[:2]) for f in blend_ml100k.FINDINGS if "-rmse" in f.id}
        return found["blend-ml100k-rmse"], found["blend-ml100k-rmse-gain"]

    assert words(0.90) == ("target", "reproduced") and words(0.912) == ("target", "contradicted")
    assert words(0.91) == ("target", "tie") and words(0.93) == ("short", "contradicted")


# Stale machines


def test_a_stale_machine_keeps_its_weights_and_may_be_shown_newer_ratings():
    ratings = ragged_ratings(seed=2)
    old, new = ratings.select(np.arange(ratings.nnz // 2)), ratings
    rbm = RBM(5, kernel="sequential").fit(old, 3)
    before = rbm.user_hidden.copy()
    shown = stale_rbm.shown_all(rbm, new)
    np.testing.assert_array_equal(shown.item_weights, rbm.item_weights)
    np.testing.assert_array_equal(rbm.user_hidden, before)
    levels = new.values.astype(int) - 1
    inputs = np.zeros((ratings.n_users, 5)) + rbm.hidden_biases
    np.add.at(inputs, new.users, rbm.item_weights[new.items, levels])
    np.testing.assert_allclose(shown.user_hidden, 1 / (1 + np.exp(-inputs)), rtol=1e-5)
    assert np.abs(shown.user_hidden - before).max() > 1e-4


@pytest.fixture(scope="module")
def ages():
    settings = {"factors": 4, "factor_epochs": 4, "hidden": 6, "hidden_epochs": 4, "kernel": "sequential", "seeds": 1}
    return stale_rbm.run("ml-100k-twin", ["random", "time"], first=0.5, chunks=5, every=[1, 2, 4], **settings)


def test_the_machine_is_as_old_as_it_should_be(ages, stored):
    assert set(ages.order) == {"random"}, "a twin does not say when its ratings were given"
    blended = ages[ages.every > 0]
    assert (blended.age == blended.chunk % blended.every).all() and set(blended.chunk) == {1, 2, 3, 4}
    assert ((blended.rbm_seconds > 0) == (blended.age == 0)).all()
    new = blended[blended.age == 0].pivot(index=["chunk", "every"], columns="shown", values="rmse_rbm")
    np.testing.assert_allclose(new["trained on"], new["all so far"])
    alone = ages[ages.every == 0].set_index("chunk").rmse
    weightless = blended[blended.weight == 0]
    np.testing.assert_allclose(weightless.rmse, alone[weightless.chunk], rtol=1e-6)
    table = stale_rbm.summary(ages)
    pooled = np.sqrt(np.average(alone**2, weights=ages[ages.every == 0].nnz))
    assert table[table.every == 0].rmse.item() == pytest.approx(pooled)
    np.testing.assert_allclose(table.gain, pooled - table.rmse, atol=1e-12)
    figure = style.save(stale_rbm.figure(ages), stored(ages))
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert list(lines["shown all so far"].get_xdata()) == [1, 2, 4] and labelled(figure)


# Features


def test_features_are_the_items_with_the_largest_and_the_smallest_weights(monkeypatch):
    monkeypatch.setattr(datasets, "titles", lambda name: pd.Series({k: f"Film {k}" for k in range(1682)}))
    frame = rbm_features.run(["ml-100k-twin"], 8, 2, units=2, shown=3, most_rated=30, kernel="sequential")
    ratings = datasets.load("ml-100k-twin")
    counts = np.bincount(ratings.items, minlength=ratings.n_items)
    assert len(frame) == 2 * 2 * 3 and (frame.title == frame["item"].map("Film {}".format)).all()
    assert (frame["count"] == counts[frame["item"]]).all() and frame["count"].min() >= np.sort(counts)[-30]
    for _, unit in frame.groupby("unit"):
        most, least = (unit[unit.end == end].weight for end in ("most", "least"))
        assert most.is_monotonic_decreasing and least.is_monotonic_increasing and most.min() > least.max()
    assert frame.spread.iloc[0] >= frame.spread.iloc[-1] and frame.correlation.between(-1, 1).all()


def test_correlations_are_those_of_the_users_who_rated_both():
    rng = np.random.default_rng(0)
    n_users = 60
    values = rng.integers(1, 6, (n_users, 4)).astype(np.float32)
    values[:, 1] = values[:, 0]
    given = rng.random(values.shape) < 0.7
    users, items = np.nonzero(given)
    ratings = datasets.Ratings(users, items, values[users, items], n_users, 4)
    table = rbm_features._correlations(ratings, np.array([2, 0, 1]))
    centred = np.where(given[:, :3], values[:, :3], np.nan)
    centred -= np.nanmean(centred, axis=1, keepdims=True)
    both = given[:, 0] & given[:, 2]
    assert table[0, 1] == pytest.approx(np.corrcoef(centred[both][:, [0, 2]].T)[0, 1], rel=1e-5)
    assert np.isnan(np.diag(table)).all() and table[1, 2] > table[0, 1]
