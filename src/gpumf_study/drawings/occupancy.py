"""Occupancy: how many blocks of the thesis's three kernels a multiprocessor of its GTX 770 has room for."""

from types import SimpleNamespace

from gpumf import ALS
from gpumf.gpu.occupancy import KEPLER, active_blocks
from gpumf_study.drawings.canvas import Drawing, Panel

KERNELS = {"thesis_shared": "blue", "thesis_hybrid": "orange", "thesis_global": "green"}
FACTORS = 16


def blocks():
    """By kernel (threads of a block, bytes of its shared memory, blocks on a multiprocessor by both), a dict."""
    model, schemes = SimpleNamespace(columns=FACTORS, device="host"), ALS.schemes()
    found = {}
    for name in KERNELS:
        threads, shared = schemes[name].geometry(model).most_threads, schemes[name].shared_bytes(model)
        found[name] = threads, shared, active_blocks(KEPLER, threads, shared_bytes=shared)
    return found


def drawing():
    """For each kernel its shared memory and its warps, as shares of what a multiprocessor has."""
    most_shared, most_threads = KEPLER["shared_bytes_per_multiprocessor"], KEPLER["threads_per_multiprocessor"]
    found = blocks()

    def memory(canvas):
        for k, (name, (_, shared, n)) in enumerate(found.items()):
            y = k * 62
            canvas.text(0, y + 8, name, family="monospace", weight="bold")
            canvas.text(340, y + 8, f"{shared:,} bytes a block", 11, ha="right")
            canvas.box(0, y + 20, 340, 22, "white", edge="0.3")
            width = 340 * shared / most_shared
            for block in range(n):
                canvas.box(
                    block * width,
                    y + 20,
                    width,
                    22,
                    KERNELS[name],
                    edge="white",
                    key=f"memory-{name}-{block}",
                    text=block if width > 16 else "",
                )
        canvas.text(340, 3 * 62 - 6, f"{most_shared >> 10} KB", ha="right")
        canvas.text(0, 3 * 62 - 6, "0")
        canvas.text(0, 3 * 62 + 16, "A number: a block. White: what no block takes.", 11)

    def threads(canvas):
        for k, (name, (block, _, n)) in enumerate(found.items()):
            y, width = k * 62, 340 * block / most_threads
            canvas.text(0, y + 8, name, family="monospace", weight="bold")
            canvas.text(340, y + 8, f"{n} blocks: {n * block / most_threads:.0%}", 11, ha="right", weight="bold")
            canvas.box(0, y + 20, 340, 22, "white", edge="0.3")
            for b in range(n):
                canvas.box(
                    b * width, y + 20, width, 22, KERNELS[name], edge="white", text=b, key=f"threads-{name}-{b}"
                )
        canvas.text(340, 3 * 62 - 6, f"{most_threads:,} threads", ha="right")
        canvas.text(0, 3 * 62 - 6, "0")
        canvas.text(0, 3 * 62 + 16, "Registers, which limit blocks too, are not counted here.", 11)

    said = "; ".join(
        f"{name}: {shared:,} bytes, {n} blocks, {n * block / most_threads:.0%}"
        for name, (block, shared, n) in found.items()
    )
    return Drawing(
        (
            Panel("Shared memory of a multiprocessor", 210, memory),
            Panel("Its threads that are occupied", 210, threads),
        ),
        f"A multiprocessor of the thesis's GTX 770 has {most_shared >> 10} KB of shared memory and room for "
        f"{most_threads:,} threads. By kernel the shared memory of a block with {FACTORS} factors, the blocks "
        "that fit, "
        f"and the share of threads that they occupy: {said}.",
    )
