"""ALS, then SGD on later ratings."""

from gpumf import ALS
from gpumf_study import schema
from gpumf_study.experiments.cumf import als_then_sgd as experiment


def test_every_way_is_judged_by_the_same_ratings():
    frame = schema.validated(experiment.run(**experiment.PROFILES["smoke"]))
    assert frame.groupby("repeat").variant.nunique().to_list() == [4, 4] and frame.value.between(0.5, 2).all()


def test_sgd_goes_on_at_the_rate_that_is_tried():
    start = ALS(2, device="cpu").fit(([0, 1, 1], [0, 0, 1], [1, 2, 3]), 1)
    model = experiment._sgd(start, 0.013, 4)
    assert (model.learning_rate, model.regularization, model.clip, model.seed) == (0.013, 0.05, True, 4)
