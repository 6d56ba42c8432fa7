"""`python -m gpumf.ratings [names]`: download data sets, or list them."""

import argparse
import sys

from gpumf.ratings.checks import DataError
from gpumf.ratings.download import download, downloadable
from gpumf.ratings.sources import dataset_names

_SMALL = ("ml-100k", "ml-latest-small", "jester")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m gpumf.ratings", description="Download rating data sets.")
    parser.add_argument(
        "names",
        nargs="*",
        default=_SMALL,
        help=f"data sets to download, of {', '.join(downloadable())}; without names: {', '.join(_SMALL)}",
    )
    parser.add_argument("--list", action="store_true", help="list the data sets and whether they are present")
    options = parser.parse_args(arguments)
    if options.list:
        print(dataset_names().to_string())
        return 0
    try:
        for name in options.names:
            for path in download(name):
                print(f"{name}: {path}")
    except DataError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
