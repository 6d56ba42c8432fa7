"""A checkpoint is gone on from by the training that it is of, and by no other."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from gpumf import ALS
from gpumf.distributed import fit
from gpumf.distributed.checkpoints import digest_of_ratings
from gpumf.ratings import Ratings
from support import scattered

model = partial(ALS, 4, 1e-3, device="cpu", solver="parallel")


class Lost(Exception):
    """Ends a training after epoch 3."""


def lose(row):
    if row["epoch"] == 3:
        raise Lost


@pytest.fixture(scope="module")
def sets():
    """Ratings whose sums depend on their order."""
    ratings = scattered(50, 30, 700, seed=4)
    values = np.random.default_rng(4).random(700, np.float32)
    return replace(ratings, values=values).split(seed=1)


@pytest.fixture
def trained(client, sets, tmp_path):
    """`fit` with a checkpoint, of two workers."""
    train, test = sets
    given = {"train": train, "epochs": 5, "validation": test, "keep": "best", "workers": 2, "attempts": 1}

    def call(learner, **other):
        return fit(learner, client=client, checkpoint=tmp_path / "c", **given | other)

    return call


def turned(ratings):
    """The same pairs and the same values, which go to others."""
    return replace(ratings, values=ratings.values[::-1].copy())


OTHERS = {
    "keep": lambda train, test: {"keep": "last"},
    "validation": lambda train, test: {"validation": turned(test)},
    "validation, keep": lambda train, test: {"validation": None, "keep": "last"},
    "ratings": lambda train, test: {"train": turned(train)},
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_training_with_something_else_is_refused_and_the_file_stays(trained, sets, tmp_path, name):
    with pytest.raises(Lost):
        trained(model(seed=1), stop=lose)
    before = (tmp_path / "c").read_bytes()
    with pytest.raises(ValueError, match=f"another training, of other {name}; give another path, or remove it"):
        trained(model(seed=1), **OTHERS[name](*sets))
    assert (tmp_path / "c").read_bytes() == before


def test_it_counts_what_a_training_started_from(trained, sets, tmp_path):
    with pytest.raises(Lost):
        trained(model(seed=1), stop=lose)
    warm = model(seed=1).fit(sets[0], 1)
    learned = warm.user_factors
    with pytest.raises(ValueError, match="of another training, of other start"):
        trained(warm, warm_start=True)
    assert warm.epoch == 1 and warm.user_factors is learned
    (tmp_path / "c").unlink()
    with pytest.raises(Lost):
        trained(warm, warm_start=True, stop=lose)
    with pytest.raises(ValueError, match="of another training, of other start"):
        trained(model(seed=1))
    with pytest.raises(ValueError, match="of another training, of other start"):
        trained(model(seed=1).fit(sets[0], 2), warm_start=True)
    assert trained(warm, warm_start=True).history.epoch.tolist() == list(range(7))


def test_more_epochs_go_on_and_fewer_are_refused(trained, tmp_path):
    whole = trained(model(seed=1), epochs=6)
    with pytest.raises(Lost):
        trained(model(seed=1), stop=lose)
    with pytest.raises(ValueError, match="has 3 epochs of this training, more than the 2 in all that are asked for"):
        trained(model(seed=1), epochs=2)
    made = trained(model(seed=1), epochs=6, workers=3)
    assert made.epoch == whole.epoch and np.allclose(made.history.rmse, whole.history.rmse, atol=1e-5)
    assert not (tmp_path / "c").exists()


def test_a_path_that_cannot_be_written_is_refused_before_training(client, sets, tmp_path):
    (tmp_path / "file").touch()
    for path, error in ((tmp_path / "none/c", FileNotFoundError), (tmp_path / "file/c", NotADirectoryError)):
        with pytest.raises(error, match=str(path)):
            fit(model(), sets[0], 3, client=client, checkpoint=path, every=4, attempts=1)
    fit(model(), sets[0], 3, client=client, checkpoint=tmp_path / "c", every=4, attempts=1)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


class Parts:
    """The communicator of one of some workers, whose sums are all that is asked for."""

    def __init__(self):
        self.total = np.zeros(1, np.uint64)

    def all_reduce(self, array):
        self.total += array
        array[:] = self.total


def test_the_digest_of_ratings_is_the_same_for_any_division(sets):
    ratings, alone = sets[0], Parts()
    whole = digest_of_ratings(alone, ratings)
    order, several = np.random.default_rng(0).permutation(ratings.nnz), Parts()
    for part in (order[:9], order[9:9], order[9:]):
        found = digest_of_ratings(several, ratings.select(part))
    assert found == whole
    one_bit = ratings.values.copy()
    one_bit[7] = np.nextafter(one_bit[7], np.float32(2))
    swapped = Ratings(ratings.items, ratings.users, ratings.values, ratings.n_items, ratings.n_users)
    for other in (turned(ratings), replace(ratings, values=one_bit), swapped):
        assert digest_of_ratings(Parts(), other) != whole
