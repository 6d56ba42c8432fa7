"""The command `gpumf`: fit, recommend, evaluate, bench, info.

It exits with 0; with 1 and one sentence on stderr where what it was given does not do; with 2 where it was called in
a way that it does not know; with 130 where it was interrupted.
"""

import argparse
import json
import os
import sys
from typing import Any

from gpumf import __version__
from gpumf.command_line import bench, info, models


def main(arguments: list[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        answer, text = options.run(options)
        print(json.dumps(answer, allow_nan=False, default=str) if options.json else text, flush=True)
    except KeyboardInterrupt:
        print("gpumf: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read the output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    # What the package raises says what to do: input, files, devices, training that diverged.
    except (ValueError, TypeError, LookupError, OSError, RuntimeError, ArithmeticError) as error:
        print(f"gpumf: {_sentence(error)}", file=sys.stderr)
        return 1
    return 0


def _sentence(error: BaseException) -> str:
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpumf", description="Matrix factorization on GPUs.")
    parser.add_argument("--version", action="version", version=f"gpumf {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Any, says: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=says, description=says[0].upper() + says[1:] + ".")
        made.set_defaults(run=run)
        made.add_argument("--json", action="store_true", help="print the answer as one JSON object")
        return made

    fit = command("fit", models.fit, "train a model on ratings and keep it, with what its users rated, in a folder")
    _ratings(fit, "ratings")
    fit.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the model is kept")
    fit.add_argument("--model", choices=models.MODELS, default="als", help="default: %(default)s")
    fit.add_argument("--factors", type=int, help="factors, or hidden units of the RBM")
    fit.add_argument("--regularization", type=float, metavar="LAMBDA")
    fit.add_argument("--learning-rate", type=float, metavar="RATE")
    fit.add_argument("--set", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), dest="others",
                     help="any other parameter of the model; the value is read as JSON")  # fmt: skip
    fit.add_argument("--epochs", type=int, default=20, help="default: %(default)s")
    fit.add_argument(
        "--test", type=float, metavar="SHARE", help="hold back this share of the ratings, and say the errors on it"
    )
    fit.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    fit.add_argument("--device", default="auto", help="auto, cuda, cpu or host; default: %(default)s")

    recommend = command("recommend", models.recommend, "list the best items for a user")
    recommend.add_argument("model", metavar="FOLDER")
    recommend.add_argument("--user", required=True, metavar="ID", help="as the ratings have it")
    recommend.add_argument("-k", type=int, default=10, help="items; default: %(default)s")
    recommend.add_argument("--seen", action="store_true", help="list items that the user has rated, too")
    recommend.add_argument("--device", default="auto")

    evaluate = command("evaluate", models.evaluate, "say the errors of a model on ratings, and how well it ranks")
    evaluate.add_argument("model", metavar="FOLDER")
    _ratings(evaluate, "ratings")
    evaluate.add_argument("-k", type=int, default=10, help="length of the rankings; default: %(default)s")
    evaluate.add_argument("--device", default="auto")

    against = command("bench", bench.run, "time this machine beside the recorded one")
    against.add_argument("--epochs", type=int, default=5, help="default: %(default)s")
    command("info", info.run, "say what gpumf finds on this machine")
    return parser


def _ratings(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(
        name, metavar="RATINGS", help="a CSV, TSV or Parquet file, or the name of a data set, as ml-100k-twin"
    )
    for column in ("user", "item", "rating"):
        parser.add_argument(f"--{column}-column", default=column, metavar="NAME", help="default: %(default)s")
