"""ALS with more threads, on the whole GPU and on one held to the thesis's."""

import os
import time

import numpy as np
import pytest

from gpumf import ALS
from gpumf_study.experiments import _published
from gpumf_study.experiments._limits import KEPLER, active_blocks
from gpumf_study.experiments.thesis import register_bounds, thread_scaling
from support import KERNELS, ragged_ratings


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
