"""The thesis's ALS in global and in hybrid memory with and without a minimum of active blocks.

The minimum caps the registers of a thread, which then spills some to memory. Without it the kernels take as many as
they ask for, and fewer blocks are active. Source: thesis, section 7.1, which expects the most of hybrid memory.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from gpumf import ALS, backends
from gpumf.backends import sources
from gpumf_study.claims import Claim
from gpumf_study.experiments import kernels_unavailable, load_ratings
from gpumf_study.experiments.thesis.speedups import ALS_THREADS, FACTORS

SHARED, HYBRID, GLOBAL = KERNELS = ["thesis_shared", "thesis_hybrid", "thesis_global"]
BOUNDED, FREE = "minimum of blocks", "no minimum"

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "threads": [128], "repeats": 1},
    "full": {"data": "douban-synthetic", "threads": [None, ALS_THREADS], "repeats": 10},
}
PROFILES["smoke"] = PROFILES["quick"]

why_unavailable = kernels_unavailable


def run(data, threads, repeats):
    """Time epochs with so many CUDA threads, None being as many as fit, all versions in turns.

    x_cuda_threads is 0 for as many as fit; x_registers and x_spilled_bytes are those of a thread, 0 without a GPU.
    """
    device = backends.device("cuda" if backends.available() else "emulator")
    ratings = load_ratings(data)
    train, _ = ratings.split(0.2)
    labels = {"data": ratings.name, "task": "epoch", "model": "ALS", "device": device.name, "phase": "train"}
    rows = []
    with TemporaryDirectory() as folder:
        file = without_bounds(folder)
        trainers = {}
        for solver, count in ((solver, count) for solver in KERNELS for count in threads):
            model = ALS(FACTORS, 0.05, solver=solver, device=device.name, threads=count, biases=False, clip=False)
            for variant in (BOUNDED, FREE) if solver != SHARED else (BOUNDED,):
                trainer = model.make_solver(train)
                if variant == FREE:
                    trainer._kernel = device.kernel(file, solver, FACTORS=FACTORS)
                trainers[solver, variant, count or 0] = trainer
                trainer.epoch(0)  # which loads it
        for repeat in range(repeats):
            for (solver, variant, count), trainer in trainers.items():
                (seconds,) = device.time(lambda t=trainer: t.epoch(0), repeats=1, warmup=0)
                taken = trainer._kernel.attributes if device.name == "cuda" else {}
                what = {"solver": solver, "variant": variant, "x_cuda_threads": count, "repeat": repeat}
                what |= {"x_registers": taken.get("num_regs", 0), "x_spilled_bytes": taken.get("local_size_bytes", 0)}
                rows.append(labels | what | {"factors": FACTORS, "seconds": seconds})
    return pd.DataFrame(rows)


def without_bounds(folder):
    """Write the kernels without a minimum of active blocks to a file in a folder; return its path."""
    source = sources.kernels_folder() / "als/thesis.cu"
    text = re.sub(r"(__launch_bounds__\(MAX_THREADS), \w+\)", r"\1)", source.read_text(encoding="utf-8"))
    file = Path(folder, "thesis_without_bounds.cu")
    file.write_text(text, encoding="utf-8")
    return file


CLAIMS = [
    Claim(f"thesis-newer-gpus-{name}-unbounded", "thesis", "Section 7.1",
          f"Speed in {name} memory over that in shared memory, whole GPU, with as many registers as the kernel "
          "takes.", None, "ratio",
          {"column": "seconds", "where": {"x_cuda_threads": 0}, "over": {"solver": SHARED},
           "under": {"solver": solver, "variant": FREE}}, evidence="synthetic")
    for name, solver in (("hybrid", HYBRID), ("global", GLOBAL))
]  # fmt: skip
