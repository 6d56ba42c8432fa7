"""What is read off the versions of cu2rec."""

import numpy as np
import pandas as pd

from gpumf_study.experiments.cu2rec import cu2rec_variants as experiment


def test_versions_of_a_repeat_are_compared_with_each_other():
    """Repeats differ by more than striding does: 10 % in each of two, whatever their errors are."""
    rows = [
        {"data": "x", "variant": variant, "repeat": repeat, "epoch": epoch, "metric": "rmse", "phase": "train",
         "seconds": 1.0 * epoch, "value": (2 - epoch) + error * factor}
        for repeat, error in ((0, 1.0), (1, 3.0)) for epoch in (0, 1, 2)
        for variant, factor in ((experiment.NO_STRIDING, 1.1), (experiment.GETS, 1.0), (experiment.LOSES, 5.0))
    ]  # fmt: skip
    found = experiment.without_striding(pd.DataFrame(rows))
    assert found.repeat.tolist() == [0, 1] and np.allclose(found.percent_more, 10)
