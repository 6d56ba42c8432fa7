"""Files that follow from recorded results: `python -m gpumf_study.generated NAME` writes and prints one of FILES."""

import hashlib
import json
import sys

import numpy as np

from gpumf import suggestion
from gpumf.command_line import bench
from gpumf_study import results, sweep
from gpumf_study.experiments import _expected, _published, tuning
from gpumf_study.experiments.thesis import crossover, first_comparison, parameter_search

_BENCHED = "ml-100k"
_OPTIONS = {kernel: options for versions in crossover.PAIRS.values() for kernel, options in versions.values()}


def tuned(result):
    """What `tuned.toml` is to hold, from the Result of a search.

    A data set on which a model was not searched, as the RBM on Jester (synthetic), takes what was found on another
    part of the same data set, or one of its shape.
    """
    table = parameter_search.optima(result.frame)
    family = table.data.map(_published.family)
    lines = ["# Written by `make tune` from the recorded search; do not edit.", "", "[from]",
             f'experiment = "{result.name}"', f'device = "{result.device}"',
             f'commit = "{result.provenance["commit"]}"',
             f'sha256 = "{hashlib.sha256(result.path.read_bytes()).hexdigest()}"']  # fmt: skip
    for data in table.data.unique():
        lines += ["", f"[parameters.{data}]"]
        for model in tuning.PARAMETERS["others"]:
            rows = table[(table.model == model) & (table.data == data)]
            if rows.empty:
                rows = table[(table.model == model) & (family == _published.family(data))].drop_duplicates("varied")
            if len(rows):
                values = ", ".join(f"{row.varied} = {row.value:g}" for row in rows.itertuples())
                lines.append(f"{model} = {{ {values} }}")
    return "\n".join([*lines, ""])


def benched(result):
    """What `bench.json` is to hold, from the Result of `first_comparison`."""
    frame = result.frame[(result.frame.data == _BENCHED) & result.frame.epoch.notna()]
    keys = ["model", "solver", "device"]
    epochs = sweep.epoch_seconds(frame)
    seconds = epochs.groupby([*keys, "repeat"]).seconds.median().groupby(keys).median()
    rows = [
        {"model": model, "solver": solver, "device": device, "recorded": float(f"{value:.4g}")}
        for (model, solver, device), value in seconds.items()
    ]
    parameters = result.provenance["parameters"]["parameters"]
    cpu = f"CPU: {result.provenance['cpu']}, {result.provenance['cpu_count']} threads."
    facts = {"where": f"{result.where} {cpu}", "data": _BENCHED, "factors": first_comparison.FACTORS}
    facts["parameters"] = {model: tuning.chosen(parameters, _BENCHED, model) for model in ("ALS", "SGD")}
    facts["seconds"] = rows
    return json.dumps(facts, indent=1) + "\n"


def recordings():
    """The full recorded crossovers: a list of Results, that of the reference first."""
    devices = sorted(path.name for path in (results.repository() / "data/results").iterdir() if path.is_dir())
    devices.sort(key=lambda device: device != results.reference("crossover"))
    return [result for device in devices if (result := results.recorded("crossover", device))]


def suggested(recorded):
    """What `suggestion.toml` is to hold, from Results of `crossover`; the first serves devices without one."""
    lines = ["# Written by `make suggestion` from the recorded crossovers; do not edit."]
    for result in recorded:
        lines += ["", f"[{result.device}]", *_fitted(result)]
    return "\n".join([*lines, ""])


def _fitted(result):
    """The lines of a device."""
    frame, device = result.frame, result.device
    versions, table, seen = _expected.fastest_versions(frame), crossover.judged(frame), crossover.judged(frame, False)
    yield f'commit = "{result.provenance["commit"]}"'
    yield f'sha256 = "{hashlib.sha256(result.path.read_bytes()).hexdigest()}"'
    yield f"settings = {len(seen)}"
    yield f"told = {_share(seen.named == seen.faster)}"
    yield f"accuracy = {_share(table.named == table.faster)}"
    yield f"majority = {table.faster.value_counts(normalize=True).max():.9g}"
    yield from ("", f"[{device}.measured]")
    measured = [suggestion.shape(*row) for row in versions[_expected.SHAPE].to_numpy().tolist()]
    for name in measured[0]:
        values = [shape[name] for shape in measured]
        yield f'"{name}" = [{min(values)!r}, {max(values)!r}]'
    left_out = _expected.expected(frame)
    for (model, kernel), weights in _expected.time_weights(versions).items():
        rows = left_out[(left_out.model == model) & (left_out.solver == kernel)]
        within = np.exp(np.log(rows.expected / rows.seconds).abs().median())
        options = ", ".join(f"{name} = {value}" for name, value in _OPTIONS.get(kernel, {}).items())
        yield from ("", f"[{device}.solvers.{model}.{kernel}]")
        yield f"weights = [{', '.join(f'{weight:.9g}' for weight in weights)}]"
        yield f"within = {within:.9g}"
        yield f"options = {{ {options} }}" if options else "options = {}"


def _share(values):
    return f"{values.mean():.9g}"


FILES = {
    "tune": (tuning.FILE, lambda: tuned(results.load("parameter_search"))),
    "suggestion": (suggestion.FILE, lambda: suggested(recordings())),
    "bench-reference": (bench.FILE, lambda: benched(results.load("first_comparison"))),
}
"""By the name of the target of make: the file, and what makes its text."""


def main(name):
    """Write and print a file."""
    file, text = FILES[name]
    file.write_text(text(), encoding="utf-8")
    print(file.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(sys.argv[1])
