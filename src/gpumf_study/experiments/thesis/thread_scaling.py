"""Speed of the thesis's ALS against the number of CUDA threads, and what limits the blocks of a multiprocessor.

After the thesis, section 6.4, Figures 6.7 to 6.10: 16 factors, blocks of 128 threads that stride over the rows, the
time to a test MAE of 0.5732. A version learns the same with every number of threads, bit for bit, so that its epochs
to that error are counted in one run of its own and the time is theirs times the seconds of an epoch.

Each version runs on three machines:
  as it is       the whole GPU
  48 kB          blocks ask for so much shared memory that no more of them are active than fit the 48 kB of the
                 thesis's multiprocessor: of these blocks with what they need, not of the thesis's
  48 kB, 8 SMs   the same, while 124 of 132 multiprocessors (or however many there are but 8) are kept busy

The last is what a GTX 770 gives to a grid, in blocks and in multiprocessors, and the GPU's own scheduler hands
blocks out to it. What stays today's are the clock, the caches, the bandwidth, the registers (which allow the
versions in global memory fewer active blocks than the thesis's had), and how a multiprocessor issues instructions.
"""

from contextlib import nullcontext
from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from tqdm import tqdm

from gpumf import ALS, backends
from gpumf.ratings import CompressedRows
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, Criterion, above, below, near
from gpumf_study.experiments import _kept, _published, kernels_unavailable, load_ratings
from gpumf_study.experiments._limits import KEPLER, active_blocks
from gpumf_study.experiments.tuning import PARAMETERS, chosen

FACTORS, BLOCK, HALF_WARP = 16, 128, 16
KERNELS = ["thesis_shared", "thesis_hybrid", "thesis_global"]
OWN, SHARED, KEPLER_LIKE = "as it is", "48 kB", "48 kB, 8 SMs"
_LONG = 0.1  # seconds

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "threads": {kernel: [128, 256, 128] for kernel in KERNELS},
              "few": [128, 256], "blocks": [], "max_epochs": 3, "repeats": 1, "parameters": PARAMETERS},
    "full": {"data": "douban-synthetic",
             "threads": {"thesis_shared": [128, 8192, 128], "thesis_hybrid": [128, 8192, 128],
                         "thesis_global": [128, 12416, 128]},
             "few": [128, 1024, 2048, 3072, 4096, 4224, 6144, 8192, 12288],
             "blocks": [1, 2, 3, 4, 6, 8, 10, 12, 16, 20], "max_epochs": 20, "repeats": 5, "parameters": PARAMETERS},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": "ml-100k-synthetic", "threads": {"thesis_shared": [128, 128, 128]}, "few": [128], "blocks": [],
}  # fmt: skip

why_unavailable = kernels_unavailable


def run(data, threads, few, blocks, max_epochs, repeats, parameters):
    """Time epochs of the three versions on the GPU, or on the CPU where there is none.

    data : name of a data set, 80 % of which are for training
    threads : dict, kernel -> [first, last, step] of the numbers of CUDA threads on 8 multiprocessors of 48 kB;
        `thesis_shared` is one of them
    few : list of int, numbers of CUDA threads on the whole GPU
    blocks : numbers of blocks for each multiprocessor of the device, beside that of the active ones, for more threads
        than those; and one block more
    max_epochs : int, after which the error counts as not reached
    repeats : int, timings of each
    parameters : dict, data set -> model -> arguments of the model, see `tuning`

    Return a DataFrame with a row an epoch: seconds, x_machine (see above), x_multiprocessors, x_threads (of CUDA),
    x_shared_bytes (that a block needs), x_asked_bytes (that it asks for), x_registers (of a thread),
    x_active_computed (blocks of a multiprocessor by equation 6.2, with registers), x_active_driver (the same of the
    driver), x_epochs_to_threshold; missing is what there is not without a GPU or a threshold
    """
    device = backends.device("cuda" if backends.available() else "emulator")
    ratings = load_ratings(data)
    train, test = ratings.split(0.2)
    arguments = chosen(parameters, data, "ALS")
    resident = _resident(device, train)
    factors = ALS(FACTORS, biases=False, clip=False, **arguments).initial_factors(train)
    processors = device.facts["multiprocessors"]
    rows = []

    def timed(kernel, machine, count):
        model = _model(kernel, device, count, arguments)
        taken, trainer = _taken(model, resident, factors, device, machine)
        with device.limited_to(KEPLER["multiprocessors"]) if machine == KEPLER_LIKE else nullcontext():
            return taken, _timings(device, trainer, repeats)

    for kernel, (first, last, step) in threads.items():
        count_epochs = partial(_epochs_to_threshold, kernel, device, train, test, arguments, max_epochs)
        epochs = _kept.once(f"{kernel}-epochs", count_epochs)
        (*_, active, _), _ = _taken(_model(kernel, device, BLOCK, arguments), resident, factors, device, OWN)
        each = sorted({*blocks, active}) if blocks else []
        more = [BLOCK * (processors * b + one) for b in each for one in (0, 1)]
        # Half a warp takes long and is timed for the one version that all is compared with (Figure 6.10). With at
        # most one block on every multiprocessor, less shared memory changes nothing.
        alone = [HALF_WARP] if kernel == "thesis_shared" else []
        counts = {OWN: alone + few + more}
        if device.name == "cuda":
            counts |= {SHARED: more, KEPLER_LIKE: list(range(first, last + 1, step))}
        for machine, of_machine in counts.items():
            limited = machine == KEPLER_LIKE
            for count in tqdm(of_machine, desc=f"thread_scaling {kernel}, {machine}", leave=False):
                key = f"{kernel}-{machine}-{count}"
                taken, seconds = _kept.once(key, partial(timed, kernel, machine, count))
                what = (ratings.name, kernel, device.name, machine,
                        KEPLER["multiprocessors"] if limited else processors)  # fmt: skip
                rows += [(*what, count, *taken, epochs, k, s) for k, s in enumerate(seconds)]
    own = ["machine", "multiprocessors", "threads", "shared_bytes", "asked_bytes", "registers"]
    own += ["active_computed", "active_driver", "epochs_to_threshold"]
    columns = ["data", "solver", "device", *(f"x_{name}" for name in own), "repeat", "seconds"]
    return pd.DataFrame(rows, columns=columns).assign(task="epoch", model="ALS", factors=FACTORS, phase="train")


def _model(kernel, device, threads, arguments):
    return ALS(FACTORS, biases=False, clip=False, solver=kernel, device=device.name, threads=threads, **arguments)


def _epochs_to_threshold(kernel, device, train, test, arguments, most):
    threshold = _published.threshold(train.name)
    if threshold is None:
        return np.nan
    model = _model(kernel, device, None, arguments)
    history = model.fit(train, most, test, stop=lambda row: row["mae"] <= threshold).history
    return history.epoch.iloc[-1] if history.mae.iloc[-1] <= threshold else np.nan


def _resident(device, train):
    """The ratings as a trainer reads them, on the device already: they are put there once, not for every grid."""
    sides = {"by_user": train.by_user, "by_item": train.by_item}
    arrays = {name: (rows.indptr, rows.indices, rows.values) for name, rows in sides.items()}
    there = {name: CompressedRows(*map(device.array, of)) for name, of in arrays.items()}
    return SimpleNamespace(n_users=train.n_users, n_items=train.n_items, device=None, **there)


def _taken(model, resident, factors, device, machine):
    """(what a block takes and how many are active, a trainer whose blocks take that)."""
    scheme, block = model.solver_class, min(BLOCK, model.threads)
    needed = asked = scheme.shared_bytes(model.hyperparameters, block)
    if machine != OWN:
        wanted = active_blocks(KEPLER, block, shared_bytes=needed)
        facts = device.facts
        most = facts["shared_bytes_per_multiprocessor"] // wanted // 128 * 128 - facts["reserved_shared_bytes"]
        asked = max(needed, most)
    trainer = model.make_solver(resident, *factors, shared_bytes=asked)
    compiled, on_gpu = scheme.compile(model.hyperparameters), device.name == "cuda"
    registers = compiled.attributes["num_regs"] if on_gpu else 0
    computed = active_blocks(device.facts, block, registers, asked)
    driver = compiled.active_blocks(block, asked) if on_gpu else np.nan
    return (needed, asked, registers if on_gpu else np.nan, computed, driver), trainer


def _timings(device, trainer, repeats):
    def epoch():
        trainer.epoch(0)

    first = device.time(epoch, repeats=1, warmup=0)
    if first[0] < _LONG:  # what is short is warmed up
        return device.time(epoch, repeats, warmup=0)
    return np.append(first, device.time(epoch, repeats - 1, warmup=0))


def summary(frame):
    """Return medians: x_machine, solver, x_threads, seconds (of an epoch), seconds_to_threshold, speedup.

    The speed-up is over one half-warp of the version in shared memory on the whole GPU.
    """
    epochs = "x_epochs_to_threshold"  # of data sets that have a threshold
    frame = frame.reindex(columns=frame.columns.union([epochs], sort=False))
    points = frame.groupby(["x_machine", "solver", "x_threads"], sort=False)
    table = points[["seconds", epochs]].median().reset_index()
    one = table[(table.x_machine == OWN) & (table.solver == KERNELS[0])].set_index("x_threads").seconds[HALF_WARP]
    table["seconds_to_threshold"] = table.seconds * table.pop(epochs)
    return table.assign(speedup=one / table.seconds)


def linear(frame):
    """Return each repeat's share of linear scaling, from one block on: column x_linear."""
    keys = ["x_machine", "solver", "repeat"]
    few = frame[frame.x_threads == BLOCK][[*keys, "seconds"]].rename(columns={"seconds": "one"})
    rows = frame[frame.x_threads >= BLOCK].merge(few)
    return rows.assign(x_linear=rows.one / rows.seconds * BLOCK / rows.x_threads)


def full(frame):
    """Return the rows with as many blocks as are active, and those with one block more: x_blocks_more is 0 or 1."""
    active = frame.x_active_driver.fillna(frame.x_active_computed)
    more = frame.x_threads / BLOCK - frame.x_multiprocessors * active
    return frame.assign(x_blocks_more=more)[more.isin([0, 1])]


def best(frame):
    """Return the rows of each version's best number of threads on each machine."""
    points = frame.groupby(["x_machine", "solver", "x_threads"]).seconds.median().reset_index()
    points = points.loc[points.groupby(["x_machine", "solver"]).seconds.idxmin()]
    return frame.merge(points.drop(columns="seconds"))


def apart(frame):
    """Return by how many blocks equation 6.2 and the driver differ at most, by repeat: column x_apart."""
    differences = (frame.x_active_computed - frame.x_active_driver).abs()
    return differences.groupby(frame.repeat).max().rename("x_apart").reset_index()


_LINES = {KEPLER_LIKE: "-", OWN: "--"}


def figure(frame):
    """Speed-up over one half-warp against CUDA threads: the published range (left), and all that the GPU holds.

    Solid lines have 8 multiprocessors and 48 kB of shared memory on each, dashed ones the whole GPU. Vertical are the
    numbers up to which the thesis found linear scaling.
    """
    if "x_active_driver" not in frame:  # measured without a GPU
        frame = frame.assign(x_active_driver=np.nan)
    points = summary(frame)
    figure, (axes,) = style.panels(columns=2, height=4.4)
    published_range = points[points.x_machine == KEPLER_LIKE].x_threads.max()
    left = points[points.x_threads <= published_range] if published_range == published_range else points
    found = {claim.id: claim.estimate(frame).value for claim in CLAIMS}
    for axis, shown, machines in zip(axes, (left, points), ((OWN, KEPLER_LIKE), (OWN,)), strict=True):
        for machine, kernel in product(machines, KERNELS):
            label, colour, _ = style.LOOKS["ALS", kernel]
            curve = shown[(shown.x_machine == machine) & (shown.solver == kernel)].set_index("x_threads").speedup
            grey = machine == OWN and axis is axes[0]
            if curve.empty or (grey and kernel != KERNELS[0]):
                continue
            colour = "0.6" if grey else style.COLOURS[colour]
            axis.plot(curve.sort_index(), _LINES[machine], color=colour, linewidth=1.3)
            name = "shared memory, whole GPU" if grey else label.removeprefix("thesis, ")
            share = found.get(f"thesis-newer-gpus-{name.split()[0]}", np.nan)
            if axis is axes[1] and not np.isnan(share):
                name += f": {100 * share:.0f} % of it"
            up, at = (-12 if kernel == "thesis_hybrid" else 4), curve.sort_index()
            place = at.index[-1], at.iloc[-1]
            side = "left" if place[0] < 0.8 * shown.x_threads.max() else "right"
            axis.annotate(name, place, (0, up), textcoords="offset points", ha=side, size=9, color=colour)
        axis.set(xlabel="CUDA threads", ylabel="speed-up over one half-warp", xlim=(0, None), ylim=(0, None))
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    limited = left[(left.x_machine == KEPLER_LIKE) & (left.solver == KERNELS[0])]
    if len(limited) and not np.isnan(lost := 1 - found["thesis-fig-6.7-drop"]):
        top = limited.loc[limited.speedup.idxmax()]
        place = top.x_threads, top.speedup
        axes[0].annotate(f"−{100 * lost:.0f} %", place, (4, 4), textcoords="offset points", size=9)
    for kernel, end in _ENDS.items():
        colour = style.COLOURS[style.LOOKS["ALS", kernel].colour]
        axes[0].axvline(end, linestyle=":", linewidth=1, color=colour)
    axes[0].set_title("8 multiprocessors, 48 kB each", fontsize=10)
    axes[1].set_title("whole GPU", fontsize=10)
    return figure


def figure_blocks(frame, facts):
    """Active blocks of a multiprocessor against the shared memory of a block: computed, of the driver, published.

    facts : of the GPU, from the provenance of the result; where there was none, only the thesis's GPU is computed
    """
    figure, ((axis,),) = style.panels(height=4.0)
    size = np.arange(128, 16 << 10, 128)
    machines = {"thesis's GPU": (KEPLER, "sky")}
    if "shared_bytes_per_multiprocessor" in facts:
        machines[facts["gpu"]] = facts, "black"
    for name, (machine, colour) in machines.items():
        blocks = [active_blocks(machine, BLOCK, shared_bytes=int(s)) for s in size]
        line = {"color": style.COLOURS[colour], "linewidth": 1.2}
        axis.step(size / 1000, blocks, where="mid", label=f"computed, {name}", **line)
    for kernel in KERNELS:
        label, colour, _ = style.LOOKS["ALS", kernel]
        colour = style.COLOURS[colour]
        rows = frame[(frame.solver == kernel) & (frame.x_machine == OWN) & (frame.x_threads >= BLOCK)]
        row = rows.iloc[0]
        here = row.x_active_computed if np.isnan(row.x_active_driver) else row.x_active_driver
        axis.plot(row.x_shared_bytes / 1000, here, "o", color=colour, label=f"{label}, with its registers")
        quantities = "shared memory of a block", "active blocks"
        x, y = (_published.value("Figure 6.8", quantity, model=f"ALS {kernel}") for quantity in quantities)
        if x and y:
            axis.plot(x / 1000, y, "D", color=colour, markerfacecolor="white", label=f"{label}, published")
    axis.set(xlabel="shared memory of a block (kB)", ylabel="active blocks of a multiprocessor", xlim=(0, None))
    axis.set_ylim(0, None)
    style.legend(figure, axis, 2)
    return figure


_ENDS = {
    "thesis_shared": int(_published.value("Figure 6.7", "linear up to")),
    "thesis_global": int(_published.value("Figure 6.9", "linear up to")),
}
_BLOCKS = _published.value("Figure 6.8", "active blocks", model="ALS thesis_shared")
MOST = 8192  # threads that both versions have on 8 multiprocessors


def _at(machine, solver=None, threads=None):
    wanted = {"x_machine": machine, "solver": solver, "x_threads": threads}
    return {key: value for key, value in wanted.items() if value is not None}


def _seconds(machine, over, under, **select):
    """What `ratio` takes: epochs of ALS on a machine, two lots."""
    return {"column": "seconds", "where": _at(machine), "over": over, "under": under, **select}


def _gap(machine, most):
    """What `ratio_of_ratios` takes: global over shared memory with the most threads, over that with the fewest."""
    return _seconds(machine, _SLOWER, _FASTER, here={"x_threads": most}, there={"x_threads": BLOCK})


def _linear(solver):
    """What `median` takes: the share of linear scaling with the threads up to which the thesis found it."""
    return {"column": "x_linear", "where": _at(KEPLER_LIKE, solver, _ENDS[solver]), "times": 2}


# No effect: the speed of one block.
_LINEAR = {solver: Criterion(low=0.8, no_effect=BLOCK / end) for solver, end in _ENDS.items()}
_SLOWER, _FASTER = {"solver": "thesis_global"}, {"solver": "thesis_shared"}
_LIMITED = "8 multiprocessors of 48 kB of shared memory"
_DROP = {"over": {"x_blocks_more": 0}, "under": {"x_blocks_more": 1}}


def _claim(name, statement, metric, select, criterion=None, table=None, published=None, evidence="synthetic"):
    return Claim(f"thesis-fig-{name}", "thesis", f"Figure {name.split('-')[0]}", statement, published, metric, select,
                 criterion, evidence, table)  # fmt: skip


CLAIMS = [
    _claim("6.7", f"Speed in shared memory with {_ENDS['thesis_shared']:,} threads over linear scaling from "
           f"{BLOCK} threads on, {_LIMITED}.", "median", _linear("thesis_shared"), _LINEAR["thesis_shared"], linear),
    _claim("6.7-drop", f"Speed that one block more than are active leaves, shared memory, {_LIMITED}.",
           "ratio", {"column": "seconds", "where": _at(KEPLER_LIKE, "thesis_shared")} | _DROP, below(0.9), full),
    # Registers limit the blocks there, not shared memory, of which alone the publication speaks.
    _claim("6.7-drop-whole-gpu", "Speed that one block more than are active leaves, shared memory, whole GPU.",
           "ratio", {"column": "seconds", "where": _at(OWN, "thesis_shared")} | _DROP, table=full),
    _claim("6.8",
           "Active blocks by equation 6.2, with limits of threads and registers: difference from the driver's.",
           "median", {"column": "x_apart"}, table=apart),
    # The shared memory of a block of ours is chosen so that this many fit.
    _claim("6.8-blocks", "Active blocks of a multiprocessor with 48 kB, shared memory.", "median",
           {"column": "x_active_driver", "where": _at(KEPLER_LIKE, "thesis_shared")},
           near(_BLOCKS, 1.1, KEPLER["blocks_per_multiprocessor"]), published=_BLOCKS, evidence="built in"),
    _claim("6.9", f"Speed in global memory with {_ENDS['thesis_global']:,} threads over linear scaling from {BLOCK} "
           f"threads on, {_LIMITED}.", "median", _linear("thesis_global"), _LINEAR["thesis_global"], linear),
    _claim("6.10", f"Speed-up of shared over global memory with {BLOCK} threads, {_LIMITED}.", "ratio",
           _seconds(KEPLER_LIKE, _SLOWER | {"x_threads": BLOCK}, _FASTER | {"x_threads": BLOCK}), above(1)),
    _claim("6.10-gap", f"That speed-up with {MOST:,} threads, over the one with {BLOCK}, {_LIMITED}.",
           "ratio_of_ratios", _gap(KEPLER_LIKE, MOST), below(1)),
    _claim("6.10-gap-whole-gpu",
           f"That speed-up with {_ENDS['thesis_global']:,} threads over {BLOCK}, whole GPU.",
           "ratio_of_ratios", _gap(OWN, _ENDS["thesis_global"])),
    # The published reason, bandwidth, is not tested by it: 8 multiprocessors have all of it here.
    _claim("6.10-reason",
           f"Speed-up of {_ENDS['thesis_shared']:,} threads in global memory on all multiprocessors over 8.", "ratio",
           {"column": "seconds", "where": _SLOWER | {"x_threads": _ENDS["thesis_shared"]}, "over": _at(KEPLER_LIKE),
            "under": _at(OWN)}),
    _claim("6.10-whole-gpu",
           f"Speed-up of shared over global memory with {_ENDS['thesis_global']:,} threads, whole GPU.", "ratio",
           _seconds(OWN, _SLOWER, _FASTER) | {"where": _at(OWN, threads=_ENDS["thesis_global"])}),
    Claim("thesis-newer-gpus-more", "thesis", "Section 7.1",
          "Speed-up by all shared memory of each multiprocessor over 48 kB of it, whole GPU, best numbers of "
          "threads.",
          metric="ratio", select={"column": "seconds", "where": {"solver": "thesis_shared"},
                                  "over": {"x_machine": SHARED}, "under": {"x_machine": OWN}},
          criterion=Criterion(low=1.1, no_effect=1.0), evidence="synthetic", table=best),  # "benefits greatly"
    *(Claim(f"thesis-newer-gpus-{name}", "thesis", "Section 7.1",
            f"Best speed in {name} memory over that in shared memory, whole GPU.", metric="ratio",
            select=_seconds(OWN, _FASTER, {"solver": f"thesis_{name}"}), evidence="synthetic", table=best)
      for name in ("hybrid", "global")),
]  # fmt: skip
