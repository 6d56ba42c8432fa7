"""Records on this machine what it has no current result of, oldest first: `make record-stale ARGS="--minutes 9"`.

Each experiment runs in a process of its own, so that one that fails, or takes too long, costs no other its result.
"""

import argparse
import subprocess
import sys
import time

from gpumf import dependencies, experiments, results


def stale(names=None, device=None):
    """The experiments without a result of today's code on this machine, those measured longest ago first.

    Parameters
    ----------
    names : of the experiments to look at; None for all
    device : folder of the machine's results; None for this one's

    Returns
    -------
    dict of name -> seconds that the last recording of it took, on this machine or else on that of
    `results.reference`; None where it was never recorded, and those are the last
    """
    device, found = device or results.device_name(), {}
    for name in names or experiments.names():
        here = results.recorded(name, device)
        if here is not None and dependencies.changed(here) == []:
            continue
        before = here or results.recorded(name)
        facts = before.provenance if before else {}
        found[name] = facts.get("started", "later than any date"), facts.get("duration_seconds")
    return {name: seconds for name, (_, seconds) in sorted(found.items(), key=lambda item: item[1][0])}


def record(todo, minutes, clock=time.monotonic, run=subprocess.run):
    """Record what fits into the time; returns how many were recorded and failed, and what was left: (int, int, list).

    Parameters
    ----------
    todo : dict, see `stale`
    minutes : float; one that took longer than what is left of them the last time is not begun, and one that does not
        end within them is stopped
    """
    latest, recorded, failed, left = clock() + 60 * minutes, 0, 0, []
    for name, seconds in todo.items():
        if why := experiments.why_unavailable(name):
            print(f"{name}: {why}", flush=True)
            continue
        rest = latest - clock()
        if (seconds or 0) >= rest:
            left.append(name)
            continue
        command = [sys.executable, "-m", "gpumf.experiments", name, "--profile", "full", "--record"]
        try:
            status = run(command, timeout=rest, stdout=subprocess.DEVNULL).returncode
        except subprocess.TimeoutExpired:
            status = "out of time"
        print(f"{name}: {'recorded' if status == 0 else f'failed ({status})'}", flush=True)
        recorded, failed = recorded + (status == 0), failed + (status != 0)
    return recorded, failed, left


def main(arguments=None):
    """Record, or list; return the exit status, 1 where an experiment failed."""
    parser = argparse.ArgumentParser(prog="make record-stale", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help="of experiments; all that are stale where none is given"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="in which all that is begun has to end")
    parser.add_argument("--list", action="store_true", help="print them, with the seconds of their last recording")
    chosen = parser.parse_args(arguments)
    if unknown := sorted(set(chosen.names) - set(experiments.names())):
        parser.error(f"there is no experiment {', '.join(unknown)}")
    todo = stale(chosen.names)
    if chosen.list:
        for name, seconds in todo.items():
            print(f"{name}: {'never recorded' if seconds is None else f'{seconds:.0f} s'}")
        return 0
    recorded, failed, left = record(todo, chosen.minutes)
    print(f"{recorded} recorded, {failed} failed; no time was left for {', '.join(left) or 'none'}.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
