"""Threads, warps, blocks and the grid of one launch."""

from gpumf_study.drawings.canvas import HUES, Drawing, Panel, tint
from gpumf_study.drawings.probes import owners

ELEMENTS, THREADS = 150, 64
WARP = 32
_CELL = 8.5


def launch():
    """Whose each element is in a launch with a thread an element, in whole blocks.

    Returns
    -------
    (blocks, owners) : int, and int32 (ELEMENTS, 2) of block and thread
    """
    blocks = -(-ELEMENTS // THREADS)
    return blocks, owners(ELEMENTS, blocks, THREADS)


def drawing():
    """The launch as rows of warps, and what each of CUDA's words stands for."""
    blocks, owned = launch()
    busy = set(map(tuple, owned.tolist()))
    idle = blocks * THREADS - len(busy)

    def grid(canvas):
        left = WARP * _CELL
        for block in range(blocks):
            top = block * 58
            canvas.text(0, top + 6, f"block {block}", weight="bold")
            for thread in range(THREADS):
                warp, lane = divmod(thread, WARP)
                fill = HUES[block] if (block, thread) in busy else "white"
                x, y = 340 - left + lane * _CELL, top + 16 + warp * 17
                canvas.box(
                    x,
                    y,
                    _CELL,
                    13,
                    fill,
                    edge="white" if fill != "white" else "0.6",
                    linewidth=0.6,
                    key=f"thread-{block}-{thread}",
                )
            for warp in range(THREADS // WARP):
                canvas.text(8, top + 22 + warp * 17, f"warp {warp}")
        y = blocks * 58 + 6
        canvas.text(340 - left, y, "lane 0")
        canvas.text(340, y, "lane 31", ha="right")
        canvas.legend(y + 16, [("0.5", f"a thread with an element: {len(busy)}"), ("white", f"one without: {idle}")])

    def words(canvas):
        levels = (
            ("grid", "all blocks of a launch", "global memory", "grey"),
            ("block", "up to 1,024 threads on one multiprocessor", "shared memory, barriers", "blue"),
            ("warp", "32 threads, one instruction at a time", "shuffles", "orange"),
            ("thread", "one set of numbers", "registers", "green"),
        )
        for k, (name, what, shares, colour) in enumerate(levels):
            x, y = 6 + 12 * k, k * 58
            canvas.box(x - 6, y, 340 - 12 * k, 244 - k * 58, tint(colour, 0.2), edge="0.4")
            canvas.text(x, y + 12, name, 13, weight="bold")
            canvas.text(x, y + 29, what, 11.5)
            canvas.text(x, y + 45, f"shares: {shares}" if name != "thread" else f"has: {shares}", 11.5)

    return Drawing(
        (Panel(f"{ELEMENTS} elements, a thread each", 232, grid), Panel("What shares what", 244, words)),
        f"First a grid of {blocks} blocks of {THREADS} threads, each block drawn as {THREADS // WARP} warps of "
        f"{WARP} "
        f"lanes. {len(busy)} threads have an element; the last {idle} of the last block have none. Then a nest: a "
        "thread has "
        "registers, within a warp of 32 threads that share instructions and shuffles, within a block on one "
        "multiprocessor that shares memory and barriers, within a grid that shares global memory.",
    )
