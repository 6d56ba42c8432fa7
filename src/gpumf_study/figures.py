"""Draw the kept figures that no page of the book shows: `make figures` writes them to figures/ from data/results.

They are of experiments of which a page has the numbers alone. All others are drawn by the page that shows them.
"""

import re

import matplotlib.pyplot as plt

from gpumf_study import experiments, results
from gpumf_study import figure_style as style


def on_no_page():
    """The kept figures of experiments that no page of the book draws: a dict of name -> path."""
    root = results.repository()
    found = (path for path in (root / "book").glob("**/*.ipynb") if path.parent.name != "notebooks")
    pages = "".join(path.read_text(encoding="utf-8") for path in found)
    drawn = set(re.findall(r"style\.save\((\w+)\.", pages))
    kept = {name: root / f"figures/{source}/{name}.svg" for name, source in experiments.names().items()}
    return {name: path for name, path in kept.items() if path.is_file() and name not in drawn}


def draw(name):
    """Draw the figure of an experiment's recorded result, write it to figures/, and return it."""
    result = results.load(name)
    return style.save(experiments.module(name).figure(result.frame), result)


def main():
    """Draw them, and print their places in the repository."""
    style.setup()
    for name, path in on_no_page().items():
        plt.close(draw(name))
        print(path.relative_to(results.repository()))


if __name__ == "__main__":
    main()
