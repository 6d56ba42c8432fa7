# ruff: noqa
"""Time ALS with rows in half precision and in eight bits, alternating in one process: python3 ab8.py

Environment: AB8_DATA (netflix-synthetic), AB8_DEVICE (cuda), AB8_FIRST (of the ratings, so many), AB8_FACTORS (100),
AB8_REPEATS (10), AB8_EPOCHS (10), AB8_SECONDS (75): no further variant of the kernel and no further training begins
after so many.
"""

import os
import time
from pathlib import Path

import numpy as np

begun = time.time()

from gpumf import ALS, backends  # noqa: E402
from gpumf.ratings import load_dataset  # noqa: E402
from gpumf.solvers import als_tensor_core as gathering  # noqa: E402
from gpumf.solvers.base import shape_of  # noqa: E402

given = os.environ.get
name, factors, repeats = given("AB8_DEVICE", "cuda"), int(given("AB8_FACTORS", 100)), int(given("AB8_REPEATS", 10))
epochs, most = int(given("AB8_EPOCHS", 10)), float(given("AB8_SECONDS", 75))
device = backends.device(name)
options = {"solver": "warpgroups", "device": name, "biases": False, "clip": False}
folder = Path("/tmp/ab8")
folder.mkdir(exist_ok=True)


def say(*words):
    print(f"[{time.time() - begun:5.1f} s]", *words, flush=True)


# Other shapes of the same kernel: name -> replacements in warpgroups.cu.
LOOP = "#pragma unroll 1\n    for (int k = 0; k < here; k += 32) {\n        const uint2 right"
VARIANTS = {
    "bytes, unrolled": [
        (
            LOOP,
            "#pragma unroll\n    for (int k = 0; k < STAGE; k += 32) {\n        if (k >= here) break;\n        const uint2 right",
        )
    ],
    "bytes, one fetcher": [
        ("!IMPLICIT && FACTORS <= 104 ? 2 : 1;", "!IMPLICIT && FACTORS <= 104 && !BYTES ? 2 : 1;")
    ],
    "bytes, stages of 32": [
        ("constexpr int STAGE = BYTES || (", "constexpr int STAGE = ("),
        ("FITTING < 16 ? FITTING : 16", "FITTING < 32 ? FITTING : 32"),
    ],
}


def variant_of(replacements, number):
    """The team of the kernel with these replacements."""
    text = Path("kernels/als/warpgroups.cu").read_text()
    for old, new in replacements:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} is there {text.count(old)} times")
        text = text.replace(old, new)
    path = folder / f"variant{number}.cu"
    path.write_text(text)
    defines = {"FACTORS": factors, "IMPLICIT": 0, "WGMMA": 1, "BYTES": 1}
    shape = shape_of(device, path, **defines)
    kernel = device.kernel(path, "warpgroups", **defines)
    if name == "cuda":
        say(f"variant {number}:", {k: kernel.attributes[k] for k in ("num_regs", "local_size_bytes")})
    return gathering._Team(kernel, shape.block, shape.teams, shape.teams * shape.team_bytes, shape.part_bytes)


def milliseconds(work):
    if name == "cuda":
        return 1e3 * device.time(work, 1, 0)[0]
    started = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - started)


def main():
    say({key: device.facts.get(key) for key in ("gpu", "l2_bytes", "multiprocessors")})
    ratings = load_dataset(given("AB8_DATA", "netflix-synthetic"))
    train, test = ratings.split(0.2) if ratings.test_mask is None else ratings.official_split()
    if first := given("AB8_FIRST"):
        train, test = train.select(range(int(first))), test.select(range(min(int(first), test.nnz)))
    say("drawn:", train.n_users, train.n_items, train.nnz, test.nnz)
    model = ALS(factors, 0.05, **options)
    forced = True if name != "cuda" else None
    solvers = {"halves": model.make_solver(train, in_bytes=False), "bytes": model.make_solver(train, in_bytes=forced)}
    say("gather bytes (users' update, items' update):", {
        key: [of._in_bytes[side[0]] for side in (of._users, of._items)] for key, of in solvers.items()
    })  # fmt: skip
    for solver in solvers.values():
        solver.epoch(0)
        solver.epoch(1)
    found = {}

    def note(version, step, seconds):
        found.setdefault((version, step), []).append(seconds)

    rounding = {"halves": "round", "bytes": "round_to_bytes"}
    for _ in range(repeats):
        for version, solver in solvers.items():
            note(version, "users", milliseconds(solver.solve_users))
            note(version, "items", milliseconds(solver.solve_items))
        for version, solver in solvers.items():
            note(version, "iteration", milliseconds(lambda of=solver: of.epoch(0)))
        for version, solver in solvers.items():
            work = getattr(solver._half, rounding[version])
            note(version, "rounding of users", milliseconds(lambda w=work, of=solver: w(of._p, of._items[-1])))
    say("milliseconds: median (least .. most) of", repeats)
    for (version, step), times in found.items():
        print(f"  {step:20s} {version:8s} {np.median(times):8.3f}  ({min(times):.3f} .. {max(times):.3f})")
    for step in ("items", "iteration"):
        ratio = np.array(found["halves", step]) / found["bytes", step]
        print(f"  {step}: halves over bytes {np.median(ratio):.3f}  ({ratio.min():.3f} .. {ratio.max():.3f})")
    differ = [device.to_numpy(solver.factors()[1]) for solver in solvers.values()]
    say("items' factors, bytes against halves:", np.linalg.norm(differ[1] - differ[0]) / np.linalg.norm(differ[0]))
    # Run to run the same bits.
    solver = solvers["bytes"]
    solver.solve_items()
    items = device.to_numpy(solver.factors()[1]).copy()
    # The solution starts from the last one: from the same start, again.
    start = device.array(items)
    results = []
    for _ in range(2):
        solver._q[...] = start
        solver.solve_items()
        results.append(device.to_numpy(solver.factors()[1]).tobytes())
    say("the same bits in two runs:", results[0] == results[1])

    of = {}
    takes = gathering.takes_bytes
    for version in ("halves", "bytes"):
        gathering.takes_bytes = (
            (lambda *_: False) if version == "halves" else takes if name == "cuda" else lambda *_: True
        )
        fitted = ALS(factors, 0.05, **options).fit(train, epochs, test)
        of[version] = fitted.history
        say(
            f"test RMSE by iterations, {version}:",
            np.round(np.asarray(fitted.history.iloc[:, :].filter(like="rmse")).T, 6).tolist(),
        )
        if time.time() - begun > most:
            break
    gathering.takes_bytes = takes

    try:
        if real := given("GPUMF_DATA"):
            for data, seeds in (("ml-1m", 2), ("ml-100k", 4)):
                if time.time() - begun > most - 12 or not Path(real, data).exists():
                    break
                ratings = load_dataset(data)
                for seed in range(seeds):
                    split, row = ratings.split(0.1, seed), {}
                    ways = {"halves": lambda *_: False, "users in bytes": lambda facts, hyper, n, of=split[0].n_users: n == of,
                            "both in bytes": lambda *_: True}  # fmt: skip
                    for version, gathering.takes_bytes in ways.items():
                        fitted = ALS(factors, 0.05, **options, seed=seed).fit(split[0], 10, split[1])
                        row[version] = round(float(fitted.history.filter(like="rmse").iloc[-1, -1]), 6)
                    say(f"{data}, test RMSE after 10 iterations, seed {seed}:", row)
            gathering.takes_bytes = takes
    except Exception as error:  # the variants are timed all the same
        say("real data failed:", type(error).__name__, str(error)[:500])
    finally:
        gathering.takes_bytes = takes

    usual = solver._entry["bytes"]
    for number, (version, replacements) in enumerate(VARIANTS.items()):
        if time.time() - begun > most - 10:
            say("left out:", version)
            continue
        try:
            team = variant_of(replacements, number)
            if team.part_bytes > usual.part_bytes:
                raise ValueError("its parts are larger")
            solver._entry["bytes"] = team
            solver._q[...] = start
            solver.solve_items()
            same = device.to_numpy(solver.factors()[1]).tobytes() == results[0]
            times = {"bytes": [], version: []}
            for _ in range(repeats):
                for key, chosen in (("bytes", usual), (version, team)):
                    solver._entry["bytes"] = chosen
                    times[key].append(milliseconds(solver.solve_items))
            say(
                "items:",
                {key: f"{np.median(t):.3f} ({min(t):.3f} .. {max(t):.3f})" for key, t in times.items()},
                "same bits:",
                same,
            )
        except Exception as error:  # the others are timed all the same
            say(version, "failed:", type(error).__name__, str(error)[:500])
        finally:
            solver._entry["bytes"] = usual
    say("done")


main()
