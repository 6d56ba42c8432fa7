"""Whole fits, phase by phase, and where the orders of the ratings are made."""

from gpumf import ALS
from gpumf.ratings import DeviceRatings, Ratings
from gpumf_study.experiments.gpumf import fit_seconds
from support import ragged_ratings


def test_layouts_are_made_where_they_are_wanted(host, monkeypatch):
    """And what a fit before has made of the ratings is made again."""
    made = []

    class Here(ALS):
        def __init__(self, factors=16, regularization=0.1, device="emulator", **named):
            super().__init__(factors, regularization, device="emulator", **named)

    def noted(plain, where):
        return lambda self, *arguments: made.append(where) or plain(self, *arguments)

    monkeypatch.setitem(fit_seconds.MODELS, "ALS", Here)
    for of, where in ((DeviceRatings, "device"), (Ratings, "host")):
        monkeypatch.setattr(of, "_compress", noted(of._compress, where))
    train = ragged_ratings(seed=1)
    for where in ("device", "host"):
        rows = list(fit_seconds._measured(train, "ALS", "tensor_core", 4, 1, [where], 1))
        assert {row[5] for row in rows} == {where} and len(rows) == 2 * 6
        assert set(made) == {where} and len(made) >= 4  # both orders of two fits
        made.clear()
