"""What the drawings of the kernels show is what the kernels do."""

import numpy as np

from gpumf_study.drawings import cumf_tiles, fast_sgd, tensor_core_plan, thesis_als


def test_a_half_warp_shares_out_the_triangle_as_equation_5_4_says(host, drawn):
    f, expected = thesis_als.FACTORS, {}
    for product in range((f + 2) // 2):
        for lane in range(f):
            if product * f + lane < f * (f + 1) // 2:
                other = (product + lane) % f
                expected[min(lane, other), max(lane, other)] = lane
    assert thesis_als.lanes() == expected
    shown = drawn(thesis_als.drawing())
    assert {key: int(text) for key, (_, text) in shown.items() if key.startswith("entry")} == {
        f"entry-{i}-{j}": lane for (i, j), lane in expected.items()
    }
    assert [inside for _, inside in thesis_als.memory().values()] == [2, 1, 0]


def test_a_thread_has_a_patch_and_copies_what_is_drawn(host, drawn):
    owner, shape = cumf_tiles.patches(), cumf_tiles.trace_of(0)[0]
    assert set(owner) == {(i, j) for i in range(13) for j in range(i + 1)}
    assert sorted(owner.values()) == list(range(91)) and shape.hermitian_threads == 96
    shown = drawn(cumf_tiles.drawing())
    assert all(shown[f"patch-{i}-{j}"][1] == str(thread) for (i, j), thread in owner.items())
    copied = {key for key in shown if key.startswith("first-")}
    assert copied == {f"first-{load}-{thread}" for load in (0, 1) for thread in range(32)}, "of warp 0, as it says"
    coalesced, first = cumf_tiles.copies(0)
    assert np.array_equal(coalesced.ravel(), np.arange(coalesced.size) % 96)
    assert all(first[thread] == divmod(thread, 25) for thread in range(96))
    apart, first = cumf_tiles.copies(1)
    assert all(first[thread] == (thread % 32, thread // 32) for thread in range(96))
    assert np.array_equal(apart, cumf_tiles.copies(2)[0]), "past L1 the threads copy the same"


def test_stretches_cover_every_entry_once():
    values = np.array([[1, 1, 2], [2, 2, 2]])
    assert list(cumf_tiles._stretches(values, 1)) == [(0, 0, 1, 2), (0, 2, 1, 1), (1, 0, 1, 3)]
    assert list(cumf_tiles._stretches(values, 0)) == [
        (0, 0, 1, 1), (1, 0, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1), (0, 2, 2, 1),
    ]  # fmt: skip


def test_the_plan_is_that_of_plan_cuh(host, drawn):
    # The example in its comment, for 64 factors.
    first = {(0, 0): 0, (1, 0): 1, (1, 1): 2, (2, 0): 3, (2, 1): 4}
    second = {(3, 0): 0, (3, 1): 1, (3, 2): 2, (3, 3): 3, (2, 2): 4}
    expected = {place: (warp, k) for warp, tiles in enumerate((first, second)) for place, k in tiles.items()}
    assert tensor_core_plan.warps(64) == expected
    for factors, tiles, warps in ((tensor_core_plan.SMALL, 7, 4), (tensor_core_plan.LARGE, 16, 8)):
        plan = tensor_core_plan.warps(factors)
        assert set(plan) == {(i, j) for i in range(tiles) for j in range(i + 1)}
        assert {warp for warp, _ in plan.values()} == set(range(warps))
    shown = drawn(tensor_core_plan.drawing())
    assert all(shown[f"large-{i}-{j}"][1] == str(warp) for (i, j), (warp, _) in plan.items())
    # What is copied in a step is multiplied in the next one.
    assert shown["stage-1-0"][1] == shown["stage-2-1"][1] == "1" and shown["stage-0-0"][1] == "3"


def test_fast_is_drawn_in_its_own_order(host, drawn):
    ratings, tiles, updates = fast_sgd.assignment()
    shown = drawn(fast_sgd.drawing())
    assert len(updates) == len(shown) == fast_sgd.NNZ
    blocks_of = {}
    for block, _, turn, rating, _ in updates:
        user, item = ratings.users[rating], ratings.items[rating]
        assert shown[f"rating-{user}-{item}"][1] == str(turn + 1)
        blocks_of.setdefault(int(item), set()).add(block)
    assert all(len(blocks) == 1 for blocks in blocks_of.values()), "nobody else's items"
    of_first = {int(item) for item in tiles.items[: tiles.tile_rows[1]]}
    in_runs = [(user, item) for runs in fast_sgd.runs(0) for user, items in runs for item in items]
    assert {item for _, item in in_runs} == of_first and len(set(in_runs)) == len(in_runs)
