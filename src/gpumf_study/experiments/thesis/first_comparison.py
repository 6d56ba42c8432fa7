"""Seconds an epoch and errors of ALS and SGD, single-threaded, multi-threaded and on the GPU.

After the thesis, sections 6.1 and 6.5: 16 factors, 80 % of the ratings for training. `gpumf bench` compares a
computer with what is stored of it; speed-ups to an error are in `speedups`.
"""

from gpumf import ALS, SGD
from gpumf_study import sweep
from gpumf_study.experiments import _published, usable_solvers
from gpumf_study.experiments.tuning import PARAMETERS, chosen

FACTORS = 16
# Test MAE that counts as trained, of data sets that the thesis does not use: a value that every model here reaches.
THRESHOLDS = {"ml": 0.76}
SGD_SOLVERS = "sequential", "parallel", "ordered", "ordered_parallel", "hogwild"

PROFILES = {
    "quick": {"data": ["ml-100k", "jester-1"], "als_epochs": 10, "sgd_epochs": 15, "repeats": 1,
              "parameters": PARAMETERS},
    "full": {"data": ["ml-100k", "jester-1", "douban-synthetic"], "als_epochs": 20, "sgd_epochs": 30, "repeats": 5,
             "parameters": PARAMETERS},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": ["ml-100k-synthetic"], "als_epochs": 3, "sgd_epochs": 2, "repeats": 2,
}  # fmt: skip


def run(data, als_epochs, sgd_epochs, repeats, parameters):
    """Train every solver that this computer has.

    parameters : dict, data set -> model -> arguments of the model, see `tuning`
    """

    def models(train, repeat):
        for model, epochs in ((ALS, als_epochs), (SGD, sgd_epochs)):
            arguments = chosen(parameters, train.name, model.__name__)
            columns = {f"x_{name}": value for name, value in arguments.items()} | {"epochs": epochs}
            for solver in usable_solvers(model):
                if model is ALS or solver in SGD_SOLVERS:
                    yield columns, model(FACTORS, biases=False, clip=False, solver=solver, seed=repeat, **arguments)

    return sweep.sweep(models, data, als_epochs, repeats, held_out=0.2, metrics=("rmse", "mae"))


def threshold(data):
    """Return the test MAE that counts as trained on a data set."""
    return _published.threshold(data) or THRESHOLDS[_published.family(data)]
