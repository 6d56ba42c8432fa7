"""kernels/README.md: what each version of a kernel gained, from the recorded results, and rows for new sources."""

import re

import numpy as np

from gpumf import ALS, RBM, SGD
from gpumf.backends import sources
from gpumf_study import results
from gpumf_study.experiments.cumf import als_versions
from gpumf_study.experiments.gpumf import sgd_netflix

# (file, version, the version that it is compared with, what it changes)
VERSIONS = [
    ("als/thesis.cu", "thesis_shared", None, "a half-warp a row, its two matrices in shared memory"),
    ("als/thesis.cu", "thesis_global", "thesis_shared", "both matrices in global memory"),
    ("als/thesis.cu", "thesis_hybrid", "thesis_global", "the sum in global, the solve in shared memory"),
    ("als/cumf/hermitian.cu", "LOAD=1", None, "non-coalesced loads through L1, as published"),
    ("als/cumf/hermitian.cu", "LOAD=2", "LOAD=1", "the same bypassing L1"),
    ("als/cumf/hermitian.cu", "LOAD=0", "LOAD=1", "coalesced loads"),
    ("als/cumf/direct.cu", "CHOLESKY=0", None, "a batched LU"),
    ("als/cumf/direct.cu", "CHOLESKY=1", "CHOLESKY=0", "symmetry: half the work and memory"),
    ("als/cumf/cg.cu", "A_HALF=0", "CHOLESKY=1", "conjugate gradient: O(f^2), approximate"),
    ("als/cumf/cg.cu", "A_HALF=1", "A_HALF=0", "A in FP16: half the bytes"),
    ("als/tensor_core.cu", "cumf_cg_fp16", None, "hermitian.cu and cg.cu, A in FP16 through global memory"),
    ("als/tensor_core.cu", "tensor_core", "cumf_cg_fp16", "tensor cores, and the solve where A is"),
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

RESULTS = "als_versions", "sgd_netflix", "rbm_speed"


def seconds():
    """What is recorded of each version: a dict version -> (what was timed, median seconds)."""
    als = results.load("als_versions").frame
    found = {}
    of_thesis = als[(als.data == "douban-synthetic") & (als.factors == 16) & als.kernel.str.startswith("thesis")]
    found |= _medians(of_thesis[of_thesis.step == "iteration"], "Douban twin, 16 factors, an iteration")
    netflix = als[(als.data == "netflix-synthetic") & (als.factors == 100) & (als.model == "ALS")]
    fused = netflix[(netflix.step == "iteration") & netflix.kernel.isin(["cumf_cg_fp16", "tensor_core"])]
    # tensor_core with fewer steps than by default is another version.
    fused = fused[fused.cg_steps == fused.groupby("kernel").cg_steps.transform("max")]
    found |= _medians(fused, "Netflix twin, 100 factors, an iteration")
    hermitians = netflix[(netflix.kernel == "cumf_cholesky") & netflix.step.str.endswith("get_hermitian")]
    loads = {load: f"LOAD={k}" for k, load in enumerate(als_versions.LOADS)}
    found |= _medians(hermitians.assign(kernel=hermitians.load.map(loads)), "Netflix twin, 100 factors, all A")
    solvers = {
        "cumf_lu": "CHOLESKY=0",
        "cumf_cholesky": "CHOLESKY=1",
        "cumf_cg": "A_HALF=0",
        "cumf_cg_fp16": "A_HALF=1",
    }
    solves = netflix[netflix.kernel.isin(solvers) & netflix.step.str.endswith("solve")]
    found |= _medians(solves.assign(kernel=solves.kernel.map(solvers)), "Netflix twin, 100 factors, all systems")

    sgd = results.load("sgd_netflix").frame
    per_epoch = sgd.nnz.iloc[0] / sgd_netflix.summary(sgd).set_index("scheme").updates_per_second
    what = "Netflix twin, 128 factors, as many updates as ratings"
    found |= {scheme: (what, value) for scheme, value in per_epoch.items()}

    rbm = results.load("rbm_speed").frame
    epochs = rbm[(rbm.device == "cuda") & (rbm.weights == "device") & (rbm.part == "epoch")]
    names = epochs.kernel.replace("fast", "fast (RBM)")
    found |= _medians(epochs.assign(kernel=names, seconds=epochs.epoch_seconds), "Douban twin, 128 units, an epoch")
    return found


def _medians(frame, what):
    """For each kernel the sum over its steps of the median seconds."""
    medians = frame.groupby(["kernel", "step" if "step" in frame else "part"]).seconds.median()
    return {kernel: (what, value) for kernel, value in medians.groupby("kernel").sum().items()}


def diverged():
    """The schemes of SGD that ended without finite errors: they enter no ratio."""
    table = sgd_netflix.summary(results.load("sgd_netflix").frame)
    return set(table.scheme[table.last_rmse.isna()])


def publications():
    """Where schemes are published, as they declare it: a dict of files and versions -> `Publication` or None."""
    found = {}
    for model in (ALS, SGD, RBM):
        schemes = {name: scheme for name, scheme in model.solver_classes().items() if scheme.device == "cuda"}
        for scheme in schemes.values():
            files = scheme.source, getattr(scheme, "solver_source", scheme.source)
            found |= dict.fromkeys(files, scheme.publication)
        of_versions = {version: schemes.get(kernel) for version, (kernel, _) in model.versions().items()}
        found |= {version: scheme.publication for version, scheme in of_versions.items() if scheme}
    return found


def table():
    """The table in Markdown: a row a version, with its factor over the version that it is compared with."""
    found, without, published = seconds(), diverged(), publications()
    columns = "file", "version", "what it changes", "timed", "seconds", "gain", "over", "source of the scheme"
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for file, version, baseline, changes in VERSIONS:
        what, value = found[version]
        gain = "–"
        if version in without:
            gain = "diverged"
        elif baseline and found[baseline][0] == what:
            gain = f"{found[baseline][1] / value:.3g} x"
        of = published.get(version, published[file])
        source = f"{of.key}, {of.section}" if of else "–"
        over, taken = f"`{baseline}`" if baseline else "–", "–" if np.isnan(value) else f"{value:.4g}"
        lines.append(f"| `{file}` | `{version}` | {changes} | {what} | {taken} | {gain} | {over} | {source} |")
    where = [f"`{name}`: {results.load(name).where}" for name in RESULTS]
    return "\n".join([*lines, "", *where, ""])


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
