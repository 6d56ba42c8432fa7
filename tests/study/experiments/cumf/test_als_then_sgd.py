"""ALS, then SGD on later ratings."""

from gpumf_study import schema
from gpumf_study.experiments.cumf import als_then_sgd as experiment


def test_every_way_is_judged_by_the_same_ratings():
    frame = schema.validated(experiment.run(**experiment.PROFILES["smoke"]))
    assert frame.groupby("repeat").variant.nunique().to_list() == [4, 4] and frame.value.between(0.5, 2).all()
