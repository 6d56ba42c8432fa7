"""A roofline explained, under the ceilings of the reference GPU."""

import math
import textwrap

from gpumf import ALS
from gpumf.ratings.synthetic import RECIPES
from gpumf_study import results
from gpumf_study.drawings.canvas import Drawing, Panel, tint
from gpumf_study.experiments import _limits

FACTORS = 100
_X, _Y = (-1, 4), (10.5, 15.5)  # decades
_LEFT, _WIDTH, _HEIGHT = 34, 288, 250


def roofs():
    """Ceilings of the reference GPU, a dict; and where they were measured."""
    ceilings = results.load("ceilings")
    frame = ceilings.frame[ceilings.frame.device == "cuda"]
    return dict(zip(frame.metric, frame.value, strict=True)), ceilings.where


def intensities():
    """FLOP a byte of four kinds of work, by their least bytes: a dict."""
    moved, flops = _limits.epoch_of_updates(0, 0, 1, FACTORS)
    moved += 4 * 4 * FACTORS  # both rows read and written by every update
    step = _limits.phases(1, 0, 0, FACTORS, cg_steps=0)["solve"]  # one product with A
    netflix = RECIPES["netflix"]
    trained = netflix.ratings - netflix.test
    half = _limits.side_update(
        netflix.users, netflix.items, trained, FACTORS, ALS.solver_classes()["tensor_core"].cg_steps
    )
    return {
        "cube of an element": 2 / 8,
        "SGD, rows from memory": flops / moved,
        "one CG step, A from memory": step[1] / step[0],
        "ALS user update, each byte once": half[1] / half[0],
    }


def _short(number):
    return f"{float(f'{number:.2g}'):,g}"


def drawing():
    """Memory's slope and arithmetic's levels, with the work of this book where its intensity puts it."""
    ceilings, where = roofs()
    bandwidth = ceilings["copy_bytes_per_second"]
    levels = {"FP32": ("fp32_flops", "blue"), "FP16, tensor cores": ("fp16_flops", "orange")}

    def at(intensity, rate):
        x = (math.log10(intensity) - _X[0]) / (_X[1] - _X[0])
        y = (math.log10(rate) - _Y[0]) / (_Y[1] - _Y[0])
        return _LEFT + x * _WIDTH, _HEIGHT * (1 - y)

    def frame(canvas):
        canvas.line([_LEFT, _LEFT, _LEFT + _WIDTH], [0, _HEIGHT, _HEIGHT], "black", 1)
        for k in range(_X[0], _X[1] + 1):
            canvas.text(at(10**k, 1e12)[0], _HEIGHT + 12, f"{10.0**k:g}", 11, ha="center")
        for k in (11, 12, 13, 14, 15):
            canvas.text(_LEFT - 4, at(1, 10**k)[1], f"{10 ** (k - 12):g}", 11, ha="right")
        canvas.text(_LEFT + _WIDTH / 2, _HEIGHT + 32, "FLOP for each byte moved", ha="center")
        canvas.text(_LEFT + 4, 4, "TFLOP/s", 11)

    def roof(canvas, rate, colour):
        ridge = rate / bandwidth
        points = [at(10 ** _X[0], bandwidth * 10 ** _X[0]), at(ridge, rate), at(10 ** _X[1], rate)]
        canvas.line(*zip(*points, strict=True), colour, 2)
        return at(ridge, rate)

    def anatomy(canvas):
        frame(canvas)
        rate = ceilings["fp32_flops"]
        x, y = roof(canvas, rate, "blue")
        below = [(_LEFT, _HEIGHT), at(10 ** _X[0], bandwidth * 10 ** _X[0]), (x, y)]
        canvas.axis.fill(*zip(*below, (x, _HEIGHT), strict=True), color=tint("orange", 0.25), zorder=0)
        right = [(x, _HEIGHT), (x, y), at(10 ** _X[1], rate), (_LEFT + _WIDTH, _HEIGHT)]
        canvas.axis.fill(*zip(*right, strict=True), color=tint("blue", 0.18), zorder=0)
        canvas.text((_LEFT + x) / 2 + 12, _HEIGHT - 22, "memory is\nthe limit", ha="center")
        canvas.text((x + _LEFT + _WIDTH) / 2, _HEIGHT - 22, "arithmetic is\nthe limit", ha="center")
        canvas.text(x, y - 14, f"ridge: {rate / bandwidth:.0f} FLOP a byte", ha="center", weight="bold")
        slope = math.degrees(math.atan2(_HEIGHT / (_Y[1] - _Y[0]), _WIDTH / (_X[1] - _X[0])))
        px, py = at(0.9, bandwidth * 0.9)
        canvas.text(px, py - 11, f"{bandwidth / 1e12:.1f} TB/s", 11, ha="center", rotation=slope)
        px, py = at(1500, rate)
        canvas.text(px, py + 12, f"{rate / 1e12:.0f} TFLOP/s", 11, ha="center")
        canvas.lines(0, _HEIGHT + 58, textwrap.wrap(where, 52), 11)

    def work(canvas):
        frame(canvas)
        for name, (key, colour) in levels.items():
            roof(canvas, ceilings[key], colour)
            x, y = at(10 ** _X[1], ceilings[key])
            canvas.text(x, y - 9, name, 11, ha="right")
        for k, (_, intensity) in enumerate(intensities().items()):
            x, top = at(intensity, min(intensity * bandwidth, ceilings["fp16_flops"]))
            canvas.line([x, x], [_HEIGHT, top], "0.35", 1, linestyle="--")
            canvas.box(x - 8, _HEIGHT - 26, 16, 16, "black", text=k + 1, key=f"work-{k}")
        for k, (name, intensity) in enumerate(intensities().items()):
            canvas.text(0, _HEIGHT + 54 + 17 * k, f"{k + 1}  {name}: {_short(intensity)}", 11.5)

    return Drawing(
        (Panel("A roof has two sides", 376, anatomy), Panel("Where the work of this book stands", 376, work)),
        f"First a roofline: against the operations for each byte, a slope of {bandwidth / 1e12:.1f} TB/s where "
        "memory is "
        f"the limit, up to the ridge at {ceilings['fp32_flops'] / bandwidth:.0f} FLOP a byte, and a level of "
        f"{ceilings['fp32_flops'] / 1e12:.0f} TFLOP/s where arithmetic is. Then the same with the level of the "
        "tensor "
        "cores, and with "
        + ", ".join(f"{name} at {_short(intensity)}" for name, intensity in intensities().items())
        + f". {where}",
    )
