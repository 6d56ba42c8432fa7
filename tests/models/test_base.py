"""What a scheme declares of itself is so."""

import sys

import pytest

from gpumf import ALS, RBM, SGD, BayesianMF, ImplicitALS
from gpumf.solvers import sgd_partition
from support import ragged_ratings

SCHEMES = [(model, name) for model in (ALS, ImplicitALS, SGD, RBM, BayesianMF) for name in model.solver_classes()]
ORDERS = {
    getattr(sgd_partition, name).__code__: name
    for name in ("conflict_free_groups", "diagonal_blocks", "shuffled_blocks", "tiled", "waves")
}


def forms_made(model, train):
    """The forms of a training set that a model's trainer has made, by their names."""
    called = set()
    sys.setprofile(lambda frame, event, _: event == "call" and called.add(frame.f_code))
    try:
        if isinstance(model, RBM):  # its levels are those of the ratings that it is fitted to
            model.fit(train, 0)
        else:
            model.make_solver(train)
    finally:
        sys.setprofile(None)
    return {"by_user", "by_item"} & set(vars(train)) | {ORDERS[code] for code in called & ORDERS.keys()}


@pytest.mark.parametrize(("model", "name"), SCHEMES)
def test_a_trainer_has_those_forms_of_the_ratings_made_that_it_declares(model, name, host):
    scheme, made = model.solver_classes()[name], set()
    plain = {"biases": False} if model not in (ImplicitALS, BayesianMF) else {}  # damped ones ask for both orders
    for options in scheme.cases:
        device = "cpu" if scheme.device == "cpu" else "emulator"
        train = ragged_ratings(n_users=12, n_items=9, longest=7, seed=1)
        made |= forms_made(model(5, solver=name, device=device, **plain, **options), train)
    assert made == set(scheme.layout)
