"""Attack models by threads, forks and processes that are killed: `python attack.py FOLDER threads=200 forks=50`.

Prints one JSON object: of each kind how many uses were tried, refused by an error of the package, accepted, wrong.
"""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import gpumf
from gpumf import ALS, RBM, SGD, BayesianMF, Blend, ImplicitALS
from support import ragged_ratings

RATINGS = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)
KINDS = ALS, ImplicitALS, RBM, BayesianMF, SGD
SAVES = """
import sys, gpumf
models = [gpumf.load(path, "cpu") for path in sys.argv[2:]]
print(flush=True)
while True:
    for model in models:
        model.save(sys.argv[1], seen=True)
"""


def models():
    """A fitted model of every class, the same in each process, and a blend."""
    made = [kind(3, seed=0, device="auto" if kind is BayesianMF else "cpu").fit(RATINGS, 2) for kind in KINDS]
    return [*made, Blend(made[0], made[3], weights=[0.5, 0.5])]


def uses(model, k):
    """What a server asks of a model: functions that return arrays."""
    user, items = k % RATINGS.n_users, np.arange(1 + k % 5)
    return (
        lambda: model.recommend([user, 3], 1 + k % 30),
        lambda: model.recommend([user, 3], 4, candidates=[items, items + 2]),
        lambda: model.recommend(ratings=(items, 1.0 + items), k=3),
        lambda: (model.predict(user, items),),
        lambda: (np.array(list(model.score(RATINGS).values())),),
        lambda: (np.array(list(model.evaluate_ranking(RATINGS, 3, seen=()).values())),),
        lambda: model.similar_items(items, 3) if hasattr(model, "similar_items") else (),
        lambda: model.recommend(user, k=-k),
        lambda: model.predict(RATINGS.n_users + k, 0),
    )


def answer(use):
    """What a use gives, or the name and text of its error."""
    try:
        return [np.round(array, 4).tolist() for array in use()]
    except (ValueError, IndexError) as error:
        return [type(error).__name__, str(error)]


def told(found, wanted):
    """What became of a question, by what is answered alone."""
    if repr(found) != repr(wanted):  # NaN is NaN
        return "wrong"
    return "refused" if found and isinstance(found[0], str) else "accepted"


def questions(rng, trials):
    """(model, which use, its number) of so many trials, and what is answered alone."""
    made = models()
    asked = [(made[k % len(made)], int(rng.integers(9)), int(rng.integers(1, 50))) for k in range(trials)]
    return asked, [answer(uses(model, k)[which]) for model, which, k in asked]


def threads(rng, trials, folder):
    """Six threads ask the same models; some save them meanwhile."""
    asked, wanted = questions(rng, trials)

    def ask(number):
        model, which, k = asked[number]
        if number % 7 == 0:
            model.save(folder / "shared.npz", seen=True)
        return answer(uses(model, k)[which])

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(ask, range(trials)))
    return Counter(map(told, found, wanted))


def forks(rng, trials, folder):
    """Processes that are forked from one that has trained, as by a server that loads before it forks."""
    asked, wanted = questions(rng, trials)
    counts, each = Counter(), 25
    for first in range(0, trials, each):
        path, part = folder / f"{first}.json", slice(first, first + each)
        if os.fork() == 0:
            found = [answer(uses(model, k)[which]) for model, which, k in asked[part]]
            path.write_text(json.dumps([told(*both) for both in zip(found, wanted[part], strict=True)]))
            os._exit(0)
        _, status = os.wait()
        counts.update(json.loads(path.read_text()) if status == 0 else ["wrong"] * len(asked[part]))
    return counts


def kills(rng, trials, folder):
    """Processes that save two models in turn to one file, and are killed: it is one of both, and nothing is left."""
    counts, both, made = Counter(), [], models()
    path = folder / "model.npz"
    for number in (0, 5):
        both.append(folder / f"{number}.npz")
        made[number].save(both[-1], seen=True)
        gpumf.load(both[-1], "cpu").save(both[-1], seen=True)  # as the processes save it
    known, loaded = {one.read_bytes() for one in both}, gpumf.load(both[0], "cpu")
    for _ in range(trials):
        command = [sys.executable, "-c", SAVES, path, *both]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"\n"  # now it saves
            time.sleep(rng.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
        right = not path.exists() or path.read_bytes() in known
        loaded.save(path, seen=True)
        right &= {one.name for one in folder.iterdir()} == {path.name, *(one.name for one in both)}
        counts["accepted" if right else "wrong"] += 1
    return counts


def main(folder, kinds):
    warnings.simplefilter("ignore")
    found = {}
    for kind, trials in (of.split("=") for of in kinds):
        (folder / kind).mkdir()
        counts = globals()[kind](np.random.default_rng(0), int(trials), folder / kind)
        found[kind] = {name: counts[name] for name in ("refused", "accepted", "wrong")} | {"tried": counts.total()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
