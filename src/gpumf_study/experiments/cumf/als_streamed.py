"""ALS with more ratings than the device holds: both orders lie on the host, and rows are streamed in chunks.

The ratings with the shape of Hugewiki, made on the device, are brought to the host, 8 bytes a rating in each order;
the device keeps the factors and two chunks. Without a GPU the emulator runs the same kernels on a small data set.
"""

from gpumf import backends
from gpumf.ratings import synthetic_device
from gpumf_study.experiments import identity, kernels_unavailable
from gpumf_study.experiments.cumf import _half_sweeps

PROFILES = {
    "quick": {"data": "hugewiki-small-synthetic", "factors": 16, "chunk": 1_000, "iterations": 3, "repeats": 1},
    "full": {"data": "hugewiki-synthetic", "factors": 100, "chunk": 64 << 20, "iterations": 3, "repeats": 5},
}
PROFILES["smoke"] = PROFILES["quick"] | {"iterations": 1}

why_unavailable = kernels_unavailable
of_trainings = _half_sweeps.of_trainings


def run(data, factors, chunk, iterations, repeats):
    """Make a data set, bring it to the host, and fit a model to it in chunks.

    data : str, one of `gpumf.ratings.synthetic_device.RECIPES`
    chunk : most ratings on the device at a time
    repeats : int, trainings, each from other factors

    Return a DataFrame as of `als_hugewiki.run`, without errors

    Raise gpumf.backends.DeviceError where the ratings while they are made, or the factors and a chunk, do not fit the
    device.
    """
    device = backends.device("cuda" if backends.available() else "emulator")
    made = synthetic_device.synthetic_ratings(data, device=device.name)
    facts, train = identity(made), made.train.on_host()
    del made
    rows = []

    def record(repeat, iteration, step, seconds, rmse):
        rows.append({"repeat": repeat, "x_iteration": iteration, "x_step": step, "seconds": seconds, "value": rmse})

    _half_sweeps.trainings(train, None, factors, iterations, repeats, record, device=device.name, chunk=chunk)
    labels = {"data": data, "device": device.name, "factors": factors, "x_chunk": chunk, "x_nnz": train.nnz}
    frame = _half_sweeps.frame_of(rows, **labels)
    frame.attrs["datasets"] = [facts]
    return frame
