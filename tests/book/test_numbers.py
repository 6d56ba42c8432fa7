"""What several pages state is the same number on each: that of the goals' table, or of the claim on it."""

import json
import re

import pandas as pd
import pytest

pytest.importorskip("myst_nb")

from gpumf_study import benchmarks, chapters
from support import ROOT

pytestmark = pytest.mark.slow

GOALS, CLAIMS = benchmarks.stored(), pd.read_csv(ROOT / "data/results/claims.csv").set_index("id").value
# What is stated, and on which pages: by the name of the number there, and times what.
STATED = {
    "als-f100-ms": ["learn/als netflix_ms", "learn/roofline tensor_ms"],
    "als-f100-exact-ms": ["learn/roofline exact_ms"],
    "als-hugewiki-s": ["learn/scale iteration", "use/choose hugewiki"],
    "als-streamed-s": ["learn/scale streamed", "use/choose streamed"], "compile-cold-s": ["use/choose cold"],
    "fit-als-f100-s": ["use/choose netflix"], "implicit-f64-ms": ["learn/scale f64"],
    "implicit-f128-ms": ["learn/scale f128"], "rbm-epoch-x": ["learn/rbm over_thesis"],
    "sgd-k128-gups": ["learn/sgd fast"], "als-hugewiki-4gpu-speedup": ["learn/scale four_faster"],
    "sgd-hugewiki-4gpu-speedup": ["learn/scale sgd_faster"], "cumf-fig-5-lu": ["learn/als lu", "results/papers lu"],
    "thesis-fig-4.5": ["learn/rbm times"], "thesis-fig-6.12-douban-synthetic": ["results/als_or_sgd douban"],
    "thesis-fig-6.12-jester-1": ["results/als_or_sgd real", "results/speedups same_launch"],
    "thesis-table-6.3-als-douban-synthetic": ["results/speedups same"],
    "thesis-newer-gpus-hybrid": ["results/threads hybrid * 100"], "newgpusgd-fig-10": ["results/papers blocks"],
}  # fmt: skip
PLACES = [(id, *place.split(" ", 1)) for id, places in STATED.items() for place in places]


@pytest.fixture(scope="module")
def pages():
    """Of each page the numbers that its hidden cells keep for its prose, and its text."""
    found, patch = {}, pytest.MonkeyPatch()
    patch.setattr(chapters, "expects", lambda claim, verdict: None)
    for page in dict.fromkeys(page for _, page, _ in PLACES):
        numbers = {}
        patch.setattr(chapters, "numbers", lambda numbers=numbers, **values: numbers.update(values))
        cells = json.loads((ROOT / f"book/{page}.ipynb").read_text(encoding="utf-8"))["cells"]
        names: dict = {}
        for cell in cells:
            if "remove-cell" in cell["metadata"].get("tags", []):
                exec("".join(cell["source"]), names)
        found[page] = numbers, "".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    patch.undo()
    return found


@pytest.mark.parametrize(("id", "page", "name"), PLACES)
def test_pages_state_what_the_tables_do(pages, id, page, name):
    name, _, factor = name.partition(" * ")
    numbers, text = pages[page]
    of_table = GOALS[id] if id in GOALS else CLAIMS[id]
    form = re.search(rf"`{name}:([^`]+)`", text)
    shown = form[1] if form else ".3g"
    there, here = (format(value, shown) for value in (of_table * float(factor or 1), numbers[name]))
    assert here == there, f"{page} states {here} of {id}, the table {there}"
