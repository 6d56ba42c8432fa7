"""ALS with more threads, on the whole GPU and on one held to the thesis's."""

import os
import time

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS
from gpumf.backends.occupancy import KEPLER, active_blocks
from gpumf_study.experiments import _published
from gpumf_study.experiments.thesis import register_bounds, thread_scaling
from outcomes import assert_drawn
from support import KERNELS, ragged_ratings


def scaled(kepler=4, of_global=256.0, further=3, slower=1):
    """Epochs on both machines: linear to `kepler` blocks on each of 8 multiprocessors, then in turns.

    of_global : seconds of the version in global memory with 128 threads, which gains on the other one with more
    further : to so many times as many blocks that version is linear
    slower : it takes so many times as long on 8 multiprocessors
    """
    rows = []
    for solver, seconds in (("thesis_shared", 128.0), ("thesis_global", of_global)):
        blocks_active = kepler if solver == "thesis_shared" else further * kepler
        for machine, held in ((thread_scaling.OWN, 1e9), (thread_scaling.KEPLER_LIKE, 8 * blocks_active)):
            threads = [128 * b for b in range(1, 100)]
            if machine == thread_scaling.OWN and solver == "thesis_shared":
                threads.insert(0, 16)
            for t in threads:
                blocks = max(t // 128, 1)
                gain = blocks ** (0.1 if solver == "thesis_global" else 0)
                one = seconds * 128 / min(t, 128) / blocks * np.ceil(blocks / held) / gain
                limited = machine == thread_scaling.KEPLER_LIKE
                active, processors = (blocks_active, 8) if limited else (7, 10)
                one *= (slower if solver == "thesis_global" else 1) if limited else 1
                what = (solver, machine, processors, t, 9216, 9216, active, active, 7)
                rows += [(*what, repeat, one) for repeat in (0, 1)]
    columns = ["solver", "x_machine", "x_multiprocessors", "x_threads", "x_shared_bytes", "x_asked_bytes"]
    columns += ["x_active_computed", "x_active_driver", "x_epochs_to_threshold", "repeat", "seconds"]
    return pd.DataFrame(rows, columns=columns)


def test_what_the_thesis_states_of_its_blocks_follows_from_equation_6_2():
    for kernel in ("thesis_shared", "thesis_global"):
        stated, blocks = (
            _published.value("Figure 6.8", quantity, model=f"ALS {kernel}")
            for quantity in ("shared memory of a block", "active blocks")
        )
        assert active_blocks(KEPLER, 128, shared_bytes=int(stated)) == blocks


def test_a_block_asks_for_what_leaves_as_many_active_as_fit_48_kb(launcher, monkeypatch):
    train, facts = ragged_ratings(seed=3), launcher.facts
    monkeypatch.setitem(facts, "reserved_shared_bytes", facts.get("reserved_shared_bytes", 1024))
    resident = thread_scaling._resident(launcher, train)
    model = ALS(16, solver="thesis_shared", device=launcher.name, threads=128, biases=False)
    factors = model.initial_factors(train)
    (needed, asked, *_), _ = thread_scaling._taken(model, resident, factors, launcher, thread_scaling.SHARED)
    of_block = asked + facts["reserved_shared_bytes"]
    assert facts["shared_bytes_per_multiprocessor"] // of_block == (48 << 10) // needed > 1


def test_each_kernel_counts_the_epochs_of_its_own_run(launcher, monkeypatch):
    train, test = ragged_ratings(seed=3).split(0.2)
    monkeypatch.setattr(_published, "threshold", lambda name: 1.2)
    fits, plain = [], ALS.fit

    def fit(self, *arguments, **named):
        fits.append(self.solver)
        return plain(self, *arguments, **named)

    monkeypatch.setattr(ALS, "fit", fit)
    for kernel in thread_scaling.KERNELS:
        thread_scaling._epochs_to_threshold(kernel, launcher, train, test, {"regularization": 0.1}, 2)
    assert fits == thread_scaling.KERNELS


def test_speedups_are_over_one_half_warp_of_the_whole_gpu():
    table = thread_scaling.summary(scaled()).set_index(["x_machine", "solver", "x_threads"])
    assert table.speedup[thread_scaling.OWN, "thesis_shared", 16] == 1
    assert table.speedup[thread_scaling.OWN, "thesis_shared", 1280] == 80
    assert table.seconds_to_threshold[thread_scaling.OWN, "thesis_shared", 128] == 7 * 128


def test_one_block_more_than_are_active_is_found():
    found = thread_scaling.full(scaled(kepler=4)).query("x_machine == @thread_scaling.KEPLER_LIKE")
    threads = found[found.solver == "thesis_shared"].groupby("x_blocks_more").x_threads.unique()
    assert threads[0].tolist() == [8 * 4 * 128] and threads[1].tolist() == [8 * 4 * 128 + 128]


def test_asking_for_more_shared_memory_changes_no_factor(launcher):
    train = ragged_ratings(seed=3)
    model = ALS(16, solver="thesis_shared", device=launcher.name, biases=False)
    factors = []
    for asked in (0, 2 * model.solver_class.shared_bytes(model.hyperparameters)):
        trainer = model.make_solver(train, shared_bytes=asked)
        trainer.epoch(0)
        factors.append([launcher.to_numpy(side).copy() for side in trainer.factors()])
    for with_less, with_more in zip(*factors, strict=True):
        np.testing.assert_array_equal(with_less, with_more)


def test_kernels_without_a_minimum_of_blocks_learn_the_same(launcher, tmp_path):
    file = register_bounds.without_bounds(tmp_path)
    text = file.read_text(encoding="utf-8")
    assert text.count("__launch_bounds__(MAX_THREADS)") == 2 and "(MAX_THREADS, " not in text
    model = ALS(16, solver=register_bounds.GLOBAL, device=launcher.name, biases=False, seed=0)
    factors = []
    for kernel in (None, launcher.kernel(file, register_bounds.GLOBAL, FACTORS=16)):
        trainer = model.make_solver(ragged_ratings(seed=3))
        trainer._kernel = kernel or trainer._kernel
        trainer.epoch(0)
        factors.append([launcher.to_numpy(side).copy() for side in trainer.factors()])
    for bounded, free in zip(*factors, strict=True):
        np.testing.assert_array_equal(bounded, free)


def test_a_block_that_occupies_goes_when_told_or_gives_up(launcher):
    kernel = launcher.kernel("microbenchmarks/occupy.cu", "occupy")
    for told in (1, 0):
        waiting, gave_up = launcher.zeros(1, np.int32), launcher.zeros(1, np.int32)
        kernel(3, 1, waiting, gave_up, launcher.array(np.array([told], np.int32)), np.int64(10))
        assert launcher.to_numpy(waiting)[0] == 3 and launcher.to_numpy(gave_up)[0] == (0 if told else 3)


def test_a_block_that_occupies_waits_a_minute_or_more(cuda):
    from gpumf.backends.cuda import _MAX_POLLS

    kernel, polls = cuda.kernel("microbenchmarks/occupy.cu", "occupy"), 1_000_000
    never = [cuda.zeros(1, np.int32) for _ in range(3)]
    kernel(3, 1, *never, np.int64(1))  # loaded
    started = time.perf_counter()
    kernel(cuda.facts["multiprocessors"] - 8, 1, *never, np.int64(polls))
    cuda.synchronize()
    assert (time.perf_counter() - started) * _MAX_POLLS / polls > 60


@pytest.mark.skipif("PYTEST_XDIST_WORKER" in os.environ, reason="other processes take turns on the GPU")
def test_a_limited_gpu_runs_blocks_on_so_many_multiprocessors_alone(cuda):
    everywhere = cuda.facts["multiprocessors"]
    kernel, blocks = cuda.kernel(KERNELS / "multiprocessors.cu", "multiprocessors"), cuda.zeros(1024, np.int32)
    kernel(8 * everywhere, 128, blocks)  # loaded before the device is limited
    for few in (everywhere, 2, everywhere):
        before = cuda.to_numpy(blocks)
        with cuda.limited_to(few):
            kernel(8 * everywhere, 128, blocks)
            cuda.synchronize()
        assert np.count_nonzero(cuda.to_numpy(blocks) - before) == few
    with pytest.raises(ValueError, match="multiprocessors"), cuda.limited_to(everywhere + 1):
        pass


def test_the_published_ends_of_linear_scaling_are_drawn(store):
    figure = thread_scaling.figure(scaled())
    vertical = {line.get_xdata()[0] for line in figure.axes[0].lines if len(set(line.get_xdata())) == 1}
    assert vertical == {4096, 12288}


def test_claims_take_what_they_state():
    found = {claim.id: claim.estimate(scaled(slower=2)).value for claim in thread_scaling.CLAIMS}
    wanted = {"6.7": 1, "6.7-drop": 0.5, "6.8": 0, "6.8-blocks": 4, "6.9": 96**0.1, "6.10": 4, "6.10-reason": 2}
    for name, value in wanted.items():
        assert found[f"thesis-fig-{name}"] == pytest.approx(value, rel=0.05), name
    assert found["thesis-newer-gpus-global"] == pytest.approx(99**0.1 / 2, rel=0.01)


def test_the_figure_says_where_it_was_measured_and_what_its_axes_are(store):
    result = store("thread_scaling", scaled())
    assert_drawn(thread_scaling.figure(result.frame), result, 2)
