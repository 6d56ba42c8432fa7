"""Where the CUDA sources are, what they contain, what they are compiled with, and what they hash to."""

import hashlib
import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

_PACKAGE = Path(__file__).parents[1]
_INCLUDE = re.compile(r'\s*#\s*include\s*["<](.+?)[">]')


class Declared(NamedTuple):
    """What the code that launches the kernels of a source says of it.

    variants : dict of its preprocessor definitions -> the values that they are given
    races : dict of kernels -> arrays whose elements threads may touch without order, one of them writing; or dict of
        such arrays -> with which values of which definitions they are raced for, as {"CONFLICT": ["atomic"]}
    groups : dict of kernels -> (lanes, arrays), in which each group of so many lanes has a place of its own, which
        the lanes use in an order that they keep
    """

    variants: dict
    races: dict
    groups: dict


DECLARED: dict[str, Declared] = {}
"""The sources of the modules that are imported; one without definitions and races needs no declaration."""


def declare(source, *, races=(), groups=(), **variants):
    """Say what a source is compiled with, and which races are wanted: see `Declared`."""
    DECLARED[source] = Declared(variants, dict(races), dict(groups))


def declared(source):
    """The `Declared` of a source, empty where nothing is."""
    return DECLARED.get(str(source), Declared({}, {}, {}))


def races(source, **defines):
    """The races of a source as it is compiled with these definitions: a dict of kernels -> set of arrays."""
    return {
        kernel: {array for array, when in _conditions(arrays) if all(defines[key] in when[key] for key in when)}
        for kernel, arrays in declared(source).races.items()
    }


def _conditions(arrays):
    return arrays.items() if isinstance(arrays, dict) else ((array, {}) for array in arrays)


@cache
def kernels_folder():
    """`kernels/` of the repository, or its copy in an installed package."""
    installed, repository = _PACKAGE / "kernels", _PACKAGE.parents[1] / "kernels"
    return installed if installed.is_dir() else repository


def path(source, defines):
    """The file of a source, which has to be declared with these definitions (a file elsewhere may have any).

    Raises
    ------
    ValueError : the package does not launch this variant
    """
    result = kernels_folder() / source
    if kernels_folder() in result.parents:
        variants = declared(source).variants
        if defines.keys() != variants.keys() or any(defines[key] not in variants[key] for key in defines):
            raise ValueError(f"{source} is declared with {variants}, not with {defines}")
    return result


def every():
    """Every source of kernels/, by its path there."""
    folder = kernels_folder()
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.cu"))


def variants(**chosen):
    """All that the package can launch, as (source, definitions); of a chosen definition with these values alone."""
    for source in every():
        values = declared(source).variants
        possible = [[v for v in values[key] if v in chosen.get(key, values[key])] for key in values]
        for combination in product(*possible):
            yield source, dict(zip(values, combination, strict=True))


def text(path, folders=None, first=()):
    """What a compiler is given of a source: itself, and in their place the files that it includes from `folders`.

    Put together again only where one of the files has changed.

    What is compiled is in this text whole, but for the compiler's own headers. A cache that is keyed by it misses no
    change, and none is possible between the key and the compiler's reading.

    Parameters
    ----------
    path : Path of the source
    folders : where included files are looked for, `kernels/` alone if None; others are left to the compiler
    first : names of files that are included before it

    Returns
    -------
    str, with line directives, so that messages name the files
    """
    folders = tuple(folders or [kernels_folder()])
    key = path, folders, tuple(first)
    if key in _TEXTS and _unchanged(_TEXTS[key][0]):
        return _TEXTS[key][1]
    name = next((path.relative_to(folder).as_posix() for folder in folders if path.is_relative_to(folder)), path.name)
    before = [f'#include "{header}"' for header in first]
    read = {}
    lines = *_expanded(before, "", folders, (), read), *_lines(path, name, folders, (), read), ""
    _TEXTS[key] = read, "\n".join(lines)
    return _TEXTS[key][1]


_TEXTS: dict = {}  # of `text`, by its arguments: (contents by file, text)


def _unchanged(read):
    """Whether these files still have these contents, bytes: every kernel that is asked for asks this."""
    try:
        return all(file.read_bytes() == content for file, content in read.items())
    except OSError:
        return False


def _lines(path, name, folders, within, read):
    read[path] = path.read_bytes()
    yield f'#line 1 "{name}"'
    yield from _expanded(read[path].decode().splitlines(), name, folders, (*within, path), read)


def _expanded(lines, name, folders, within, read):
    """The lines of a file, which others `within` each other include, with what it includes, noted in `read`."""
    for number, line in enumerate(lines, 1):
        included = _INCLUDE.match(line)
        found = included and next((f / included[1] for f in folders if (f / included[1]).is_file()), None)
        if found in within:
            yield ""
        elif found:
            guard = "INCLUDED_" + re.sub(r"\W", "_", included[1])
            yield from (f"#ifndef {guard}", f"#define {guard}")
            yield from _lines(found, included[1], folders, within, read)
            yield from ("#endif", f'#line {number + 1} "{name}"')
        else:
            # The guards stand in for it, and in a main file compilers warn of it.
            yield "" if line.strip() == "#pragma once" else line


def kernels(path, **defines):
    """The kernels in a source file: a dict name -> dict of the parameters' names -> their types in C.

    Types that are definitions are replaced by their values, as REAL by 'float' or 'double'.
    """
    signature = r"__global__\s+void\s+(?:__launch_bounds__\(.*?\)\s+)?(\w+)\((.*?)\)\s*\{"
    code = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))

    def as_compiled(kind):
        return re.sub(r"\w+", lambda word: str(defines.get(word[0], word[0])), " ".join(kind.split()))

    return {
        name: {parameter: as_compiled(kind) for kind, parameter in re.findall(r"([^,]+?)(\w+)\s*(?:,|$)", taken)}
        for name, taken in re.findall(signature, code, re.DOTALL)
    }


def all_kernels():
    """Every kernel of kernels/ as (source, name)."""
    return [(source, name) for source in every() for name in sorted(kernels(kernels_folder() / source))]


def digest():
    """SHA-256 over all sources of kernels/ as they are now, in hexadecimal."""
    folder = kernels_folder()
    result = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".cu", ".cuh", ".h", ".cpp")):
        result.update(path.relative_to(folder).as_posix().encode())
        result.update(path.read_bytes())
    return result.hexdigest()
