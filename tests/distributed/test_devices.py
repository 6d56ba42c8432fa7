"""Kernels at work on several workers: on the processor in a GPU's place, and on GPUs, where NCCL carries factors."""

from functools import partial

import numpy as np
import pytest

from gpumf import ALS, SGD, ImplicitALS, backends
from gpumf.distributed import fit, local_cluster
from gpumf.ratings import Ratings
from support import scattered


@pytest.fixture(scope="module")
def ratings():
    return scattered(24, 18, 160, seed=7)


ON_DEVICES = {
    "tensor_core": lambda device: ALS(4, 0.2, solver="tensor_core", device=device),
    "tensor_core, no biases": lambda device: ALS(4, 0.2, solver="tensor_core", device=device, biases=False),
    "cumf_cholesky": lambda device: ALS(4, 0.2, solver="cumf_cholesky", device=device, biases=False),
    "implicit": lambda device: ImplicitALS(4, solver="tensor_core", device=device),
    "hogwild": lambda device: SGD(4, solver="hogwild", device=device),
    "fast": lambda device: SGD(4, solver="fast", device=device, precision=32),
}


def same(make, made, ratings):
    one = make().fit(ratings, 2, ratings)
    if isinstance(made, SGD):  # which meets the ratings in another order
        assert abs(made.history.rmse.iloc[-1] - one.history.rmse.iloc[-1]) < 0.05
        assert made.history.rmse.iloc[-1] < made.history.rmse.iloc[0]
    else:
        assert np.allclose(made.user_factors, one.user_factors, atol=1e-4)


@pytest.mark.emulator
@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("name", ON_DEVICES)
def test_kernels_solve_a_workers_rows_and_blocks(client, ratings, name):
    make = partial(ON_DEVICES[name], "emulator")
    same(make, fit(make(), ratings, 2, ratings, client=client, workers=2, attempts=1), ratings)


ADDED_UP = {
    "cumf_cholesky": lambda device: ALS(4, 0.2, solver="cumf_cholesky", device=device),
    "cumf_lu, bias apart": lambda device: ALS(4, 0.2, solver="cumf_lu", device=device, biases=False),
    "cumf_cholesky, two tiles": lambda device: ALS(17, 0.2, solver="cumf_cholesky", device=device, biases=False),
    "cumf_cg": lambda device: ALS(3, 0.2, solver="cumf_cg", device=device, biases=False, weighted=False),
    "implicit": lambda device: ImplicitALS(4, solver="cumf_cholesky", device=device),
}


@pytest.mark.emulator
@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("name", ADDED_UP)
def test_parts_of_items_equations_are_added_up(client, ratings, name):
    make = partial(ADDED_UP[name], "emulator")
    one = make().fit(ratings, 2, ratings)
    for workers in (1, 3):
        made = fit(make(), ratings, 2, ratings, client=client, workers=workers, item_update="reduce", attempts=1)
        for several, alone in zip(made._learned, one._learned, strict=True):
            assert np.allclose(several, alone, atol=1e-4)
        assert np.allclose(made.history.rmse, one.history.rmse, atol=1e-5)


@pytest.fixture(scope="module")
def gpus():
    """A client of a worker a GPU, whose trainings follow each other on the same workers."""
    if why := backends.why_unavailable("cuda"):
        pytest.skip(why)
    pytest.importorskip("dask_cuda")
    with local_cluster() as client:
        yield client


def same_on_gpus(gpus, maker, ratings, **options):
    make = partial(maker, "cuda")
    made = fit(make(), ratings, 2, ratings, client=gpus, attempts=1, **options)
    same(make, made, ratings)
    return made


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_DEVICES)
def test_a_worker_a_gpu(gpus, ratings, name):
    same_on_gpus(gpus, ON_DEVICES[name], ratings)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ADDED_UP)
def test_parts_are_added_up_between_gpus(gpus, ratings, name):
    same_on_gpus(gpus, ADDED_UP[name], ratings, item_update="reduce")


@pytest.mark.gpu
@pytest.mark.parametrize("implicit", [False, True])
def test_parts_are_on_their_way_while_the_next_are_made(gpus, implicit):
    """So many items that a worker of two GPUs shares its own out to four parts, whose memory is used twice."""
    rng = np.random.default_rng(3)
    users, items = 900, 9_000
    cells = np.unique(rng.integers(0, users * items, 200_000))
    values = rng.integers(1, 6, len(cells)).astype(np.float32)
    ratings = Ratings(cells // items, cells % items, values, users, items)

    def maker(device):
        if implicit:
            return ImplicitALS(40, solver="cumf_cholesky", device=device)
        return ALS(40, 0.2, solver="cumf_cholesky", device=device, biases=False)

    made, one = same_on_gpus(gpus, maker, ratings, item_update="reduce"), maker("cuda").fit(ratings, 2, ratings)
    assert np.allclose(made.item_factors, one.item_factors, atol=1e-4)
