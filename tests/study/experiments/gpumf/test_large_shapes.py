"""Shapes that are published for clusters: the memory that is predicted for them."""

import weakref

import numpy as np
import pytest

from gpumf_study.experiments.gpumf import large_shapes


@pytest.mark.parametrize(("users", "items"), [(1500, 700), (400, 1200)])
def test_predicted_memory_is_that_of_the_arrays_on_the_device(host, monkeypatch, users, items):
    """At the most, while work lists are made; what sorting takes in addition is not seen here."""
    held, most = {}, [0]

    def counted(make):
        def made(values, *dtype):
            if id(values) in held:  # `array` of what is there, which a GPU does not copy
                return values
            array = make(values, *dtype)
            held[id(array)] = array.nbytes
            most[0] = max(most[0], sum(held.values()))
            weakref.finalize(array, held.pop, id(array))
            return array

        return made

    for name in ("empty", "zeros", "array"):
        monkeypatch.setattr(host, name, counted(getattr(host, name)))
    monkeypatch.setattr(large_shapes.backends, "device", lambda *_: host)
    given = {"users": users, "items": items, "ratings": 6000, "factors": 32}
    frame = large_shapes.run({}, given, 1)
    drawn = 12 * given["ratings"]  # as columns of NumPy
    assert most[0] + drawn == pytest.approx(frame.x_predicted_bytes.iloc[0], rel=0.1)
    assert np.isfinite(frame.seconds).all()
