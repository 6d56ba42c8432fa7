"""Run one experiment from the command line, and store its result as a notebook would.

A recording is one of the profile `full`, as it is, from a tree without changes: claims are judged by it.
"""

import argparse
import json
import os
import sys

from gpumf import backends
from gpumf._util.progress import plain_lines
from gpumf_study import experiments, release, results
from gpumf_study.experiments import _kept


def parameter(text):
    """('name', value) of a text name=value, whose value is JSON, or else a string."""
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def main(arguments=None):
    """Run the experiment that the arguments name; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gpumf_study.experiments", description=__doc__)
    parser.add_argument("name", help=", ".join(experiments.names()))
    parser.add_argument(
        "parameters", nargs="*", type=parameter, metavar="name=value", help="instead of the profile's"
    )
    parser.add_argument("--profile", choices=["smoke", "quick", "full"], default="quick")
    parser.add_argument("--record", action="store_true", help="keep the result in data/results, not in data/live")
    # Else argparse has the last positional argument end before an option.
    chosen = parser.parse_intermixed_args(arguments)
    changes = dict(chosen.parameters)
    if why := experiments.why_unknown(chosen.name):
        parser.error(why)
    try:
        experiments.parameters(chosen.name, chosen.profile, **changes)
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    if chosen.record:
        _begin_recording(parser, chosen)
    try:
        with plain_lines():
            result = experiments.run(chosen.name, chosen.profile, **changes)
    except (ImportError, backends.DeviceError) as error:
        parser.exit(2, f"{chosen.name}: {experiments.why_unavailable(chosen.name) or error}\n")
    except _kept.Unfinished as so_far:
        parser.exit(_kept.UNFINISHED, f"{chosen.name}: {so_far}\n")
    except KeyboardInterrupt:
        kept = chosen.record and experiments.in_pieces(chosen.name)
        kept = "What it has measured is kept: start it again to go on." if kept else "Nothing is kept."
        parser.exit(130, f"Interrupted. {kept}\n")
    print(result.frame.to_string(max_rows=20))
    print(result.where)
    return 0


def _begin_recording(parser, chosen):
    """Refuse what no claim could be judged by; say where it runs, and how long the last recording took."""
    if chosen.profile != "full" or chosen.parameters:
        parser.error(
            "claims are judged by recordings of the profile full as it is; leave out --record, or the changes"
        )
    if why := release.uncommitted():
        parser.exit(1, f"{why}\n")
    last = results.recorded(chosen.name)
    # Without them the claims on them would be lost, or be judged by what stands in for them.
    recorded = {one["name"] for one in last.provenance["datasets"]} if last else set()
    if missing := experiments.missing(chosen.name, chosen.profile, recorded):
        parser.exit(1, f"The last recording has data that this one would not have: {'; '.join(missing)}.\n")
    os.environ["GPUMF_RECORD"] = "1"
    took = f"; the last one took {release.seconds(last.provenance):.0f} s on {last.device}" if last else ""
    print(f"Recording {chosen.name} on {results.device_name()}{took}.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
