"""ALS with more ratings than the device holds."""

import numpy as np
import pandas as pd

from gpumf_study import figure_style as style
from gpumf_study.experiments.cumf import als_streamed


def test_iterations_that_stream_are_drawn_by_their_halves():
    rows = [
        (i, step, seconds * i)
        for i in (1, 2)
        for step, seconds in (("users", 1.0), ("items", 2.0), ("iteration", 3.0))
    ]
    frame = pd.DataFrame([*rows, (0, "prepare", 9.0)], columns=["iteration", "step", "seconds"])
    assert als_streamed.summary(frame).to_dict("list") == {"items": [2, 4], "iteration": [3, 6], "users": [1, 2]}
    (axis,) = als_streamed.figure(frame).axes
    users, items = axis.containers
    assert [bar.get_x() + bar.get_width() / 2 for bar in users] == [1, 2] and users.get_label() == "users"
    assert [(bar.get_y(), bar.get_height()) for bar in users] == [(0, 1), (0, 2)]
    assert [(bar.get_y(), bar.get_height()) for bar in items] == [(1, 2), (2, 4)]
    assert np.allclose(users[0].get_facecolor()[:3], [0x56 / 255, 0xB4 / 255, 0xE9 / 255]), style.COLOURS["sky"]
