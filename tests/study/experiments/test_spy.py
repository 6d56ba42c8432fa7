"""Every experiment under a spy: what is trained with which parameters on which ratings, and what it is judged on."""

import inspect

import numpy as np
import pytest

from gpumf import SGD
from gpumf.solvers import schedules
from gpumf_study import experiments
from gpumf_study.experiments import _published
from gpumf_study.experiments.thesis import rbm_tuning
from spy import PARAMETERS, common, seen

pytestmark = pytest.mark.slow

# They fit one model of fixed parameters, or in processes of their own, or beside a package that is not here, or fit
# features beside ratings, or search, or read a counter of a GPU, or time epochs alone.
APART = {"thread_scaling", "sgd_thread_scaling", "startup", "als_implicit_cpu"}
APART |= {"peers_ml100k", "peers_sgd", "peers_als", "als_hugewiki", "als_streamed", "document_clustering"}
APART |= {"further_features", "search_seconds", "search_gpu", "search_peers", "als_then_sgd"}
APART |= {"bayesian_seconds", "training_energy", "original_programs", "run_spread"}


def fits(name):
    """Whether an experiment trains models."""
    source = inspect.getsource(experiments.module(name))
    return any(
        call in source
        for call in (".fit(", "trained(", "sweep.sweep(", "sweep.median_epoch(", "_half_sweeps.trainings(")
    )


TRAINING = [name for name in experiments.names() if (fits(name) or name in PARAMETERS) and name not in APART]
# Those whose sums come in any order, or whose races anybody may win, and how far apart two runs end at most.
ROUNDED = {"esgd": 1e-3, "cu2rec": 0.3}
# Their held-out ratings choose, or they judge by nothing.
WITHOUT_TEST = {"block_times", "gpusgd_comparison", "implicit_seconds", "fit_seconds"}
WITHOUT_TEST |= {"picture_completion", "stale_rbm"}
# They thin the ratings, add to them little by little, or hold out some of each user's.
PORTIONS = {"crossover", "eight_bit_rows", "quality_benchmarks", "sparsity", "stale_rbm"}
# (model, factors or hidden units, lambda, learning rate, epochs, seed) of all trainings; what is chosen stands below.
EXPECTED = {
    "als_convergence": {("ALS", 8, 0.11, None, 2, 0)},
    "als_netflix": {("ALS", 32, 0.05, None, 2, seed) for seed in (0, 1)},
    "block_errors": {("SGD", 4, 0.03, 0.005, 3, seed) for seed in (0, 1)},
    "block_times": {("SGD", f, 0.03, 0.005, epochs, 0) for f in (2, 4, 8) for epochs in (1, 2)},
    "cumf_convergence": {("ALS", 4, 0.05, None, 2, 0), ("SGD", 4, 0.05, 0.02, 2, 0)},
    "implicit_seconds": {("ImplicitALS", 4, 0.1, None, 2, 0)},
    "cu2rec_training": {("SGD", 4, 0.02, 0.01, 8, seed) for seed in (0, 1)},
    "cu2rec_variants": {("SGD", 4, 0.02, 0.01, epochs, seed) for epochs, seed in ((1, 0), (2, 0), (2, 1))},
    "esgd_blocks": {("SGD", 4, 0.05, 0.01, 2, 0)},
    "esgd_errors": {("SGD", 4, 0.05, 0.01, 3, seed) for seed in (0, 1)},
    "gpusgd_comparison": {("SGD", 4, 0.03, 0.005, epochs, 0) for epochs in (1, 2)},
    "first_comparison": {
        *(("ALS", 16, 0.11, None, 3, seed) for seed in (0, 1)),
        *(("SGD", 16, 0.07, 0.013, 2, seed) for seed in (0, 1)),
    },
    "fit_seconds": {("ALS", 4, 0.05, None, 1, 0), ("SGD", 5, 0.05, 0.03, 2, 0)},
    "implicit_quality": {("ImplicitALS", 8, 0.1, None, 1, 0), ("ImplicitALS", 1, None, None, 0, 0)},
    "picture_completion": {("ALS", 4, 3.0, None, 5, 0), ("ALS", 4, 5.0, None, 5, 0)},
    "sgd_netflix": {("SGD", 16, 0.05, 0.02, 2, seed) for seed in (0, 1)},
    "sgd_schemes": {("SGD", 16, 0.05, 0.02, 2, seed) for seed in (0, 1)},
    "sgd_spread": {("SGD", 16, 0.06, 0.02, 2, seed) for seed in (0, 1)},
    "stale_rbm": {
        *(("SGD", 4, 0.1, 0.02, 2, seed) for seed in (0, 1)),
        *(("RBM", 8, 0.01, 0.1, epochs, seed) for seed in (0, 1) for epochs in (0, 2)),
    },
}

# beta of the schedules Power, with its usual power; all others are constant.
BETAS = {
    "all_schemes": {0.1}, "blend_ml100k": {0.01, 0.02}, "cumf_convergence": {0.1}, "fit_seconds": {0.1},
    "sgd_ml100k": {0.05}, "sgd_netflix": {0.1}, "sgd_schemes": {0.1}, "sgd_spread": {0.1}, "stale_rbm": {0.02},
}  # fmt: skip


def what(fit):
    """What a training is told apart by, as in EXPECTED."""
    given = fit.parameters
    size = given.get("factors", given.get("hidden"))
    regularization = given.get("regularization", given.get("weight_decay"))
    return fit.model, size, regularization, given.get("learning_rate"), fit.epochs, given["seed"]


def trained_on(log, nnz):
    """What the models that were trained on so many ratings are told apart by, in order."""
    return [what(fit) for fit in log.fits if fit.train.nnz == nnz and fit.model != "Blend"]


def test_what_is_said_of_experiments_is_said_of_those_that_train():
    assert set(PARAMETERS) | set(EXPECTED) | WITHOUT_TEST <= set(TRAINING) and len(TRAINING) >= 20
    assert all(map(fits, APART))


@pytest.mark.parametrize("name", TRAINING)
def test_training_and_what_judges_it_never_meet(name):
    log = seen(name)
    assert log.fits and all(fit.train.nnz for fit in log.fits)
    assert bool(log.judged) == (name not in WITHOUT_TEST - {"picture_completion"})
    for train, judge in log.judged:
        assert judge.nnz and common(train, judge) == 0
    assert bool(log.splits) == (name in set(TRAINING) - WITHOUT_TEST | {"picture_completion"})
    if name in WITHOUT_TEST:
        return
    bounds = [first for first, *_ in log.splits] + [len(log.fits)]
    assert bounds[0] == 0
    for (_, train, test), first, end in zip(log.splits, bounds, bounds[1:], strict=False):
        for fit in log.fits[first:end]:
            assert common(fit.train, test) == 0 and common(fit.train, train) == fit.train.nnz
            if fit.validation is not None and common(fit.validation, test) == 0:
                assert common(fit.validation, train) == fit.validation.nnz
    if name not in PORTIONS:
        assert {fit.train.nnz for fit in log.fits if fit.model != "Blend"} <= {part.nnz for part in log.parts}
    # What is reported is of the whole test set, not of a part.
    tests = {test.nnz for *_, test in log.splits}
    assert tests <= {judge.nnz for _, judge in log.judged}


def repeatable(fit):
    """Whether the same training learns the same bits: without races."""
    if fit.model != "SGD" or fit.kernel in ("sequential", "ordered"):
        return True
    scheme = SGD.solver_classes().get(fit.kernel)
    return scheme is not None and scheme.device == "cuda" and not scheme.races


def asked(fit):
    """What a training depends on, but for the epochs and the rate that one with races before it may have chosen."""
    model, parameters, epochs, *others = fit.asked
    if repeatable(fit):
        return model, parameters, epochs, *others
    return model, [parameter for parameter in parameters if "learning_rate" not in parameter], *others


@pytest.mark.parametrize("name", sorted(set(TRAINING) - WITHOUT_TEST))
def test_nothing_that_is_trained_depends_on_the_test_ratings_and_the_same_seed_is_the_same(name):
    log, other = seen(name), seen(name, mirrored=True)
    same = [asked(a) == asked(b) for a, b in zip(log.fits, other.fits, strict=False)]
    assert all(same) and len(log.fits) == len(other.fits)
    compared = 0
    for a, b in zip(log.fits, other.fits, strict=True):
        if a.rows == b.rows and repeatable(a):
            assert all(map(np.array_equal, a.learned, b.learned)), what(a)
            compared += bool(a.learned)
        elif a.rows == b.rows and a.kernel in ROUNDED:
            pairs = zip(a.learned, b.learned, strict=True)
            assert all(np.allclose(*pair, atol=ROUNDED[a.kernel]) for pair in pairs), what(a)
            compared += bool(a.learned)
    assert compared
    if "rmse" in log.frame:
        assert not log.frame.rmse.equals(other.frame.rmse), "errors are those on the test ratings"


# Those that choose are looked at one by one below.
CHOOSING = {"parameter_search", "crossover", "blend_ml100k", "rbm_tuning", "sgd_ml100k", "sparsity", "speedups",
            "als_sgd_rbm", "quality_ratings"}  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(TRAINING) - CHOOSING))
def test_parameters_arrive_and_repeats_have_seeds_of_their_own(name):
    fits = seen(name).fits
    if name in EXPECTED:
        assert {what(fit) for fit in fits} == EXPECTED[name]
    elif "repeats" in (smoke := experiments.module(name).PROFILES["smoke"]):
        assert {what(fit)[-1] for fit in fits} == set(range(smoke["repeats"]))
    by_seed = {}
    for fit in fits:
        if fit.learned and (repeatable(fit) or fit.kernel in {"parallel", *ROUNDED}) and fit.rows > 1:
            by_seed.setdefault((what(fit)[:-1], fit.kernel, fit.train.nnz), {})[what(fit)[-1]] = fit.learned[0]
    for learned in by_seed.values():
        if len(learned) == 2:
            assert not np.array_equal(*learned.values())
    seeds = {what(fit)[-1] for fit in fits}
    assert any(len(learned) == len(seeds) for learned in by_seed.values()) or name not in EXPECTED


@pytest.mark.parametrize("name", TRAINING)
def test_schedules_arrive(name):
    found = [fit.parameters["schedule"] for fit in seen(name).fits if "schedule" in fit.parameters]
    expected = [schedules.to_dict(schedules.Power(beta)) for beta in BETAS.get(name, ())]
    others = [schedule for schedule in found if schedule not in expected]
    assert all(schedule in found for schedule in expected)
    assert all(schedule == schedules.to_dict(schedules.Constant()) for schedule in others)


# They have one split, the set's own or that of seed 0.
SPLIT_ONCE = {"all_schemes", "als_convergence", "crossover", "cumf_convergence", "esgd_blocks"}
SPLIT_ONCE |= {"implicit_quality", "quality_benchmarks", "rbm_tuning", "several_gpus"}


@pytest.mark.parametrize("name", sorted(set(TRAINING) - WITHOUT_TEST))
def test_repeats_split_with_seeds_of_their_own(name):
    tests = [test for *_, test in seen(name).splits]
    shared = common(tests[0], tests[-1]) / tests[0].nnz
    assert shared == 1 if name in SPLIT_ONCE else shared < 0.5


# Their rows are of baselines too, of workers, or of ratings that come after the training; their repeats are timings.
BESIDE = {"defaults", "several_gpus", "stale_rbm", "quality_ratings"}
TIMED = {"fit_seconds", "implicit_seconds", "several_gpus"}


@pytest.mark.parametrize("name", TRAINING)
def test_rows_say_what_trained_and_how_well(name):
    log, frame = seen(name), seen(name).frame
    fits = [fit for fit in log.fits if fit.model != "Blend"]
    for column in {"kernel", "solver"} & set(frame):
        assert set(frame[column].dropna()) - {"popularity"} == {fit.solver for fit in fits if fit.epochs}
    of_fits = {"regularization", "learning_rate", "x_regularization", "x_learning_rate", "factors", "threads"}
    for column in of_fits & set(frame):
        other = {"x_regularization": "weight_decay", "regularization": "weight_decay", "factors": "hidden"}.get(
            column
        )
        given = {fit.parameters.get(name) for fit in fits for name in (column.removeprefix("x_"), other)}
        assert set(frame[column].dropna()) <= given
    for column in {"repeat", "seed"} & set(frame) if name not in TIMED else ():
        assert set(frame[column]) == {what(fit)[-1] for fit in fits}
    if "epoch" in frame and name not in CHOOSING:
        assert frame.epoch.max() == max(fit.rows for fit in fits) - 1
    if name not in BESIDE:
        for measure in {"rmse", "mae"} & set(frame):
            assert set(frame[measure].dropna()) <= log.errors[measure]
        for measure in {*frame.metric.dropna()} & {"rmse", "mae"} if "metric" in frame else ():
            assert set(frame.value[frame.metric == measure].dropna()) <= log.errors[measure]
        if "nnz" in frame:
            assert set(frame.nnz) <= {fit.train.nnz for fit in fits}


@pytest.mark.parametrize("name", ["speedups"])
def test_training_ends_at_the_threshold(name, monkeypatch):
    monkeypatch.setattr(_published, "threshold", lambda data: 9.0)
    experiment = experiments.module(name)
    frame = experiment.run(**experiment.PROFILES["smoke"] | PARAMETERS.get(name, {}))
    assert set(frame.epoch.dropna()) == {0, 1}


def test_the_search_tries_its_grids_and_only_those():
    fits = seen("parameter_search").fits  # of each curve two that are searched, and two that are judged
    searched, judged = ([fit for k, fit in enumerate(fits) if k // 2 % 2 == turn] for turn in (0, 1))
    tried = {what(fit) for fit in searched}
    rates = {(rate, seed) for rate in (0.001, 0.05) for seed in (0, 1)}
    assert {key for key in tried if key[0] == "ALS"} == {
        ("ALS", 16, value, None, 3, seed) for value in (0.03, 0.3) for seed in (0, 1)
    }
    assert {key for key in tried if key[0] == "RBM"} == {
        ("RBM", 128, 0.0, rate, 1, seed) for rate in (0.1, 0.4) for seed in (0, 1)
    }
    of_sgd = {key for key in tried if key[0] == "SGD"}
    assert {(key[3], key[5]) for key in of_sgd if key[2] not in (0.02, 0.2)} == rates
    # Of the regularizations with the one rate that was best, the same for all repeats.
    chosen = {key[3] for key in of_sgd if key[2] in (0.02, 0.2)}
    assert len(chosen) == 1 and {(key[2], key[5]) for key in of_sgd if key[2] in (0.02, 0.2)} == {
        (value, seed) for value in (0.02, 0.2) for seed in (0, 1)
    }
    frame = seen("parameter_search").frame.query("metric == 'mae'")
    first = frame[(frame.model == "SGD") & (frame.x_varied == "learning_rate") & (frame.repeat == 0)]
    assert chosen == {first.x_learning_rate[first.x_held_out_mae.idxmin()]}
    # Then with as many epochs as were best, on the whole training set.
    for search, fit, best in zip(searched, judged, frame.epoch, strict=True):
        assert fit.parameters == search.parameters and fit.epochs == best
        assert common(fit.train, search.train) == search.train.nnz < fit.train.nnz


def test_both_models_are_timed_to_a_level_of_the_held_out_ratings():
    log = seen("crossover")
    (held_out,) = {fit.validation.nnz for fit in log.fits}
    assert held_out == 8000 and {judge.nnz for _, judge in log.judged} == {held_out, 20000}
    assert len(log.fits) == 2 + 4 + 2 * 2, "both grids, and two repeats of both models"
    assert {what(fit)[-1] for fit in log.fits} == {0, 1}
    for fit in log.fits[-4:]:
        (row,) = log.frame[(log.frame.model == fit.model) & (log.frame.repeat == what(fit)[-1])].itertuples()
        assert what(fit)[2] == row.x_regularization and (fit.model == "ALS" or what(fit)[3] == row.x_learning_rate)
        if row.epoch == row.epoch:
            assert fit.rows == row.epoch + 1, "it ends where the level is reached"


def test_sgd_is_judged_with_what_the_held_out_ratings_chose():
    log = seen("sgd_ml100k")
    frame = log.frame.query("metric == 'rmse'")
    test = frame[frame.x_step == "test"]
    assert sorted(set(test.x_fold)) == [0, 1, 2, 3, 4] and set(test.repeat) == {0, 1}
    judged = iter(trained_on(log, 80000))
    for fold in range(5):
        choice = frame[(frame.x_step == "choice") & (frame.x_fold == fold)]
        best = choice.loc[choice.value.idxmin()]
        for seed in (0, 1):
            assert next(judged) == ("SGD", 4, best.x_regularization, 0.02, best.epoch, seed)
    assert next(judged, None) is None
    assert set(trained_on(log, 72000)) == {("SGD", 4, value, 0.02, 5, 0) for value in (0.01, 0.3)}


def test_blends_are_of_models_with_what_the_held_out_ratings_chose():
    log = seen("blend_ml100k")
    frame = log.frame.query("model in ['RBM', 'SGD', 'ALS'] and metric == 'rmse' and x_step == 'choice'")
    judged = iter(trained_on(log, 80000))
    for fold in (0, 1):
        best = {}
        for model, choice in frame[frame.x_fold == fold].groupby("model"):
            row = choice.loc[choice.value.idxmin()]
            regularization = 0.0 if model == "RBM" else row.x_regularization
            best[model] = row.factors, regularization, row.x_learning_rate, row.epoch
        for seed in (0, 1):
            for model in ("RBM", "SGD", "ALS"):
                size, regularization, rate, epochs = best[model]
                rate = None if model == "ALS" else rate
                assert next(judged) == (model, size, regularization, rate, epochs, seed)
    assert next(judged, None) is None
    # Weights are fitted to held-out ratings alone.
    blends = [fit for fit in log.fits if fit.model == "Blend"]
    assert blends and all(fit.train.nnz == 8000 for fit in blends)


def test_thinned_sets_are_judged_with_what_other_held_out_ratings_chose():
    log = seen("sparsity")
    fits, frame = iter(log.fits), log.frame.query("metric == 'mae'")
    expected = {"ALS": (16, [0.05, 0.1], None, 2), "SGD": (16, [0.2], 0.013, 3), "RBM": (128, [0.004], 0.03, 1)}
    for seed, (_, train, _) in enumerate(log.splits):
        for model, (size, grid, rate, epochs) in expected.items():
            tried = [next(fits) for _ in grid]
            assert [what(fit) for fit in tried] == [(model, size, value, rate, epochs, seed) for value in grid]
            assert all(common(fit.validation, train) == fit.validation.nnz for fit in tried)
            rows = frame[(frame.model == model) & (frame.repeat == seed)]
            choice = rows[rows.x_step == "choice"]
            best = choice.loc[choice.value.idxmin()]
            judged = next(fits)
            assert what(judged) == (model, size, best.x_regularization, rate, best.epoch, seed)
            assert judged.train.nnz == tried[0].train.nnz == rows.x_nnz.iloc[0]
    assert next(fits, None) is None


def test_the_rbm_is_judged_for_as_long_as_was_best_on_the_held_out_ratings():
    log = seen("rbm_tuning")
    frame = rbm_tuning.wide(log.frame)
    choice, judged = frame[frame.step == "choice"], trained_on(log, 80000)
    curves = choice.groupby(["hidden", "gibbs_steps"])
    best = choice.loc[curves.rmse.idxmin()].set_index(["hidden", "gibbs_steps"])
    thesis = best.loc[(128, "T = 1")]
    assert judged[:2] == [("RBM", 128, 0.0, 0.02, thesis.epoch, seed) for seed in (0, 1)]
    # First the number of hidden units, then, with that, the steps.
    hidden = best.rmse.xs("T = 1", level="gibbs_steps").idxmin()
    epochs = best.epoch[hidden][best.rmse[hidden].idxmin()]
    assert judged[2:] == [("RBM", hidden, 0.0, 0.02, epochs, seed) for seed in (0, 1)]


def test_a_stale_rbm_is_never_shown_what_it_predicts():
    nnz = [fit.train.nnz for fit in seen("stale_rbm").fits]
    assert set(nnz) == {50000, 75000}
    for fit in seen("stale_rbm").fits:
        assert fit.warm == (fit.epochs == 0)
