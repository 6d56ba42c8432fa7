"""SGD at the twin of Douban."""

from gpumf.experiments.thesis import sgd_douban


def test_only_a_gpu_repeats_and_training_ends_at_the_error_that_counts(monkeypatch):
    monkeypatch.setattr(sgd_douban.gpu, "available", lambda: True)
    assert list(sgd_douban._runs(["sequential", "fast"], 2)) == [("sequential", 0), ("fast", 0), ("fast", 1)]
    monkeypatch.setattr(sgd_douban.gpu, "available", lambda: False)
    parameters = sgd_douban.PROFILES["quick"] | {"data": "ml-100k-twin", "epochs": 30}
    frame = sgd_douban.run(**parameters)
    assert set(frame.kernel) == {"sequential", "parallel"}
    for _, run in frame.groupby("kernel"):
        assert run.mae.iloc[-1] <= 0.76 < run.mae.iloc[-2] and len(run) < 30
