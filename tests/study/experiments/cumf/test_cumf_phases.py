"""Loads and solvers of cuMF."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study.experiments.cumf import cumf_phases as experiment
from outcomes import assert_drawn, word


def timed(l1=1.0, lu=2.0, cg=0.5, half=0.25, products=2.0, cublas_lu=2.0):
    """Seconds of both sides together; get_hermitian takes 1, coalesced and past L1 1.5."""
    loads = {"coalesced": 1.5, "l1": l1, "no_l1": 1.5}
    rows = [("loads", load, "get_hermitian", s) for load, s in loads.items()]
    solvers = {"cumf_lu": lu, "cumf_cholesky": 1.0, "cumf_cg": cg, "cumf_cg_fp16": half}
    for solver, s in solvers.items():
        rows += [(solver, "coalesced", "get_hermitian", 1.0), (solver, "coalesced", "solve", s)]
    rows += [("cuBLAS", None, "get_hermitian", products), ("cuBLAS", None, "solve", cublas_lu)]
    rows = [(v, load, side, phase, k, s * share) for v, load, phase, s in rows
            for side, share in (("users", 0.75), ("items", 0.25)) for k in (0, 1)]  # fmt: skip
    return pd.DataFrame(rows, columns=["version", "load", "side", "phase", "repeat", "seconds"])


@pytest.mark.parametrize(
    ("name", "made", "expected"),
    [
        ("cumf-fig-4-coalesced", {}, "reproduced"),
        ("cumf-fig-4-coalesced", {"l1": 1.5}, "tie"),
        ("cumf-fig-4-no-l1", {"l1": 2.0}, "contradicted"),
        ("cumf-fig-5-lu", {}, "reproduced"),
        ("cumf-fig-5-lu", {"lu": 5.0}, "same direction"),
        ("cumf-fig-5-lu", {"lu": 0.5}, "contradicted"),
        ("cumf-fig-5-cg", {}, "reproduced"),
        ("cumf-fig-5-cg", {"cg": 1.5}, "same direction"),
        ("cumf-fig-5-cg", {"cg": 3.0}, "contradicted"),
        ("cumf-fig-5-cg-cublas", {"cublas_lu": 0.25}, "contradicted"),
        ("cumf-fig-5-fp16", {}, "reproduced"),
        ("cumf-fig-5-fp16", {"half": 0.6}, "contradicted"),
        ("cumf-fig-7-products", {}, "reproduced"),
        ("cumf-fig-7-products", {"products": 0.5}, "contradicted"),
    ],
)
def test_words_follow_from_the_seconds(name, made, expected):
    assert word(name, timed(**made)) == expected


def test_phases_are_summed_up_and_drawn(store):
    assert experiment.summary(timed()).loc[("cumf_lu", "coalesced"), ("solve", "users")] == 1.5
    result = store("cumf_phases", timed())
    figure = experiment.figure(result.frame)
    assert_drawn(figure, result, 2)
    table = experiment.summary(result.frame)
    ways = [("loads", "coalesced"), ("loads", "l1"), ("loads", "no_l1"), (experiment.CUBLAS, "–")]
    solvers = [*((version, "coalesced") for version in experiment.SOLVERS), (experiment.CUBLAS, "–")]
    for axis, phase, rows in zip(figure.axes, ("get_hermitian", "solve"), (ways, solvers), strict=True):
        for side in ("users", "items"):
            (marks,) = (points for points in axis.collections if points.get_label().startswith(side))
            drawn = pd.Series(dict(marks.get_offsets()[:, ::-1].tolist())).sort_index(ascending=False)
            assert drawn.tolist() == pytest.approx(table.loc[rows, (phase, side)].tolist())
        assert list(axis.get_yticks()) == list(range(len(rows)))[::-1], "a row each, from top to bottom"


@pytest.mark.slow
def test_every_phase_is_timed_on_both_sides(host):
    frame = experiment.run(**experiment.PROFILES["smoke"] | {"repeats": 1})
    assert (frame.seconds > 0).all() and frame.seconds.notna().all()
    counts = frame.groupby("version").size()
    assert counts["loads"] == 6 and counts["cuBLAS"] == 4 and counts["cumf_lu"] == 6 and counts["cumf_cg"] == 4
    assert np.isnan(frame.load[frame.version == "cuBLAS"].astype(float)).all()
