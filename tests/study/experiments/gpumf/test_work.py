"""Bytes and operations of an epoch, beside what is counted by hand."""

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD
from gpumf.ratings import Ratings
from gpumf_study.experiments.gpumf import _work, sgd_limits

M, N, F = 6, 4, 8
CELLS = np.random.default_rng(0).permutation(M * N)[:15]
TRAIN = Ratings(CELLS // N, CELLS % N, 1 + CELLS % 5, M, N, name="small")
ROWS, NNZ, TRIANGLE = M + N, len(CELLS), F * (F + 1) // 2
GATHERED = 2 * NNZ * (8 + 4 * F) + 4 * F * ROWS  # each rating from both sides, with a row; the solutions


@pytest.mark.parametrize(
    ("model", "solver", "expected"),
    [(ALS, "sequential", GATHERED), (ALS, "thesis_shared", GATHERED),
     (ALS, "thesis_hybrid", GATHERED + 2 * NNZ * TRIANGLE * 2 * 4),
     (ALS, "thesis_global", GATHERED + 2 * NNZ * TRIANGLE * 2 * 4),
     (ALS, "cumf_lu", GATHERED + ROWS * TRIANGLE * 2 * 4), (ALS, "cumf_cg_fp16", GATHERED + ROWS * TRIANGLE * 2 * 2),
     (ALS, "tensor_core", GATHERED - 2 * NNZ * 2 * F), (ALS, "warpgroups", GATHERED - 2 * NNZ * 2 * F),
     (SGD, "hogwild", NNZ * (12 + 4 * 4 * F)),
     (SGD, "cumf_sgd", NNZ * (12 + 4 * 2 * F)), (SGD, "kato_hosino", 2 * NNZ * (12 + 4 * F) + 2 * 4 * F * ROWS)],
)  # fmt: skip
def test_bytes_are_those_of_the_plan(host, model, solver, expected):
    given = {"solver": solver, "biases": False, "regularization": 0.1}
    if model.solvers()[solver] == "cuda":
        given["device"] = "emulator"
    assert _work.of_epoch(model(F, **given), TRAIN)[0] == expected


def test_fast_moves_what_its_tiles_say(host):
    model = SGD(F, solver="fast", biases=False, regularization=0.1, device="emulator")
    assert _work.of_epoch(model, TRAIN)[0] == 12 * NNZ + sgd_limits.plan(model, TRAIN)[1]


@pytest.mark.parametrize("solver", ["tensor_core", "warpgroups"])
def test_steps_of_conjugate_gradient_count_where_they_are_fewer_operations(host, solver):
    f = 100
    als = ALS(f, solver=solver, biases=False, regularization=0.1, device="emulator")
    steps = 2 * f**2 * (als.cg_steps + 1)
    assert _work.of_epoch(als, TRAIN)[1] == pytest.approx(2 * NNZ * (f * (f + 1) + 2 * f) + ROWS * steps)


def test_operations_are_those_that_have_to_be_done():
    als = ALS(F, solver="sequential", biases=False, regularization=0.1)
    exact = F**3 / 3 + 2 * F**2
    assert _work.of_epoch(als, TRAIN)[1] == pytest.approx(2 * NNZ * (F * (F + 1) + 2 * F) + ROWS * exact)
    assert _work.of_epoch(SGD(F, solver="ordered", biases=False, regularization=0.1), TRAIN)[1] == 8 * F * NNZ
    assert np.isnan(_work.of_epoch(RBM(F, solver="sequential"), TRAIN)).all()
