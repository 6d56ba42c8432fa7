"""What the book's pages share: a kernel's lines, numbers for prose, tables of verdicts; which page shows what.

A conclusion is written in Markdown and takes its numbers by name from `numbers`; a hidden cell of the page says by
`expects` for which verdicts it was written.
"""

import ast
import json
import re

import pandas as pd
from IPython.display import Markdown

from gpumf.backends import sources
from gpumf_study import claims, experiments, results
from gpumf_study.figure_style import digits


def kernel(path, name, since=None, until=None):
    """The definition of a function in a kernel's source, as it stands there, with the comment above it.

    path : str below kernels/, as 'als/thesis.cu'
    name : str, of a function or a kernel in it
    since, until : str, a part of the first and of the last line to be shown; without them the whole definition

    Return Markdown: which lines of which file, and the lines

    Raise ValueError where the file defines no such function, or the function has no such line.
    """
    lines = (sources.kernels_folder() / path).read_text(encoding="utf-8").splitlines()
    at = _definition(lines, name)
    if at is None:
        raise ValueError(f"kernels/{path} defines no function {name!r}")
    first = at
    while first and lines[first - 1].lstrip().startswith(_HEADS):
        first -= 1
    last = next(n for n in range(at, len(lines)) if lines[n] == " " * _indent(lines[first]) + "}")
    if since is not None:
        first = _line_with(lines, since, at, last)
    if until is not None:
        last = _line_with(lines, until, first, last)
    indent = _indent(lines[first])
    text = "\n".join(line[min(indent, _indent(line)) :] for line in lines[first : last + 1])
    return Markdown(f"*kernels/{path}, lines {first + 1} to {last + 1}*\n\n```cuda\n{text}\n```")


_HEADS = "//", "template", 'extern "C"', "__device__", "__global__"


def _definition(lines, name):
    """The line with the name of a function that is defined, not called, or None."""
    called = re.compile(rf"(?:^|\s){re.escape(name)}\(")
    for at, line in enumerate(lines):
        found = called.search(line)
        head = " ".join([lines[at - 1] if at else "", line[: found.start()]]) if found else ""
        if found and re.search("__(device|global)__", head) and not line.lstrip().startswith("//"):
            return at
    return None


def _line_with(lines, text, first, last):
    found = next((n for n in range(first, last + 1) if text in lines[n]), None)
    if found is None:
        raise ValueError(f"there is no line with {text!r}")
    return found


def _indent(line):
    return len(line) - len(line.lstrip())


def numbers(**values):
    """Keep numbers for the page's prose, which names them as in {glue:text}`speed:.1f`.

    Raise ValueError where one is not a finite number.
    """
    from myst_nb import glue  # with the extra `book` alone

    for name, value in values.items():
        if not pd.notna(value) or abs(value) == float("inf"):
            raise ValueError(f"{name} is {value}: prose takes finite numbers")
        glue(name, float(value), display=False)


def expects(claim, verdict):
    """Say for which verdict of a claim the page's conclusion was written.

    Raise ValueError where the verdict is another one now: the conclusion has to be revised.
    """
    found = claims.table([pair for pair in experiments.claims() if pair[1].id == claim])
    if found.verdict.tolist() != [verdict]:
        raise ValueError(
            f"{claim} is {found.verdict.tolist()}, not {verdict!r}: revise what this page concludes of it"
        )


def verdicts(ids):
    """Return a table of claims to be shown: statement, verdict, published, its bounds, measured, interval, repeats.

    ids : str or tuple of str that begin the ids of the claims
    """
    frame = claims.table([pair for pair in experiments.claims() if pair[1].id.startswith(ids)])
    units = frame.unit.map(lambda unit: f" {unit}" if isinstance(unit, str) and unit else "")
    table = pd.DataFrame(
        {
            "statement": frame.statement,
            "verdict": list(map(claims.in_words, frame.verdict, frame.publication)),
            "published": frame.published.map(digits) + units.where(frame.published.notna(), ""),
            "replicated if": list(map(between, frame.at_least, frame.at_most)),
            "measured": frame.value.map(digits) + units.where(frame.value.notna(), ""),
            "95 % interval": list(map(between, frame.low, frame.high)),
            "repeats": frame.n.where(frame.value.notna()).map(digits),
        }
    )
    return table.style.hide()


def between(low, high):
    """Return bounds in words, 'above 0', 'below 0.15', '0.85 to 1.15'; a dash where there is none.

    low, high : float, NaN where there is none
    """
    if pd.notna(low) and pd.notna(high):
        return f"{_bound(low)} to {_bound(high)}"
    return f"above {_bound(low)}" if pd.notna(low) else f"below {_bound(high)}" if pd.notna(high) else "–"


def _bound(value):
    """As `digits`, with more where a small number that is not whole would look like one: 1.0014 is above 1."""
    text = digits(value)
    return f"{value:.5g}" if abs(value) < 10 and float(text) == round(value) != value else text


def named(path):
    """The experiments that the code of a notebook names: a list of str, in the order of `experiments.names`.

    path : Path of the notebook
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    texts = set(re.findall(r'(?<!drawing\()"(\w+)"', code))  # a drawing may be called as an experiment is
    return [name for name in experiments.names() if name in texts]


def run_by(code):
    """The experiments that a chapter runs on the reader's machine.

    Those whose name is handed on together with `profile`, or, where that is done with a name in a variable, all whose
    names the code has outside of `results.load` and `results.recorded`.

    code : str, of all cells of the chapter

    Return a list of names, in the order of `experiments.names`
    """
    found, read, texts, in_turn = set(), set(), set(), False
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node)
        if isinstance(node, ast.Call) and node.args:
            first = node.args[0]
            if any(isinstance(one, ast.Name) and one.id == "profile" for one in node.args):
                if isinstance(first, ast.Constant):
                    found.add(first.value)
                else:
                    in_turn = True
            elif getattr(node.func, "attr", None) in ("load", "recorded"):
                read.add(first)
    if in_turn:
        found |= {text.value for text in texts - read}
    return [name for name in experiments.names() if name in found]


def pages():
    """The page that shows each experiment: a dict of its name -> page, as 'results/speedups'.

    Of several pages it is the first in reading order: of those with results, else of all that are not on use.
    """
    book, found = results.repository() / "book", {}
    names = re.findall(r"file: (\S+)", (book / "_toc.yml").read_text(encoding="utf-8"))
    for page in sorted(names, key=_precedence):
        if (path := book / f"{page}.ipynb").is_file():
            found = dict.fromkeys(named(path), page) | found
    return found


def _precedence(page):
    return page.startswith(_OVERVIEWS), not page.startswith("results/")


_OVERVIEWS = "use/", "results/benchmark"  # they lead through what other pages show
