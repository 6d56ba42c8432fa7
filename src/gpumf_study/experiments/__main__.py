"""Run one experiment from the command line, and store its result as a notebook would."""

import argparse
import json
import os
import sys

from gpumf._util.progress import plain_lines
from gpumf_study import experiments


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
    names = list(experiments.names())
    parser = argparse.ArgumentParser(prog="python -m gpumf_study.experiments", description=__doc__)
    parser.add_argument("name", choices=names, metavar="name", help=", ".join(names))
    parser.add_argument(
        "parameters", nargs="*", type=parameter, metavar="name=value", help="instead of the profile's"
    )
    parser.add_argument("--profile", choices=["smoke", "quick", "full"], default="quick")
    parser.add_argument("--record", action="store_true", help="keep the result in data/results, not in data/live")
    # Else argparse has the last positional argument end before an option.
    chosen = parser.parse_intermixed_args(arguments)
    if chosen.record:
        os.environ["GPUMF_RECORD"] = "1"
    changes = dict(chosen.parameters)
    try:
        experiments.parameters(chosen.name, chosen.profile, **changes)
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    with plain_lines():
        result = experiments.run(chosen.name, chosen.profile, **changes)
    print(result.frame.to_string(max_rows=20))
    print(result.where)
    return 0


if __name__ == "__main__":
    sys.exit(main())
