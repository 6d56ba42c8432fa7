"""What a result depends on: the code that its experiment's `run` reaches, and whether that has changed since.

Read from the sources, not from what is imported, so that it can be asked of an older commit too. Of experiments,
which also draw and judge, the definitions count that `run` reaches; of the modules below them whole files; of kernels
those that a reached module names, with what they include.
"""

import ast
import hashlib
import io
import re
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path

from gpumf import results

_EXPERIMENTS = "gpumf.experiments"


def code(name, root=None):
    """The code that an experiment's run reaches.

    Parameters
    ----------
    name : of the experiment
    root : Path, of a repository; by default that of this package

    Returns
    -------
    dict of file -> SHA-256 in hexadecimal, the experiment's own definitions as 'run'; None where it has no such
    experiment
    """
    return _Reader(root or results.repository()).code(name)


def changed(result):
    """The files on which a recorded result depends and that have changed since, sorted; None where that is unknown.

    Where its provenance holds no hashes, the commit that it names is compared.
    """
    then = result.provenance.get("code") or _code_at(result.provenance["commit"], result.name)
    if then is None:
        return None
    now = code(result.name) or {}
    return sorted(file for file in then.keys() | now.keys() if then.get(file) != now.get(file))


@cache
def _code_at(commit, name):
    tree = _tree(commit)
    return None if tree is None else code(name, Path(tree.name))


@cache
def _tree(commit):
    """The sources at a commit, in a folder that is deleted with this process; None without git or the commit."""
    command = ["git", "-C", str(results.repository()), "archive", commit, "src/gpumf", "kernels"]
    try:
        archive = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    folder = tempfile.TemporaryDirectory(prefix="gpumf-")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder.name, filter="data")
    return folder


def _sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


class _Reader:
    """Follows imports in the sources below a root."""

    def __init__(self, root):
        self._root, self._source, self._kernels = Path(root), Path(root, "src"), Path(root, "kernels")
        self._parsed = {}
        self._pieces, self._files = {}, set()

    def code(self, name):
        found = sorted(Path(self._source, *_EXPERIMENTS.split(".")).rglob(f"{name}.py"))
        if not found:
            return None
        module = ".".join(found[0].relative_to(self._source).with_suffix("").parts)
        self._reach(module, "run")
        kernels = set()
        for file in self._files:
            self._add_kernels(file, kernels)
        for text in self._pieces.values():
            self._add_named(text, kernels)
        # By the last part of a module's name: it may have been moved to another folder since.
        own = "\n".join(f"{key}\n{text}" for key, text in sorted(self._pieces.items()))
        files = {file.relative_to(self._root).as_posix(): _sha256(file.read_text()) for file in self._files | kernels}
        return {"run": _sha256(own)} | dict(sorted(files.items()))

    def _path(self, module):
        """The file of a module, or None."""
        path = Path(self._source, *module.split("."))
        return next((p for p in (path / "__init__.py", path.with_suffix(".py")) if p.is_file()), None)

    def _definitions(self, module):
        """What the file of a module defines, as of the function of this name; each file is read once."""
        if module not in self._parsed:
            self._parsed[module] = _definitions(self._path(module).read_text())
        return self._parsed[module]

    def _reach(self, module, name):
        """Take in what a name of a module of the experiments stands for, and all that this uses."""
        lines, names = self._definitions(module)
        key, node = (module.rpartition(".")[2], name), names.get(name)
        if key in self._pieces or node is None:
            return
        if isinstance(node, tuple):
            self._follow(*node, attribute=None)
            return
        self._pieces[key] = _without_docstring(lines, node)
        for used in ast.walk(node):
            if isinstance(used, ast.Attribute) and isinstance(used.value, ast.Name):
                target = names.get(used.value.id)
                if isinstance(target, tuple):
                    self._follow(*target, attribute=used.attr)
            if isinstance(used, ast.Name):
                target = names.get(used.id)
                if not isinstance(target, tuple) or self._path(".".join(target)) is None:
                    self._reach(module, used.id)

    def _follow(self, package, name, attribute):
        """What `from package import name` gives: of experiments one definition, else a whole file."""
        module = f"{package}.{name}"
        if self._path(module) is None:
            if package.startswith(_EXPERIMENTS):
                self._reach(package, name)
            else:
                self._include(self._home(package, name))
        elif not module.startswith(_EXPERIMENTS):
            self._include(module)
        elif attribute:
            self._reach(module, attribute)

    def _home(self, package, name):
        """The module that defines what a package hands on under this name."""
        while self._path(package) is not None:
            target = self._definitions(package)[1].get(name)
            if not isinstance(target, tuple) or self._path(".".join(target)) is not None:
                break
            package, name = target
        return package

    def _include(self, module):
        """Take in a whole file, and those that it imports."""
        path = self._path(module)
        if path is None or path in self._files:
            return
        self._files.add(path)
        for package, name in _imports(path.read_text()):
            inner = f"{package}.{name}"
            self._include(inner if self._path(inner) else self._home(package, name))

    def _add_kernels(self, file, kernels):
        # What compiles and checks kernels names them all.
        if "gpu" not in file.relative_to(self._source).parts:
            self._add_named(file.read_text(), kernels)

    def _add_named(self, text, kernels):
        for named in re.findall(r'"((?:\w+/)+\w+\.cu)"', text):
            self._add_included(self._kernels / named, kernels)
        for named in re.findall(r'"(\w+\.cpp)"', text):
            self._add_included(self._source / "gpumf/cpu/native" / named, kernels)

    def _add_included(self, path, kernels):
        if path in kernels or not path.is_file():
            return
        kernels.add(path)
        for included in re.findall(r'#include\s+"([^"]+)"', path.read_text()):
            for folder in (path.parent, self._kernels):
                self._add_included((folder / included).resolve(), kernels)


@cache
def _definitions(text):
    """(lines as bytes, dict of a module's top-level name -> node, or (module, name) where it is imported)."""
    names = {}
    body = ast.parse(text).body
    # What a package imports late stands under `if TYPE_CHECKING:`.
    guarded = [inner for node in body if isinstance(node, ast.If) for inner in node.body]
    for node in body + guarded:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gpumf":
            for alias in node.names:
                names[alias.asname or alias.name] = node.module, alias.name
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names[node.name] = node
        elif isinstance(node, ast.Assign):
            targets = [t for target in node.targets for t in ast.walk(target) if isinstance(t, ast.Name)]
            names |= {target.id: node for target in targets}
    return text.encode().splitlines(keepends=True), names


@cache
def _imports(text):
    """(package, name) of all that a file imports from this package."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    own = [node for node in found if (node.module or "").split(".")[0] == "gpumf"]
    return [(node.module, alias.name) for node in own for alias in node.names]


def _without_docstring(lines, node):
    """The text of a definition, less its docstring."""
    # As ast.get_source_segment, which splits the whole text into lines at every call.
    piece = lines[node.lineno - 1 : node.end_lineno]
    piece[-1] = piece[-1][: node.end_col_offset]
    piece[0] = piece[0][node.col_offset :]
    piece = b"".join(piece).decode()
    docstring = ast.get_docstring(node, clean=False) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
    return piece.replace(docstring, "") if docstring else piece
