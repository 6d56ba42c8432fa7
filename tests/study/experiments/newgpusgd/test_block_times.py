"""Seconds of NewGPUSGD against blocks and factors."""

import pandas as pd
import pytest

from gpumf_study.experiments.newgpusgd import block_times
from outcomes import assert_drawn, word


def timed(seconds):
    """Two trainings of two epochs for each setting; seconds : function of (side, factors)."""
    settings = {(side, f) for side in (16, 64, 1024) for f in (16, 32)} | {
        (s, f) for s in (64, 1024) for f in (64, 128)
    }
    rows = [
        {"side": side, "factors": f, "repeat": repeat, "epoch": epoch, "seconds": epoch * seconds(side, f)}
        | dict.fromkeys(["prepare", "transfer", "train", "compile"], 0.5) | {"wall": 3.0 + repeat, "diverged": False}
        for side, f in settings for repeat in (0, 1) for epoch in range(3)
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (lambda side, f: f / side, ["reproduced", "reproduced", "reproduced"]),
        (lambda side, f: f**0.5 * (1 if side > 16 else 2), ["reproduced", "tie", "same direction"]),
        (lambda side, f: float(side), ["contradicted", "contradicted", "contradicted"]),
    ],
)
def test_words_follow_from_the_seconds(seconds, words):
    names = "newgpusgd-fig-10", "newgpusgd-fig-10-every-step", "newgpusgd-fig-11-64"
    assert [word(name, timed(seconds)) for name in names] == words


def test_times_are_summed_up_and_drawn_without_what_diverged(store):
    frame = timed(lambda side, f: f / side)
    frame.loc[(frame.side == 16) & (frame.factors == 16), "diverged"] = True
    table = block_times.summary(frame)
    assert table.seconds[64, 32] == 0.5 and table.wall[64, 32] == 3.5 and (16, 16) not in table.index
    result = store("block_times", timed(lambda side, f: f / side))
    assert_drawn(block_times.figure(result.frame), result, 2)
