"""A seed reaches what it is handed to: two seeds give two results, of every function that takes one."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import gpumf
from gpumf import ALS, RBM, SGD, BayesianMF, ImplicitALS, search
from gpumf._util import counter_rng
from gpumf.command_line import main
from gpumf.models import strong_generalization
from gpumf.ratings import Ratings, load_dataset, synthetic, synthetic_device
from gpumf.ratings.device import DeviceRatings
from gpumf.ratings.synthetic import Recipe, numbers
from gpumf.solvers import sgd_partition
from gpumf.solvers.rbm_batches import Batches
from gpumf.solvers.rbm_divergence import batch_order, draw_streams
from gpumf.solvers.sgd_fast import Fast
from gpumf.solvers.sgd_ordered import shuffled_diagonals
from support import NAMES, ragged_ratings

RATINGS = ragged_ratings(seed=0)
SPEC = Recipe(60, 30, 600, (3, 25), (2, 40), (1, 5), 1, 3.5, 0.2, 0.3, 0.9, 0.3, test=60)
GRID = {"factors": [1, 2, 3, 4], "regularization": [0.1, 0.2, 0.3]}


def by_search(seed):
    drawn = {"strategy": "random", "budget": 2, "refit": False}
    table = search(ALS(device="cpu"), GRID, RATINGS, epochs=1, folds=[RATINGS.split(0.2)], seed=seed, **drawn).results
    return sorted(zip(table.factors, table.regularization, strict=True))


def by_evaluate_sampled(seed):
    return ALS(4, device="cpu").fit(RATINGS, 1).evaluate_sampled(RATINGS, 3, 9, seen=(), seed=seed)


def by_batches(seed):
    rows = RATINGS.by_user
    return Batches.of(rows, rows.values.astype(np.uint8) - 1, RATINGS.n_items, 7, seed).users


def by_shuffled_threads(seed, host):
    trace, values = [], np.ones(4 * 32, np.int32)
    with host.shuffled(seed, trace):
        sums = np.zeros(5, np.int32), np.zeros(1, np.float32), np.zeros(1)
        host.kernel(NAMES, "atomics")(4, 32, values, *sums)
    return trace[0].thread


# What a function makes of a seed, by the function's name.
WITH_A_SEED = {
    "Ratings.split": lambda seed: RATINGS.split(0.2, seed),
    "Ratings.kfold": lambda seed: list(RATINGS.kfold(3, seed)),
    "Ratings.leave_one_out": lambda seed: RATINGS.leave_one_out(seed),
    "Ratings.random_order": lambda seed: RATINGS.random_order(RATINGS.nnz, seed),
    "load_dataset": lambda seed: load_dataset("ml-100k-synthetic", seed=seed),
    "synthetic_ratings": lambda seed: synthetic.synthetic_ratings("ml-100k", seed),
    "generate": lambda seed: synthetic.generate(SPEC, seed),
    "streams_of": numbers.streams_of,
    "positional_hash": lambda seed: counter_rng.positional_hash(50, seed),
    "random_order": lambda seed: counter_rng.random_order(50, seed),
    "random_subset": lambda seed: counter_rng.random_subset(50, 20, seed),
    "search": by_search,
    "strong_generalization": lambda seed: strong_generalization(
        ImplicitALS(4, device="cpu"), RATINGS, 2, users=0.5, known=0.5, seed=seed
    )["ndcg"],
    "Batches.of": by_batches,
    "batch_order": lambda seed: batch_order(seed, 0, 50),
    "draw_streams": lambda seed: draw_streams(seed, 0, 0),
    "Fast.rotation": lambda seed: Fast.rotation(1, seed),
    "shuffled_diagonals": lambda seed: shuffled_diagonals(9, seed, 0),
    "shuffled_blocks": lambda seed: sgd_partition.shuffled_blocks(RATINGS, 3, seed),
    "_dealt": lambda seed: sgd_partition._dealt(RATINGS, 3, seed),
    "waves": lambda seed: sgd_partition.waves(RATINGS, 4, 6, seed),
    "tiled": lambda seed: vars(sgd_partition.tiled(RATINGS, 4, 20, 3, 8, seed)),
    "Lists.evaluate_sampled": by_evaluate_sampled,
    "_LeastSquares.__init__": lambda seed: ALS(4, device="cpu", seed=seed).fit(RATINGS, 1),
    "ImplicitALS.__init__": lambda seed: ImplicitALS(4, device="cpu", seed=seed).fit(RATINGS, 1),
    "SGD.__init__": lambda seed: SGD(4, device="cpu", seed=seed).fit(RATINGS, 1),
    "RBM.__init__": lambda seed: RBM(4, solver="sequential", seed=seed).fit(RATINGS, 1),
    "BayesianMF.__init__": lambda seed: BayesianMF(4, seed=seed).fit(RATINGS, 1),
}
ON_A_DEVICE = {
    "EmulatorDevice.shuffled": by_shuffled_threads,
    "DeviceRatings.random_order": lambda seed, host: DeviceRatings.of(RATINGS, host).random_order(RATINGS.nnz, seed),
    "synthetic_device.generate": lambda seed, host: synthetic_device.generate(SPEC, seed, device="emulator").sha256,
}
# They hand their seed to one of those above.
ABSTRACT = {"Model.__init__", "Factorization.__init__", "Hyperparameters.__init__", "ALSHyperparameters.__init__"}
ABSTRACT |= {"SGDHyperparameters.__init__", "RBMHyperparameters.__init__", "GibbsHyperparameters.__init__"}


def plain(made):
    """What was made, as nested lists of plain values, to compare."""
    if isinstance(made, Ratings):
        return plain((made.users, made.items, made.values))
    if hasattr(made, "_learned"):
        return plain(made._learned)
    if isinstance(made, dict):
        return plain(list(made.values()))
    if isinstance(made, tuple | list):
        return [plain(one) for one in made]
    return np.asarray(made).tolist()


def taking_a_seed():
    """The names of all functions and methods of the package with a parameter `seed`."""
    found = set()
    for info in pkgutil.walk_packages(gpumf.__path__, "gpumf."):
        if info.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(info.name)
        except ModuleNotFoundError as error:  # an optional package, as CuPy
            if error.name.startswith("gpumf"):
                raise
            continue
        for made in vars(module).values():
            if getattr(made, "__module__", None) == info.name:
                for one in [made, *vars(made).values()] if inspect.isclass(made) else [made]:
                    function = inspect.unwrap(getattr(one, "__func__", one))
                    if inspect.isfunction(function) and "seed" in inspect.signature(function).parameters:
                        found.add(function.__qualname__)
    return found


def test_every_function_with_a_seed_is_tried():
    assert taking_a_seed() == {*WITH_A_SEED, *ON_A_DEVICE, *ABSTRACT} - {"synthetic_device.generate"}


@pytest.mark.parametrize("name", WITH_A_SEED)
def test_two_seeds_give_two_results_and_one_seed_gives_one(name):
    made = [plain(WITH_A_SEED[name](seed)) for seed in (0, 1, 0)]
    assert made[0] != made[1] and made[0] == made[2]


@pytest.mark.parametrize("name", ON_A_DEVICE)
def test_two_seeds_give_two_results_on_a_device(name, host):
    made = [plain(ON_A_DEVICE[name](seed, host)) for seed in (0, 1, 0)]
    assert made[0] != made[1] and made[0] == made[2]


def test_the_seed_of_the_command_line_splits_and_starts(tmp_path, monkeypatch):
    path, train, split = tmp_path / "ratings.csv", [], Ratings.split
    columns = np.c_[RATINGS.users, RATINGS.items, RATINGS.values]
    np.savetxt(path, columns, "%d", ",", header="user,item,rating", comments="")
    monkeypatch.setattr(Ratings, "split", lambda *given: train.append(split(*given)[0]) or split(*given))

    def fitted(seed, *options):
        command = ["fit", str(path), "--epochs", "1", "--device", "cpu", "--seed", seed, "-o", str(tmp_path / "m")]
        assert main([*command, *options]) == 0
        return ALS.load(tmp_path / "m/model.npz", device="cpu").item_factors.tobytes()

    assert fitted("0") != fitted("1") and not train
    fitted("0", "--test", "0.2"), fitted("1", "--test", "0.2")
    assert plain(train[0]) != plain(train[1])
