"""ALS for Hopper: warps that fetch, a team that multiplies and solves, and the stages between them."""

from types import SimpleNamespace

import numpy as np
import pytest

from cases import HALF, als_case, als_tolerance
from gpumf import ALS, ImplicitALS
from gpumf.solvers import als_warpgroups
from gpumf.solvers.als_tensor_core import is_hopper
from gpumf.solvers.base import shape_of
from support import ragged_ratings, random_factors, slow


@pytest.fixture
def hopper(launcher):
    """The devices that run the kernel."""
    if launcher.name == "cuda" and not is_hopper(launcher.facts):
        pytest.skip("only compute capability 9.0 has its instructions")
    return launcher


def solved(solver, device, ratings, factors, **options):
    """The users after half an epoch of the default steps, from a start of both signs, near the solution."""
    model = ALS(factors, solver=solver, device=device.name, biases=False)
    start = [random_factors(n, factors, n) - np.float32(0.5) for n in (ratings.n_users, ratings.n_items)]
    most = options.pop("blocks", None)
    trainer = model.make_solver(ratings, *start, **options)
    if most:
        trainer._max_blocks = {solver: most}
    trainer.solve_users()
    return device.to_numpy(trainer.factors()[0])


@pytest.mark.parametrize(
    ("factors", "weighted"),
    [
        (200, True),
        (256, False),
        *slow(*[(f, True) for f in (63, 64, 65, 129, 136, 137, 144, 192, 193, 248, 249, 255)]),
    ],
)
def test_half_sweep_matches_the_reference(hopper, factors, weighted):
    ratings = ragged_ratings(n_users=5, n_items=500, longest=150, seed=factors)
    case = als_case(hopper.name, "warpgroups", ratings, factors, weighted=weighted)
    case.parts = {"longest": 64}  # rows of several segments
    first, again = case.run(HALF), case.run(HALF)
    assert all(map(np.array_equal, first, again))
    assert not first[0][ratings.by_user.counts == 0].any()
    tolerance = als_tolerance("warpgroups") * (1 if weighted else 4)
    case.assert_close(tolerance * factors / 100, HALF, first, floor=1e-3)


@pytest.mark.parametrize("factors", [70, *slow(129, 200, 256)])
def test_few_steps_go_as_far_as_those_of_tensor_core(hopper, factors):
    ratings = ragged_ratings(n_users=6, n_items=300, longest=200, seed=factors)
    ours, theirs = (solved(solver, hopper, ratings, factors) for solver in ("warpgroups", "tensor_core"))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())


@pytest.mark.parametrize("blocks", [1, 3])
def test_blocks_that_take_several_rows_give_the_same_bits(hopper, blocks):
    # More segments than a fetching warp knows at a time, and more stages than there is room for.
    ratings = ragged_ratings(n_users=50, n_items=800, longest=60, seed=1)
    longer = ragged_ratings(n_users=3, n_items=800, longest=790, seed=2)
    for chosen in (ratings, longer):
        few, many = (solved("warpgroups", hopper, chosen, 9, longest=100, blocks=n) for n in (blocks, 1000))
        assert np.array_equal(few, many)


@pytest.mark.parametrize("factors", [20, *slow(129)])
def test_the_same_bits_in_every_order(host, factors):
    ratings, found = ragged_ratings(n_users=4, n_items=90, longest=80, seed=6), set()
    for seed in range(3):
        with host.shuffled(seed):
            found.add(solved("warpgroups", host, ratings, factors, longest=40, blocks=2).tobytes())
    assert len(found) == 1


def test_short_rows_are_left_to_their_own_kernel(hopper):
    ratings = ragged_ratings(n_users=6, n_items=200, longest=190, seed=4)
    apart, together = (solved("warpgroups", hopper, ratings, 70, short=most) for most in (128, 0))
    short = ratings.by_user.counts <= 128
    assert np.array_equal(apart[~short], together[~short]) and not np.array_equal(apart, together)
    np.testing.assert_allclose(apart, together, rtol=1e-3, atol=1e-3 * np.abs(together).max())


def test_streamed_rows_give_the_same_bits(hopper):
    ratings, found = ragged_ratings(n_users=9, n_items=20, longest=15, seed=1), set()
    for chunk in (None, 1, 40):
        model = ALS(20, 0.1, solver="warpgroups", device=hopper.name, chunk=chunk).fit(ratings, 1)
        found.add(model.user_factors.tobytes() + model.item_factors.tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("factors", [200, 256, *slow(129, 184, 185, 192, 248, 249)])
def test_its_stages_fill_the_shared_memory_of_a_hopper_gpu(host, factors):
    shape = shape_of(host, "als/warpgroups.cu", FACTORS=factors, WGMMA=1)
    assert 200_000 < shape.team_bytes <= host.facts["shared_bytes_per_block"]
    assert (shape.teams, shape.persistent, shape.block) == (1, 1, 384)


def test_it_says_what_it_does_not_run(host, monkeypatch):
    with pytest.raises(ValueError, match=r"no solver .*warpgroups \(cuda, up to 256\)"):
        ALS(257, solver="warpgroups", device="emulator", biases=False)
    with pytest.raises(ValueError, match="ImplicitALS has no solver 'warpgroups'"):
        ImplicitALS(200, solver="warpgroups", device="emulator")
    ampere = SimpleNamespace(facts={"gpu": "NVIDIA A100", "compute_capability": "8.0"})
    monkeypatch.setattr(als_warpgroups.backends, "device", lambda name: ampere)
    with pytest.raises(ValueError, match=r"9\.0 \(Hopper\), not on NVIDIA A100, which has 8\.0; take solver='tensor"):
        als_warpgroups.WarpGroups.check(SimpleNamespace(device="cuda"))
    ampere.facts["compute_capability"] = "9.0"
    als_warpgroups.WarpGroups.check(SimpleNamespace(device="cuda"))


def test_it_is_not_the_default(host):
    assert ALS(200, device="emulator", biases=False).solver == "tensor_core"
