"""What a scheme declares of itself is so."""

import pytest

from gpumf import ALS, RBM, SGD
from support import ragged_ratings

SCHEMES = [(model, name) for model in (ALS, SGD, RBM) for name in model.schemes()]


@pytest.mark.parametrize(("model", "name"), SCHEMES)
def test_a_trainer_has_those_forms_of_the_ratings_made_that_it_declares(model, name, host):
    scheme, forms = model.schemes()[name], {"by_user", "by_item"}
    train = ragged_ratings(n_users=12, n_items=9, longest=7, seed=1)
    device = "cpu" if scheme.device == "cpu" else "host"
    trained = model(5, solver=name, device=device, **scheme.cases[0])
    if model is RBM:  # its levels are those of the ratings that it is fitted to
        trained.fit(train, 0)
    else:
        trained.trainer(train)
    assert forms & set(vars(train)) == set(scheme.layout)
