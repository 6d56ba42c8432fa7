"""ALS for Hopper: warps that fetch, a team that multiplies and solves, and the stages between them."""

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cases import HALF, als_case, als_tolerance
from gpumf import ALS, ImplicitALS, Ratings, backends, load
from gpumf.backends.cpu import reference
from gpumf.models import batch
from gpumf.solvers import als_warpgroups
from gpumf.solvers.als_base import _SEGMENT
from gpumf.solvers.als_tensor_core import TensorCore, bear_bytes, fits_bytes, is_hopper, takes_bytes
from gpumf.solvers.als_warpgroups import WarpGroups
from gpumf.solvers.base import shape_of
from gpumf_study.experiments import usable_solvers
from support import kernels_on, ragged_ratings, random_factors, slow


@pytest.fixture
def hopper(launcher):
    """The devices that run the kernel."""
    if launcher.name == "cuda" and not is_hopper(launcher.facts):
        pytest.skip("only compute capability 9.0 has its instructions")
    return launcher


@pytest.fixture
def nine(host, monkeypatch):
    """The emulator as a GPU of compute capability 9.0."""
    monkeypatch.setitem(host.facts, "compute_capability", "9.0")
    return host


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
        (100, True),
        (128, False),
        (200, True),
        (256, False),
        *slow(*[(f, True) for f in (63, 64, 65, 72, 88, 112, 113, 120, 121, 128)]),
        *slow(*[(f, True) for f in (129, 136, 137, 144, 192, 193, 248, 249, 255)]),
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


@pytest.mark.parametrize("factors", [70, 100, *slow(65, 112, 113, 128, 129, 200, 256)])
def test_few_steps_go_as_far_as_those_of_tensor_core(hopper, factors):
    ratings = ragged_ratings(n_users=6, n_items=300, longest=200, seed=factors)
    ours = solved("warpgroups", hopper, ratings, factors)
    theirs = solved("tensor_core", hopper, ratings, factors, WGMMA=0, THROUGH_L1=1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())


@pytest.mark.parametrize(
    ("factors", "blocks"), [(9, 1), (9, 3), (100, 1), (100, 3), *slow((65, 2), (112, 1), (113, 3), (128, 1))]
)
def test_blocks_that_take_several_rows_give_the_same_bits(hopper, factors, blocks):
    # More segments than a fetching warp knows at a time, and more stages than a team has room for.
    ratings = ragged_ratings(n_users=50 if factors <= 64 else 110, n_items=800, longest=60, seed=1)
    longer = ragged_ratings(n_users=3, n_items=800, longest=790, seed=2)
    for chosen in (ratings, longer):
        few, many = (
            solved("warpgroups", hopper, chosen, factors, longest=100, short=0, blocks=n) for n in (blocks, 1000)
        )
        assert np.array_equal(few, many)


@pytest.mark.parametrize("rows", [4, 5])
def test_teams_without_a_row_end(hopper, rows):
    # Of two blocks of three teams.
    ratings = ragged_ratings(n_users=rows, n_items=90, longest=60, seed=rows)
    ours, one = (solved("warpgroups", hopper, ratings, 100, blocks=n) for n in (2, 1))
    theirs = solved("tensor_core", hopper, ratings, 100)
    assert np.array_equal(ours, one)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())


@pytest.mark.parametrize("factors", [20, 100, *slow(65, 112, 113, 128, 129)])
def test_the_same_bits_in_every_order(host, factors):
    ratings, found = ragged_ratings(n_users=4, n_items=90, longest=80, seed=6), set()
    for seed in range(3):
        with host.shuffled(seed):
            found.add(solved("warpgroups", host, ratings, factors, longest=40, blocks=2).tobytes())
    assert len(found) == 1


# Rows in eight bits


def bytes_trainer(device, ratings, factors, **options):
    """A solver that gathers bytes, from items of both signs; and these as integers, with their unit."""
    options = {"in_bytes": True, "short": 0} | options
    model = ALS(factors, 0.05, solver="warpgroups", device=device.name, biases=False, cg_steps=150, cg_tolerance=1e-7)
    start = [random_factors(n, factors, n) - np.float32(0.5) for n in (ratings.n_users, ratings.n_items)]
    unit = np.abs(start[1]).max() / np.float32(127)
    return model.make_solver(ratings, *start, **options), np.rint(start[1].astype(np.float64) / unit), unit


def digits_of(ratings, exponent):
    """The three bytes of ratings, the highest first, in units of 2^exponent."""
    left, digits = np.rint(np.ldexp(ratings.astype(np.float64), exponent)).astype(np.int64), []
    for _ in range(3):
        digits.append((left + 128) % 256 - 128)
        left = (left - digits[-1]) // 256
    assert not left.any()
    return digits[::-1]


@pytest.mark.parametrize("factors", [100, *slow(81, 88, 96, 97, 104)])
def test_rows_in_bytes_are_integers_of_one_unit(hopper, factors):
    trainer, integers, unit = bytes_trainer(hopper, ragged_ratings(5, 300, 90, seed=factors), factors)
    trainer.solve_users()
    rows, numbers = (hopper.to_numpy(of) for of in (trainer._half.bytes, trainer._half.unit))
    byte = np.arange(128)
    columns = byte // 16 * 16 + byte % 2 * 8 + byte % 16 // 2
    kept = columns < factors
    assert np.array_equal(rows[:300, kept], integers[:, columns[kept]]) and not rows[:300, ~kept].any()
    assert numbers[0, 0] == unit and np.isclose(numbers[0, 1] * unit, 1) and np.abs(rows[:300]).max() == 127


@pytest.mark.parametrize("factors", [100, *slow(81, 88, 96, 97, 104)])
@pytest.mark.parametrize("real", [False, True])
def test_sums_of_bytes_are_those_of_integers(hopper, factors, real):
    # The parts of a long row, as they are left for the last one of them.
    ratings = ragged_ratings(n_users=4, n_items=300, longest=290, seed=factors)
    if real:  # of both signs, and of several magnitudes
        values = np.random.default_rng(1).standard_normal(ratings.nnz) * 10.0 ** np.arange(-3, 1)[ratings.users % 4]
        ratings = replace(ratings, values=values.astype(np.float32), scale=(-9, 9))
    trainer, integers, _ = bytes_trainer(hopper, ratings, factors, longest=97)
    rows, part_bytes = trainer._users[0], trainer._entry["bytes"].part_bytes
    trainer._meeting[rows][0][...] = 0  # where some warps write nothing
    trainer.solve_users()
    tiles, quads = -(-factors // 16), part_bytes // (16 * 128)
    left = hopper.to_numpy(trainer._meeting[rows][0])[: int(rows.slots) * part_bytes].view(np.float32)
    left = left.reshape(-1, quads, 4, 32, 2, 2)  # warp, lane; row l / 4 and that below, two columns
    by_user, seen = ratings.by_user, 0
    for segment in hopper.to_numpy(rows._segments[0]["all"][0]).view(_SEGMENT).ravel():
        if segment["parts"] == 1:
            continue
        first = segment["begin"]
        here = slice(first, first + segment["length"])
        of_row = slice(*by_user.indptr[segment["row"] : segment["row"] + 2])
        padded = np.zeros((segment["length"], 16 * tiles), np.int64)
        padded[:, :factors] = integers[by_user.indices[here]]
        largest = np.abs(by_user.values[of_row]).max()
        digits = digits_of(by_user.values[here], 22 - int(np.frexp(largest)[1]))
        found = left[segment["slot"] + segment["part"]]
        expected = padded.T @ padded
        right = [(padded.T @ digit).astype(np.float32) for digit in digits]
        right = right[0] + (right[2] / np.float32(256) + right[1]) / np.float32(256)
        for warp in range(4):
            of_warp = [warp] + ([tiles - warp] if warp and tiles - warp >= 4 else [])
            for second, row in enumerate(of_warp):
                below = slice(16 * row, 16 * row + 16)
                for column in range(row, tiles):
                    quad = 2 * (column if second else column - warp)
                    tile = found[quad : quad + 2, warp].reshape(2, 8, 4, 2, 2)
                    tile = tile.transpose(3, 1, 0, 2, 4).reshape(16, 16)
                    assert np.array_equal(tile, expected[below, 16 * column : 16 * column + 16])
                    seen += 1
                of_right = found[2 * tiles + second, warp].reshape(8, 4, 2, 2)[:, 0, :, 0].T.ravel()
                # The device may round a product and a sum at once.
                np.testing.assert_allclose(of_right, right[below], rtol=3e-7, atol=3e-7 * np.abs(right).max())
    assert seen >= 3 * tiles * (tiles + 1) // 2


@pytest.mark.parametrize("factors", [100, *slow(81, 96, 97, 104)])
def test_a_half_sweep_in_bytes_matches_the_reference_of_rounded_factors(hopper, factors):
    ratings = ragged_ratings(n_users=7, n_items=500, longest=200, seed=factors)
    for longest in (None, 64):
        trainer, integers, unit = bytes_trainer(hopper, ratings, factors, longest=longest)
        trainer.solve_users()
        found = hopper.to_numpy(trainer.factors()[0])
        expected = reference.als_update(ratings.by_user, integers * float(unit), regularization=0.05, weighted=True)
        assert not found[ratings.by_user.counts == 0].any()
        assert np.linalg.norm(found - expected) < 1e-5 * np.linalg.norm(expected)


@pytest.mark.parametrize("blocks", [1, 3])
def test_blocks_that_take_several_rows_of_bytes_give_the_same_bits(hopper, blocks):
    ratings = ragged_ratings(n_users=110, n_items=800, longest=90, seed=1)
    longer = ragged_ratings(n_users=3, n_items=1400, longest=1390, seed=2)
    for chosen in (ratings, longer):
        few, many = (
            solved("warpgroups", hopper, chosen, 100, longest=900, short=0, blocks=n, in_bytes=True)
            for n in (blocks, 1000)
        )
        assert np.array_equal(few, many)


def test_bytes_give_the_same_bits_in_every_order(host):
    ratings, found = ragged_ratings(n_users=4, n_items=90, longest=80, seed=6), set()
    for seed in range(3):
        with host.shuffled(seed):
            found.add(solved("warpgroups", host, ratings, 100, longest=40, blocks=2, in_bytes=True).tobytes())
    assert len(found) == 1


def most_of(n_users, n_items, share):
    """Ratings of so many of all pairs, in which rows are long beside 81 factors."""
    rng = np.random.default_rng(1)
    pairs = rng.permutation(n_users * n_items)[: round(share * n_users * n_items)]
    values = rng.integers(1, 6, len(pairs)).astype(np.float32)
    return Ratings(pairs // n_items, pairs % n_items, values, n_users, n_items, scale=(1, 5))


def test_bytes_are_gathered_where_halves_exceed_the_cache(nine, monkeypatch):
    ratings = most_of(180, 200, 0.95)
    rows = ratings.by_user, ratings.by_item

    def chosen(l2_bytes, model=None, **options):
        monkeypatch.setitem(nine.facts, "l2_bytes", l2_bytes)
        model = model or ALS(81, biases=False, device="emulator")
        start = [random_factors(of.n_rows, 81, of.n_rows) for of in rows]
        trainer = model.make_solver(ratings, *start, **options)  # of the ratings as they are then
        of_bytes = ("als/warpgroups.cu", {"FACTORS": 81, "IMPLICIT": 0, "WGMMA": 1, "BYTES": 1})
        assert (of_bytes in trainer.sources(model.hyperparameters, ratings)) == (l2_bytes < 200 * 192) or options
        return [trainer._in_bytes[side[0]] for side in (trainer._users, trainer._items)]

    assert chosen(200 * 192) == [False, False]
    assert chosen(200 * 192 - 1) == [True, False]
    assert chosen(180 * 192 - 1) == [True, True]
    short = ((ratings.users == 0) & (ratings.items >= 20)) | ((ratings.items == 0) & (ratings.users >= 20))
    whole, ratings = ratings, ratings.select(~short)
    assert chosen(0) == [True, True] and chosen(0, short=32) == [False, False], "short_rows.cu gathers halves"
    ratings = whole
    far = ratings.values.copy()
    far[0] = 1000.0  # of a user and an item whose factors will be as far from others'
    ratings = replace(ratings, values=far, scale=(1, 1000))
    assert chosen(0) == [False, False] and chosen(0, in_bytes=True, short=0) == [True, True]
    other = ALS(81, solver="warpgroups", biases=False, device="emulator")
    assert chosen(0, other, longest=1 << 17) == [False, False], "sums would exceed 32 bits"


def test_errors_of_bytes_need_a_ridge_and_long_rows(nine, monkeypatch):
    monkeypatch.setitem(nine.facts, "l2_bytes", 0)

    def chosen(regularization, share=0.95, **options):
        ratings = most_of(180, 200, share)
        model = ALS(81, regularization, biases=False, device="emulator", **options)
        trainer = model.make_solver(ratings)
        for side, n in (trainer._users, 180), (trainer._items, 200):
            assert bear_bytes(model.hyperparameters, 5, 5, ratings.nnz / n) == trainer._in_bytes[side[0]]
        return [trainer._in_bytes[side[0]] for side in (trainer._users, trainer._items)]

    assert chosen(0.031) == [True, True] and chosen(0.029) == [False, False]
    assert chosen(0.031, 0.89) == [True, False], "items have 160 ratings each"
    weak, strong = (0.006 * 5 * 81 + by for by in (-0.01, 0.01))
    assert chosen(strong, weighted=False) == [True, True] and chosen(weak, weighted=False) == [False, False]


def test_other_numbers_of_factors_are_not_gathered_in_bytes(nine, monkeypatch):
    monkeypatch.setitem(nine.facts, "l2_bytes", 0)
    of = {f: ALS(f, biases=False, device="emulator").hyperparameters for f in (80, 81, 104, 105)}
    assert not fits_bytes(ALS(100, biases=True, device="emulator").hyperparameters, 1000)
    assert [fits_bytes(hyper, 1000) for hyper in of.values()] == [False, True, True, False]
    assert not fits_bytes(ImplicitALS(100, device="emulator").hyperparameters, 1000)
    assert not fits_bytes(of[81], 1 << 17) and takes_bytes(nine.facts, of[81], 1)
    assert not takes_bytes({}, of[81], 1 << 30)


def test_a_fit_in_bytes_is_near_one_in_halves(nine, monkeypatch):
    ratings, learned = most_of(180, 40, 0.95), []
    for l2_bytes, chunk in ((1 << 30, None), (0, None), (0, 3000)):
        monkeypatch.setitem(nine.facts, "l2_bytes", l2_bytes)
        model = ALS(81, biases=False, device="emulator", chunk=chunk).fit(ratings, 2)
        learned.append(model.predict(ratings.users, ratings.items))
    assert np.array_equal(learned[1], learned[2]) and not np.array_equal(learned[0], learned[1])
    np.testing.assert_allclose(learned[0], learned[1], atol=0.05)


def test_its_stages_of_bytes_fill_the_shared_memory(host):
    shape = shape_of(host, "als/warpgroups.cu", FACTORS=100, IMPLICIT=0, WGMMA=1, BYTES=1)
    assert 180_000 < shape.teams * shape.team_bytes <= host.facts["shared_bytes_per_block"]
    assert (shape.teams, shape.persistent, shape.block, shape.padded) == (3, 1, 640, 64)


def test_short_rows_are_left_to_their_own_kernel(hopper):
    ratings = ragged_ratings(n_users=6, n_items=200, longest=190, seed=4)
    apart, together = (solved("warpgroups", hopper, ratings, 70, short=most) for most in (128, 0))
    short = ratings.by_user.counts <= 128
    assert np.array_equal(apart[~short], together[~short]) and not np.array_equal(apart, together)
    np.testing.assert_allclose(apart, together, rtol=1e-3, atol=1e-3 * np.abs(together).max())


@pytest.mark.parametrize("factors", [20, 100, *slow(65, 112, 113, 128)])
def test_streamed_rows_give_the_same_bits(hopper, factors):
    ratings, found = ragged_ratings(n_users=9, n_items=20, longest=15, seed=1), set()
    for chunk in (None, 1, 40):
        model = ALS(factors, 0.1, solver="warpgroups", device=hopper.name, biases=False, chunk=chunk).fit(ratings, 1)
        found.add(model.user_factors.tobytes() + model.item_factors.tobytes())
    assert len(found) == 1


@pytest.mark.parametrize(
    "factors", [100, 128, 200, 256, *slow(65, 104, 105, 112, 113, 120, 121, 129, 184, 185, 192, 248, 249)]
)
@pytest.mark.parametrize("implicit", [0, 1])
def test_its_stages_fill_the_shared_memory_of_a_hopper_gpu(host, factors, implicit):
    shape = shape_of(host, "als/warpgroups.cu", FACTORS=factors, IMPLICIT=implicit, WGMMA=1, BYTES=0)
    assert 180_000 < shape.teams * shape.team_bytes <= host.facts["shared_bytes_per_block"]
    assert (shape.teams, shape.persistent, shape.block) == (
        (1, 1, 384) if factors > 128 else (3, 1, 512 if implicit or factors > 104 else 640)
    )


def test_it_says_what_it_does_not_run(host, monkeypatch):
    with pytest.raises(ValueError, match=r"no solver .*warpgroups \(cuda, up to 256\)"):
        ALS(257, solver="warpgroups", device="emulator", biases=False)
    with pytest.raises(ValueError, match="ImplicitALS has no solver 'warpgroups'"):
        ImplicitALS(200, solver="warpgroups", device="emulator")
    ampere = SimpleNamespace(name="cuda", facts={"gpu": "NVIDIA A100", "compute_capability": "8.0"})
    monkeypatch.setattr(als_warpgroups.backends, "device", lambda name: ampere)
    with pytest.raises(ValueError, match=r"9\.0 \(Hopper\), not on NVIDIA A100, which has 8\.0; take solver='tensor"):
        als_warpgroups.WarpGroups.check(SimpleNamespace(device="cuda"))
    ampere.facts["compute_capability"] = "9.0"
    als_warpgroups.WarpGroups.check(SimpleNamespace(device="cuda"))


@pytest.mark.parametrize(
    ("model", "factors", "options", "columns", "expected"),
    [
        *[(ALS, f, {"biases": False}, f, 80 < f <= 104) for f in (64, 80, 81, 104, 105, 128)],
        (ALS, 129, {"biases": False}, 129, True),
        (ALS, 127, {"biases": True}, 129, True),
        (ALS, 256, {"biases": False}, 256, True),
        (ImplicitALS, 64, {}, 64, False),
        (ImplicitALS, 65, {}, 65, True),
        (ImplicitALS, 256, {}, 256, True),
    ],
)
def test_tensor_core_launches_it_where_it_takes_less_time(nine, model, factors, options, columns, expected):
    hyper = model(factors, device="emulator", **options).hyperparameters
    assert hyper.columns == columns
    ours, train = TensorCore.launched(hyper), ragged_ratings(n_users=4, n_items=9, longest=5, seed=0)
    assert (ours == WarpGroups.launched(hyper)) == expected
    assert TensorCore.sources(hyper, train)[0] == (ours[0], ours[2])


def test_no_other_gpu_launches_it(nine, monkeypatch):
    hyper = ALS(256, device="emulator", biases=False).hyperparameters
    for capability in ("8.0", "10.0", None):
        monkeypatch.setitem(nine.facts, "compute_capability", capability)
        assert TensorCore.launched(hyper)[:2] == ("als/tensor_core.cu", "tensor_core")


@pytest.mark.parametrize("biases", [False, True, "damped"])
def test_the_default_gives_its_bits(nine, biases):
    ratings, learned = ragged_ratings(n_users=4, n_items=30, longest=20, seed=1), []
    for solver, chunk in ((None, None), ("warpgroups", None), (None, 25)):
        model = ALS(129, biases=biases, solver=solver, device="emulator", chunk=chunk).fit(ratings, 1)
        learned.append(model.user_factors.tobytes() + model.item_factors.tobytes())
        assert solver or model.solver == "tensor_core"
    assert len(set(learned)) == 1 and np.isfinite(model.user_factors).all()


def test_a_model_of_it_goes_on_elsewhere(nine, monkeypatch, tmp_path):
    ratings = ragged_ratings(n_users=4, n_items=30, longest=20, seed=1)
    names = []

    @contextmanager
    def noted():
        with monkeypatch.context() as of_a_fit:  # the device's own record is of all tests
            of_a_fit.setattr(nine, "launched", set())
            yield
            names.append({name for _, name, _ in nine.launched})

    with noted():
        ALS(129, biases=False, device="emulator").fit(ratings, 1).save(tmp_path / "model.npz")
    monkeypatch.setitem(nine.facts, "compute_capability", "8.0")
    with noted():
        model = load(tmp_path / "model.npz", device="emulator").fit(ratings, 1, warm_start=True)
    assert "warpgroups" in names[0] and "warpgroups" not in names[1] and "tensor_core" in names[1]
    assert model.solver == "tensor_core" and np.isfinite(model.user_factors).all()


def test_models_that_it_solves_train_one_after_another(nine):
    ratings = ragged_ratings(n_users=4, n_items=30, longest=20, seed=1)
    most = [
        batch.most_alike(ALS(f, biases=False, device="emulator"), ratings, 1 << 30, wait=False) for f in (128, 129)
    ]
    assert most[0] > 1 and most[1] == 1


def test_only_hopper_runs_it():
    for name, capability, runs in (("cuda", "8.0", False), ("cuda", "9.0", True), ("emulator", None, True)):
        device = SimpleNamespace(name=name, facts={"compute_capability": capability})
        assert WarpGroups.runs_on(device) == runs and TensorCore.runs_on(device)


def test_what_a_device_does_not_run_is_not_timed(monkeypatch):
    monkeypatch.setattr(backends, "available", lambda: True)
    for capability in ("8.0", "9.0"):
        device = SimpleNamespace(name="cuda", facts={"compute_capability": capability})
        monkeypatch.setattr(backends, "device", lambda name, device=device: device)
        names = usable_solvers(ALS), kernels_on(ALS, "cuda")
        assert all(("warpgroups" in of) == (capability == "9.0") and "tensor_core" in of for of in names)
        assert "parallel" in names[0] and "parallel" not in names[1]
