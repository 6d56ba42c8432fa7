"""Every experiment under a clock that only work moves: exact seconds, of what is timed and of nothing else.

An epoch takes a second, whatever it does around it takes long. What a kernel does takes its time when somebody waits
for the device, and no time before.
"""

import time
from functools import wraps
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, RBM, SGD, ImplicitALS, backends
from gpumf.backends.cpu.timing import seconds_of
from gpumf.models import estimator, evaluation, times
from gpumf.solvers.base import KernelSolver
from gpumf_study import experiments
from gpumf_study.experiments import _limits
from gpumf_study.experiments.thesis import elementwise_cube
from support import ragged_ratings

pytestmark = pytest.mark.slow

USERS, ITEMS, BATCH = 0.25, 0.75, 0.125  # of a half-sweep, and a batch of the RBM
PREPARE, COMPILE, ERRORS, COPIES, RECOMMEND = 64.0, 1024.0, 4096.0, 512.0, 8.0


class Clock:
    """Stands still but for work; what is launched waits for `synchronize`."""

    def __init__(self):
        self.now = self.launched = 0.0

    def work(self, seconds):
        self.now += seconds

    def launch(self, seconds):
        self.launched += seconds

    def wait(self):
        self.now, self.launched = self.now + self.launched, 0.0


def defined(attribute):
    """The classes of all schemes that define a method themselves."""
    schemes = {scheme for model in (ALS, ImplicitALS, SGD, RBM) for scheme in model.solver_classes().values()}
    classes = {base for scheme in schemes for base in scheme.__mro__ if attribute in vars(base)}
    found = [of for of in classes if of.__module__.startswith("gpumf.solvers.")]
    assert found
    return found


@pytest.fixture
def clock(monkeypatch):
    """The clock, in the place of the machine's, with work that takes its seconds and does nothing else."""
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    # Work may be timed within what is compiled, which an empty cache would count as compile time.
    monkeypatch.setattr(times, "SPENT", SimpleNamespace(seconds=0.0))

    def spend(trainer, seconds):
        (clock.launch if isinstance(trainer, KernelSolver) else clock.work)(seconds)

    def replace(attribute, seconds):
        for of in defined(attribute):

            def work(trainer, *arguments, **named):
                spend(trainer, seconds(*arguments))

            monkeypatch.setattr(of, attribute, work)

    replace("solve_users", lambda: USERS)
    replace("solve_items", lambda: ITEMS)
    replace("train_batch", lambda *_: BATCH)
    replace("take_steps", lambda first, count: 2.0 * count)
    for of in defined("epoch"):
        if not of.__module__.startswith(("gpumf.solvers.als_", "gpumf.solvers.rbm_", "gpumf.solvers.base")):
            monkeypatch.setattr(of, "epoch", lambda trainer, number: spend(trainer, 1.0))

    def lengthened(of, attribute, seconds):
        plain = vars(of)[attribute]
        inner = plain.__func__ if isinstance(plain, classmethod) else plain

        @wraps(inner)
        def longer(*arguments, **named):
            clock.work(seconds)
            return inner(*arguments, **named)

        monkeypatch.setattr(of, attribute, classmethod(longer) if isinstance(plain, classmethod) else longer)

    lengthened(evaluation.Errors, "__call__", ERRORS)
    lengthened(estimator.FiniteCheck, "copies", COPIES)
    lengthened(estimator.Model, "_set_training", PREPARE)
    if not backends.why_unavailable("emulator"):
        device = type(backends.device("emulator"))
        monkeypatch.setattr(device, "synchronize", lambda self: clock.wait())

        def timed(self, work, repeats=10, warmup=2):
            """As of CUDA: its events come behind the work."""
            for _ in range(warmup):
                work()
            seconds = []
            for _ in range(repeats):
                clock.wait()
                before = clock.now
                work()
                clock.wait()
                seconds.append(clock.now - before)
            return np.array(seconds)

        monkeypatch.setattr(device, "time", timed)
    monkeypatch.setattr(_limits, "ceilings", lambda device: CEILINGS)
    return clock


CEILINGS = {"copy_bytes_per_second": 2.0**30, "fp32_flops": 2.0**40, "tensor_flops": 2.0**44, "fp16_flops": 2.0**42}


def run(name, **parameters):
    experiment = experiments.module(name)
    if why := experiments.why_unavailable(name):
        pytest.skip(why)
    return experiment.run(**experiment.PROFILES["smoke"] | parameters)


# Fits


@pytest.mark.parametrize("kernel", ["sequential", "parallel", "thesis_shared", "tensor_core"])
def test_a_fit_counts_each_second_once_and_waits_for_the_device(clock, host, kernel):
    where = "cpu" if kernel in ("sequential", "parallel") else "emulator"
    model = ALS(4, solver=kernel, device=where, biases=False)
    train, validation = ragged_ratings(seed=0).split(0.2)
    model.fit(train, 3, validation)
    assert model.history.seconds.to_list() == [0, 1, 2, 3] and model.times.train == 3
    assert model.times.preprocess == PREPARE and model.times.transfer == model.times.compile == 0
    # Copies and errors of an epoch belong to none of the parts.
    assert model.times.end_to_end == PREPARE + 3 + 4 * (COPIES + ERRORS)


def test_training_that_goes_on_counts_on(clock, monkeypatch):
    train = ragged_ratings(seed=0)
    monkeypatch.setattr(SGD.solver_classes()["sequential"], "epoch", lambda trainer, number: clock.work(3.0))
    model = SGD(4, solver="sequential", device="cpu", biases=False).fit(train, 2)
    model.fit(train, 2, warm_start=True)
    assert model.history.seconds.to_list() == [0, 3, 6, 9, 12] and model.times.train == 6


def test_compiling_is_counted_apart(clock, host, monkeypatch):
    scheme, plain = ALS.solver_classes()["thesis_global"], ALS.solver_classes()["thesis_global"].compile

    def slow(cls, model):
        clock.work(COMPILE)
        host.compile_seconds += COMPILE
        return plain(model)

    monkeypatch.setattr(scheme, "compile", classmethod(slow))
    model = ALS(4, solver="thesis_global", device="emulator", biases=False).fit(ragged_ratings(seed=0), 2)
    assert model.times.train == 2 and model.times.preprocess == pytest.approx(PREPARE)
    assert model.times.compile % COMPILE == 0 < model.times.compile


# Experiments that fit


@pytest.mark.parametrize(
    "name", ["als_convergence", "als_netflix", "als_sgd_rbm", "first_comparison", "implicit_quality", "rbm_tuning",
             "sgd_netflix", "sgd_schemes", "speedups", "block_errors", "block_times", "cu2rec_training",
             "cu2rec_variants", "cumf_convergence", "esgd_blocks", "esgd_errors", "gpusgd_comparison",
             "all_schemes"]
)  # fmt: skip
def test_histories_have_the_seconds_of_training_alone(clock, name):
    frame = run(name)
    frame = frame[frame.epoch.notna() & frame.seconds.notna()]  # what needs no training has no seconds
    epoch = np.where(frame.model == "RBM", RBM_EPOCH.get(name), 1.0) if "model" in frame else 1.0
    if name == "rbm_tuning":
        epoch = frame.epoch.map({0: 0.0}).fillna(RBM_EPOCH[name])
    of_epoch = np.where(frame.epoch > 0, frame.seconds / frame.epoch.clip(1), 0)
    if name == "rbm_tuning":
        assert set(of_epoch) == {0.0, RBM_EPOCH[name]}
    else:
        assert list(frame.seconds) == list(frame.epoch * epoch)


# Their batches have 100 users, of all or of 60.
RBM_EPOCH = {"rbm_tuning": 10 * BATCH, "all_schemes": 10 * BATCH, "als_sgd_rbm": BATCH}


def test_models_are_compared_by_the_seconds_until_a_level(clock):
    frame = run("crossover")
    reached = frame[frame.epoch.notna()]
    assert len(reached) and list(reached.seconds) == list(reached.epoch)
    assert frame.seconds.isna().equals(frame.epoch.isna())


def test_the_time_of_a_fit_has_its_parts_and_recommending_its_own(clock, monkeypatch):
    plain = estimator.Model.recommend

    def recommend(self, *arguments, **named):
        clock.work(RECOMMEND)
        return plain(self, *arguments, **named)

    monkeypatch.setattr(estimator.Model, "recommend", recommend)
    frame = run("fit_seconds", fits=[["ALS", "parallel", 4, 3], ["SGD", "sequential", 4, 2]], repeats=1)
    of = {phase: list(rows.seconds) for phase, rows in frame[frame.task == "fit"].groupby("phase")}
    assert of["train"] == [3, 3, 2, 2] and of["preprocess"] == [PREPARE] * 4
    assert of["transfer"] == of["compile"] == [0] * 4
    assert of["end_to_end"] == [PREPARE + epochs + (epochs + 1) * COPIES for epochs in (3, 3, 2, 2)]
    assert list(frame.seconds[frame.task == "recommend"]) == [RECOMMEND] * 4


def test_a_chunk_has_the_seconds_of_the_trainings_before_it(clock):
    frame = run("stale_rbm", seeds=1)
    frame = frame.rename(columns=lambda name: name.removeprefix("x_"))
    assert (frame.factor_seconds == 2).all()
    trained = frame[frame.every > 0]
    batches = set(frame.rbm_seconds[frame.age == 0]) - {0.0}
    assert len(batches) == 1 and batches.pop() % (2 * BATCH) == 0
    assert (trained.rbm_seconds[trained.age > 0] == 0).all() and (frame.rbm_seconds[frame.every == 0] == 0).all()


# Experiments that time epochs, and parts of them


def test_iterations_are_those_of_both_sides(clock):
    frame = run("als_versions")
    seconds = frame.groupby("x_step").seconds.agg(["min", "max"])
    assert seconds.loc["iteration"].to_list() == [1, 1] and len(seconds) >= 3
    assert seconds.loc["users"].to_list() == [USERS] * 2 and seconds.loc["items"].to_list() == [ITEMS] * 2
    assert set(frame.repeat) == {0, 1}


@pytest.mark.parametrize("name", ["sgd_limits", "sgd_choice"])
def test_an_epoch_takes_its_second(clock, name):
    assert set(run(name).seconds) == {1.0}


def test_steps_of_cu2rec_are_timed_without_the_first(clock):
    frame = run("cu2rec_gpus", steps=[3, 5])
    assert frame.groupby("x_steps").seconds.agg(["min", "max"]).to_numpy().tolist() == [[6.0, 6.0], [10.0, 10.0]]


def test_the_threads_of_the_thesis_are_timed_by_whole_epochs(clock):
    frame = run("thread_scaling", repeats=2)
    assert set(frame.seconds) == {1.0}


def test_updates_are_counted_beside_the_seconds_of_their_epoch(clock):
    frame = run("lost_updates")
    assert set(frame.seconds) == {1.0}


def test_hugewiki_is_timed_by_halves_and_their_sum(clock, host, monkeypatch):
    from gpumf.ratings import synthetic_device

    plain = synthetic_device.synthetic_ratings

    def synthetic_ratings(*arguments, **named):
        clock.now, clock.launched = clock.now + 32, 4.0
        return plain(*arguments, **named)

    monkeypatch.setattr(synthetic_device, "synthetic_ratings", synthetic_ratings)
    frame = run("als_hugewiki", iterations=2).set_index(["x_iteration", "x_step"]).seconds
    assert frame[0, "generate"] == 36 and frame[0, "prepare"] == PREPARE
    for iteration in (1, 2):
        assert frame[iteration].to_dict() == {"users": USERS, "items": ITEMS, "iteration": USERS + ITEMS}


def test_the_cpus_versions_are_timed_by_the_process(clock, monkeypatch):
    from gpumf_study.experiments.gpumf import cpu_baselines

    if why := cpu_baselines.why_unavailable():
        pytest.skip(why)
    monkeypatch.setattr(cpu_baselines, "process_time", lambda: clock.now)
    for plain, seconds in ((cpu_baselines._PlainALS, 0.5), (cpu_baselines._PlainSGD, 0.25)):
        monkeypatch.setattr(plain, "epoch", lambda self, number, seconds=seconds: clock.work(seconds))
    seconds = run("cpu_baselines").groupby(["model", "solver", "variant"]).seconds.agg(["min", "max"])
    plain = {("ALS", "plain C", "no biases"): 0.5}
    plain |= {("SGD", "plain C", variant): 0.25 for variant in ("no biases", "biases")}
    assert len(seconds) == 8
    for version, row in seconds.iterrows():
        assert row.to_list() == [plain.get(version, 1.0)] * 2, version


def test_an_epoch_of_the_machine_is_all_its_batches_or_the_share_that_was_made(clock, monkeypatch):
    from gpumf_study.experiments.thesis import rbm_speed

    frame = run("rbm_speed")
    epochs = frame[frame.x_part == "epoch"]
    whole = epochs[epochs.x_share == 1]
    assert len(whole) and len(set(whole.seconds)) == 1 and whole.seconds.iloc[0] % BATCH == 0
    np.testing.assert_allclose(epochs.x_epoch_seconds, epochs.seconds / epochs.x_share)
    np.testing.assert_allclose(epochs.x_fraction_of_limit, epochs.x_limit_seconds / epochs.x_epoch_seconds)
    row = rbm_speed._row("epoch", 0, 0.25, 3.0)
    assert row["x_epoch_seconds"] == 12 and row["seconds"] == 3


def test_the_cube_and_the_ceilings_are_those_of_the_timed_work(clock, monkeypatch):
    timed = (
        (elementwise_cube, "cube_one_core", 4.0),
        (elementwise_cube, "cube_all_cores", 0.5),
        (_limits, "_copy", 0.25),
    )
    for module, name, seconds in timed:
        monkeypatch.setattr(module, name, lambda a, result, seconds=seconds: clock.work(seconds))
    monkeypatch.setattr(np, "matmul", lambda a, b, out: clock.work(2.0))
    monkeypatch.setattr(_limits, "ceilings", lambda device, **options: _limits.cpu_ceilings(**options))
    frame = run("elementwise_cube")
    cpu = frame[frame.device == "cpu"]
    assert cpu.groupby(cpu.threads == 1).seconds.agg(set).to_dict() == {True: {4.0}, False: {0.5}}
    limit = 2 * 4 * cpu.x_side**2 / (2 * 4 * 2.0**26 / 0.25)
    np.testing.assert_allclose(cpu.x_limit_seconds, limit)
    values = run("ceilings").set_index(["device", "metric"]).value["cpu"]
    assert values["copy_bytes_per_second"] == 2 * 4 * 2**26 / 0.25 and values["fp32_flops"] == 2 * 2048**3 / 2


def test_calls_are_timed_one_by_one_after_those_that_are_not(clock):
    costs = iter([100.0, 200.0, 1.0, 2.0, 4.0])
    assert seconds_of(lambda: clock.work(next(costs)), repeats=3, warmup=2).tolist() == [1, 2, 4]
    assert next(costs, None) is None
    assert isinstance(pd.Series(seconds_of(lambda: None, 1, 0))[0], float)
