"""What a kernel without intended races learns does not depend on the order of its threads."""

from inspect import signature

import pytest

from cases import HALF, als_case, rbm_case, sgd_case
from gpumf import ALS, RBM, SGD, ImplicitALS
from gpumf.solvers.base import KernelSolver
from support import ragged_ratings, rated

RATINGS = ragged_ratings(n_users=20, n_items=90, longest=60, seed=9)


def of_sgd(name, factors=5):
    return [sgd_case("emulator", name, RATINGS, factors, **options) for options in SGD.solver_classes()[name].cases]


MAKE = {
    ALS: lambda name: [als_case("emulator", name, RATINGS, 10)],
    ImplicitALS: lambda name: [als_case("emulator", name, RATINGS, 10, alpha=3.0)],
    SGD: of_sgd,
    RBM: lambda name: [rbm_case("emulator", name, rated(5, n_users=20, n_items=12, longest=9), 7, seed=1)],
}
SOLVERS = [
    (model, name)
    for model in MAKE
    for name, solver in model.solver_classes().items()
    if issubclass(solver, KernelSolver) and not solver.races
]


@pytest.mark.emulator
@pytest.mark.parametrize(("model", "name"), SOLVERS)
def test_threads_in_any_order_learn_the_same_bits(host, model, name):
    for case in MAKE[model](name):
        if model in (ALS, ImplicitALS) and "longest" in signature(model.solver_classes()[name]).parameters:
            case.parts = {"longest": 25}  # ratings of a segment: long rows have several, whose sums meet
        found = set()
        for seed in range(4):
            with host.shuffled(seed):
                learned = case.run(HALF if model in (ALS, ImplicitALS) else 1)
            found.add(b"".join(array.tobytes() for array in learned))
        assert len(found) == 1, case
