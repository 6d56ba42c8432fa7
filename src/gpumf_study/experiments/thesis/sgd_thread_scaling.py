"""Speed of Hogwild against the number of CUDA threads, and what more of them cost it in error.

The thesis (section 6.5) names a scalability experiment for SGD, without its figure: the best performance is reached
when all 8 multiprocessors have 2048 resident threads. Here with 16 factors, on the whole GPU and on 8 of its
multiprocessors, as in `thread_scaling`. More threads are more updates in flight, which overwrite each other: beside
the seconds stands the error after as many epochs for every number of threads.
"""

from contextlib import nullcontext

import pandas as pd
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import kernels_unavailable, load_ratings, trained
from gpumf_study.experiments._limits import KEPLER
from gpumf_study.experiments.thesis.thread_scaling import FACTORS, OWN
from gpumf_study.experiments.tuning import PARAMETERS, chosen

EIGHT = "8 SMs"
RESIDENT = KEPLER["multiprocessors"] * KEPLER["threads_per_multiprocessor"]

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "threads": [256, 512, 256], "epochs": 1, "repeats": 1,
              "parameters": PARAMETERS},
    "full": {"data": "douban-synthetic", "threads": [1024, 32768, 1024], "epochs": 10, "repeats": 5,
             "parameters": PARAMETERS},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"threads": [256, 256, 256]}

why_unavailable = kernels_unavailable


def run(data, threads, epochs, repeats, parameters):
    """Time epochs of Hogwild on the GPU, or on the CPU where there is none, and train with it.

    data : name of a data set, 80 % of which are for training
    threads : [first, last, step] of the numbers of CUDA threads
    epochs : int, after which errors are compared
    repeats : int, timings of each, and trainings, training k with seed k
    parameters : dict, data set -> model -> arguments of the model, see `tuning`

    Return a DataFrame: seconds of an epoch by x_machine ('as it is' or '8 SMs'), x_multiprocessors and x_threads (of
    CUDA), and the test MAE after `epochs` on the whole GPU
    """
    device = backends.device("cuda" if backends.available() else "emulator")
    ratings = load_ratings(data)
    train, test = ratings.split(0.2)
    arguments = chosen(parameters, data, "SGD") | {"solver": "hogwild", "device": device.name}
    machines = {OWN: device.facts["multiprocessors"]}
    if device.name == "cuda":
        machines[EIGHT] = KEPLER["multiprocessors"]
    rows = []
    first, last, step = threads
    for count in tqdm(range(first, last + 1, step), desc="sgd_thread_scaling", leave=False):
        options = arguments | {"biases": False, "clip": False, "threads": count}
        models = [SGD(FACTORS, seed=repeat, **options) for repeat in range(repeats)]
        errors = [trained(model, train, epochs, test).history.mae.iloc[-1] for model in models]
        trainer = models[0].make_solver(train)
        trainer.epoch(0)
        for machine, processors in machines.items():

            def epoch(trainer=trainer):
                trainer.epoch(1)

            with device.limited_to(processors) if machine == EIGHT else nullcontext():
                seconds = device.time(epoch, repeats, warmup=1)
            what = {"x_machine": machine, "x_multiprocessors": processors, "x_threads": count}
            rows += [what | {"repeat": k, "seconds": s, "phase": "train"} for k, s in enumerate(seconds)]
        what = {"x_machine": OWN, "x_multiprocessors": machines[OWN], "x_threads": count, "epoch": epochs}
        rows += [what | {"repeat": k, "metric": "mae", "value": mae} for k, mae in enumerate(errors)]
    labels = {"data": ratings.name, "task": "epoch", "model": "SGD", "solver": "hogwild", "device": device.name}
    return pd.DataFrame(rows).assign(**labels, factors=FACTORS)


def summary(frame):
    """Return medians: x_machine, x_threads, seconds (of an epoch), mae (least and most), speedup (over the fewest
    threads)."""
    points = frame.groupby(["x_machine", "x_threads"], sort=False)
    of_mae = {"mae": ("value", "median"), "least": ("value", "min"), "most": ("value", "max")}
    table = points.agg(seconds=("seconds", "median"), **of_mae)
    return table.assign(speedup=table.groupby("x_machine").seconds.transform("first") / table.seconds).reset_index()


def figure(frame):
    """Speed-up over the fewest threads (left) and the test MAE (right) against CUDA threads.

    Dotted: the threads that the thesis found best. Shaded: the range of the trainings' MAE.
    """
    points = summary(frame)
    figure, (axes,) = style.panels(columns=2, height=3.8)
    for machine, line, colour in ((OWN, "-o", "green"), (EIGHT, "--s", "purple")):
        curve = points[points.x_machine == machine]
        if len(curve):
            label = "whole GPU" if machine == OWN else "8 multiprocessors"
            what = {"color": style.COLOURS[colour], "markersize": 4, "label": label}
            axes[0].plot(curve.x_threads, curve.speedup, line, **what)
            if curve.mae.notna().any():
                axes[1].plot(curve.x_threads, curve.mae, line, **what)
                axes[1].fill_between(curve.x_threads, curve.least, curve.most, color=what["color"], alpha=0.25)
    for axis in axes:
        axis.axvline(RESIDENT, linestyle=":", linewidth=1, color="0.4")
        axis.set(xlabel="CUDA threads", xlim=(0, None))
        axis.xaxis.set_major_locator(MaxNLocator(4))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes[0].set(ylabel="speed-up over the fewest threads", ylim=(0, None))
    low, high = axes[1].get_ylim()
    room = max(0, MAE_SHOWN - (high - low)) / 2
    axes[1].set(ylabel=f"test MAE on {style.data_name(frame.data.iloc[0])}", ylim=(low - room, high + room))
    style.legend(figure, axes[0], 2)
    return figure


MAE_SHOWN = 0.01  # the least range of the axis: smaller differences are no differences to a user
OTHERS = [count for count in range(1024, 32769, 1024) if count != RESIDENT]
CLAIMS = [
    Claim("thesis-sgd-threads", "thesis", "Section 6.5",
          f"Time of an epoch of SGD with the best other number of threads over {RESIDENT:,}, 8 multiprocessors: "
          "2,048 resident threads on each are best.", metric="ratio",
          select={"column": "seconds", "where": {"x_machine": EIGHT}, "over": {"x_threads": OTHERS},
                  "best": "x_threads", "under": {"x_threads": RESIDENT}}, criterion=above(0.98),
          evidence="synthetic"),
]  # fmt: skip
