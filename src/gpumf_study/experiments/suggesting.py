"""What `gpumf.suggest` rests on: times fitted to the recorded crossovers, in `suggestion.toml` of the package.

`make suggestion` writes that file, whose numbers all follow from the recorded frames.
"""

import hashlib
import sys

import numpy as np

from gpumf import suggestion
from gpumf_study import results
from gpumf_study.experiments import _expected
from gpumf_study.experiments.thesis import crossover

_OPTIONS = {kernel: options for versions in crossover.PAIRS.values() for kernel, options in versions.values()}


def recordings():
    """The full recorded crossovers: a list of Results, that of the reference first."""
    devices = sorted(path.name for path in (results.repository() / "data/results").iterdir() if path.is_dir())
    devices.sort(key=lambda device: device != results.reference("crossover"))
    return [result for device in devices if (result := results.recorded("crossover", device))]


def text(recorded):
    """What `suggestion.toml` is to hold, from Results of `crossover`; the first serves devices without one."""
    lines = ["# Written by `make suggestion` from the recorded crossovers; do not edit."]
    for result in recorded:
        lines += ["", f"[{result.device}]", *_fit(result)]
    return "\n".join([*lines, ""])


def _fit(result):
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


def main():
    """Write `suggestion.toml` from the recorded crossovers; return the exit status."""
    suggestion.FILE.write_text(text(recordings()), encoding="utf-8")
    print(suggestion.FILE.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
