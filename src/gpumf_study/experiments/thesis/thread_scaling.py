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
from types import SimpleNamespace

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from tqdm import tqdm

from gpumf import ALS, backends
from gpumf.backends.occupancy import KEPLER, active_blocks
from gpumf.ratings import CompressedRows
from gpumf_study import figure_style as style
from gpumf_study.experiments import _published, identity, kernels_unavailable, load_ratings
from gpumf_study.experiments.tuning import PARAMETERS, chosen
from gpumf_study.findings import Finding, Holds, Near, Open, ratio

FACTORS, BLOCK, HALF_WARP = 16, 128, 16
KERNELS = ["thesis_shared", "thesis_hybrid", "thesis_global"]
OWN, SHARED, KEPLER_LIKE = MACHINES = "as it is", "48 kB", "48 kB, 8 SMs"
_LONG = 0.1  # seconds

PROFILES = {
    "quick": {
        "data": "ml-100k-synthetic",
        "threads": {kernel: [128, 256, 128] for kernel in KERNELS},
        "few": [128, 256],
        "blocks": [],
        "most_epochs": 3,
        "repeats": 1,
        "parameters": PARAMETERS,
    },
    "full": {
        "data": "douban-synthetic",
        "threads": {
            "thesis_shared": [128, 8192, 128],
            "thesis_hybrid": [128, 8192, 128],
            "thesis_global": [128, 12416, 128],
        },
        "few": [128, 1024, 2048, 3072, 4096, 4224, 6144, 8192, 12288],
        "blocks": [1, 2, 3, 4, 6, 8, 10, 12, 16, 20],
        "most_epochs": 20,
        "repeats": 3,
        "parameters": PARAMETERS,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": "ml-100k-synthetic",
    "threads": {"thesis_shared": [128, 128, 128]},
    "few": [128],
    "blocks": [],
}

why_unavailable = kernels_unavailable


def run(data, threads, few, blocks, most_epochs, repeats, parameters):
    """Time epochs of the three versions on the GPU, or on the processor in its place where there is none.

    Parameters
    ----------
    data : name of a data set, 80 % of which are for training
    threads : dict, kernel -> [first, last, step] of the numbers of CUDA threads on 8 multiprocessors of 48 kB;
        `thesis_shared` is one of them
    few : list of int, numbers of CUDA threads on the whole GPU
    blocks : numbers of blocks for each multiprocessor of the device, beside that of the active ones, for more threads
        than those; and one block more
    most_epochs : int, after which the error counts as not reached
    repeats : int, timings of each
    parameters : dict, data set -> model -> arguments of the model, see `tuning`

    Returns
    -------
    DataFrame with a row an epoch: data, kernel, device, machine (see above), multiprocessors, threads, shared_bytes
    (that a block needs), asked_bytes (that it asks for), registers (of a thread), active_blocks_computed (of a
    multiprocessor), active_blocks_driver (NaN without a GPU, as the registers), epochs_to_threshold (NaN where the
    data set has no threshold or it is not reached), repeat, seconds
    """
    device = backends.device("cuda" if backends.available() else "emulator")
    ratings = load_ratings(data)
    train, test = ratings.split(0.2)
    arguments = chosen(parameters, data, "ALS")
    resident, factors = (
        _resident(device, train),
        ALS(FACTORS, biases=False, clip=False, **arguments).initial_factors(train),
    )
    processors = device.facts["multiprocessors"]
    rows = []
    for kernel, (first, last, step) in threads.items():
        epochs = _epochs_to_threshold(kernel, device, train, test, arguments, most_epochs)
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
                model = _model(kernel, device, count, arguments)
                taken, trainer = _taken(model, resident, factors, device, machine)
                with device.limited_to(KEPLER["multiprocessors"]) if limited else nullcontext():
                    seconds = _timings(device, trainer, repeats)
                what = (
                    ratings.name,
                    kernel,
                    device.name,
                    machine,
                    KEPLER["multiprocessors"] if limited else processors,
                )
                rows += [(*what, count, *taken, epochs, k, s) for k, s in enumerate(seconds)]
    columns = ["data", "kernel", "device", "machine", "multiprocessors", "threads", "shared_bytes", "asked_bytes"]
    columns += ["registers", "active_blocks_computed", "active_blocks_driver", "epochs_to_threshold"]
    frame = pd.DataFrame(rows, columns=[*columns, "repeat", "seconds"])
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


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
    """How many times as fast as one half-warp of the version in shared memory on the whole GPU, from `run`'s frame.

    Returns
    -------
    DataFrame with a row a point: machine, kernel, threads, seconds (of an epoch, median), seconds_to_threshold,
    speedup
    """
    points = frame.groupby(["machine", "kernel", "threads"], sort=False)
    table = points[["seconds", "epochs_to_threshold"]].median().reset_index()
    one = table[(table.machine == OWN) & (table.kernel == KERNELS[0])].set_index("threads").seconds[HALF_WARP]
    table["seconds_to_threshold"] = table.seconds * table.pop("epochs_to_threshold")
    return table.assign(speedup=one / table.seconds)


def drops(frame, machine, kernel, share=0.1):
    """Numbers of threads after which the next one measured has lost more than this share of the speed."""
    points = summary(frame)
    curve = points[(points.machine == machine) & (points.kernel == kernel)].set_index("threads").speedup.sort_index()
    after = curve.shift(-1)
    return list(curve.index[after < (1 - share) * curve])


_MACHINES = {KEPLER_LIKE: "-", OWN: "--", SHARED: ":"}


def figure(frame):
    """Speed-up over one half-warp against CUDA threads: the published range (left), and all that the GPU holds.

    Solid lines have 8 multiprocessors and 48 kB of shared memory on each, dashed ones the whole GPU, dotted ones 48
    kB on each of its multiprocessors. Vertical are the numbers up to which the thesis found linear scaling.
    """
    points = summary(frame)
    figure, (axes,) = style.panels(columns=2, height=4.8)
    published_range = points[points.machine == KEPLER_LIKE].threads.max()
    left = points[points.threads <= published_range] if published_range == published_range else points
    machines = (KEPLER_LIKE, OWN), (OWN, SHARED)
    for axis, shown, of in zip(axes, (left, points), machines, strict=True):
        for machine in of:
            for kernel in KERNELS:
                label, colour, _ = style.LOOKS["ALS", kernel]
                curve = shown[(shown.machine == machine) & (shown.kernel == kernel)].set_index("threads").speedup
                if len(curve):
                    what = {"color": style.COLOURS[colour], "label": f"{label}, {machine}", "linewidth": 1.3}
                    axis.plot(curve.sort_index(), _MACHINES[machine], **what)
        axis.set(xlabel="CUDA threads", ylabel="speed-up over one half-warp", xlim=(0, None), ylim=(0, None))
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    lines = {line.get_label(): line for axis in axes for line in axis.lines}
    for kernel, artefact in (("thesis_shared", "Figure 6.7"), ("thesis_global", "Figure 6.9")):
        colour = style.COLOURS[style.LOOKS["ALS", kernel].colour]
        axes[0].axvline(_published.value(artefact, "linear up to"), linestyle=":", linewidth=1, color=colour)
    figure.legend(lines.values(), lines, loc="outside upper center", ncols=3, frameon=False)
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
        rows = frame[(frame.kernel == kernel) & (frame.machine == OWN) & (frame.threads >= BLOCK)]
        row = rows.iloc[0]
        here = row.active_blocks_computed if np.isnan(row.active_blocks_driver) else row.active_blocks_driver
        axis.plot(row.shared_bytes / 1000, here, "o", color=colour, label=f"{label}, with its registers")
        stated = {
            quantity: _published.value("Figure 6.8", quantity, model=f"ALS {kernel}")
            for quantity in ("shared memory of a block", "active blocks")
        }
        if all(stated.values()):
            x, y = stated.values()
            axis.plot(x / 1000, y, "D", color=colour, markerfacecolor="white", label=f"{label}, published")
    axis.set(xlabel="shared memory of a block (kB)", ylabel="active blocks of a multiprocessor", xlim=(0, None))
    axis.set_ylim(0, None)
    style.legend(figure, axis, 3)
    return figure


_ENDS = {
    "thesis_shared": int(_published.value("Figure 6.7", "linear up to")),
    "thesis_global": int(_published.value("Figure 6.9", "linear up to")),
}
_BLOCKS = _published.value("Figure 6.8", "active blocks", model="ALS thesis_shared")


def _seconds(frame, machine, kernel, threads):
    return frame[(frame.machine == machine) & (frame.kernel == kernel) & (frame.threads == threads)].seconds


def _linear(frame, machine, kernel):
    """The share of linear scaling at the published end, from the fewest threads of the curve on."""
    rows = frame[(frame.machine == machine) & (frame.kernel == kernel) & (frame.threads >= BLOCK)]
    few, end = rows.threads.min(), _ENDS[kernel]
    if not (rows.threads == end).any():
        return np.nan, np.nan, "of linear"
    value, spread = ratio(*(_seconds(frame, machine, kernel, threads) for threads in (few, end)))
    return value * few / end, spread * few / end, "of linear"


def _after(frame, machine):
    """The speed that one block more than are active keeps, in shared memory."""
    rows = frame[(frame.machine == machine) & (frame.kernel == "thesis_shared") & (frame.threads >= BLOCK)]
    if rows.empty:
        return np.nan, np.nan, "of the speed"
    row = rows.iloc[0]
    active = row.active_blocks_computed if np.isnan(row.active_blocks_driver) else row.active_blocks_driver
    end = int(row.multiprocessors * active * BLOCK)
    before, after = (_seconds(frame, machine, "thesis_shared", t) for t in (end, end + BLOCK))
    if before.empty or after.empty:
        return np.nan, np.nan, "of the speed"
    return *ratio(before, after), "of the speed"


def _apart(frame):
    """Blocks by which equation 6.2 and the driver differ at most."""
    return (frame.active_blocks_computed - frame.active_blocks_driver).abs().max(), 0.0, "blocks"


def _active(frame):
    rows = frame[(frame.machine == KEPLER_LIKE) & (frame.kernel == "thesis_shared") & (frame.threads >= BLOCK)]
    return rows.active_blocks_driver.iloc[0], 0.0, "blocks"


def _further(frame):
    """First drop of the version in global memory over that of shared memory; where none is, the most threads."""
    first = [
        min(drops(frame, KEPLER_LIKE, kernel), default=frame[frame.kernel == kernel].threads.max())
        for kernel in _ENDS
    ]
    return first[1] / first[0], 0.0, "x"


def _spread_out(frame):
    """How much sooner the version in global memory is with the published end of the shared one's threads on all
    multiprocessors than with as many on 8: both ask the same of L2 cache and memory."""
    seconds = (_seconds(frame, of, "thesis_global", _ENDS["thesis_shared"]) for of in (KEPLER_LIKE, OWN))
    limited, whole = seconds
    if limited.empty or whole.empty:
        return np.nan, np.nan, "x"
    return *ratio(limited, whole), "x"


def _gap(frame, machine, which):
    """How many times as fast shared memory is, with the fewest (0) or most (-1) threads of both versions."""
    rows = frame[(frame.machine == machine) & frame.threads.between(BLOCK, max(_ENDS.values()))]
    common = set.intersection(*(set(rows.threads[rows.kernel == kernel]) for kernel in _ENDS))
    threads = sorted(common)[which]
    return ratio(*(_seconds(rows, machine, kernel, threads) for kernel in ("thesis_global", "thesis_shared")))


def _faster(frame, machine, which):
    return *_gap(frame, machine, which), "x"


def _narrower(frame, machine):
    (few, spread_few), (many, spread_many) = (_gap(frame, machine, which) for which in (0, -1))
    spread = many / few * np.hypot(np.nan_to_num(spread_few / few), np.nan_to_num(spread_many / many))
    return many / few, spread, "of the gap"


def _best(frame, kernel):
    """The best speed of a version on the whole GPU over that of shared memory."""
    best = summary(frame).query("machine == @OWN").groupby("kernel").speedup.max()
    return best[kernel] / best["thesis_shared"], np.nan, "x"


_LIMITED = "on a GPU limited to 8 multiprocessors of 48 kB shared memory"
_QUESTION = "What do newer GPUs bring? On the whole GPU, the best speed, over that of shared memory, of"
# Less 'thesis-' and 'Figure ': id and artefact, statement, value, rule.
_FIGURES = [
    ("6.7", f"In shared memory ALS scales linearly to {_ENDS['thesis_shared']:,} threads, {_LIMITED}.",
     partial(_linear, machine=KEPLER_LIKE, kernel="thesis_shared"), Holds(above=0.8)),
    ("6.7-drop", f"One block more than are active takes a tenth of the speed or more, {_LIMITED}.",
     partial(_after, machine=KEPLER_LIKE), Holds(below=0.9)),
    ("6.7-drop-whole-gpu", "One block more than are active takes a tenth of the speed or more, on the whole GPU.",
     partial(_after, machine=OWN), Holds(below=0.9)),
    ("6.8", "Equation 6.2, with limits of threads and registers, gives the active blocks that the driver reports.",
     _apart, Holds(below=1)),
    ("6.8-blocks", f"With what these blocks need in shared memory {_BLOCKS:g} are active where there are 48 kB.",
     _active, Near(_BLOCKS, within=1.1, neutral=KEPLER["blocks_per_multiprocessor"])),
    ("6.9", f"In global memory ALS scales linearly to {_ENDS['thesis_global']:,} threads, {_LIMITED}.",
     partial(_linear, machine=KEPLER_LIKE, kernel="thesis_global"), Holds(above=0.8)),
    ("6.9-further", f"In global memory the speed drops at more threads than in shared memory, {_LIMITED}.",
     _further, Holds(above=1)),
    ("6.10", f"Shared memory is faster than global memory with few threads, {_LIMITED}.",
     partial(_faster, machine=KEPLER_LIKE, which=0), Holds(above=1)),
    ("6.10-gap", f"With the most threads that gap is narrower than with the fewest, {_LIMITED}.",
     partial(_narrower, machine=KEPLER_LIKE), Holds(below=1)),
    ("6.10-gap-whole-gpu", "With the most threads of the published range that gap is narrower than with the fewest, "
     "on the whole GPU.", partial(_narrower, machine=OWN), Holds(below=1)),
    ("6.10-reason", "The bandwidth of global memory, which all multiprocessors share, is what constrains the version "
     "in it: to spread as many threads over all of them gains less than a tenth.", _spread_out, Holds(below=1.1)),
    ("6.10-whole-gpu", "Shared memory is faster than global memory with the most threads of the published range, on "
     "the whole GPU.", partial(_faster, machine=OWN, which=-1), Holds(above=1)),
]  # fmt: skip
FINDINGS = [
    Finding(f"thesis-fig-{name}", "thesis", f"Figure {name.split('-')[0]}", statement, value, rule)
    for name, statement, value, rule in _FIGURES
] + [
    Finding(f"thesis-newer-gpus-{name}", "thesis", "Section 7.1", f"{_QUESTION} {what}.", value, Open())
    for name, what, value in (
        ("hybrid", "a hybrid of the two memories", partial(_best, kernel="thesis_hybrid")),
        ("global", "global memory", partial(_best, kernel="thesis_global")),
    )
]
