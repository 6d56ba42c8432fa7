"""The races of Hogwild, demonstrated: each order gives what arithmetic says it must."""

from dataclasses import replace

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD, BayesianMF, ImplicitALS, search
from gpumf.backends import sources
from gpumf.models import ranking
from gpumf.models.initial import normal_factors, uniform_factors
from gpumf.ratings import synthetic_device
from gpumf.ratings.device import DeviceRatings
from gpumf.solvers import als_tensor_core
from gpumf.solvers.als_cumf import Cumf
from gpumf_study.experiments.gpumf import race_demonstration, race_steps
from gpumf_study.experiments.thesis import elementwise_cube
from support import KERNELS, SCHEMES, kernels_on, ragged_ratings

NAMES = KERNELS / "names.cu"


def test_two_updates_step_by_step(host):
    frame = race_steps.run(seeds=40)
    p, (q, _), rate = race_steps.USER[0, 0], race_steps.ITEMS[:, 0], race_steps.RATE
    # Update 0 draws the rating 1, update 1 the rating 5.
    first, second = (lambda p, rating=r: p - rate * (p * q - rating) * q for r in (1, 5))
    expected = {
        ("both count", 0): second(first(p)),
        ("both count", 1): first(second(p)),
        ("update 0 is lost", 0): second(p),
        ("update 1 is lost", 1): first(p),
    }
    seen = set()
    for _, steps in frame.groupby("repeat"):
        assert list(steps.x_step) == list(range(8))
        writes = steps[(steps.x_array == "user_factors") & (steps.x_access == "write")]
        case = steps.x_outcome.iloc[0], writes.x_group.iloc[0]
        assert np.isclose(steps.value, expected[case], rtol=1e-6).all()
        seen.add(case)
    assert seen == set(expected)


def test_one_group_is_sequential_and_more_lose_more(host):
    frame = race_demonstration.run([1, 2, 16], seeds=6, n_users=12, n_items=9, factors=5, n_updates=150)
    frame = frame.pivot(index=["x_groups", "repeat"], columns="metric", values="value")
    one, two, many = (runs for _, runs in frame.groupby("x_groups"))
    assert (one.lost_share == 0).all() and (one.distance < 1e-5).all() and one.distance.nunique() == 1
    assert two.lost_share.between(0.001, 0.5).all() and two.rmse.nunique() == 6
    assert many.lost_share.mean() > 2 * two.lost_share.mean() and many.distance.mean() > two.distance.mean()


SMALL = replace(
    synthetic_device.RECIPES["hugewiki-small-synthetic"],
    users=40,
    items=15,
    ratings=300,
    user_counts=(3, 15),
    item_counts=(5, 38),
    test=30,
)


def raced_for(trace, lanes=1):
    """The arrays of which several threads touched an element, not all of them reading and not all atomically.

    Threads of a block that has passed a barrier in between do not race.

    lanes : of a group that counts as one thread
    """
    trace = trace.assign(thread=trace.thread // lanes, written=trace.access != "read", plain=trace.access != "atomic")

    def raced(who, where):
        touched = trace.groupby(where)
        of = (touched[who].nunique() > 1) & touched.written.any() & touched.plain.any()
        return set(of[of].index.get_level_values("array"))

    element = ["array", "element"]
    return raced("block", element) | raced("thread", [*element, "block", "barriers"])


@pytest.mark.slow
def test_only_the_wanted_races_happen(host, monkeypatch):
    train, test = ragged_ratings(n_users=12, n_items=9, longest=7, seed=1).split(0.2)
    a, trace = np.ones((5, 5), np.float32), []
    with host.shuffled(0, trace):
        for model in (ALS, ImplicitALS):
            for kernel in kernels_on(model, "emulator"):
                model(5, solver=kernel, device="emulator").fit(train, 2, test).evaluate_ranking(test, 3)
        ALS(5, solver="cumf_cg", device="emulator", biases=True).fit(train, 1)
        longer = ragged_ratings(n_users=12, n_items=150, longest=130, seed=3)
        ALS(5, solver="tensor_core", device="emulator", biases=False).make_solver(longer, short=128).solve_users()
        of_hopper = {"WGMMA": 1, "THROUGH_L1": 0, "STAGE_ROWS": 64}
        ALS(65, solver="tensor_core", device="emulator", biases=False).make_solver(train, **of_hopper).solve_users()
        eight_bits = {"in_bytes": True, "short": 0}
        ALS(88, solver="warpgroups", device="emulator", biases=False).make_solver(train, **eight_bits).epoch(0)
        for factors in (65, 5):
            with monkeypatch.context() as hopper:
                hopper.setattr(als_tensor_core, "takes_warpgroups", lambda *_: True)
                ImplicitALS(factors, solver="tensor_core", device="emulator").fit(train, 1)
        for kernel in ("thesis_global", "thesis_hybrid", "thesis_shared"):
            ALS(5, solver=kernel, device="emulator", threads=256, biases=False).fit(train, 2, test)
        for kernel in kernels_on(BayesianMF, "emulator"):
            BayesianMF(5, solver=kernel, device="emulator").fit(train, 1)
        for model in (  # with a system that does not fit shared memory
            *(ALS(10, solver=kernel, device="emulator", biases=False) for kernel in ("cumf_lu", "cumf_cholesky")),
            BayesianMF(10, solver="gibbs_cuda", device="emulator"),
        ):
            with monkeypatch.context() as small:
                small.setitem(host.facts, "shared_bytes_per_block", 2000)
                small.setattr(Cumf, "check", classmethod(lambda cls, hyper: None))  # which would refuse so little
                model.fit(train, 1)
        for kernel, options in SCHEMES:
            SGD(5, solver=kernel, device="emulator", threads=512, biases=False, **options).fit(train, 2, test)
        for kernel in kernels_on(RBM, "emulator"):
            RBM(5, gibbs_steps=2, momentum=0.5, batch=7, solver=kernel, device="emulator").fit(
                train, 1, test
            ).evaluate_ranking(test, 3)
        model = SGD(5, solver="cu2rec", device="emulator", biases=False)
        model.make_solver(train).training_errors()
        for access in ("coalesced", "strided"):
            elementwise_cube.cube(host, access)(a, a.copy())
        counts = np.zeros((3, 1), np.int32)
        host.kernel("microbenchmarks/occupy.cu", "occupy")(2, 1, *counts, np.int64(3))
        synthetic_device.generate(SMALL, device="emulator")
        uniform_factors(4, 3, 1.0, 0, host), normal_factors(4, 3, 0.1, 0, host)
        there = DeviceRatings.of(train, host)
        there.random_order(there.nnz, seed=0)
        assert DeviceRatings.of(replace(train, scale=None), host).bounds == (train.values.min(), train.values.max())
        SGD(5, solver="fast", tiles=3, device="emulator", biases=False).fit(there, 1)
        wide = ragged_ratings(n_users=4, n_items=600, longest=200, seed=2)  # items in parts, whose lists are merged
        model = ALS(5, device="emulator").fit(wide, 1)
        model.recommend(0, 3)
        with monkeypatch.context() as many:
            many.setattr(ranking, "_SCREENED_USERS", 1)
            model.recommend(np.arange(4), 3)
        alike = {"regularization": [0.1, 1.0]}, longer, 1
        for model, options in (
            (ALS, {"solver": "tensor_core"}),
            (SGD, {"solver": "fast", "tiles": 3, "threads": 512}),
        ):
            search(model(5, device="emulator", **options), *alike, folds=2, refit=False)  # both settings at a time
        for precision in (16, 32):
            solver = SGD(5, solver="fast", device="emulator", biases=False, precision=precision).make_solver(train)
            solver.shrink(*(np.ones(n, np.float32) for n in (train.n_users, train.n_items)))
    found = {}
    for launch in trace:
        kernel = source, name, _ = *launch.attrs["kernel"], launch.attrs["defined"]
        lanes, arrays = sources.declared(source).groups.get(name, (1, set()))
        of_groups = arrays - raced_for(launch, lanes)
        found.setdefault(kernel, set()).update(raced_for(launch) - of_groups)
    wanted = {
        (source, name, defined): sources.races(source, **dict(defined)).get(name, set())
        for source, name, defined in found
    }
    assert found == wanted
    assert {(source, name) for source, name, _ in found} == set(sources.all_kernels())
    compiled = {(source, key, value) for source, _, defined in found for key, value in defined}
    versions = [("sgd/cu2rec.cu", "CONFLICT")] + [
        ("sgd/fast.cu", key) for key in ("STORED", "LOCKED", "ROW_RATES", "BATCHED")
    ]
    for source, key in versions:
        assert {(source, key, value) for value in sources.declared(source).variants[key]} <= compiled


def test_a_barrier_ends_a_race(host):
    # Both kernels of GPUSGD's family give a factor to another thread after a barrier; no race is wanted there.
    train, trace = ragged_ratings(n_users=9, n_items=9, longest=7, seed=2), []
    with host.shuffled(0, trace):
        SGD(5, solver="gpusgd", device="emulator", side=1, biases=False).fit(train, 1)
    (launch,) = (launch for launch in trace if launch.attrs["kernel"][1] == "gpusgd")
    factors = launch[launch.array == "user_factors"]
    assert factors.groupby("element").thread.nunique().max() > 1 and factors.barriers.max() > 1
    assert not raced_for(launch) and raced_for(launch.assign(barriers=0)) == {"user_factors", "item_factors"}


def test_a_race_is_seen_and_atomics_are_none(host):
    trace, values, integers = [], np.ones(64, np.int32), np.zeros(5, np.int32)
    with host.shuffled(0, trace):
        host.kernel(NAMES, "atomics")(2, 32, values, integers, np.zeros(1, np.float32), np.zeros(1))
    assert raced_for(trace[0]) == {"integers"}  # its counter is read plainly before it is exchanged
