"""The example of eight units of time against fifteen: every block that fits its description, counted.

After Li et al. 2019, section 4.3 and Figure 8: 4 x 4 ratings of which eight are known, those on the main diagonal
among them, and some in each of the other three phases; three threads, three factors. As published a unit is the
update of one element by each thread, so that the threads of NewGPUSGD need one a rating and those of GPUSGD as many
as there are factors. The other count has the inner product too: one multiplication and the rounds of its sum by a
tree, against a multiplication and addition for each factor.
"""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pandas as pd

from gpumf import SGD
from gpumf.ratings import Ratings
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim
from gpumf_study.experiments import _published as _stated

PUBLISHED, WITH_SUMS = "as published", "with the inner product"
SIDE, KNOWN = 4, 8

PROFILES = {"quick": {"factors": [3]}, "full": {"factors": [3, 16, 32, 256]}}
PROFILES["smoke"] = PROFILES["quick"]


def blocks():
    """The blocks that fit: a list of int arrays, the numbers of the known cells, row by row, from 0."""
    diagonal = [cell for cell in range(SIDE**2) if cell % SIDE == cell // SIDE]
    others = [cell for cell in range(SIDE**2) if cell not in diagonal]
    found = []
    for chosen in combinations(others, KNOWN - len(diagonal)):
        phases = {(cell % SIDE - cell // SIDE) % SIDE for cell in chosen}
        if len(phases) == SIDE - 1:
            found.append(np.sort([*diagonal, *chosen]))
    return found


def turns(solver, cells, threads):
    """When each known cell of a block is worked on by one thread block, as the package orders it.

    Return int (cells,), the turn of each, from 0; a turn is one rating a thread (GPUSGD), or a block (NewGPUSGD)
    """
    ratings = Ratings(cells // SIDE, cells % SIDE, np.ones(len(cells)), SIDE, SIDE)
    model = SimpleNamespace(options={"side": 1}, columns=threads, seed=0)
    members = threads if solver == "gpusgd" else 1
    order = SGD.solver_classes()[solver].order(model, ratings, members=members)
    taken = np.empty(len(cells), int)
    for _, _, turn, rating, _ in order:
        taken[rating] = turn
    return taken


def run(factors):
    """Count the units of every block that fits, with as many threads as factors."""
    rows = []
    for f in factors:
        rounds = int(np.ceil(np.log2(f)))
        of_turn = {"newgpusgd": {PUBLISHED: 1, WITH_SUMS: 2 + rounds}, "gpusgd": {PUBLISHED: f, WITH_SUMS: 2 * f}}
        for layout, cells in enumerate(blocks()):
            for solver, costs in of_turn.items():
                n = int(turns(solver, cells, f).max()) + 1
                rows += [(solver, count, f, n * cost, layout) for count, cost in costs.items()]
    frame = pd.DataFrame(rows, columns=["solver", "variant", "factors", "value", "x_layout"])
    return frame.assign(task="count units", model="SGD", metric="units")


def summary(frame):
    """Return the fewest and the most units of any block by factors, count and solver."""
    return frame.groupby(["factors", "variant", "solver"]).value.agg(["min", "max"])


def figure(frame):
    """Draw two blocks that fit, the first and the last, and in which turn the solvers take their ratings."""
    layouts = blocks()
    shown = [frame.x_layout.min(), frame.x_layout.max()]
    figure, axes = style.panels(columns=2, rows=len(shown), height=5.6, width=6.5)
    f = int(frame.factors.min())
    for row, layout in zip(axes, shown, strict=True):
        for axis, solver in zip(row, ("newgpusgd", "gpusgd"), strict=True):
            cells = layouts[layout]
            taken = turns(solver, cells, f)
            grid = np.zeros((SIDE, SIDE))
            grid.flat[cells] = 1
            axis.imshow(grid, cmap="Greys", vmin=0, vmax=4)
            for cell, turn in zip(cells, taken, strict=True):
                axis.text(cell % SIDE, cell // SIDE, turn + 1, ha="center", va="center")
            units = frame[(frame.x_layout == layout) & (frame.solver == solver) & (frame.factors == f)]
            units = units.set_index("variant").value
            axis.set(xticks=[], yticks=[], xlabel=f"{units[PUBLISHED]} units, {units[WITH_SUMS]} with the product")
            axis.set_title(style.LOOKS["SGD", solver].name)
            axis.grid(visible=False)
    return figure


def _published(solver):
    return _stated.value("Figure 8", f"time of {solver}", model=solver, source="newgpusgd")


def _ratio(count):
    where = {"factors": 3, "variant": count}
    return {"column": "value", "where": where, "over": {"solver": "gpusgd"}, "under": {"solver": "newgpusgd"}}


CLAIMS = [
    Claim("newgpusgd-fig-8", "newgpusgd", "Figure 8",
          "Units of time of GPUSGD over those of NewGPUSGD, example block with 3 factors.",
          _published("GPUSGD") / _published("NewGPUSGD"), "ratio", _ratio(PUBLISHED),
          evidence="built in"),
    Claim("newgpusgd-fig-8-sums", "newgpusgd", "Figure 8",
          "Units of time of GPUSGD over those of NewGPUSGD with the inner product counted too.", metric="ratio",
          select=_ratio(WITH_SUMS)),
]  # fmt: skip
