"""What this machine reaches at best: bytes a second of a copy, FLOP a second of large matrix products.

They are the denominators of every roofline bound of the study, see `_limits`.
"""

import numpy as np
import pandas as pd

from gpumf import ALS
from gpumf.ratings.synthetic import RECIPES
from gpumf_study import figure_style as style
from gpumf_study.experiments import _limits, usable_devices

PROFILES = {"quick": {"repeats": 10}, "full": {"repeats": 30}}
PROFILES["smoke"] = PROFILES["quick"] | {"repeats": 2}


def run(repeats):
    """Measure the CPU's ceilings and the GPU's, where there is one; values are medians, bytes/s or FLOP/s."""
    measured = {device: _limits.ceilings(device, repeats=repeats) for device in sorted(usable_devices())}
    rows = [(device, name, value) for device, values in measured.items() for name, value in values.items()]
    return pd.DataFrame(rows, columns=["device", "metric", "value"]).assign(task="ceilings")


def of(frame, device="cuda"):
    """Return the ceilings of a device: a Series of metric -> value."""
    return frame[frame.device == device].set_index("metric").value


FACTORS = 100
_ROOFS = {"fp32_flops": ("FP32", "blue"), "fp16_flops": ("FP16, tensor cores", "orange")}


def intensities():
    """Return the FLOP a byte of four kinds of work, by their least bytes: a dict."""
    moved, flops = _limits.epoch_of_updates(0, 0, 1, FACTORS)
    step = _limits.phases(1, 0, 0, FACTORS, cg_steps=0)["solve"]  # one product with A
    netflix, steps = RECIPES["netflix"], ALS.solver_classes()["tensor_core"].cg_steps
    half = _limits.side_update(netflix.users, netflix.items, netflix.ratings - netflix.test, FACTORS, steps)
    return {
        "cube of an element": 2 / 8,
        "SGD, rows from memory": flops / (moved + 4 * 4 * FACTORS),  # every update reads and writes both rows
        "one CG step, A from memory": step[1] / step[0],
        "ALS user update, each byte once": half[1] / half[0],
    }


def figure(frame):
    """Draw the roofline of the GPU, or of the CPU where there is none, with the kinds of work of `intensities`."""
    roofs = of(frame, "cuda" if "cuda" in set(frame.device) else "cpu") / 1e12
    shown = {key: look for key, look in _ROOFS.items() if key in roofs}
    slope, most = roofs.copy_bytes_per_second, roofs[list(shown)].max()
    figure, ((axis,),) = style.panels(height=4.4)
    intensity = np.logspace(-1, 4, 200)
    for key, (label, colour) in shown.items():
        label += f": {roofs[key]:,.3g} TFLOP/s, ridge at {roofs[key] / slope:.0f}"
        axis.plot(intensity, np.minimum(intensity * slope, roofs[key]), color=style.COLOURS[colour], label=label)
    for (name, where), marker in zip(intensities().items(), "osD^", strict=True):
        look = {"color": style.COLOURS["black"], "label": f"{name}: {float(f'{where:.2g}'):,g}"}
        axis.plot(where, min(where * slope, most), marker, **look)
    axis.set_title(f"memory: {slope:.2g} TB/s")
    axis.set(xlabel="FLOP for each byte moved", ylabel="TFLOP/s", ylim=(0.05 * slope, 2 * most))
    style.log_scale(axis.xaxis)
    style.log_scale(axis.yaxis)
    style.legend(figure, axis, 2)
    return figure
