"""Kernels for racecheck, which takes an arrival at a barrier in shared memory for that of one thread alone.

In warpgroups.cu lanes of a warp meet at __syncwarp, and one of them arrives for all: PTX orders what all did before.
Here every lane arrives.
"""

import shutil

from gpumf.backends import sources

WARPGROUPS = "als/warpgroups.cu"
_CHANGES = {
    "if (lane == 0) arrive(work.barriers[before].full)": "arrive(work.barriers[before].full)",
    "if (lane == 0) arrive(barriers.full)": "arrive(barriers.full)",
    "if (me.lane == 0) arrive(work.barriers[stage].empty)": "arrive(work.barriers[stage].empty)",
    "].full, IMPLICIT && !TEAMS_WEIGH ? 1 : 32 + 1)": "].full, IMPLICIT && !TEAMS_WEIGH ? 32 : 32 + 32)",
    "].empty, WARPS)": "].empty, 32 * WARPS)",
}


def changed(text):
    """The text of warpgroups.cu so that every lane arrives.

    Raises ValueError: it has no longer, or more than once, what is to be changed
    """
    for old, new in _CHANGES.items():
        if text.count(old) != 1:
            raise ValueError(f"{WARPGROUPS} has {text.count(old)} x {old!r}")
        text = text.replace(old, new)
    return text


def write(folder):
    """Copy kernels/ to a folder that is not there yet, with `changed`."""
    shutil.copytree(sources.kernels_folder(), folder)
    path = folder / WARPGROUPS
    path.write_text(changed(path.read_text(encoding="utf-8")), encoding="utf-8")
