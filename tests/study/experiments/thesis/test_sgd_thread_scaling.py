"""Hogwild with more threads."""

from gpumf_study import schema
from gpumf_study.experiments.thesis import sgd_thread_scaling


def test_every_number_of_threads_is_timed_and_trained(launcher):
    frame = sgd_thread_scaling.run(**sgd_thread_scaling.PROFILES["smoke"] | {"threads": [256, 512, 256]})
    schema.validated(frame)
    assert set(frame.x_threads) == {256, 512} and (frame.seconds.dropna() > 0).all()
    assert frame[frame.metric == "mae"].value.notna().all()
