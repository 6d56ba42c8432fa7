"""Every scheme of SGD on the same data, from the same factors, at the same rates: only who updates what differs.

RMSE and MAE against epochs and seconds, and updates a second. The factors start at random from the seed of the
repeat, which also splits the ratings where no official test set comes with them.
"""

import numpy as np
import pandas as pd

from gpumf import SGD
from gpumf.solvers import schedules
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.experiments import _published, usable_devices

# A label in the results, and the kernel and options that it stands for.
SCHEMES = {label: (kernel, dict(version.options)) for label, (kernel, version) in SGD.versions().items()}

DRAWN, ONCE_EACH = "sequential", "ordered_parallel"
"""The references of errors: one thread for solvers that sample with replacement, of which an epoch sees 63 %; all
threads for those with shuffled epochs, in 32 x 32 blocks, which lose no update. One thread, `ordered`, takes 8 x 8
blocks, so another order: its errors differ a little."""
_DRAWING = "sequential", "parallel", "hogwild", "cu2rec"

# Rates of one data set for all schemes. Jester: the thesis's (Figures 6.1 and 6.2), Douban: those of
# `first_comparison`, Netflix: lambda of cumf (Table 2).
RATES = {
    "jester": {"regularization": 0.06, "learning_rate": 0.016},
    "douban": {"regularization": 0.03, "learning_rate": 0.01},
    "netflix": {"regularization": 0.05, "learning_rate": 0.03},
    "ml": {"regularization": 0.05, "learning_rate": 0.02},
}
POWER = {"name": "Power", "beta": 0.1, "power": 1.5}

PROFILES = {
    "quick": {"data": ["ml-100k"], "schemes": None, "factors": 16, "epochs": 20, "repeats": 1, "schedule": POWER,
              "threads": {}, "shorter": {}, "rates": RATES},
    "full": {"data": ["jester-1", "ml-100k"], "schemes": None, "factors": 128, "epochs": 20, "repeats": 5,
             "schedule": POWER, "threads": {}, "shorter": {}, "rates": RATES},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "epochs": 2}


def run(data, schemes, factors, epochs, repeats, schedule, threads, shorter, rates):
    """Train with every scheme that this machine has.

    schemes : labels of SCHEMES; all by default
    repeats : run k starts with seed k. On more than ten million ratings only `cumf_sgd`, `fast` and the reference
        ONCE_EACH are run more than once.
    schedule : one as a dict, see `schedules.to_dict`
    threads : dict, label -> CUDA threads of the grid, where another number than the default is wanted
    shorter : dict, label -> epochs, where fewer are wanted
    rates : dict, family of data sets -> regularization and learning_rate of all schemes
    """
    chosen = usable(schemes)

    def models(train, repeat):
        common = rates[_published.family(train.name)] | {"biases": False, "clip": False, "seed": repeat}
        for label, (kernel, options) in chosen.items():
            if repeat and train.nnz > 10**7 and kernel not in ("cumf_sgd", "fast", ONCE_EACH):
                continue
            options = common | options | {"schedule": schedules.from_dict(schedule), "threads": threads.get(label)}
            yield columns_of(label) | {"epochs": shorter.get(label, epochs)}, SGD(factors, solver=kernel, **options)

    return sweep.sweep(models, data, epochs, repeats, held_out=0.2, official=True, metrics=("rmse", "mae"))


def courses(frame):
    """Return a row an epoch of each run: scheme (a label), rmse, mae, and the updates so far.

    cu2rec's steps make about as many updates as there are ratings; every other scheme makes as many.
    """
    rmse, mae = (frame[frame.epoch.notna() & (frame.metric == name)] for name in ("rmse", "mae"))
    found = rmse.assign(scheme=labels(rmse), rmse=rmse.value, mae=mae.value.to_numpy())
    return found.assign(updates=found.epoch * found.x_nnz).drop(columns=["metric", "value"])


def usable(labels=None):
    """Of these labels of SCHEMES, by default all, those that run here: a dict label -> (kernel, options)."""
    devices = usable_devices()
    places = SGD.solvers()
    return {label: SCHEMES[label] for label in labels or SCHEMES if places[SCHEMES[label][0]] in devices}


def columns_of(label):
    """Return the columns of the schema that stand for a label of SCHEMES: solver and variant, where there is one."""
    solver, _, variant = label.partition(", ")
    return {"solver": solver, "variant": variant or np.nan}


def labels(frame):
    """Return the label of SCHEMES of each row of a frame with the columns of `columns_of`."""
    if "variant" not in frame:
        return frame.solver
    return frame.solver.where(frame.variant.isna(), frame.solver + ", " + frame.variant.fillna(""))


def reference_of(scheme):
    """The label of the scheme to which the errors of a scheme are compared."""
    return DRAWN if SCHEMES[scheme][0] in _DRAWING else ONCE_EACH


def summary(frame):
    """Return what each scheme reached, a row a data set, scheme and device.

    Columns are updates_per_second (median over all epochs), epochs, best_rmse, last_rmse, last_mae (means over the
    repeats), spread (standard deviation of last_rmse), gap (last_rmse less that of `reference_of` it on the same
    data, after as many epochs).
    """
    frame = courses(frame)
    references = frame[frame.scheme.isin([DRAWN, ONCE_EACH])].groupby(["data", "scheme", "epoch"]).rmse.mean()
    rows = []
    for (data, scheme, device), runs in frame.groupby(["data", "scheme", "device"], sort=False):
        repeats = runs.groupby("repeat")
        speed = runs.updates.diff() / runs.seconds.diff()
        last = repeats.tail(1)  # not the last number: who diverged has none
        rows.append({"data": data, "scheme": scheme, "device": device,
                     "updates_per_second": speed[runs.epoch > 0].median(), "epochs": runs.epoch.max(),
                     "best_rmse": repeats.rmse.min().mean(), "last_rmse": last.rmse.mean(),
                     "last_mae": last.mae.mean(), "spread": last.rmse.std(),
                     "gap": last.rmse.mean() - references.get(
                         (data, reference_of(scheme), runs.epoch.max()), np.nan,
                     )})  # fmt: skip
    return pd.DataFrame(rows)


def figure(frame, data=None, metric="rmse", labels=SCHEMES):
    """Draw test error against epochs and seconds, one line a scheme.

    data : names of data sets, all by default; metric : 'mae' or 'rmse'; labels : of the schemes
    """
    data = frame.data.unique() if data is None else data
    shown = courses(frame)
    shown = shown[shown.scheme.isin(labels)].assign(model="SGD")
    return style.convergence(shown, data, metric, [("SGD", label) for label in SCHEMES], with_model=False)
