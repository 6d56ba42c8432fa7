"""Every solver at once: test RMSE against training time and end-to-end time, on one data set and one GPU.

As many factors as all can do, the thesis's kernels of ALS at most 32; the RBM has as many hidden units. All solvers
of a model have its parameters, none of them tuned here: lambda of ALS is that of cuMF (Table 2); SGD has the rate and
lambda for MovieLens, and the schedule, of `sgd_schemes`; the RBM is the thesis's, but for its size. No model has
biases. The split is one; each repeat starts from factors, and draws, of its own.
"""

import numpy as np
import pandas as pd

from gpumf import ALS, RBM, SGD
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, above, below
from gpumf_study.experiments import _published, trained, usable_solvers
from gpumf_study.experiments.gpumf import _work, sgd_schemes

MODELS = {"ALS": ALS, "SGD": SGD, "RBM": RBM}
REFERENCES = ("ALS", "parallel"), ("SGD", "ordered_parallel")
"""On all threads of a CPU: the exact solution, and each rating once in an order that loses no update."""
ABOVE = 1.01  # of the larger error at which a reference ends: the error that schemes are timed to

_GPU = [f"{kind} {name}" for kind, model in MODELS.items() for name, at in model.solvers().items() if at == "cuda"]
_CPU = ["ALS sequential", "ALS parallel", "ALS parallel_cg", "SGD ordered", "SGD ordered_parallel"]
_LAMBDA = _published.value("Table 2", "regularization", "netflix", source="cumf")
PARAMETERS = {
    "ALS": {"regularization": _LAMBDA, "biases": False, "clip": False},
    "SGD": sgd_schemes.RATES["ml"] | {"schedule": sgd_schemes.POWER, "biases": False, "clip": False},
    "RBM": RBM.THESIS,
}

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "schemes": [*_CPU, "RBM parallel", *_GPU], "factors": 16,
              "parameters": PARAMETERS, "epochs": {"ALS": 10, "SGD": 20, "RBM": 10}, "repeats": 2, "shorter": {},
              "once": []},
    "full": {"data": "ml-20m-synthetic", "schemes": [*_CPU, *_GPU], "factors": 32, "parameters": PARAMETERS,
             "epochs": {"ALS": 10, "SGD": 20, "RBM": 10}, "repeats": 3, "shorter": {"ALS sequential": 5},
             "once": [*_CPU, "ALS thesis_global", "ALS thesis_hybrid", "SGD gpusgd", "RBM thesis"]},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"factors": 4, "epochs": {"ALS": 2, "SGD": 2, "RBM": 1}}


def run(data, schemes, factors, parameters, epochs, repeats, shorter, once):
    """Train every solver that this machine has, each first for an epoch on few ratings, which is not timed.

    data : name of a data set, split as published, or else 90 % for training
    schemes : list of 'model solver'
    factors : int, of the RBM hidden units
    parameters : dict, model -> arguments of all its solvers
    repeats : int; repeat k has seed k
    shorter : dict, 'model solver' -> epochs, where fewer are wanted
    once : list of 'model solver' with seed 0 alone

    Return a DataFrame as of `sweep.sweep`, with x_source (the publication that the solver is from, or 'gpumf'),
    x_bytes and x_flops (of an epoch, counted: see `_work`; missing of the RBM)
    """
    usable, seen = {kind: usable_solvers(model) for kind, model in MODELS.items()}, set()

    def models(train, repeat):
        for text in schemes:
            kind, solver = text.split()
            if solver not in usable[kind] or (repeat and text in once):
                continue
            arguments = parameters[kind] | {"hidden" if kind == "RBM" else "factors": factors, "solver": solver}
            model = MODELS[kind](**arguments, seed=repeat)
            if text not in seen:
                trained(MODELS[kind](**arguments), train.split(0.99, seed=0)[0], 1, None)
                seen.add(text)
            publication, (moved, flops) = model.solver_class.publication, _work.of_epoch(model, train)
            columns = {"x_source": publication.key if publication else "gpumf", "x_bytes": moved, "x_flops": flops}
            yield columns | {"epochs": shorter.get(text, epochs[kind])}, model

    return sweep.sweep(models, [data], 1, repeats, official=True, one_split=True, metrics=("rmse", "mae"))


_TRAINING = ["model", "solver", "device", "x_source"]


def last_errors(frame):
    """Return the test RMSE after the last epoch of each training, as value; missing where it diverged."""
    course = sweep.course(frame, "rmse")
    return course.groupby([*_TRAINING, "repeat"], sort=False).tail(1)[[*_TRAINING, "repeat", "value"]]


def level(frame):
    """Return the common error: 1 % above the larger of those at which the REFERENCES end (medians)."""
    errors = last_errors(frame).groupby(["model", "solver"]).value.median()
    return ABOVE * errors.reindex(list(REFERENCES)).max(skipna=False)


def reached(frame):
    """Return when each training that did not diverge first had the common error: epoch, train, wall (end to end)."""
    found = sweep.end_to_end(sweep.time_to_error(frame, level(frame)), frame)
    found = found.rename(columns={"seconds": "train", "end_to_end": "wall"})
    return found[[*_TRAINING, "repeat", "epoch", "train", "wall"]]


def summary(frame):
    """Return errors of every solver, and its seconds to the common error.

    Return a DataFrame with the index (model, solver): device, source, repeats, rmse (after the last epoch; median,
    missing where a training diverged), level (the common error), epochs, train, wall (to it, medians; missing where
    not all trainings reach it)
    """
    by = ["model", "solver"]
    errors = last_errors(frame).groupby(by, sort=False)
    repeats = errors.repeat.nunique()
    table = errors[["device", "x_source"]].first().rename(columns={"x_source": "source"})
    rmse = errors.value.median().where(errors.value.count() == repeats)
    table = table.assign(repeats=repeats, rmse=rmse, level=level(frame))
    soon = reached(frame).groupby(by)
    times = soon[["epoch", "train", "wall"]].median().rename(columns={"epoch": "epochs"})
    return table.join(times[soon.size() == repeats.reindex(times.index)])


def figure_seconds(frame):
    """Training and end-to-end time to the common error, a row a solver, the fastest on top.

    A solver that does not reach it has no marks, and its row says where it ends.
    """
    table = summary(frame).sort_values(["train", "rmse"], ascending=False, na_position="first")
    figure, ((axis,),) = style.panels(height=1.2 + 0.24 * len(table))
    place = np.arange(len(table))
    axis.hlines(place, table.train, table.wall, color="0.8", zorder=1)
    colours = [style.MODELS[kind][0] for kind, _ in table.index]
    for what, marker, sure in (("train", "o", True), ("wall", "D", False)):
        style.marks(axis, table[what], place, colours, marker=marker, sure=[sure] * len(table))
        axis.plot([], [], marker, color="0.35", markerfacecolor="0.35" if sure else "white", label=_SHOWN[what])
        away = 42 if sure else 86  # points: two columns of numbers beside the panel
        beside = {"xytext": (away, 0), "textcoords": "offset points", "ha": "right", "va": "center"}
        for y, text in [*zip(place, map(style.significant, table[what]), strict=True), (len(table), "●◇"[not sure])]:
            axis.annotate(text, (1, y), xycoords=("axes fraction", "data"), size=style.SMALL, **beside)
    for y, row in zip(place, table.itertuples(), strict=True):
        if np.isnan(row.train):
            text = "diverges" if np.isnan(row.rmse) else f"ends at {row.rmse:.3f}"
            where = {"xycoords": ("axes fraction", "data"), "va": "center", "size": style.SMALL}
            axis.annotate(text, (0.04, y), color="0.35", **where)
    axis.set_yticks(place, [f"{kind}, {style.LOOKS[kind, scheme].name}" for kind, scheme in table.index])
    axis.set(xlabel=f"seconds to test RMSE {table.level.iloc[0]:.3f}, {style.data_name(frame.data.iloc[0])}")
    style.log_scale(axis.xaxis)
    low, high = axis.get_xlim()
    axis.set(xlim=(low / 1.5, high * 1.5), ylim=(-0.8, len(table) - 0.2))
    style.legend(figure, axis, 2)
    return figure


_SHOWN = {"train": "training time", "wall": "end-to-end time"}


def published_short(frame):
    """Return the published solvers of the GPU, with `unexpected` 1 where SHORT names one that reaches the error, or
    leaves out one that does not."""
    table = summary(frame).reset_index()
    table = table[(table.device == "cuda") & (table.source != "gpumf")]
    named = pd.Series([(row.model, row.solver) in SHORT for row in table.itertuples()], table.index)
    return table.assign(unexpected=(table.train.isna() != named).astype(float))


SHORT = ("RBM", "thesis"), ("SGD", "cu2rec"), ("SGD", "esgd")


def _arrived(frame):
    """`reached`, of solvers of which all trainings reach the error, with `label`, model and solver in one."""
    table = summary(frame)
    arrived = set(table.index[table.train.notna()])
    found = reached(frame)
    found = found[[pair in arrived for pair in zip(found.model, found.solver, strict=True)]]
    return found.assign(label=found.model + " " + found.solver)


_OTHERS = [f"ALS {name}" for name in MODELS["ALS"].solvers() if name != "tensor_core"]


def _fastest(name, statement, column, over, under, evidence="synthetic", **options):
    return Claim(f"all-schemes-{name}", "gpumf", None,
                 f"{statement}, to the common error, MovieLens 20M (synthetic).", metric="ratio",
                 select={"column": column, "over": over, "best": "label", "under": under}, evidence=evidence,
                 table=_arrived, **options)  # fmt: skip


CLAIMS = [
    *(_fastest(f"fastest-{column}", f"{of} of the fastest other solver of ALS over that on tensor cores", column,
               {"label": _OTHERS}, {"label": "ALS tensor_core"}, criterion=above(1.0))
      for column, of in (("train", "Training time"), ("wall", "End-to-end time"))),
    _fastest("cores-wall", "End-to-end time of the fastest CPU solver over that of ALS on tensor cores", "wall",
             {"device": "cpu"}, {"label": "ALS tensor_core"}, "built in"),
    Claim("all-schemes-published", "gpumf", None,
          "Published solvers of the GPU that reach the common error where cu2rec, ESGD in stored order and the RBM "
          "of the thesis alone should not, or the reverse, MovieLens 20M (synthetic).", metric="exact",
          select={"column": "unexpected", "across": "max"}, criterion=below(0.5), evidence="synthetic",
          table=published_short),
]  # fmt: skip
