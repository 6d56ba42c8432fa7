"""What a first fit on a GPU compiles: kernels of this package alone, all asked for before the ratings are copied.

CuPy compiles a kernel for every operation on arrays when it first meets it, one after another, before anything else
goes on. Here arrays of the emulator refuse what CuPy would compile for.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from gpumf import ALS, SGD, ImplicitALS
from gpumf.backends.emulator import EmulatorDevice
from gpumf.ratings import Ratings


class Strict(np.ndarray):
    """An array on which only that works which copies, sorts, or looks at it from another side."""

    def __array_ufunc__(self, ufunc, *arguments, **named):
        raise AssertionError(f"CuPy would compile a kernel for {ufunc.__name__}")

    def __array_function__(self, function, *arguments):
        raise AssertionError(f"CuPy would compile a kernel for {function.__name__}")

    def astype(self, dtype, copy=True):
        assert self.dtype == dtype and not copy, f"CuPy would compile a kernel from {self.dtype} to {dtype}"
        return self

    def nonzero(self):
        raise AssertionError("CuPy would compile a kernel for nonzero")

    def __getitem__(self, key):
        assert isinstance(key, slice | int), f"CuPy would compile a kernel to take {key!r}"
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        there = self[key]
        same = isinstance(value, np.ndarray) and value.dtype == there.dtype and value.shape == there.shape
        assert there.flags.c_contiguous and (same or (np.isscalar(value) and value == 0)), "CuPy would compile"
        super().__setitem__(key, np.asarray(value))


class Xp(SimpleNamespace):
    """What is left of CuPy."""

    ndarray = np.ndarray

    @staticmethod
    def ascontiguousarray(values):
        assert values.flags.c_contiguous
        return values


@pytest.fixture
def asked(host, monkeypatch):
    """Sources that are compiled from now on, in the order in which they are asked for; `ahead` and `late`."""
    asked, kernel = SimpleNamespace(ahead=[], late=[]), EmulatorDevice.kernel

    def strictly(make):
        return lambda self, *arguments: make(self, *arguments).view(Strict)

    def noted(self, source, name, **defines):
        if (source, defines) not in asked.late:
            asked.late.append((source, defines))
        return kernel(self, source, name, **defines)

    for name in ("array", "empty", "zeros"):
        monkeypatch.setattr(EmulatorDevice, name, strictly(getattr(EmulatorDevice, name)))
    monkeypatch.setattr(EmulatorDevice, "xp", Xp())
    monkeypatch.setattr(EmulatorDevice, "kernel", noted)
    monkeypatch.setattr(EmulatorDevice, "compile_ahead", lambda self, wanted: asked.ahead.extend(wanted))
    return asked


def sets(n_users, n_items):
    """A training and a validation set, the second with a user and an item that the first has not."""
    rng = np.random.default_rng(0)
    cells = rng.permutation((n_users - 1) * (n_items - 1))[:400]
    users, items = cells // (n_items - 1), cells % (n_items - 1)
    train = Ratings(users[:300], items[:300], rng.integers(1, 6, 300), n_users, n_items)
    return train, Ratings([*users[300:], n_users - 1], [*items[300:], n_items - 1], np.full(101, 3), n_users, n_items)


MODELS = {
    "ALS": (ALS, {}, 9),
    "ALS without biases": (ALS, {"biases": False, "clip": False}, 8),
    "ImplicitALS": (ImplicitALS, {}, 8),
    "SGD": (SGD, {}, 9),
    "SGD on large sets": (SGD, {"solver": "fast"}, 11),
    "SGD without biases": (SGD, {"biases": False, "solver": "fast", "precision": 32}, 10),
}


@pytest.mark.emulator
@pytest.mark.parametrize("shape", [(40, 30), (20, 60)], ids=["tall", "wide"])
@pytest.mark.parametrize("case", MODELS)
def test_a_first_fit_compiles_kernels_of_this_package_alone_each_known_ahead(asked, tmp_path, case, shape):
    cls, options, most = MODELS[case]
    train, validation = sets(*shape)
    model = cls(4, device="emulator", **options).fit(train, 2, validation=validation)
    assert np.isfinite(model.history.rmse).all()
    assert model.score(validation)["rmse"] == pytest.approx(model.history.rmse.iloc[-1])
    items, _ = model.recommend(3, 5)
    assert len(items) == 5 and np.isfinite(model.predict(0, 0))
    model.save(tmp_path / "model.npz")
    late = [one for one in asked.late if one not in asked.ahead]
    assert not late and len(asked.ahead) <= most


@pytest.mark.emulator
def test_all_that_a_fit_waits_for_compilers_is_in_its_times(host, monkeypatch):
    kernel, compiled = EmulatorDevice.kernel, set()

    def slow(self, source, name, **defines):
        if (source, *defines.items()) not in compiled:
            compiled.add((source, *defines.items()))
            self.compile_seconds += 1000
        return kernel(self, source, name, **defines)

    monkeypatch.setattr(EmulatorDevice, "kernel", slow)
    train, validation = sets(20, 30)
    model = ALS(4, device="emulator").fit(train, 1, validation, keep="best", stop_metric="ndcg@5")
    assert ("metrics/ranking.cu", ("FACTORS", 6), ("WARPS", 4)) in compiled
    assert round(model.times.compile / 1000) == len(compiled)


def test_the_arrays_of_this_test_refuse_what_cupy_compiles_for():
    values = np.arange(4.0).view(Strict)
    for work in (
        lambda: values + 1,
        lambda: values.min(),
        lambda: values.all(),
        lambda: values[values.tolist()],
        lambda: values.astype(np.float32),
        lambda: np.flatnonzero(values),
    ):
        with pytest.raises(AssertionError):
            work()
