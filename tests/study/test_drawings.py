"""Every drawing is whole, legible and said in words; what those of kernels show is what the kernels do."""

import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest

from gpumf import ALS, backends
from gpumf._util.counter_rng import random_subset
from gpumf.ratings import Ratings
from gpumf.solvers.als_base import segments_of
from gpumf.solvers.base import shape_of
from gpumf.solvers.sgd_fast import Fast
from gpumf.solvers.sgd_partition import tiled
from gpumf_study import drawings
from gpumf_study.drawings import GAP, WIDTH
from support import ROOT

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", drawings.names())
def test_a_drawing_is_whole_and_says_in_words_what_it_shows(name):
    drawing = drawings.drawing(name)
    assert len(drawing.alt.split()) > 20 and repr(drawing) == drawing.alt
    sizes = {float(node.get("font-size", 12)) for node in ET.parse(drawing.path).iter(f"{SVG}text")}
    assert min(sizes) >= 11
    for panel in drawing.panels:
        assert float(panel.get("width")) == WIDTH
        left, top, width, height = map(float, panel.get("viewBox").split())
        assert (left, top, width) == (0, -30, WIDTH) and height == float(panel.get("height"))
        for node in panel.iter(f"{SVG}rect"):
            x, y, across, down = (float(node.get(key)) for key in ("x", "y", "width", "height"))
            assert x >= -1 and x + across <= width + 1 and y >= top and y + down <= top + height + 1


def test_panels_stand_abreast_where_there_is_room_and_below_each_other_elsewhere(tmp_path):
    heights = 130, 70, 60
    panels = "".join(f'<svg class="panel" width="{WIDTH}" height="{height}"/>' for height in heights)
    path = tmp_path / "a.svg"
    path.write_text(f'<svg xmlns="{SVG[1:-1]}"><desc>a "word"</desc>{panels}</svg>')
    drawing = drawings.Drawing(path)
    right, (one, two, _) = 2 + WIDTH + GAP, (height + GAP for height in heights)
    for columns, places, size in (
        (1, [(2, 2), (2, 2 + one), (2, 2 + one + two)], (WIDTH + 4, sum(heights) + 2 * GAP + 4)),
        (2, [(2, 2), (right, 2), (right, 2 + two)], (2 * WIDTH + GAP + 4, two + 60 + 4)),
    ):
        root = ET.fromstring(drawing.svg(columns))
        found = [(float(panel.get("x")), float(panel.get("y"))) for panel in root.findall(f"{SVG}svg")]
        assert found == places and tuple(float(root.get(key)) for key in ("width", "height")) == size
    html = drawing._repr_html_()
    assert 'alt="a &quot;word&quot;"' in html and html.count("data:image/svg+xml;base64,") == 2


def test_every_drawing_is_shown_in_the_book_and_others_are_refused_with_their_names():
    shown = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("book/**/*.ipynb"))
    assert set(re.findall(r'drawings\.drawing\(\\"(\w+)\\"\)', shown)) == set(drawings.names())
    with pytest.raises(ValueError, match="no drawing 'warps'; there are banks, coalescing"):
        drawings.drawing("warps")


# What kernels do


def told(name, kind):
    """What a drawing says of each part of a kind, as 'tile-1-0': a dict of its numbers, as (1, 0) -> texts."""
    parts = ET.parse(ROOT / f"figures/drawings/{name}.svg").iter(f"{SVG}g")
    parts = [part for part in parts if re.fullmatch(rf"{kind}(-\d+)+", part.get("id", ""))]
    return {
        tuple(map(int, part.get("id").split("-")[1:])): [text.text for text in part.iter(f"{SVG}text")]
        for part in parts
    }


def traced(kernel, grid, block, **arguments):
    """How the threads of a launch on the CPU touched its arrays, one access a row."""
    trace = []
    with backends.device("emulator").shuffled(0, trace):
        kernel(grid, block, **arguments)
    return trace[0]


def test_a_half_warp_shares_out_the_triangle_as_equation_5_4_says(host):
    f, words = 16, np.zeros((1, 16 * 17), np.float32)
    kernel = host.kernel("als/thesis.cu", "thesis_global", FACTORS=f)
    data = {"indptr": np.array([0, 2]), "indices": np.arange(2, dtype=np.int32), "values": np.ones(2, np.float32)}
    data |= {"fixed": np.ones((2, f), np.float32), "solved": host.empty((1, f), np.float32), "n_rows": 1}
    trace = traced(kernel, 1, 16, **data, regularization=1.0, weighted=0, matrices=words, shared=4 * 16)
    # From the first vector on, whoever first reads an entry of the sum adds to it.
    reads = trace[(trace.array == "matrices") & (trace.access == "read") & (trace.element < f * (f + 1) // 2)]
    summing = reads[reads.index > trace.index[trace.array == "fixed"][0]].drop_duplicates("element")
    places = [(i, j) for i in range(f) for j in range(i, f)]
    lanes = {places[row.element]: row.thread for row in summing.itertuples()}
    expected = {}
    for product in range((f + 2) // 2):
        for lane in range(f):
            if product * f + lane < f * (f + 1) // 2:
                other = (product + lane) % f
                expected[min(lane, other), max(lane, other)] = lane
    assert lanes == expected
    assert told("thesis_als", "entry") == {place: [str(lane)] for place, lane in expected.items()}


@pytest.mark.parametrize(("version", "inside"), [("thesis_shared", 2), ("thesis_hybrid", 1), ("thesis_global", 0)])
def test_the_versions_of_the_thesis_are_drawn_with_their_memory(version, inside):
    scheme, text = ALS.solver_classes()[version], (ROOT / "figures/drawings/thesis_als.svg").read_text()
    shared = scheme.shared_bytes(SimpleNamespace(columns=16, device="emulator"))
    assert f"a block: {shared:,} bytes shared" in text.split(f">{version}<")[1].split("shared memory<")[0]
    lefts = re.findall(rf'id="{version}-\d"><rect x="(\d+)"', text)
    assert sum(int(left) < 174 for left in lefts) == inside == scheme.shared_matrices and len(lefts) == 2


def test_a_thread_of_cumf_has_a_patch_and_copies_what_is_drawn(host):
    factors, ratings = 100, 32
    shape = shape_of(host, "als/cumf/launch_config.cu", FACTORS=factors)
    segments, _ = segments_of(np.array([0, ratings]), 8192)

    def launched(load):
        options = {"FACTORS": factors, "LOAD": load, "A_HALF": 0, "IMPLICIT": 0}
        kernel = host.kernel("als/cumf/hermitian.cu", "get_hermitian", **options)
        data = {"segments": segments.view(np.uint8), "indices": np.arange(ratings, dtype=np.int32), "alpha": 0.0}
        data |= {"values": np.ones(ratings, np.float32), "fixed": np.ones((ratings, factors), np.float32)}
        data |= {"gram": host.empty(1, np.float32), "matrices": host.empty(shape.matrix, np.float32)}
        data |= {name: host.empty(n, np.float32) for name, n in (("scales", 1), ("biases", factors), ("partial", 1))}
        arrived, shared = np.zeros(1, np.int32), shape.hermitian_shared
        return traced(kernel, 1, shape.hermitian_threads, **data, arrived=arrived, shared=shared)

    traces = [launched(load) for load in range(3)]
    written = traces[0][(traces[0].array == "matrices") & (traces[0].access == "write")].drop_duplicates("element")
    tiles, patches = [(i, j) for i in range(7) for j in range(i + 1)], {}  # of 16 x 16 entries, in patches of 8 x 8
    for row in written.itertuples():
        tile, inside = divmod(row.element, 256)
        i, j = (tiles[tile][0] * 16 + inside // 16) // 8, (tiles[tile][1] * 16 + inside % 16) // 8
        if j <= i and 8 * i < factors:
            patches[i, j] = row.thread
    assert sorted(patches.values()) == list(range(91)) and shape.hermitian_threads == 96
    assert told("cumf_tiles", "patch") == {place: [str(thread)] for place, thread in patches.items()}
    copies = []
    for trace in traces:
        reads = trace[(trace.array == "fixed") & (trace.access == "read")]
        who = np.full((ratings, factors // 4), -1)
        who[reads.element // factors, reads.element % factors // 4] = reads.thread
        first = reads.drop_duplicates("thread").set_index("thread").element
        copies.append((who, {thread: (at // factors, at % factors // 4) for thread, at in first.items()}))
    (coalesced, first), svg = copies[0], (ROOT / "figures/drawings/cumf_tiles.svg").read_text()
    assert np.array_equal(coalesced.ravel(), np.arange(coalesced.size) % 96)
    assert all(first[thread] == divmod(thread, 25) for thread in range(96))
    assert all(copies[1][1][thread] == (thread % 32, thread // 32) for thread in range(96))
    assert np.array_equal(copies[1][0], copies[2][0]), "past L1 the threads copy the same"
    assert set(told("cumf_tiles", "first")) == {(load, thread) for load in (0, 1) for thread in range(32)}
    for load in (0, 1):
        sectors = {(theta * factors + 4 * four) // 8 for t, (theta, four) in copies[load][1].items() if t < 32}
        assert f"first copies of warp 0: {len(sectors)} sectors" in svg


def plan(host, factors):
    """(warp, number in its order) of each tile on and below the diagonal; the numbers of tiles and warps."""
    source = ROOT / "tests/kernels/tile_plan.cu"
    shape = shape_of(host, source, FACTORS=factors)
    tiles, counts, found = np.empty((shape.tiles, 3), np.int32), {}, {}
    host.kernel(source, "plan", FACTORS=factors)(1, 1, tiles=tiles)
    for warp, row, column in tiles.tolist():
        # Off the diagonal a warp may have a tile of the upper triangle in its place: A is symmetric.
        found[max(row, column), min(row, column)] = warp, counts.get(warp, 0)
        counts[warp] = counts.get(warp, 0) + 1
    return found, shape


def test_the_plan_is_that_of_plan_cuh(host):
    # The example in its comment, for 64 factors.
    first = {(0, 0): 0, (1, 0): 1, (1, 1): 2, (2, 0): 3, (2, 1): 4}
    second = {(3, 0): 0, (3, 1): 1, (3, 2): 2, (3, 3): 3, (2, 2): 4}
    expected = {place: (warp, k) for warp, tiles in enumerate((first, second)) for place, k in tiles.items()}
    assert plan(host, 64)[0] == expected
    text = (ROOT / "figures/drawings/tensor_core_plan.svg").read_text()
    for factors, kind, form in ((100, "tile", ["w {}", "{}"]), (256, "large", ["{}"])):
        found, shape = plan(host, factors)
        side = -(-factors // 16)
        assert set(found) == {(i, j) for i in range(side) for j in range(i + 1)} and len(found) == shape.tiles
        assert {warp for warp, _ in found.values()} == set(range(shape.warps))
        shown = {p: [f.format(v) for f, v in zip(form, (w, k + 1), strict=False)] for p, (w, k) in found.items()}
        assert told("tensor_core_plan", kind) == shown
        assert f"{shape.tiles} tiles" in text and f"for {shape.warps} warps" in text


def test_the_pipeline_is_that_of_tensor_core_cu(host):
    numbers, source = np.empty(4, np.int32), ROOT / "tests/kernels/tile_pipeline.cu"
    options = {"FACTORS": 100, "IMPLICIT": 0, "BATCHED": 0, "STAGE_ROWS": 64, "WGMMA": 0, "THROUGH_L1": 1}
    host.kernel(source, "pipeline", **options)(1, 1, numbers=numbers)
    stage, ahead, threads, _ = numbers
    text = (ROOT / "figures/drawings/tensor_core_plan.svg").read_text()
    assert f"the stage, of {stage} ratings" in text and f"registers of {threads} threads" in text
    # What is copied in a step is multiplied so many steps later.
    assert told("tensor_core_plan", "stage") == {
        (row, step): [str(step + of)] for row, of in enumerate((ahead + 2, ahead, 0)) for step in range(5)
    }


def test_fast_is_drawn_in_its_own_order(host):
    n_users, n_items, nnz, seed = 9, 12, 52, 3
    where = np.flatnonzero(random_subset(n_users * n_items, nnz, seed))
    ratings = Ratings(where // n_items, where % n_items, np.ones(nnz), n_users, n_items)
    options = {"resident": "items", "tiles": 3, "parts": 1, "longest": 4}
    model = SimpleNamespace(biases=False, seed=seed, columns=4, options=options)
    tiles = tiled(ratings, 3, n_items, 1, 4, seed)
    updates = list(Fast.order(model, ratings, blocks=3, members=2))
    users, items = ratings.users.tolist(), ratings.items.tolist()
    assert len(updates) == nnz
    assert told("fast_sgd", "rating") == {(users[r], items[r]): [str(turn + 1)] for _, _, turn, r, _ in updates}
    blocks_of = {item: {block for block, _, _, r, _ in updates if items[r] == item} for item in range(n_items)}
    assert all(len(blocks) == 1 for blocks in blocks_of.values()), "nobody else's items"
    runs = [[], []]  # of block 0, for each member (user, items)
    for _, member, _, r, _ in sorted((u for u in updates if u[0] == 0), key=lambda update: update[2]):
        if not runs[member] or runs[member][-1][0] != users[r]:
            runs[member].append((users[r], []))
        runs[member][-1][1].append(items[r])
    assert {i for of in runs for _, run in of for i in run} == {int(i) for i in tiles.items[: tiles.tile_rows[1]]}
    panel = drawings.drawing("fast_sgd").panels[1]
    texts = [text.text for text in panel.iter(f"{SVG}text")]
    listed = [t for of in runs for user, run in of for t in (f"u{user}", *map(str, run))]
    assert [text for text in texts if re.fullmatch(r"u?\d+", text)] == listed
