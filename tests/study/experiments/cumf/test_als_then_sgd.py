"""ALS, then SGD on later ratings."""

import pandas as pd

from gpumf_study import schema
from gpumf_study.experiments.cumf import als_then_sgd as experiment


def test_what_sgd_misses_is_a_share_of_what_training_again_gains():
    values = {experiment.BEFORE: 1.0, experiment.AGAIN: 0.5, experiment.BY_SGD: 0.625, experiment.BY_ALS: 0.75}
    rows = [{"data": "a", "repeat": 0, "variant": name, "value": value} for name, value in values.items()]
    assert experiment.kept(pd.DataFrame(rows)).value.to_list() == [0.25]


def test_every_way_is_judged_by_the_same_ratings():
    frame = schema.validated(experiment.run(**experiment.PROFILES["smoke"]))
    assert frame.groupby("repeat").variant.nunique().to_list() == [4, 4] and frame.value.between(0.5, 2).all()
