"""SGD at the twin of Douban."""

from gpumf_study.experiments.thesis import sgd_douban


def test_what_draws_on_the_processor_runs_once_and_training_ends_at_the_error_that_counts(monkeypatch):
    monkeypatch.setattr(sgd_douban.backends, "available", lambda: True)
    runs = [("sequential", 0), ("ordered", 0), ("ordered", 1), ("fast", 0), ("fast", 1)]
    assert list(sgd_douban._runs(["sequential", "ordered", "fast"], 2)) == runs
    monkeypatch.setattr(sgd_douban.backends, "available", lambda: False)
    parameters = sgd_douban.PROFILES["quick"] | {"data": "ml-100k-synthetic", "epochs": 30}
    frame = sgd_douban.run(**parameters)
    assert set(frame.kernel) == {"sequential", "parallel", "ordered", "ordered_parallel"}
    for _, run in frame.groupby("kernel"):
        assert run.mae.iloc[-1] <= 0.76 < run.mae.iloc[-2] and len(run) < 30
        assert run.wall.iloc[-1] > 0 and run.wall.iloc[:-1].isna().all()
