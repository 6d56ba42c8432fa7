"""What a killed worker costs: epochs that are trained again, seconds, and no error."""

import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.gpumf import lost_worker
from outcomes import word


def fits(killed, again, seconds, rmse):
    """Two repeats of a training of nine epochs, a checkpoint every three."""
    rows = []
    for repeat in (0, 1):
        labels = {"data": "a", "task": "fit", "model": "ALS", "device": "cuda", "repeat": repeat, "x_workers": 4,
                  "x_killed": killed, "x_every": 3, "x_again": again}  # fmt: skip
        of_epochs = [{"epoch": k, "phase": "train", "seconds": k, "metric": "rmse", "value": rmse + 9 - k}
                     for k in range(10)]  # fmt: skip
        of_fit = [{"phase": "compile", "seconds": 0.5}, {"phase": "end_to_end", "seconds": seconds + repeat}]
        rows += [labels | row for row in (*of_epochs, *of_fit)]
    return rows


def frame(again=2, rmse=0.9):
    return schema.validated(pd.DataFrame([*fits(0, 0, 10.0, 0.9), *fits(1, again, 18.0, rmse)]))


def test_costs_are_those_above_an_undisturbed_training():
    table = lost_worker.costs(frame(rmse=0.90002))
    assert table.x_again.tolist() == [2, 2] and table.x_seconds.tolist() == [8.0, 8.0]
    assert table.gap.tolist() == pytest.approx([2e-5] * 2)
    verdicts = {name: word(f"lost-worker-{name}", frame(rmse=0.90002)) for name in ("epochs", "rmse", "seconds")}
    assert verdicts == {"epochs": "replicated", "rmse": "replicated", "seconds": "measured"}
    assert word("lost-worker-epochs", frame(again=4)) == "not replicated"
    assert word("lost-worker-rmse", frame(rmse=0.901)) == "not replicated"


def test_epochs_after_the_last_checkpoint_are_those_trained_again(tmp_path):
    (tmp_path / "epochs").write_text("1\n2\n3\n4\n5\n3\n4\n5\n6\n")
    assert lost_worker.trained_again(tmp_path) == 2


@pytest.mark.slow
def test_a_killed_worker_costs_the_epochs_since_the_checkpoint():
    if why := lost_worker.why_unavailable():
        pytest.skip(why)
    made = lost_worker.run(**lost_worker.PROFILES["smoke"])
    assert made.groupby("x_killed").x_again.unique().map(list).to_dict() == {0: [0], 1: [2]}
    costs = lost_worker.costs(schema.validated(made))
    assert costs.gap.max() < 1e-6 and costs.x_seconds.min() > 0
