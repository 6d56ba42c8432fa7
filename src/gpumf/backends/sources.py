"""Where the CUDA sources are, what they contain, what they are compiled with, and what they hash to."""

import hashlib
import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from gpumf._util import source_text

_PACKAGE = Path(__file__).parents[1]


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


def needs_hopper(source):
    """Whether every variant of a source has instructions of Hopper's own, which no other GPU has."""
    return declared(source).variants.get("WGMMA") == [1]


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

    Raises ValueError: the package does not launch this variant
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
    """As `gpumf._util.source_text.text`, with what is included looked for in `kernels/` alone if folders is None."""
    return source_text.text(path, tuple(folders or [kernels_folder()]), first)


def kernels(path, **defines):
    """The kernels in a source file: a dict name -> dict of the parameters' names -> their types in C.

    Types that are definitions are replaced by their values, as REAL by 'float' or 'double'.
    """
    signature = r"__global__\s+void\s+(?:__launch_bounds__\(.*?\)\s+)?(\w+)\((.*?)\)\s*\{"
    code = re.sub(r"//.*", "", source_text.content(path).decode())

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
