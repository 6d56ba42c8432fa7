"""Run the notebooks whose inputs changed, then render the book.

A notebook is run by papermill and its executed copy carries, in its metadata, the key of everything that it was
computed from. A copy whose key still holds is kept, so a second build runs only what changed, and a build that
was interrupted goes on where it stopped. Everything made lies under build/PROFILE/: `book` (the executed notebooks
and the other pages), `figures` and `_build/html`.
"""

import argparse
import fcntl
import filecmp
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import papermill
import yaml
from tqdm import tqdm

import chapter

ROOT = Path(__file__).resolve().parent.parent


def main(argv=None, root=ROOT):
    """Build the book of `root`; return the exit status."""
    options = parse(argv)
    profile = options.profile or default_profile()
    output = root / "build" / profile
    pages = options.execute_only or output / "book"
    names = notebooks(root / "book")
    if options.only:
        known = {called: name for name in names for called in (name, Path(name).name)}
        if options.only not in known:
            sys.exit(
                f"There is no notebook {options.only!r} in the table of contents; there are: {', '.join(names)}."
            )
        options.only = known[options.only]
    parameters = {"profile": profile, **{name: yaml.safe_load(value) for name, value in options.parameter}}
    if options.only:
        try:
            parameters = chapter.parameters(root / "book" / f"{options.only}.ipynb", parameters)
        except ValueError as error:
            sys.exit(f"{options.only}: {error}")

    with alone(root / "build"):
        try:
            failed = execute(root, pages, [options.only] if options.only else names, parameters, options)
            status = 0 if options.execute_only else render(root, pages, output, names, failed, options.only)
        except KeyboardInterrupt:
            print(
                "\nInterrupted. The finished notebooks are kept; the next build goes on from here.",
                file=sys.stderr,
            )
            return 130
        if failed:
            print(f"Failed: {', '.join(failed)}. The other notebooks are done and kept.", file=sys.stderr)
        return 1 if failed else status


@contextmanager
def alone(folder):
    """Wait until no other build writes to the folder; the lock is the process's, and goes with it however it ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "book.lock").open("w")
    except OSError as error:
        sys.exit(
            f"The book is built in {folder}, which cannot be written: {error}. Copy the repository and build there."
        )
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another build of the book to end.", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="NAME", help="run this notebook, even if nothing changed, and no other")
    parser.add_argument(
        "-p", "--parameter", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
        help="with --only: a parameter of the notebook or of the experiments that it runs; the value is read as YAML",
    )  # fmt: skip
    parser.add_argument("--profile", choices=["quick", "full"], help="default: full with a CUDA device, else quick")
    parser.add_argument(
        "--record",
        action="store_true",
        help="run every notebook again and keep the results under data/results/ instead of data/live/",
    )
    parser.add_argument(
        "--execute-only",
        type=lambda path: Path(path).absolute(),
        metavar="DIR",
        help="run the notebooks into DIR and render nothing: needs papermill, but not Sphinx",
    )
    options = parser.parse_args(argv)
    if options.parameter and not options.only:
        parser.error("-p goes with --only NAME: every notebook has parameters of its own")
    return options


def default_profile():
    from gpumf import backends

    return "full" if backends.available() else "quick"


def files(entry):
    """The names of the pages in a table of contents, in reading order, as 'results/speedups'."""
    if isinstance(entry, list):
        for item in entry:
            yield from files(item)
    elif isinstance(entry, dict):
        for key, value in entry.items():
            if key in ("root", "file"):
                yield value.removesuffix(".ipynb")
            else:
                yield from files(value)


def notebooks(book):
    """The notebooks of the table of contents, in reading order: a list of names."""
    toc = yaml.safe_load((book / "_toc.yml").read_text(encoding="utf-8"))
    return [name for name in files(toc) if (book / f"{name}.ipynb").is_file()]


def execute(root, pages, names, parameters, options):
    """Run the notebooks whose key changed; return those that failed, a dict of name -> what went wrong."""
    # A notebook runs in its own folder, as it does in Jupyter: a relative path must not change its meaning there.
    if data := os.environ.get("GPUMF_DATA"):
        os.environ["GPUMF_DATA"] = os.path.abspath(data)
    if options.record:
        os.environ["GPUMF_RECORD"] = "1"

    shared = shared_key(root)
    keys = {name: notebook_key(root, name, shared, parameters) for name in names}
    if not (options.record or options.only):
        names = [name for name in names if executed_key(pages / f"{name}.ipynb") != keys[name]]
        print(f"{len(keys) - len(names)} of {len(keys)} notebooks are up to date.", flush=True)

    failed = {}
    bars = sys.stderr.isatty()
    with OwnKernel():
        for done, name in enumerate(tqdm(names, desc="notebooks", unit="notebook", disable=not (names and bars)), 1):
            began = datetime.now(UTC)
            try:
                run(root, name, pages / f"{name}.ipynb", parameters, keys[name], options.record)
            except Exception as error:  # whatever goes wrong in one chapter, the others shall be finished
                tqdm.write(f"\n{name}.ipynb failed.\n{error}", file=sys.stderr)
                kind, said = getattr(error, "ename", type(error).__name__), getattr(error, "evalue", str(error))
                failed[name] = f"{kind}: {said}"
            if not bars:
                took = (datetime.now(UTC) - began).total_seconds()
                print(f"{name}: {took:.0f} s ({done} of {len(names)})", file=sys.stderr, flush=True)
    return failed


def run(root, name, target, parameters, key, recorded):
    """Execute one notebook. The executed copy appears at `target` whole or not at all."""
    source, began = root / "book" / f"{name}.ipynb", datetime.now(UTC)
    target.parent.mkdir(parents=True, exist_ok=True)
    running = target.with_name(f".running-{target.name}")
    try:
        executed = papermill.execute_notebook(
            source,
            running,
            parameters,
            kernel_name="python3",
            cwd=source.parent,
            progress_bar=sys.stderr.isatty() and {"desc": name, "leave": False},
        )
        executed.metadata["gpumf_key"] = key
        own = chapter.own(source)
        used = own | parameters
        for cell in executed.cells:
            if "injected-parameters" in cell.metadata.get("tags", []) and used == own:
                cell.metadata["tags"].append("remove-cell")
        how = chapter.how_run(used, began, chapter.results_since(root, began, recorded))
        executed.cells.append(nbformat.v4.new_markdown_cell(how, id="how-run"))
        nbformat.write(executed, running)
        running.replace(target)
    finally:
        running.unlink(missing_ok=True)


class OwnKernel(tempfile.TemporaryDirectory):
    """While it lasts, the kernel `python3` is this interpreter, whatever kernels the user has installed."""

    def __enter__(self):
        from ipykernel.kernelspec import get_kernel_dict

        folder = super().__enter__()
        spec = Path(folder, "kernels", "python3", "kernel.json")
        spec.parent.mkdir(parents=True)
        # Without its warning that other users of this machine could listen in, and its error that it is interrupted
        # at its end: errors of cells are in the notebook.
        spec.write_text(json.dumps(get_kernel_dict(["--log-level=CRITICAL"])))
        os.environ["JUPYTER_PATH"] = folder
        return folder


def shared_key(root):
    """The key of what every notebook depends on: packages, kernels, drawings, recorded results and the data."""
    digest = hashlib.sha256()
    for folder in ("src", "kernels", "figures/drawings", "data/results"):
        for path in files_below(root / folder):
            digest.update(f"{folder}/{path.relative_to(root / folder)}\0".encode() + path.read_bytes() + b"\0")
    # The data can be gigabytes: size and time of change stand for their content.
    for folder in (os.environ.get("GPUMF_DATA"), root / "data/raw"):
        for path in files_below(Path(folder)) if folder else []:
            facts = path.stat()
            digest.update(f"{path.relative_to(folder)} {facts.st_size} {facts.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def notebook_key(root, name, shared, parameters):
    digest = hashlib.sha256(shared.encode())
    digest.update((root / "book" / f"{name}.ipynb").read_bytes())
    digest.update(json.dumps(parameters, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def executed_key(path):
    """The key that an executed notebook was made with; None where there is no such notebook, or a damaged one."""
    if path.is_file():
        try:
            return json.loads(path.read_bytes())["metadata"].get("gpumf_key")
        except (ValueError, LookupError, TypeError, AttributeError):
            print(f"{path} is damaged and made again.", file=sys.stderr)


def files_below(folder, without=None):
    """Every file below `folder`, sorted, less caches, hidden files and those with the suffix `without`."""
    hidden = ("__pycache__", ".")
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.suffix != without
        and not any(part.startswith(hidden) for part in path.relative_to(folder).parts)
    ]


def render(root, pages, output, names, failed, only=None):
    """Bring the other pages and the figures beside the executed notebooks and let Jupyter Book render them.

    Parameters
    ----------
    names : of all notebooks
    failed : dict of name -> what went wrong, of those that are shown as failed
    only : the notebook whose page's path is printed too
    """
    executed = {pages / f"{name}.ipynb": name for name in names}
    # A chapter that was never run (`--only` ran another) is shown without its results rather than not at all.
    ready = {path for path, name in executed.items() if name not in failed and executed_key(path)}
    book = root / "book"
    copies = {pages / path.relative_to(book): path.read_bytes() for path in files_below(book, ".py")}
    for path in executed.keys() - ready:
        name = executed[path]
        copies[path] = chapter.not_run(copies[path], name, failed.get(name))
    figures, kept = output / "figures", root / "figures"
    copies |= {figures / path.relative_to(kept): path.read_bytes() for path in files_below(kept)}
    mirror({to: content for to, content in copies.items() if to not in ready}, ready, output / "written.json")

    digest = hashlib.sha256()
    for path in files_below(pages) + files_below(figures):
        digest.update(f"{path.relative_to(output)}\0".encode() + path.read_bytes())
    index, stamp = output / "_build/html/index.html", output / "_build/rendered.sha256"
    if not (index.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest()):
        # Sphinx would take pages that it warned about the last time for up to date, and copy no scripts or styles.
        again = not stamp.exists() or differ(pages / "_static", index.parent / "_static")
        stamp.unlink(missing_ok=True)
        print("Rendering the pages.", flush=True)
        if not jupyter_book(pages, output, again):
            return 1
        stamp.write_text(digest.hexdigest())
    print(f"The book: {index}")
    if only:
        print(f"The page: {index.parent / only}.html")
    return 0


def differ(sources, copies):
    """Whether a file below `sources` is not, or not the same, below `copies`."""
    names = [str(path.relative_to(sources)) for path in files_below(sources)]
    return len(filecmp.cmpfiles(sources, copies, names, shallow=False)[0]) < len(names)


def mirror(contents, ready, written):
    """Write files, and remove those that an earlier call wrote, or was told are ready, and that are neither now.

    Parameters
    ----------
    contents : dict path -> bytes
    ready : paths of files that are there
    written : path of the list of what this function may remove: whatever else lies there is not the build's
    """
    earlier = set(map(Path, json.loads(written.read_text()))) if written.exists() else set()
    now = {*contents, *ready}
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(json.dumps(sorted(map(str, earlier | now))))
    for path in earlier - now:
        path.unlink(missing_ok=True)
    for path, content in contents.items():
        # An unchanged file keeps its time, by which Sphinx knows what to read again.
        if not (path.exists() and path.read_bytes() == content):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    written.write_text(json.dumps(sorted(map(str, now))))


def jupyter_book(pages, output, again):
    """Render `pages` into `output`/_build/html, all `again` or those that changed; return whether it went well.

    Every warning is an error.
    """
    # A process of its own: an extension of Sphinx fails over objects that Numba leaves behind in this one.
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", str(pages)]
    command += ["--path-output", str(output), "--warningiserror", "--keep-going", "--quiet", *["--all"] * again]
    # The extension that reads docstrings lies beside this file, the package beside that folder.
    found = [str(Path(__file__).parent), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(found)}
    if subprocess.run(command, stdout=subprocess.DEVNULL, env=environment).returncode == 0:
        return True
    print("The pages were not rendered: Sphinx warned, see above.", file=sys.stderr)
    return False


if __name__ == "__main__":
    sys.exit(main())
