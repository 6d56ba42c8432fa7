"""Speed of the thesis's ALS against the number of CUDA threads, and what limits the blocks of a multiprocessor.

After the thesis, section 6.4, Figures 6.7 to 6.10: 16 factors, blocks of 128 threads that stride over the rows. Each
version runs twice: as it is, and with blocks that ask for more shared memory than they need, so that no more of them
are active than where a multiprocessor has the 48 kB of the thesis's.
"""

import numpy as np
import pandas as pd

from gpumf import ALS, gpu
from gpumf.experiments import identity, load_ratings
from gpumf.gpu.occupancy import KEPLER, active_blocks

FACTORS, BLOCK = 16, 128
KERNELS = ["thesis_global", "thesis_hybrid", "thesis_shared"]
_LONG = 0.5  # seconds; what takes longer is timed once

PROFILES = {
    "quick": {"data": "ml-100k-twin", "threads": [16], "blocks": [1], "repeats": 1},
    "full": {
        "data": "douban-twin",
        "threads": [16, 128, 512, 2048, 8192],
        "blocks": [1, 2, 3, 4, 6, 8, 9, 10, 12, 16, 20],
        "repeats": 5,
    },
}


def run(data, threads, blocks, repeats):
    """Time epochs of the three versions on the GPU, or on the processor in its place where there is none.

    Parameters
    ----------
    data : name of a data set
    threads : numbers of CUDA threads; the first is the half-warp that all is compared with, which takes long and is
        timed for the shared version alone (Figure 6.10)
    blocks : numbers of blocks for each multiprocessor of the device, for more threads than that
    repeats : int, timings of each; one where an epoch takes long

    Returns
    -------
    DataFrame with a row an epoch: data, kernel, device, multiprocessor_shared_bytes (those of the device, or the
    fewer that the blocks are limited to), threads, shared_bytes (that a block needs), registers (of a thread),
    active_blocks_computed (of a multiprocessor), active_blocks_driver (NaN without a GPU, as the registers), repeat,
    seconds
    """
    device = gpu.device("cuda" if gpu.available() else "host")
    processors, own = device.facts["multiprocessors"], device.facts["shared_bytes_per_multiprocessor"]
    ratings = load_ratings(data)
    more = [BLOCK * processors * b for b in blocks]
    rows = []
    for kernel in KERNELS:
        few = threads if kernel == "thesis_shared" else threads[1:]
        # Where every multiprocessor has at most one block, a limit changes nothing.
        for limit, counts in ((own, [*few, *more]), (KEPLER["shared_bytes_per_multiprocessor"], more)):
            for count in counts:
                taken, seconds = _timings(device, kernel, ratings, count, own / limit, repeats)
                rows += [
                    (ratings.name, kernel, device.name, limit, count, *taken, k, s) for k, s in enumerate(seconds)
                ]
    columns = ["data", "kernel", "device", "multiprocessor_shared_bytes", "threads", "shared_bytes", "registers"]
    columns += ["active_blocks_computed", "active_blocks_driver", "repeat", "seconds"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def _timings(device, kernel, ratings, threads, shared_scale, repeats):
    """(what a block takes and how many are active, seconds of each epoch)."""
    model = ALS(FACTORS, kernel=kernel, device=device.name, threads=threads)
    make_trainer = ALS._trainers[kernel]
    trainer = make_trainer(model, ratings, *model.initial_factors(ratings), shared_scale=shared_scale)
    block = min(BLOCK, threads)
    needed = make_trainer.shared_bytes(FACTORS, block)
    asked, compiled = int(needed * shared_scale), make_trainer.compile(model)
    on_gpu = device.name == "cuda"
    registers = compiled.attributes["num_regs"] if on_gpu else 0
    computed = active_blocks(device.facts, block, registers, asked)
    driver = compiled.active_blocks(block, asked) if on_gpu else np.nan

    def epoch():
        trainer.epoch(0)

    seconds = device.time(epoch, repeats=1, warmup=0)
    if seconds[0] < _LONG:
        seconds = device.time(epoch, repeats)
    return (needed, registers if on_gpu else np.nan, computed, driver), seconds
