"""Hogwild with more threads."""

import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.thesis import sgd_thread_scaling
from outcomes import assert_drawn, word


def scaled(best=16384, published=True):
    """Epochs that are the sooner the more threads there are, up to the best number, and from there on slower."""
    rows = []
    for machine in (sgd_thread_scaling.OWN, sgd_thread_scaling.EIGHT):
        for threads in (4096, 8192, *([16384] if published else []), 32768):
            seconds = 4096 / threads if threads <= best else 4096 / best * threads / best
            for repeat in (0, 1, 2):
                what = {"data": "douban-synthetic", "x_machine": machine, "x_threads": threads, "repeat": repeat}
                rows.append(what | {"seconds": seconds * (1 + repeat / 1000)})
                rows.append(what | {"metric": "mae", "value": 0.6 + threads * 1e-6})
    return pd.DataFrame(rows)


def test_speedups_are_over_the_fewest_threads_of_the_machine():
    table = sgd_thread_scaling.summary(scaled()).set_index(["x_machine", "x_threads"])
    assert list(table.speedup[sgd_thread_scaling.EIGHT]) == pytest.approx([1, 2, 4, 2])
    assert table.mae[sgd_thread_scaling.OWN, 4096] == pytest.approx(0.604096)


def test_every_number_of_threads_is_timed_and_trained(launcher):
    frame = sgd_thread_scaling.run(**sgd_thread_scaling.PROFILES["smoke"] | {"threads": [256, 512, 256]})
    schema.validated(frame)
    assert set(frame.x_threads) == {256, 512} and (frame.seconds.dropna() > 0).all()
    assert frame[frame.metric == "mae"].value.notna().all()


@pytest.mark.parametrize(
    ("name", "frame", "expected"),
    [
        ("thesis-sgd-threads", scaled(), "replicated"),
        ("thesis-sgd-threads", scaled(best=8192), "not replicated"),
        ("thesis-sgd-threads", scaled(best=32768), "not replicated"),
    ],
)
def test_a_word_follows_from_the_numbers(name, frame, expected):
    assert word(name, frame) == expected


def test_the_figure_says_where_it_was_measured_and_what_its_axes_are(store):
    result = store("sgd_thread_scaling", scaled())
    assert_drawn(sgd_thread_scaling.figure(result.frame), result, 2)
