"""The command `gpumf`: fit, recommend, similar, evaluate, compile, bench, bench-kernel, info.

It exits with 0; with 1 and one sentence on stderr where what it was given does not do; with 2 where it was called in
a way that it does not know; with 130 where it was interrupted.
"""

import argparse
import json
import os
import sys
from typing import Any

from gpumf import __version__
from gpumf.command_line import bench, bench_kernel, info, kernels, lists, models

_DESCRIPTION = """Matrix factorization on GPUs.

Recommendations: gpumf fit RATINGS --model implicit -o m; gpumf recommend m --user ID
Predicted ratings, by their error: gpumf fit RATINGS --model als -o m; gpumf evaluate m LATER
"""
_EPILOG = """Which model: implicit (ImplicitALS) ranks items, and is the one for recommendations. als (ALS) predicts
ratings and hardly needs tuning; bayesian (BayesianMF) does so with less error in more time; sgd (SGD) hardly needs
tuning either, but more epochs; rbm (RBM) makes different errors, which is useful in a blend. What predicts ratings
best does not make the best recommendations."""


_FLAGS = {
    "pass duplicates='mean', 'last' or 'sum'": "give --duplicates mean, last or sum",
    "name the columns to read": "name the columns to read by --user-column, --item-column and --rating-column, give "
    "--no-header where the first line of a text file is a rating",
    "or pass header=True": "or leave --no-header out where the first line names the columns",
    "rating=None": "--no-rating-column",
}
"""Arguments of Python that errors name, and what the command has for them."""

_KEEP = models.fit, kernels.run
"""Commands that make files, and are of use without their answer."""

_MODEL = "of gpumf fit, or a file that a model's or blend's save wrote"


def main(arguments: list[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        if sys.stdout is None and options.run not in _KEEP:  # as it is where it was closed
            raise ValueError("standard output is closed; redirect it to a file")
        answer, text = options.run(options)
        if options.json:
            answers = [answer] if isinstance(answer, dict) else answer
            text = (json.dumps(one, allow_nan=False, default=str) for one in answers)
        for line in [text] if isinstance(text, str) else text:
            print(line)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt as error:
        print(f"gpumf: {lists.shown(error) or 'interrupted'}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read the output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    # What the package raises says what to do: input, files, devices, training that diverged.
    except (ValueError, TypeError, LookupError, OSError, RuntimeError, ArithmeticError, MemoryError) as error:
        print(f"gpumf: {lists.shown(_sentence(error))}", file=sys.stderr)
        return 1
    return 0


def _sentence(error: BaseException) -> str:
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    if isinstance(error, UnicodeEncodeError):
        missing = error.object[error.start : error.end]
        return f"the output's encoding, {error.encoding}, has no {missing!a}; set PYTHONUTF8=1"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):  # which often says nothing, or the size alone
        return f"the memory is too small: {text}".removesuffix(": ")
    for argument, flag in _FLAGS.items():
        text = text.replace(argument, flag)
    return text or type(error).__name__


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpumf", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"gpumf {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Any, says: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=says, description=says[0].upper() + says[1:] + ".")
        made.set_defaults(run=run)
        made.add_argument("--json", action="store_true", help="print the answer as one JSON object")
        return made

    fit = command("fit", models.fit, "train a model on ratings and keep it, with what its users rated, in a folder")
    _ratings(fit, "ratings")
    fit.add_argument(
        "-o", "--output", required=True, metavar="FOLDER",
        help="where the model is kept: a new folder, which only you can read, an empty one, or that of an older "
        "model, which is replaced; no other file is touched, and a folder with others is refused; after Ctrl-C the "
        "folder has the model of the last complete epoch, unless it had an older one, which stays; in Python, "
        "gpumf.load(FOLDER) reads it",
    )  # fmt: skip
    fit.add_argument(
        "--no-ratings", action="store_false", dest="ratings_kept",
        help="keep nothing of what users rated; by default the folder has which items each user rated, though not "
        "the ratings, so that recommend leaves these items out",
    )  # fmt: skip
    fit.add_argument(
        "--model", choices=models.MODELS,
        help="als, bayesian, sgd and rbm predict ratings; implicit makes recommendations from clicks, purchases or "
        "ratings; default: als, and implicit with --no-rating-column",
    )  # fmt: skip
    fit.add_argument("--factors", type=int, help="factors, or hidden units of the RBM")
    fit.add_argument(
        "--regularization", type=float, metavar="X",
        help="of als and sgd a multiple of what the ratings ask for, by default 1; of implicit lambda, by default "
        "chosen on held-out ratings",
    )  # fmt: skip
    fit.add_argument("--learning-rate", type=float, metavar="RATE", help="of sgd and rbm")
    fit.add_argument(
        "--set", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), dest="others",
        help="any other parameter of the model; the value is JSON, True, False, None or a string",
    )  # fmt: skip
    fit.add_argument("--epochs", type=int, help="default: 20, of bayesian 100")
    fit.add_argument(
        "--test", type=float, metavar="SHARE",
        help="hold back this share of the ratings, and say the errors on it; of implicit, how well it ranks them",
    )  # fmt: skip
    fit.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    fit.add_argument("--device", default="auto", help="auto, cuda, cpu or emulator; default: %(default)s")

    recommend = command("recommend", lists.recommend, "list the best items for a user, for all or for a new one")
    recommend.add_argument("model", metavar="FOLDER", help=_MODEL)
    whom = recommend.add_mutually_exclusive_group(required=True)
    whom.add_argument(
        "--user", metavar="ID", action=_Once, help="as the ratings have it; --user=ID where it begins with -"
    )
    whom.add_argument("--all-users", action="store_true", help="print CSV with the columns user, item, rank, rating")
    whom.add_argument(
        "--new-user", nargs="+", action="extend", metavar="ITEM=RATING",
        help="ratings of a user whom the model does not know, or a CSV file of lines ITEM,RATING; for a model of "
        "implicit feedback, items alone will do; may be given several times, as --new-user=ITEM=RATING where an item "
        "begins with -",
    )  # fmt: skip
    recommend.add_argument("-k", type=int, default=10, help="items; default: %(default)s")
    recommend.add_argument("--seen", action="store_true", help="list items that the user has rated, too")
    recommend.add_argument("--device", default="auto")

    similar = command("similar", lists.similar, "list the items, or the users, that are most alike")
    similar.add_argument("model", metavar="FOLDER", help=_MODEL)
    which = similar.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--item", metavar="ID", action=_Once, help="as the ratings have it; --item=ID where it begins with -"
    )
    which.add_argument("--user", metavar="ID", action=_Once, help="as --item")
    similar.add_argument("-k", type=int, default=10, help="default: %(default)s")
    similar.add_argument("--device", default="auto")

    evaluate = command("evaluate", models.evaluate, "say the errors of a model on ratings, and how well it ranks")
    evaluate.add_argument("model", metavar="FOLDER", help=_MODEL)
    _ratings(evaluate, "ratings")
    evaluate.add_argument("-k", type=int, default=10, help="length of the rankings; default: %(default)s")
    evaluate.add_argument("--device", default="auto")

    ahead = command("compile", kernels.run, "compile ahead for this GPU what ALS and SGD launch")
    ahead.add_argument("factors", nargs="*", type=int, default=[16, 64, 100, 128], help="default: %(default)s")

    against = command("bench", bench.run, "time this machine beside the recorded one")
    against.add_argument("--epochs", type=int, default=5, help="default: %(default)s")
    kernel = command("bench-kernel", bench_kernel.run, "check one kernel file against float64, and time it on a GPU")
    kernel.add_argument("kernel", metavar="FILE", help="of kernels/, as sgd/fast")
    kernel.add_argument("--factors", type=int, default=16, help="or hidden units; default: %(default)s")
    command("info", info.run, "say what gpumf finds on this machine")
    return parser


class _Once(argparse.Action):
    """Refuses an option that is given again, of which argparse would take the last."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"argument {option_string}: can be given once")
        setattr(namespace, self.dest, values)


def _ratings(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(
        name, metavar="RATINGS",
        help="a CSV, TSV or Parquet file, a folder of them, an address (https://), - for standard input, or the name "
        "of a data set, as ml-100k-synthetic",
    )  # fmt: skip
    for position, column in enumerate(models.COLUMNS):
        parser.add_argument(
            f"--{column}-column", default=column, metavar="NAME",
            help=f"default: %(default)s; with --no-header a position from 0, by default {position}",
        )  # fmt: skip
    parser.add_argument(
        "--no-header", action="store_false", dest="header",
        help="the first line of a text file is a rating and names no columns; these are positions from 0, as in "
        "--user-column 0",
    )  # fmt: skip
    parser.add_argument(
        "--no-rating-column", action="store_const", const=None, dest="rating_column",
        help="of clicks or purchases: each row counts 1, and rows of the same user and item are summed",
    )  # fmt: skip
    parser.add_argument(
        "--duplicates", choices=("error", "mean", "last", "sum"), help="where a user rates an item more than once"
    )
