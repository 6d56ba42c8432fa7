"""A race: two threads add one to the same number, in two of the orders in which their reads and writes can come."""

from functools import cache

import numpy as np

from gpumf_study.drawings.canvas import HUES, Drawing, Panel, tint
from gpumf_study.drawings.probes import added


@cache
def orders():
    """The first order in which both additions count, and the first in which one is lost, with their sums.

    Returns
    -------
    dict of sum, 2 and 1 -> list of (thread, 'read' or 'write')
    """
    found = {}
    for seed in range(1000):
        total, trace = added(seed)
        found.setdefault(total, list(zip(trace.thread, trace.access, strict=True)))
        if len(found) == 2:
            break
    return dict(sorted(found.items(), reverse=True))


def told(order):
    """What is in memory after each step of an order, and what its thread holds: a list of (sum, number)."""
    total, held, steps = 0, np.zeros(2, int), []
    for thread, access in order:
        if access == "read":
            held[thread] = total
        else:
            total = held[thread] = held[thread] + 1
        steps.append((int(total), int(held[thread])))
    return steps


def drawing():
    """Both orders, step by step, with the number in memory."""

    def panel(order):
        def draw(canvas):
            for thread in range(2):
                canvas.text(58 + 104 * thread, 8, f"thread {thread}", ha="center", weight="bold")
            canvas.text(290, 8, "in memory", ha="center", weight="bold")
            canvas.box(264, 22, 52, 26, tint("grey", 0.25), text=0, size=13)
            for k, ((thread, access), (total, held)) in enumerate(zip(order, told(order), strict=True)):
                y, x = 58 + 38 * k, 12 + 104 * thread
                fill = HUES[thread] if access == "write" else tint(HUES[thread], 0.35)
                canvas.box(x, y, 92, 28, fill, text=f"{access}s {held}", size=12, key=f"{told(order)[-1][0]}-{k}")
                canvas.box(264, y, 52, 28, tint("grey", 0.25), text=total, size=13)
                ends = (262, y + 14), (x + 94, y + 14)
                canvas.arrow(*(ends if access == "read" else ends[::-1]))

        return draw

    found = orders()
    headings = {2: "One after the other: 2", 1: "Both read first: 1, one is lost"}
    said = "; then ".join(
        ", ".join(f"thread {thread} {access}s {held}" for (thread, access), (_, held) in zip(o, told(o), strict=True))
        for o in found.values()
    )
    return Drawing(
        tuple(Panel(headings[total], 214, panel(order)) for total, order in found.items()),
        f"Two threads add one to a number that is 0, in two orders: {said}. The first ends at 2, the second at 1.",
    )
