"""Assign what is wrong to attributes of fitted models, then use these: `python assigned.py SEED TRIALS DEVICE`.

Prints one JSON object: how many uses gave a result, how many an error of the package, and what was neither. It runs
in a process of its own, which wrong memory accesses may end.
"""

import copy
import json
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np

import gpumf
from gpumf import ALS, RBM, SGD, BayesianMF, Blend, DivergedError, ImplicitALS, NotFittedError
from gpumf.backends import DeviceError
from gpumf.ratings import Ratings
from support import ragged_ratings

SOURCE = Path(gpumf.__file__).parent
ERRORS = ValueError, TypeError, NotFittedError, DivergedError, DeviceError, KeyError, IndexError
TRAIN, TEST = ragged_ratings(n_users=23, n_items=17, longest=12, seed=4).split(0.2, seed=1)
NEW = Ratings([2, 3], [1, 2], [4, 2], TRAIN.n_users, TRAIN.n_items, scale=(1, 5))

SCALARS = [
    -1, 0, 2**31, 2**63, 2**64, 10**400, 0.5, -0.5, 1e300, 1e-60, np.nan, np.inf, -np.inf, 1j, True, False, None, "x",
    "", b"x", (), [], {}, [1, 2], {"a": 1}, object(), np.int64(0), np.int8(-3), np.float32(0.25), np.array(3),
    np.array([1, 2]), np.array(["a"]), len, ALS, "cpu", "cuda", "tpu", "auto", "sequential", "parallel",
    "best", (1, 5), (5, 1), (np.nan, 5), TRAIN,
]  # fmt: skip


def changed_arrays(array):
    """An array in every way that native code cannot take, and some that it can."""
    yield from (
        array[:10],
        array[:0],
        array[1:],
        np.concatenate([array, array]),
        array[::2],
        array[::-1],
        array[None],
    )
    yield from (
        array.T,
        np.asfortranarray(array),
        array.reshape(-1),
        array[..., :1],
        array[..., ::2],
        array[..., :-1],
    )
    yield from (array.astype(kind) for kind in (np.float64, np.float16, np.int32, bool, object, complex, str))
    yield from (
        array.tolist(),
        np.full_like(array, np.nan),
        np.full_like(array, np.inf),
        array[0],
        array.view(np.int32),
    )
    yield array.astype(array.dtype.newbyteorder())
    bytes_ = np.zeros(array.nbytes + 1, np.uint8)
    yield bytes_[1:].view(array.dtype).reshape(array.shape)  # not aligned
    read_only = array.copy()
    read_only.flags.writeable = False
    yield from (read_only, array * np.float32(0.5), np.broadcast_to(array[:1], (10**6, *array.shape[1:])))


def models(device):
    """Fitted models of every kind, and some that are not fitted."""
    if device == "cpu":
        made = [ALS(3, device=device, solver=solver) for solver in ("sequential", "parallel_cg")]
        made += [ALS(3, device=device, biases=False), ALS(3, device=device, clip=True)]
        made += [SGD(3, device=device, solver=solver) for solver in ("sequential", "ordered", "ordered_parallel")]
        made += [ImplicitALS(3, device=device, solver=solver) for solver in ("parallel", "cg")]
        made += [RBM(4, device=device), RBM(4, solver="sequential", momentum=0.5), BayesianMF(3)]
    else:
        made = [kind(3, device=device) for kind in (ALS, SGD, ImplicitALS)] + [RBM(4, device=device)]
    fitted = [model.fit(TRAIN, 2, TEST) for model in made]
    blend = Blend(fitted[0], fitted[-1], weights=[0.5, 0.5])
    return [*fitted, blend, ALS(3, device=device), RBM(4, device=device), SGD(3, device=device)]


def public(model):
    """The names of attributes that can be assigned."""
    own = {name for name in vars(model) if not name.startswith("_")} - {"models"}
    kind = type(model)
    properties = {name for name in dir(kind) if isinstance(getattr(kind, name), property) and name[0] != "_"}
    return sorted(own | {name for name in properties if getattr(kind, name).fset})


def value_for(rng, old):
    """Something else than an attribute has."""
    if isinstance(old, np.ndarray) and rng.random() < 0.9:
        values = list(changed_arrays(old))
        return values[rng.integers(len(values))]
    return SCALARS[rng.integers(len(SCALARS))]


def finite(numbers, shape, what):
    assert isinstance(numbers, np.ndarray) and numbers.dtype == np.float32, f"{what}: {type(numbers)}"
    assert numbers.shape == shape and np.isfinite(numbers).all(), f"{what}: {numbers}"


def listed(found, n, shape, what):
    places, scores = found
    assert places.shape == scores.shape == shape, f"{what}: {places.shape}"
    assert ((places >= -1) & (places < n)).all() and np.isfinite(scores[places >= 0]).all(), f"{what}: {found}"


def learned(model):
    """That what was learned goes with the parameters and with itself."""
    if isinstance(model, Blend):
        return
    shapes = [array.shape for array in model._learned]
    columns = (
        model.hidden if isinstance(model, RBM) else model.factors if isinstance(model, BayesianMF) else model.columns
    )
    assert (shapes[0][0], shapes[0][-1]) == (TRAIN.n_users, columns) and shapes[1][0] == TRAIN.n_items, shapes
    assert all(np.isfinite(array).all() for array in model._learned)


def predict(model):
    finite(model.predict([0, 3, 22], [1, 16, 5], ids=False), (3,), "predict")


def recommend(model):
    listed(model.recommend([0, 3, 22], 4, ids=False), TRAIN.n_items, (3, 4), "recommend")
    model.recommend(3, 4, seen=(), filter_items=[1], ids=False)
    listed(model.recommend([0, 3], 4, candidates=[[1, 2], [3]], ids=False), TRAIN.n_items, (2, 4), "recommend")


def recommend_to_new(model):
    model.recommend(ratings=([1, 2], [5.0, 3.0]), ids=False)


def rank(model):
    metrics = [*model.evaluate_ranking(TEST, 3).values(), *model.evaluate_sampled(TEST, 3, 5).values()]
    assert all(0 <= value <= 1 for value in metrics), metrics
    assert (
        all(np.isfinite(value) for value in model.list_diversity(3).values())
        if hasattr(model, "list_diversity")
        else True
    )


def score(model):
    assert all(np.isfinite(value) for value in model.score(TEST).values())


def similar(model):
    listed(model.similar_items([1, 2], 3, ids=False), TRAIN.n_items, (2, 3), "similar")
    listed(model.similar_users([1, 2], 3, ids=False), TRAIN.n_users, (2, 3), "similar")


def fold_in(model):
    folded = model.fold_in(([1, 2], [5.0, 3.0]), ids=False)
    finite(folded.predict(0, [1, 2], ids=False), (2,), "fold_in")


def partial_fit(model):
    learned(model.partial_fit(NEW))


def warm(model):
    learned(model.fit(TRAIN, 1, TEST, warm_start=True))


def again(model):
    learned(model.fit(TRAIN, 1))


def stored(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.npz"))
        loaded = type(model).load(Path(folder, "model.npz"), device=model.device)
    finite(loaded.predict(0, [1, 2], ids=False), (2,), "load")


def explain(model):
    assert np.isfinite(model.explain(3, 2, ids=False)[0])


def make_solver(model):
    given = [vars(model)[name] for name in model._arrays if name in vars(model)]
    model.make_solver(TRAIN, *given).arrays()


def shown(model):
    assert repr(model)
    model.get_params()


USES = [
    predict, recommend, recommend_to_new, rank, score, similar, fold_in, partial_fit, warm, again, stored, explain,
    make_solver, shown,
]  # fmt: skip
OF = {
    "partial_fit": "partial_fit",
    "warm": "partial_fit",
    "again": "partial_fit",
    "explain": "explain",
    "similar": "similar_items",
    "make_solver": "make_solver",
}
OF |= {"rank": "evaluate_sampled", "shown": "get_params"}


def outcome(model, use):
    """'result', 'refused', or what is wrong."""
    try:
        use(model)
        return "result"
    except ERRORS as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        if Path(frame.filename).is_relative_to(SOURCE) and (frame.line or "").startswith("raise") and str(error):
            return "refused"
        return f"{type(error).__name__}: {error} ({Path(frame.filename).name}, line {frame.lineno}: {frame.line})"
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({Path(frame.filename).name}, line {frame.lineno}: {frame.line})"


def main(seed, trials, device):
    rng, counts, wrong = np.random.default_rng(seed), {"result": 0, "refused": 0}, []
    everyone = models(device)
    for trial in range(trials):
        model = copy.deepcopy(everyone[trial % len(everyone)])
        told = f"{model!r:.60}".split("\n")[0] if not isinstance(model, Blend) else "Blend"
        for name in rng.permutation(public(model))[: rng.integers(1, 3)].tolist():
            value = value_for(rng, getattr(model, name, None))
            told += f"; {name} = {str(value)[:60]!r}" + (
                f" {value.dtype} {value.shape}" if hasattr(value, "dtype") else ""
            )
            setattr(model, name, value)
        before = vars(model).copy()
        for use in USES:
            if not hasattr(model, OF.get(use.__name__, "predict")):
                continue
            print(f"{told}; {use.__name__}", file=sys.stderr)  # the last line, where the process ends here
            vars(model).clear()
            vars(model).update(before)
            found = outcome(model, use)
            if found in counts:
                counts[found] += 1
            else:
                wrong.append(f"{told}; {use.__name__}: {found}")
    print(json.dumps(counts | {"wrong": wrong}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
