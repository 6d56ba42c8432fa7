"""How long an epoch takes on so many workers."""

import pytest

from gpumf import ALS
from gpumf.distributed.als import gather_bytes, reduce_bytes, system_size, way_of
from gpumf_study.experiments.cumf._epoch_seconds import Machine, als_seconds

H = Machine(product_rate=20e12, solve_rate=5e12, bandwidth=2e11, latency=1e-5)
NETFLIX = {"n_users": 480_189, "n_items": 17_770, "nnz": 99_072_112, "columns": 100}
HUGEWIKI = {"n_users": 50_082_603, "n_items": 39_780, "nnz": 2_791_030_000, "columns": 100}


def test_bytes_are_those_of_what_comes_from_the_others():
    assert gather_bytes(10, 3, 1) == reduce_bytes(10, 3, 1) == 0
    assert gather_bytes(10, 3, 2) == 10 * 3 * 4 / 2
    assert reduce_bytes(10, 3, 2) == 10 * system_size(3) * 4 / 2 and system_size(3) == 9


def test_work_is_shared_out_and_what_is_sent_is_not():
    one, four = (als_seconds(H, **NETFLIX, workers=workers) for workers in (1, 4))
    assert one["send"] == 0 and four["send"] > 0
    assert four["products"] == one["products"] / 4 and four["solve"] == one["solve"] / 4
    assert one["total"] == one["products"] + one["solve"]
    assert als_seconds(H, **NETFLIX, workers=1, steps=4)["solve"] < one["solve"]


def test_over_a_slow_network_several_workers_take_longer_than_one():
    slow = Machine(**(vars(H) | {"bandwidth": 1e9}))
    one, fast, slower = (als_seconds(of, **NETFLIX, workers=n)["total"] for of, n in ((H, 1), (H, 4), (slow, 4)))
    assert one / 4 < fast < one < slower


def test_hugewiki_is_reduced_and_netflix_gathered():
    """39,780 items for 50 million users: partial sums of the items are fewer bytes than the users' factors."""
    model = ALS(98, device="cpu", solver="parallel")
    assert way_of(model, "auto", HUGEWIKI["n_users"], HUGEWIKI["n_items"], 4) == "reduce"
    assert way_of(model, "auto", NETFLIX["n_users"], NETFLIX["n_items"], 4) == "gather"
    gather, reduce = (als_seconds(H, **HUGEWIKI, workers=4, way=way)["send"] for way in ("gather", "reduce"))
    assert reduce < gather / 5
    assert way_of(ALS(98, device="cpu", solver="cg"), "auto", 50_082_603, 39_780, 4) == "gather"


@pytest.mark.emulator
@pytest.mark.usefixtures("host")
def test_kernels_add_up_what_has_no_divisor_of_its_own():
    ways = {"cumf_cholesky": "reduce", "cumf_cg": "reduce", "cumf_cg_fp16": "gather", "tensor_core": "gather"}
    for solver, way in ways.items():
        assert way_of(ALS(98, device="emulator", solver=solver), "auto", 50_082_603, 39_780, 4) == way
