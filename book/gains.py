"""What each version of a kernel gained, from recorded results, in kernels/README.md and the kernels' headers."""

import re
from functools import cache
from typing import NamedTuple

import numpy as np

from gpumf import ALS, RBM, SGD, ImplicitALS
from gpumf.backends import sources
from gpumf.ratings.synthetic.recipes import RECIPES
from gpumf_study import results
from gpumf_study.experiments import _limits
from gpumf_study.experiments.cumf import als_versions
from gpumf_study.experiments.gpumf import ceilings, sgd_netflix

# (file, version, the version that it is compared with, what it changes)
VERSIONS = [
    ("als/thesis.cu", "thesis_shared", None, "a half-warp a row, its two matrices in shared memory"),
    ("als/thesis.cu", "thesis_global", "thesis_shared", "both matrices in global memory"),
    ("als/thesis.cu", "thesis_hybrid", "thesis_global", "the sum in global, the solve in shared memory"),
    ("als/wmma_simple.cu", "wmma_simple", None, "products on the tensor cores, exact solutions in shared memory"),
    ("als/cumf/hermitian.cu", "LOAD=1", None, "non-coalesced loads through L1, as published"),
    ("als/cumf/hermitian.cu", "LOAD=2", "LOAD=1", "the same bypassing L1"),
    ("als/cumf/hermitian.cu", "LOAD=0", "LOAD=1", "coalesced loads"),
    ("als/cumf/bias.cu", "get_bias", None, "the right sides as a phase of its own"),
    ("als/cumf/direct.cu", "CHOLESKY=0", None, "a batched LU"),
    ("als/cumf/direct.cu", "CHOLESKY=1", "CHOLESKY=0", "symmetry: half the work and memory"),
    ("als/cumf/cg.cu", "A_HALF=0", "CHOLESKY=1", "conjugate gradient: O(f^2), approximate"),
    ("als/cumf/cg.cu", "A_HALF=1", "A_HALF=0", "A in FP16: half the bytes"),
    ("als/tensor_core.cu", "cumf_cg_fp16", None, "hermitian.cu and cg.cu, A in FP16 through global memory"),
    ("als/tensor_core.cu", "tensor_core", "cumf_cg_fp16", "tensor cores, and the solve where A is"),
    ("als/warpgroups.cu", "tensor_core, wgmma", None, "tensor_core.cu with Hopper's own products"),
    ("als/warpgroups.cu", "warpgroups", "tensor_core, wgmma", "warps that fetch apart from those that solve"),
    ("als/warpgroups.cu", "BYTES=1", "warpgroups", "rows in eight bits, products of integers"),
    ("als/preconditioned_cg.cu", "preconditioned_cg", None, "many factors: products of matrices for all rows"),
    ("sgd/gpusgd.cu", "gpusgd", None, "a thread an update, conflict-free blocks"),
    ("sgd/newgpusgd.cu", "newgpusgd", "gpusgd", "a thread a factor, coalesced"),
    ("sgd/newgpusgd.cu", "newgpusgd, FP64", "newgpusgd", "double precision"),
    ("sgd/bsgd.cu", "bsgd", None, "shuffled batches, atomic additions"),
    ("sgd/esgd.cu", "esgd", "bsgd", "ratings in stored order, shuffled in shared memory"),
    ("sgd/esgd.cu", "esgd, shuffled", "bsgd", "the same on shuffled ratings"),
    ("sgd/cu2rec.cu", "cu2rec, early bird loses", None, "a rating of every user a step; the last write counts"),
    ("sgd/cu2rec.cu", "cu2rec", "cu2rec, early bird loses", "one group an item writes"),
    ("sgd/cu2rec.cu", "cu2rec, atomic", "cu2rec, early bird loses", "atomic additions, nothing is lost"),
    ("sgd/kato_hosino.cu", "kato_hosino", None, "all users, then all items; no conflicts"),
    ("sgd/hogwild.cu", "hogwild", None, "a group of lanes an update, no locks"),
    ("sgd/cumf_sgd.cu", "cumf_sgd", "hogwild", "FP16 rows, batches of shuffled ratings"),
    ("sgd/cumf_sgd.cu", "cumf_sgd, blocked", "cumf_sgd", "conflict-free blocks, a launch a set"),
    ("sgd/fast.cu", "fast, FP32", "cumf_sgd", "items stay in shared memory, users in registers for a run"),
    ("sgd/fast.cu", "fast", "fast, FP32", "users' rows in FP16"),
    ("rbm/thesis.cu", "thesis", None, "a launch a level, dense over zeros and ones"),
    ("rbm/fast.cu", "fast (RBM)", "thesis", "all levels at once, three launches a batch"),
]

RESULTS = "als_versions", "als_ladder", "sgd_netflix", "rbm_speed"

_MEASURED = re.compile(r"// Measured \(make gains\).*\n(?://  .*\n)*")  # in a header


class Measured(NamedTuple):
    """A recorded version.

    what : was timed
    seconds : median
    limit : the roofline bound of the same, in seconds, see `gpumf_study.experiments._limits`
    result : of RESULTS
    """

    what: str
    seconds: float
    limit: float
    result: str


@cache
def measured():
    """What is recorded: a dict version -> `Measured`."""
    als = results.load("als_versions").frame
    found = {}
    of_thesis = als[(als.data == "douban-synthetic") & (als.factors == 16) & als.solver.str.startswith("thesis")]
    found |= _medians(of_thesis[of_thesis.x_step == "iteration"], "Douban (synthetic), 16 factors, an iteration")
    netflix = als[(als.data == "netflix-synthetic") & (als.factors == 100) & (als.model == "ALS")]
    fused = netflix[(netflix.x_step == "iteration") & netflix.solver.isin(["wmma_simple", "cumf_cg_fp16"])]
    found |= _medians(fused, "Netflix (synthetic), 100 factors, an iteration")
    ladder = results.load("als_ladder").frame
    ladder = ladder[(ladder.model == "ALS") & (ladder.x_step == "iteration")]
    # Without short_rows.cu and warpgroups.cu, which the solver of this name launches where they are faster.
    of_100 = ladder[(ladder.factors == 100) & (ladder.variant == "all rows alike")].assign(solver="tensor_core")
    found |= _medians(of_100, "Netflix (synthetic), 100 factors, an iteration", "als_ladder")
    hopper = {"wgmma": "tensor_core, wgmma", "fetching warps": "warpgroups", "rows in eight bits": "BYTES=1"}
    of_hopper = ladder[(ladder.factors == 100) & ladder.variant.isin(hopper)]
    of_hopper = of_hopper.assign(solver=of_hopper.variant.map(hopper))
    found |= _medians(of_hopper, "Netflix (synthetic), 100 factors, an iteration", "als_ladder")
    hermitians = netflix[(netflix.solver == "cumf_cholesky") & netflix.x_step.str.endswith("get_hermitian")]
    loads = {load: f"LOAD={k}" for k, load in enumerate(als_versions.LOADS)}
    found |= _medians(
        hermitians.assign(solver=hermitians.variant.map(loads)), "Netflix (synthetic), 100 factors, all A"
    )
    biases = netflix[(netflix.solver == "cumf_cholesky") & netflix.x_step.str.endswith("get_bias")]
    found |= _medians(biases.assign(solver="get_bias"), "Netflix (synthetic), 100 factors, all right sides")
    solvers = {
        "cumf_lu": "CHOLESKY=0",
        "cumf_cholesky": "CHOLESKY=1",
        "cumf_cg": "A_HALF=0",
        "cumf_cg_fp16": "A_HALF=1",
    }
    solves = netflix[netflix.solver.isin(solvers) & netflix.x_step.str.endswith("solve")]
    found |= _medians(
        solves.assign(solver=solves.solver.map(solvers)), "Netflix (synthetic), 100 factors, all systems"
    )

    sgd = results.load("sgd_netflix").frame
    nnz = sgd.x_nnz.iloc[0]
    per_epoch = nnz / sgd_netflix.summary(sgd).set_index("scheme").updates_per_second
    what = "Netflix (synthetic), 128 factors, as many updates as ratings"
    shape = RECIPES["netflix"]
    limit = _bound(*_limits.epoch_of_updates(shape.users, shape.items, nnz, 128))
    found |= {scheme: Measured(what, value, limit, "sgd_netflix") for scheme, value in per_epoch.items()}

    rbm = results.load("rbm_speed").frame
    epochs = rbm[(rbm.device == "cuda") & (rbm.x_weights == "device") & (rbm.x_part == "epoch")]
    names = epochs.solver.replace("fast", "fast (RBM)")
    what = "Douban (synthetic), 128 units, an epoch"
    epochs = epochs.assign(solver=names, seconds=epochs.x_epoch_seconds, x_step="epoch")
    return found | _medians(epochs, what, "rbm_speed")


def _medians(frame, what, result="als_versions"):
    """For each solver the sum over its steps of the medians."""
    steps = frame.groupby(["solver", "x_step"])[["seconds", "x_limit_seconds"]].median()
    sums = steps.groupby("solver").sum()
    return {row.Index: Measured(what, row.seconds, row.x_limit_seconds, result) for row in sums.itertuples()}


def _bound(moved, flops):
    """Seconds of these bytes and operations at the recorded ceilings of the GPU."""
    return _limits.limit_seconds(moved, flops, ceilings.of(results.load("ceilings").frame), "")


def diverged():
    """The solvers of SGD that ended without finite errors: they enter no ratio."""
    table = sgd_netflix.summary(results.load("sgd_netflix").frame)
    return set(table.scheme[table.last_rmse.isna()])


def publications():
    """Where solvers are published, as they declare it: a dict of files and versions -> `Publication` or None."""
    found = {}
    for model in (ALS, ImplicitALS, SGD, RBM):
        schemes = {name: scheme for name, scheme in model.solver_classes().items() if hasattr(scheme, "source")}
        for scheme in schemes.values():
            files = {getattr(scheme, name, None) for name in ("source", "solver_source")} - {None}
            found |= dict.fromkeys(files, scheme.publication)
        of_versions = {version: schemes.get(kernel) for version, (kernel, _) in model.versions().items()}
        found |= {version: scheme.publication for version, scheme in of_versions.items() if scheme}
    return found | {"als/cumf/bias.cu": found["als/cumf/hermitian.cu"]}  # a phase of the same schemes


def table():
    """The table in Markdown: a row a version, with its factor over the version that it is compared with."""
    found, published = measured(), publications()
    columns = "file", "version", "what it changes", "timed", "seconds", "gain", "over", "source of the solver"
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for file, version, baseline, changes in VERSIONS:
        what, taken, gain = "–", "–", "–"
        if version in found:
            what, gain = found[version].what, _gain(version, baseline) or "–"
            taken = "–" if np.isnan(found[version].seconds) else f"{found[version].seconds:.4g}"
        of = published.get(version, published[file])
        source = f"{of.key}, {of.section}" if of else "–"
        over = f"`{baseline}`" if baseline else "–"
        lines.append(f"| `{file}` | `{version}` | {changes} | {what} | {taken} | {gain} | {over} | {source} |")
    where = [f"`{name}`: {results.load(name).where}" for name in RESULTS]
    return "\n".join([*lines, "", *where, ""])


def _gain(version, baseline):
    """The speed-up of a version, in words, or nothing where it has no baseline that was timed alike."""
    found = measured()
    if version in diverged():
        return "diverged"
    if baseline and found[baseline].what == found[version].what:
        return f"{found[baseline].seconds / found[version].seconds:.3g} x"
    return ""


def with_measured(text, file):
    """The text of a source with what is recorded of its versions where its header says `Measured`."""
    return _MEASURED.sub(lambda match: header(file), text, count=1)


def header(file):
    """The lines of a source's header that say what its versions take, gain, and reach of the roofline bound."""
    rows = [(version, baseline) for of, version, baseline, _ in VERSIONS if of == file and version in measured()]
    if not rows:
        return "// Measured (make gains): not recorded yet.\n"
    first = measured()[rows[0][0]]
    machine = results.load(first.result).where.split(",")[0].removeprefix("Recorded on ")
    lines = [f"// Measured (make gains), {machine}, {first.what}:"]
    table = [("", "seconds", "% of roofline", "gain")]
    for version, baseline in rows:
        one, gain = measured()[version], _gain(version, baseline)
        numbers = (
            ("–", "–") if np.isnan(one.seconds) else (f"{one.seconds:.3g}", f"{100 * one.limit / one.seconds:.2g}")
        )
        table.append((version, *numbers, f"{gain} over {baseline}" if gain.endswith("x") else gain or "–"))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines += ["//     " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    return "\n".join(lines) + "\n"


def with_every_source(text):
    """kernels/README.md with a row in its reading order for each source that has none, behind those of its folder.

    Order and text are a person's to improve: until then the text is the first sentence of the source's header.
    """
    folder, lines = sources.kernels_folder(), text.splitlines(keepends=True)
    linked = set(re.findall(r"\]\(([^)]+\.cuh?)\)", text))
    for path in sorted(folder.rglob("*.cu*")):
        name = path.relative_to(folder).as_posix()
        if name in linked or name.startswith("host/"):
            continue
        rows = [k for k, line in enumerate(lines) if line.startswith("| [")]
        alike = [k for k in rows if lines[k].startswith(f"| [{path.parent.relative_to(folder).as_posix()}/")]
        lines.insert((alike or rows)[-1] + 1, f"| [{name}]({name}) | {_first_sentence(path)} |\n")
    return "".join(lines)


def _first_sentence(path):
    """Of a source's header, without its full stop and without the name that it may begin with."""
    header = re.match(r"(?:// .*\n)+", path.read_text(encoding="utf-8"))[0].replace("// ", "").replace("\n", " ")
    return re.match(r"(?:[^:.]+: )?(.*?)\.(?: |$)", header)[1]
