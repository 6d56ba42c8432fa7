"""How often ratings that are drawn together share a row or a column."""

import numpy as np
import pandas as pd

from gpumf_study import figure_style as style
from gpumf_study.experiments.esgd import sgd_conflicts
from outcomes import labelled


def test_popular_rows_meet_more_often_than_the_formula_says(host):
    frame = sgd_conflicts.run(["ml-100k-synthetic"], [2, 8, 32], draws=2000, seeds=1, traced=600)
    share = frame.pivot_table(index="at_once", columns="how", values="share")
    assert (share["drawn"] > 1.25 * share["true shape"]).all() and share.drawn.is_monotonic_increasing
    # In a matrix of about as many users as items, both counts are about the same.
    assert np.allclose(share["published"], share["true shape"], rtol=0.2)
    assert share.overwritten.between(0, 1).all() and share.overwritten[32] > 0


def test_conflicts_are_drawn_a_line_each(stored):
    hows = {"published": 0.1, "true shape": 0.2, "drawn": 0.3, "overwritten": 0.0}
    rows = [("a", n, how, seed, share * n) for n in (2, 4) for how, share in hows.items() for seed in (0, 1)]
    frame = pd.DataFrame(rows, columns=["data", "at_once", "how", "seed", "share"])
    figure = style.save(sgd_conflicts.figure(frame), stored(frame))
    drawn = {line.get_label(): list(line.get_ydata()) for line in figure.axes[0].lines}
    assert drawn["ratings drawn"] == [0.6, 1.2] and np.isnan(drawn["writes overwritten"]).all() and labelled(figure)
