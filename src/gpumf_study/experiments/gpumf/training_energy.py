"""Energy of a training to a test RMSE: joules and mean watts of the GPU, by NVML's total energy counter.

A training is a whole `fit`, without scoring: the ratings lie on the GPU in no order, and the factors come back to
the host. The upload of the ratings is left out. ALS has the setting of `als_netflix`, SGD that of `sgd_netflix`. A
first training with scoring, whose energy is not measured, finds the first epoch that reaches the RMSE. Trainings of
that many epochs are then repeated back to back, since the counter is refreshed only every 20 to 100 ms. It counts the
whole GPU, so nothing else may run there. The energy of the CPU is not in it.
"""

import time
from copy import copy
from dataclasses import replace

import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD, backends
from gpumf.ratings import DeviceRatings
from gpumf.solvers import schedules
from gpumf_study import energy
from gpumf_study.experiments import load_ratings, official, trained
from gpumf_study.experiments.gpumf import sgd_schemes

_RATES = sgd_schemes.RATES["netflix"] | {"schedule": schedules.from_dict(sgd_schemes.POWER)}
MODELS = {
    "ALS": lambda factors, **options: ALS(factors, 0.05, weighted=True, **options),
    "SGD": lambda factors, **options: SGD(factors, **_RATES, **options),
}

PROFILES = {
    "quick": {"data": "ml-1m-synthetic", "trainings": [["ALS", "tensor_core", 32], ["SGD", "fast", 32]],
              "error": 0.92, "epochs": 20, "seconds": 2.0, "idle": 1.0, "repeats": 2},
    # Three trainings, five measurements of each, and the idle GPU: about a minute.
    "full": {"data": "netflix-synthetic",
             "trainings": [["ALS", "tensor_core", 100], ["ALS", "cumf_cg_fp16", 100], ["SGD", "fast", 128]],
             "error": 0.92, "epochs": 20, "seconds": 3.2, "idle": 1.0, "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": "ml-100k-synthetic", "trainings": [["ALS", "tensor_core", 4]], "error": 1.0, "seconds": 0.0, "idle": 0.0,
    "repeats": 1,
}  # fmt: skip


def why_unavailable():
    """One sentence on what is missing to read the energy counter of a GPU, or None where nothing is."""
    if not backends.available():
        return backends.why_unavailable()
    try:
        with energy.counter(backends.device()):
            return None
    except energy.EnergyError as error:
        return str(error)


def run(data, trainings, error, epochs, seconds, idle, repeats):
    """Find the number of epochs of each training, repeat it on the GPU, and then let the GPU rest.

    trainings : list of [model, solver, factors]
    error : float, the test RMSE to reach, on the official test set or else on a fifth of the ratings
    epochs : int, the most; a training that does not reach the error in so many is not measured
    seconds : float, the least that a measurement lasts, over as many trainings as that takes
    idle : float, seconds of a measurement of the idle GPU, on which this process keeps its context
    repeats : int, measurements of each

    Return a DataFrame with a row a number: metric ('rmse' of a training, or of a measurement 'joules' of a training
    and 'watts', the mean power), x_unit, epoch (how many a training has), seconds (of a training, or of the rest),
    x_trainings (how many the measurement took); the idle GPU has the task 'idle'

    Raise gpumf_study.energy.EnergyError where the counter cannot be read.
    """
    ratings, rows = load_ratings(data), []
    train, test = official(ratings)
    device = backends.device("cuda" if backends.available() else "emulator")
    train = DeviceRatings.of(train, device)
    with energy.counter(device) as counter:
        for name, solver, factors in tqdm(trainings, desc=f"training_energy {ratings.name}", leave=False):
            options = {"biases": False, "clip": False, "solver": solver, "device": device.name, "seed": 0}
            model = MODELS[name](factors, **options)
            labels = {"task": "fit", "model": name, "solver": solver, "factors": factors}
            found = _reached(copy(model), replace(train), test, error, epochs)
            rows.append(labels | {"repeat": 0, "metric": "rmse", **found})
            if not found["value"] <= error:
                continue
            # The ratings without the orders that the training before has made.
            training = lambda model=model, n=found["epoch"]: copy(model).fit(replace(train), n)  # noqa: E731
            # What the counter lags behind at the start is then as much as at the end.
            _measured(counter, training, seconds / 8)
            for repeat in range(repeats):
                labels |= {"repeat": repeat, "epoch": found["epoch"]}
                rows += [labels | of for of in _measured(counter, training, seconds)]
        time.sleep(2 * idle)  # until clocks and power have fallen
        for repeat in range(repeats):
            _, watts = _measured(counter, lambda: time.sleep(idle), 0)
            rows.append({"task": "idle", "repeat": repeat} | watts)
    return pd.DataFrame(rows).assign(data=ratings.name, device=device.name, x_nnz=train.nnz)


def _reached(model, train, test, error, epochs):
    """Return epoch and RMSE (value) of the first epoch that reaches the error, or else of the last one."""
    history = trained(model, train, epochs, test, stop=lambda row: row["rmse"] <= error).history
    return {"epoch": int(history.epoch.iloc[-1]), "value": history.rmse.iloc[-1]}


def _measured(counter, work, seconds):
    """Return the numbers of one measurement: of a call of `work`, repeated for so many seconds, but once at least."""
    calls, before, started = 0, counter.joules(), time.perf_counter()
    while not calls or time.perf_counter() - started < seconds:
        work()
        calls += 1
    elapsed, joules = time.perf_counter() - started, counter.joules() - before
    common = {"seconds": elapsed / calls, "x_trainings": calls}
    found = {"joules": (joules / calls, "J"), "watts": (joules / elapsed, "W")}
    return [common | {"metric": name, "value": value, "x_unit": unit} for name, (value, unit) in found.items()]
