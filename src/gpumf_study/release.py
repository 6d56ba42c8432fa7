"""Record the results of this release on this machine: `make record ARGS="--minutes 9"`, until none is left.

A release is a version of the package. No code that is timed changes from its first recording to its tag.
Each experiment runs in a process of its own: one that fails, or takes too long, costs no other its result.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Lock

from gpumf import __version__, backends
from gpumf_study import experiments, results
from gpumf_study.experiments import _kept


def remaining(names=None, device=None, again=False):
    """Return the experiments of which this machine has no result of this release.

    names : of the experiments to look at; None for all
    device : folder of the machine's results; None for this one's
    again : bool, those too of which it has one

    Return a dict of name -> seconds that its last recording took, on this machine or else on that of
    `results.reference`, longest first; None where it was never recorded, and those are the last
    """
    found = {}
    for name in names or experiments.names():
        gpus = max(backends.gpus(), 1) if experiments.takes_all_gpus(name) else 1
        here = results.recorded(name, device or results.device_name(gpus))
        if here is not None and not again and here.provenance["packages"]["gpumf"] == __version__:
            continue
        before = here or results.recorded(name)
        found[name] = seconds(before.provenance) if before else None
    return dict(sorted(found.items(), key=lambda item: -(item[1] or 0)))


def uncommitted():
    """One sentence where the tree has changes, from which nothing is recorded; else None."""
    return (
        None if results.provenance()["clean"] else "Commit first: a result names the commit that it was measured at."
    )


def seconds(facts):
    """How long a recording took, all of its runs together."""
    return facts["duration_seconds"] + facts.get("pieces", {}).get("seconds", 0.0)


def times_cpus(name):
    """Whether an experiment times the CPU, by its last recording; one that was never recorded may."""
    last = results.recorded(name)
    if last is None:
        return True
    frame = last.frame.reindex(columns=["device", "threads", "seconds"])
    on_cpu = (frame.device == "cpu") | frame.threads.notna()
    return bool((on_cpu & frame.seconds.notna()).any())


def record(todo, minutes, gpus=1, clock=time.monotonic, run=None):
    """Record what fits into the time; return the numbers recorded and failed, and what is left: (int, int, list).

    With the time that remains, the first of those left that keep their pieces is begun: it goes on at the next call.

    todo : dict, see `remaining`
    minutes : float; one that took longer than what is left of them the last time is not begun, and one that does not
        end within them is stopped
    gpus : int, experiments at a time, each with a GPU of its own and a share of the cores. Those that time CPUs come
        next, with such a share each, but nothing beside them: what shares memory with them makes them up to twice as
        slow. Those that take all GPUs come last, one at a time
    """
    latest, outcomes, left, processes = clock() + 60 * minutes, [], [], _Processes()
    run = run or processes.run

    def begin(name, whole=True, **options):
        if why := experiments.why_unavailable(name):
            print(f"{name}: {why}", flush=True)
            return
        rest = latest - clock()
        if rest <= 0 or (whole and (todo[name] or 0) >= rest):
            left.append(name)
            return
        command = [sys.executable, "-m", "gpumf_study.experiments", name, "--profile", "full", "--record"]
        try:
            status = run(command, timeout=rest, stdout=subprocess.DEVNULL, **options).returncode
        except subprocess.TimeoutExpired:
            print(f"{name}: stopped, out of time", flush=True)
            left.append(name)
            return
        if status == _kept.UNFINISHED:
            left.append(name)
            return
        print(f"{name}: {'recorded' if status == 0 else f'failed ({status})'}", flush=True)
        outcomes.append(status == 0)

    on_all = [name for name in todo if experiments.takes_all_gpus(name)]
    on_cpus = deque(name for name in todo if gpus > 1 and name not in on_all and times_cpus(name))
    side_by_side = deque(name for name in todo if name not in on_all and name not in on_cpus)

    def take(waiting, gpu, cores, at_a_time):
        if cores:
            os.sched_setaffinity(0, cores)  # of this thread, and of the processes that it starts
        own = {"CUDA_VISIBLE_DEVICES": gpu, "GPUMF_EXPERIMENTS_AT_A_TIME": str(at_a_time)} if gpu is not None else {}
        while True:
            try:
                name = waiting.popleft()
            except IndexError:
                return
            begin(name, env=os.environ | own)

    shares = [*zip(*_shares(gpus), strict=True)] if gpus > 1 else [(None, [])]
    for waiting, of in ((side_by_side, shares), (on_cpus, shares[:1])):
        with ThreadPoolExecutor(gpus) as pool:
            try:
                list(pool.map(lambda share, of=of, waiting=waiting: take(waiting, *share, len(of)), of))
            except BaseException:
                waiting.clear()
                processes.interrupt()
                raise
    for name in on_all:
        begin(name)
    if name := next(filter(experiments.in_pieces, left), None):
        left.remove(name)
        begin(name, whole=False)
    return sum(outcomes), len(outcomes) - sum(outcomes), left


class _Processes:
    """Runs commands, each in a session of its own, so that nothing runs on that a command has started."""

    def __init__(self):
        self._under_way, self._interrupted, self._lock = [], False, Lock()

    def run(self, command, timeout, **options):
        """`subprocess.run`; KeyboardInterrupt where `interrupt` came before."""
        with self._lock:
            if self._interrupted:
                raise KeyboardInterrupt
            process = subprocess.Popen(command, start_new_session=True, **options)
            self._under_way.append(process)
        try:
            return subprocess.CompletedProcess(command, process.wait(timeout))
        except KeyboardInterrupt:
            self.interrupt()
            process.wait()
            raise
        finally:
            self._under_way.remove(process)
            _signal_all(process, getattr(signal, "SIGKILL", signal.SIGTERM))
            process.wait()

    def interrupt(self):
        """Pass Ctrl-C on, which a session of its own has not heard; begin no other command."""
        with self._lock:
            self._interrupted = True
            for process in [*self._under_way]:
                _signal_all(process, signal.SIGINT)


def _signal_all(process, number):
    """Send a signal to a process that leads its session, and to all that are left of it."""
    if not hasattr(os, "killpg"):
        return process.send_signal(number)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@contextmanager
def _ended_as_by_ctrl_c():
    """While it lasts, `kill`, `timeout` and the end of the terminal are KeyboardInterrupt, too.

    Ctrl-C is, even if whoever started this ignores it: what this starts would ignore it then.
    """

    def interrupt(*_):
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _shares(gpus):
    """([the GPU], [the cores]) of so many processes at a time; no cores where the system does not tell them."""
    known = os.environ.get("CUDA_VISIBLE_DEVICES")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    share = len(cores) // gpus
    names = known.split(",") if known else map(str, range(gpus))
    return list(names)[:gpus], [cores[k * share : (k + 1) * share] for k in range(gpus)]


def main(arguments=None):
    """Record, or list; return the exit status: 1 where one failed or the tree has changes, 130 by Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make record", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="of experiments; all where none is given")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="in which all that is begun has to end")
    parser.add_argument("--gpus", type=int, default=1, help="so many experiments at a time, one on each")
    parser.add_argument("--again", action="store_true", help="record also what is recorded for this release")
    parser.add_argument("--list", action="store_true", help="print what is left, with the seconds it took before")
    chosen = parser.parse_args(arguments)
    if unknown := list(filter(None, map(experiments.why_unknown, chosen.names))):
        parser.error("\n".join(unknown))
    if not 1 <= chosen.gpus <= max(backends.gpus(), 1):
        parser.error(f"--gpus must be 1 to {max(backends.gpus(), 1)}, the GPUs of this machine")
    todo = remaining(chosen.names, again=chosen.again)
    if chosen.list:
        for name, seconds in todo.items():
            print(f"{name}: {'never recorded' if seconds is None else f'{seconds:.0f} s'}")
        return 0
    if why := uncommitted():
        print(why, file=sys.stderr)
        return 1
    try:
        with _ended_as_by_ctrl_c():
            recorded, failed, left = record(todo, chosen.minutes, chosen.gpus)
    except KeyboardInterrupt:
        print("Interrupted. Start it again to go on.", file=sys.stderr)
        return 130
    left = ", ".join(left) or "none"
    print(f"{recorded} recorded for {__version__}, {failed} failed; no time was left for {left}.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
