"""The search for an RBM's parameters, one after another."""

import pytest

from gpumf_study import schema
from gpumf_study.experiments.thesis import rbm_tuning


@pytest.fixture(scope="module")
def tuning():
    others = {"learning_rate": [0.3, 1e-6], "hidden": [3], "gibbs_steps": [2, [[0, 1], [1, 2]]]}
    return rbm_tuning.run(["ml-100k-synthetic"], others, [3], "sequential", seeds=2)


def test_each_parameter_is_changed_alone_and_the_search_goes_on_from_the_best(tuning):
    table = rbm_tuning.summary(schema.validated(tuning)).set_index("setting")
    tuning = rbm_tuning.wide(tuning)
    choices, tests = (tuning[tuning.step == step] for step in ("choice", "test"))
    rates = rbm_tuning.changed_alone(tuning, "ml-100k-synthetic", "learning_rate")
    assert set(rates.learning_rate) == {0.02, 0.3, 1e-6} and set(rates.hidden) == {128}
    steps = rbm_tuning.changed_alone(tuning, "ml-100k-synthetic", "gibbs_steps")
    assert set(steps.gibbs_steps) == {"T = 1", "T = 2", "T = 1, from epoch 1 on 2"}
    best = rates.loc[rates.rmse.idxmin()].learning_rate
    assert set(choices[choices.hidden == 3].learning_rate) == {rbm_tuning.THESIS["learning_rate"], best}
    settings = choices.groupby([*rbm_tuning.THESIS, "epoch"], sort=False).size()
    assert (settings == 1).all(), "no setting is trained twice"
    tuned = tests[tests.setting == "tuned"]
    assert list(tests.setting) == ["thesis"] * 2 + ["tuned"] * 2 and list(tuned.repeat) == [0, 1]
    last = choices[(choices.learning_rate == best) & (choices.hidden == tuned.hidden.iloc[0])]
    winner = last.loc[last.rmse.idxmin()]
    assert last.gibbs_steps.nunique() == 3, "the values of the last parameter, with the best of those before"
    assert (tuned[[*rbm_tuning.THESIS, "epoch"]] == winner[[*rbm_tuning.THESIS, "epoch"]]).all(axis=None)
    assert tests.accuracy.between(0.2, 0.9).all() and choices.accuracy.isna().all()
    row = table.loc["tuned"]
    assert row.rmse == tuned.rmse.mean() and row.rmse_deviation == pytest.approx(tuned.rmse.std())
