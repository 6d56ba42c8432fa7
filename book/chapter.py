"""A chapter's parameters, what its page says of its run, and how it looks where it was not run or failed."""

import ast
import json
import re
import textwrap
from datetime import UTC, datetime

import nbformat
import papermill


def own(path):
    """The parameters of a notebook's own, a dict of name -> value."""
    return {name: ast.literal_eval(found["default"]) for name, found in papermill.inspect_notebook(path).items()}


def parameters(path, given):
    """What a notebook is run with.

    Parameters
    ----------
    path : Path of the notebook
    given : dict, its profile and parameters: 'name' of the notebook's own or else of all experiments that it runs,
        'experiment.name' of one of these

    Returns
    -------
    dict of the notebook's own parameters; its `profile` is a dict where it holds parameters of experiments

    Raises
    ------
    ValueError : there is no such parameter, or a value is of another kind than the one that it replaces
    """
    given = dict(given)
    profile = given.pop("profile")
    if profile not in ("smoke", "quick", "full"):
        raise ValueError(f"profile must be smoke, quick or full, not {profile!r}")
    if not given:
        return {"profile": profile}
    from gpumf_study import chapters, experiments
    from gpumf_study.experiments import _parameters

    its_own = own(path)
    cells = nbformat.read(path, as_version=4).cells
    names = chapters.run_by("\n".join(cell.source for cell in cells if cell.cell_type == "code"))
    theirs = {name: experiments.module(name).PROFILES[profile] for name in names}
    known = {f"{name}.{parameter}" for name, defaults in theirs.items() for parameter in defaults}
    known |= {parameter for defaults in theirs.values() for parameter in defaults}
    if unknown := given.keys() - its_own.keys() - known:
        listed = [f"it has {', '.join(its_own)}", *(f"{name} has {', '.join(theirs[name])}" for name in names)]
        raise ValueError(f"it has no parameter {', '.join(sorted(unknown))}; {'; '.join(listed)}")
    changed = {key: value for key, value in given.items() if key not in its_own}
    of_page = {"profile": profile, **changed} if changed else profile
    for name in names:
        experiments.parameters(name, of_page)
    fitted = {key: _parameters.fitted(key, value, its_own[key]) for key, value in given.items() if key in its_own}
    return {"profile": of_page, **fitted}


def results_since(root, began, recorded):
    """The provenance of each experiment that has been run since, in the order of their runs."""
    folder = root / "data" / ("results" if recorded else "live")
    found = [json.loads(path.read_bytes()) for path in folder.glob("*/*/*.json")]
    return sorted(
        (facts for facts in found if datetime.fromisoformat(facts["started"]) >= began),
        key=lambda facts: facts["started"],
    )


def how_run(parameters, began, measured):
    """The page's last section, in Markdown: with which parameters it was run, where, when and for how long.

    Parameters
    ----------
    parameters : dict of the notebook's own
    began : datetime
    measured : list of dict, the provenance of the experiments that it ran
    """
    from gpumf_study import results

    facts, took = results.provenance(), datetime.now(UTC) - began
    machine = facts.get("gpu") or f"{facts['cpu']}, {facts['cpu_count']} cores, no GPU"
    lines = [
        "## How this page was run",
        "",
        f"On {machine}, {began:%Y-%m-%d}, in {took.total_seconds():.0f} s.",
        "",
        "| what ran | with | seconds |",
        "| --- | --- | --- |",
        f"| this page | {_listed(parameters)} | {took.total_seconds():.0f} |",
    ]
    for facts in measured:
        chosen = {key: value for key, value in facts["parameters"].items() if key != "profile"}
        lines.append(f"| `{facts['experiment']}` | {_listed(chosen)} | {facts['duration_seconds']:.1f} |")
    return "\n".join(lines)


def _listed(values):
    """Parameters in a cell of a table, long ones cut."""
    return ", ".join(
        f"`{key} = {textwrap.shorten(repr(value), 60, placeholder=' ..')}`" for key, value in values.items()
    )


def not_run(notebook, name, failure=None):
    """A notebook without results: its prose has a dash for each number and figure that its cells would have made.

    Parameters
    ----------
    notebook : bytes
    name : of the notebook, as in the table of contents
    failure : str, what went wrong, which a box below the title then says; None where it was never run

    Returns
    -------
    bytes
    """
    text = re.sub(rb"\{(glue:text|numref)\}`[^`]*`", "–".encode(), notebook)
    content = json.loads(text)
    if failure is None:
        said, kind = [":::{note}", _NOT_RUN.format(name=name), ":::"], "not-run"
    else:
        said = ["````{error}", _FAILED, "", "```text", *failure.splitlines()[-_FAILURE_LINES:], "```", "````"]
        kind = "failed"
    prose = ((k, cell) for k, cell in enumerate(content["cells"]) if cell["cell_type"] == "markdown")
    titles = (k for k, cell in prose if "".join(cell["source"]).startswith("# "))
    content["cells"].insert(next(titles, 0) + 1, nbformat.v4.new_markdown_cell("\n".join(said), id=kind))
    return json.dumps(content).encode()


def with_numbers(notebook):
    """A copy of a notebook that has been run, without outputs, whose prose has numbers in place of their names."""
    found = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "scrapbook" in output.get("metadata", {}):
                name, data = output.metadata["scrapbook"]["name"], output["data"]
                found[name.removeprefix(_PAPERMILL)] = data[
                    next(kind for kind in data if kind.endswith("text/plain"))
                ]

    def number(role):
        name, _, form = role[1].partition(":")
        value = found.get(name, "–").strip("'")
        return format(float(value), form) if form and value != "–" else value

    cells = []
    for cell in notebook.cells:
        if "injected-parameters" in cell.metadata.get("tags", []):
            continue
        cell = nbformat.from_dict(cell)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        else:
            cell.source = re.sub(r"\{glue:text\}`([^`]*)`", number, cell.source)
            cell.source = re.sub(r"\{numref\}`[^`]*`", "the figure", cell.source)
            cell.source = re.sub(r"\{cite\}`([^`]*)`", r"[\1]", cell.source)
            cell.source = re.sub(r"\{download\}`([^`<]*?) <[^`]*`", r"\1", cell.source)
        cells.append(cell)
    metadata = {key: notebook.metadata[key] for key in ("kernelspec", "language_info") if key in notebook.metadata}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


_PAPERMILL = "application/papermill.record/"
_FAILED = "This chapter failed on the machine that built this book, and is shown without what it computes."
_NOT_RUN = (
    "This page was not run: dashes stand for its numbers. `make notebook NB={name}` runs it, `make book` all pages."
)
_FAILURE_LINES = 20
