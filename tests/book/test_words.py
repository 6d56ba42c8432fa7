"""The glossary and the table of notation say what is so: names in code are there, terms are found."""

import inspect
import re

from gpumf import ALS, RBM, SGD, ImplicitALS
from gpumf.backends import sources
from gpumf.ratings import Ratings
from support import ROOT


def section(name):
    """The text of a section of the page on the API."""
    text = (ROOT / "book/api.md").read_text(encoding="utf-8")
    return re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)[1]


def terms():
    """The entries of the glossary, in their order."""
    inside = re.search(r"```\{glossary\}\n(.*?)```", section("Glossary"), re.DOTALL)[1]
    return [line for line in inside.splitlines() if line and not line.startswith(" ")]


def test_every_name_in_the_notation_is_one_in_the_code():
    rows = [line.split("|")[1:-1] for line in section("Notation").splitlines() if line.startswith("| $")]
    assert len(rows) > 15 and all(len(row) == 3 for row in rows)
    known = {"user_factors", "item_factors", "item_weights"}
    for model in (ALS, ImplicitALS, SGD, RBM):
        known |= set(inspect.signature(model.__init__).parameters) | set(dir(model))
    known |= {option for solver in SGD.solvers() for option in SGD.options_of(solver)}
    known |= set(dir(Ratings)) | set(inspect.signature(Ratings).parameters)
    for source, kernel in sources.all_kernels():
        known |= {kernel, *sources.kernels(sources.kernels_folder() / source)[kernel]}
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row[2])}
    assert len(named) > 15 and named <= known, named - known


def test_terms_of_the_glossary_come_once_in_order_and_refer_to_each_other():
    found = terms()
    assert found == sorted(set(found), key=str.lower) and len(found) > 40
    body = section("Glossary")
    for reference in re.findall(r"\{term\}`([^`]+)`", body):
        target = re.search(r"<(.+)>", reference)
        assert (target[1] if target else reference) in found, reference
