"""The findings on ALS without a GPU, held against frames of known numbers."""

import pandas as pd
import pytest

from gpumf.experiments.gpumf import als_implicit_cpu as experiment

RULES = {finding.id: finding for finding in experiment.FINDINGS}


def frame(seconds, ndcg=(0.3, 0.3), default=experiment.EXACT):
    """Of three seeds and two numbers of factors: seconds of an iteration by model, NDCG of ours and the package's."""
    rows = [{"model": experiment.POPULAR, "what": "list", "seconds": None, "ndcg": 0.2, "default": False}]
    for seed in range(3):
        for f, times in ((16, 0.5), (64, 1.0)):
            for model, spent in seconds.items():
                fixed = {"factors": f, "seed": seed, "model": model, "default": model == default}
                ours = model == experiment.OURS
                spent = times * spent * (1 + 0.01 * seed) if ours else spent
                rows += [fixed | {"what": "iteration", "seconds": spent, "ndcg": None}] * 3
                quality = ndcg[0] if ours else ndcg[1]
                rows.append(fixed | {"what": "fit", "seconds": 9, "ndcg": quality + 0.001 * seed})
    return pd.DataFrame(rows).assign(precision=0.1, rmse=0.9)


def word(name, made):
    value, spread, _ = RULES[name].value(made)
    return RULES[name].rule.word(value, spread)


def seconds(ours=1.0, peer=2.0, exact=1.0, cg=2.0):
    return {experiment.OURS: ours, experiment.PEER: peer, experiment.EXACT: exact, experiment.CG: cg}


@pytest.mark.parametrize(("ours", "expected"), [(0.9, "stretch"), (1.5, "target"), (2.1, "short")])
def test_seconds_are_those_of_the_worst_number_of_factors(ours, expected):
    assert word("als-implicit-cpu", frame(seconds(ours=ours))) == expected


@pytest.mark.parametrize(("ndcg", "expected"), [(0.3, "reproduced"), (0.31, "reproduced"), (0.28, "contradicted")])
def test_a_list_may_not_be_worse(ndcg, expected):
    assert word("als-implicit-cpu-ndcg", frame(seconds(), (ndcg, 0.3))) == expected


@pytest.mark.parametrize(("exact", "expected"), [(1.0, "stretch"), (2.3, "target"), (3.0, "short")])
def test_the_default_is_held_against_the_faster_scheme(exact, expected):
    assert word("als-cpu-choice", frame(seconds(exact=exact))) == expected


def test_the_summary_has_popularity_beside_all_models():
    table = experiment.summary(frame(seconds())).set_index(["factors", "model"])
    assert table.ndcg.iloc[0] == 0.2 and table.index[0][1] == experiment.POPULAR
    assert table.loc[(64, experiment.OURS), "times_peer"] == pytest.approx(0.505)
    assert table.loc[(16, experiment.PEER), ["seconds", "times_peer", "wall"]].tolist() == [2, 1, 9]
