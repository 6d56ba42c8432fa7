"""Results on disk: one tidy CSV an experiment, and beside it a JSON file that says where it comes from.

`data/results/<device>/<source>/` holds recorded results, kept in the repository; `data/live/<device>/<source>/` what
was measured on this machine, kept out of it. A source is a publication, or this study; no two of them have an
experiment of the same name, by which a result is found. A result knows whether it is recorded or live, and everything
that shows it says so.
"""

import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from gpumf import __version__, backends, suggestion
from gpumf._util import paths, threads
from gpumf.backends import sources
from gpumf_study import schema

# Folders of the machines whose results the book and the README show where none is named. Only what uses several GPUs
# is recorded under a name with their number.
REFERENCES = ("nvidia-h200", "nvidia-h200-x4", "nvidia-h100-80gb-hbm3", "cpu")

_PACKAGES = ("numpy", "scipy", "numba", "pandas")


class NoResult(FileNotFoundError):
    """The result is not stored. The message says which command makes it."""


@dataclass(frozen=True)
class Result:
    """A stored measurement.

    path : of its CSV, <device>/<source>/<name>.csv
    frame : DataFrame, one measurement a row
    provenance : dict, see `provenance`
    live : measured on this machine in this build, rather than recorded before
    """

    path: Path
    frame: pd.DataFrame
    provenance: dict[str, Any]
    live: bool

    @property
    def name(self) -> str:
        """That of the experiment."""
        return self.path.stem

    @property
    def source(self) -> str:
        """The folder of the experiment, as 'thesis'."""
        return self.path.parent.name

    @property
    def device(self) -> str:
        """The folder of the device."""
        return self.path.parent.parent.name

    @property
    def where(self) -> str:
        """One sentence for captions: recorded or live, on which machine, when, from which commit."""
        p = self.provenance
        machine = p.get("gpu") or f"{p['cpu']}, {p['cpu_count']} cores, no GPU"
        if gpus := machine_of(self.device)[1]:
            machine = f"{gpus} x {machine}"
        commit = p["commit"][:9] + ("" if p["clean"] else " with changes") if p["commit"] else "unknown"
        kind = "Measured live in this build" if self.live else "Recorded"
        return f"{kind} on {machine}, {p['started'][:10]}, commit {commit}."


def repository() -> Path:
    """The root of the repository that this package runs from, or the user's folder for an installed package."""
    return paths.home()


def device_name(gpus: int = 1) -> str:
    """The folder name of this machine's results.

    gpus : int, how many of its GPUs the results are of

    Return a str: 'cpu' without a GPU; else the whole name of the GPU in lower case with a hyphen for whatever is no
    letter or digit, as 'nvidia-h100-80gb-hbm3', with '-x4' behind it where there are four
    """
    if not backends.available():
        return "cpu"
    slug = suggestion.gpu_key(backends.device().facts["gpu"])
    return slug if gpus == 1 else f"{slug}-x{gpus}"


def machine_of(device: str) -> tuple[str, str]:
    """The GPU, or 'cpu', and the number of GPUs of a `device_name`: ('nvidia-h200', '2'), '' in place of one."""
    name = re.sub(r"-x\d+$", "", device)
    return name, device[len(name) + len("-x") :]


def folder(live: bool, device: str | None = None) -> Path:
    """Where results are kept; see the module's docstring."""
    return repository() / "data" / ("live" if live else "results") / (device or device_name())


def reference(name: str | None) -> str:
    """Folder of the machine whose result of an experiment is shown: the newest of a GPU, else that of the CPU.

    Of `REFERENCES`; the first of these where none has a result.
    """
    stored = [path for device in REFERENCES for path in folder(False, device).glob(f"*/{name}.csv") if name]
    on_gpus = [path for path in stored if path.parent.parent.name != "cpu"]
    shown = max(on_gpus or stored, key=_started, default=None)
    return shown.parent.parent.name if shown else REFERENCES[0]


def _started(path):
    """When the result with this CSV was measured, as its JSON file says; '' where `read` refuses that file."""
    try:
        return json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["started"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def provenance() -> dict[str, Any]:
    """Facts on this machine, its software and this code as they are now, as plain values: taken before a run.

    Return a dict: started (when this was called), commit and clean (of the repository that holds the package's
    sources, as the working tree stands; None and False for an installed package), kernels_sha256,
    experiments_at_a_time (on this machine, see `release.record`), and more
    """
    commit, clean = _commit()
    facts = {"started": datetime.now(UTC).isoformat(timespec="milliseconds"), "commit": commit, "clean": clean,
             "kernels_sha256": sources.digest(), "cpu": _cpu_name(), "cpu_count": threads.cores(),
             "experiments_at_a_time": int(os.environ.get("GPUMF_EXPERIMENTS_AT_A_TIME", 1)),
             "platform": platform.platform(), "python": platform.python_version(),
             "packages": {"gpumf": __version__} | {name: metadata.version(name) for name in _PACKAGES},
             "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])}  # fmt: skip
    return facts | (backends.device().facts if backends.available() else {})


def _commit():
    """(commit, whether the tree is clean), or what GPUMF_COMMIT says where it is set: 'hash' or 'hash-dirty'.

    A copy of the tree on another machine may lack its repository, or have one whose head is elsewhere.
    """
    if given := os.environ.get("GPUMF_COMMIT"):
        return given.removesuffix("-dirty"), not given.endswith("-dirty")
    here = Path(__file__).resolve()
    # A hook of another repository has these.
    environment = {key: value for key, value in os.environ.items() if key not in ("GIT_DIR", "GIT_WORK_TREE")}

    def git(*words):
        command = ["git", "-C", here.parents[2], *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "--", here)  # fails where the package merely lies in somebody's repository
        # Untracked files count as changes; results are written while the experiments run and do not.
        status = git("status", "--porcelain", "--untracked-files=normal", "--", ".", ":!data", ":!figures")
        return git("rev-parse", "HEAD"), not status
    except (OSError, subprocess.CalledProcessError):
        return None, False


def _cpu_name():
    try:
        match = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        match = None
    return match.group(1).strip() if match else platform.processor() or platform.machine()


def store(
    name: str,
    frame: pd.DataFrame,
    parameters: dict[str, Any],
    before: dict[str, Any],
    live: bool,
    source: str,
) -> Result:
    """Write <name>.csv and <name>.json; returns the Result.

    frame : DataFrame; frame.attrs["datasets"] lists the identities of the sets used, if any; frame.attrs["gpus"] is
        the number of GPUs used, 1 where it is missing
    parameters : dict of plain values with which the experiment can be run again
    before : dict, `provenance` and whatever else is known before the run
    live : see `Result`
    source : the folder of the experiment, as 'thesis'
    """
    frame = schema.validated(frame)
    duration = datetime.now(UTC) - datetime.fromisoformat(before["started"])
    csv = frame.to_csv(index=False, float_format=_digits, lineterminator="\n")
    facts = before | {"experiment": name, "parameters": parameters, "datasets": frame.attrs.get("datasets", []),
                      "duration_seconds": round(duration.total_seconds(), 3),
                      "csv_sha256": hashlib.sha256(csv.encode()).hexdigest()}  # fmt: skip
    to = folder(live, device_name(frame.attrs.get("gpus", 1))) / source
    to.mkdir(parents=True, exist_ok=True)
    for path, text in (
        (to / f"{name}.csv", csv),
        (to / f"{name}.json", json.dumps(facts, indent=1) + "\n"),
    ):
        partial = path.with_suffix(path.suffix + ".partial")  # never leave half a file under the real name
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    return Result(to / f"{name}.csv", frame, facts, live)


def _digits(number):
    """Nine digits of a number, and all of a count."""
    return f"{number:.0f}" if float(number).is_integer() and abs(number) < 2**53 else f"{number:.9g}"


def load(name: str, device: str | None = None, live: bool = False) -> Result:
    """Read a stored result.

    name : of the experiment
    device : folder of the machine; None for `reference`'s
    live : see `Result`

    Raise NoResult where there is none.
    Raise ValueError where its CSV is not the one that was stored, or one of its two files is damaged.
    """
    device = device or reference(name)
    path = next(folder(live, device).glob(f"*/{name}.csv"), None)
    if path is None:
        kind = "live" if live else "recorded"
        raise NoResult(f"no {kind} result {name!r} of {device!r}; `make record` on that machine makes it")
    return read(path, live)


def read(path: Path, live: bool = False) -> Result:
    """The result whose CSV this is; ValueError as of `load`."""
    remedy = "remove it, and it is measured again" if live else f"get it back with `git checkout -- {path}`"
    try:
        facts, csv = json.loads(path.with_suffix(".json").read_text(encoding="utf-8")), path.read_bytes()
        stated = facts.get("csv_sha256")
        frame = pd.read_csv(io.BytesIO(csv))
    except (OSError, ValueError, AttributeError) as error:
        raise ValueError(f"{path}, or the JSON file beside it, is damaged ({error}); {remedy}") from error
    if not csv.endswith(b"\n") or stated not in (None, hashlib.sha256(csv).hexdigest()):
        raise ValueError(
            f"{path} was changed since it was measured: it is not what {path.stem}.json states; {remedy}"
        )
    return Result(path, frame, facts, live)


def recorded(name: str, device: str | None = None) -> Result | None:
    """The recorded result of a full run, which other experiments may read too; None where there is none."""
    try:
        result = load(name, device)
    except NoResult:
        return None
    # A quick run has other shapes: it proves nothing.
    return result if result.provenance["parameters"].get("profile") == "full" else None


def store_tests(name: str, outcome: dict[str, Any], before: dict[str, Any]) -> None:
    """Write <name>.json: what a run of tests on this GPU came to (a dict), with `provenance` from before it."""
    to = folder(live=False)
    to.mkdir(parents=True, exist_ok=True)
    facts = outcome | before
    (to / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n")
