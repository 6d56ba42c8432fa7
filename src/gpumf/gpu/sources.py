"""Where the CUDA sources are, what they contain, what they are compiled with, and what they hash to."""

import hashlib
import re
from functools import cache
from itertools import product
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_INCLUDE = re.compile(r'\s*#\s*include\s*["<](.+?)[">]')

# Up to 300 factors, and two columns of biases.
_COLUMNS, _BIASES = range(1, 303), range(3)
_UNITS = {"HIDDEN": range(1, 513), "LEVELS": range(2, 33)}
_SCHEMES = "bsgd", "cu2rec", "cumf_sgd", "esgd", "fast", "gpusgd", "hogwild", "kato_hosino", "newgpusgd"

# The values that the package gives to each source's preprocessor definitions: all that it can launch.
VARIANTS = {
    "als/cumf/bias.cu": {"FACTORS": range(1, 257), "IMPLICIT": range(2)},
    "als/cumf/cg.cu": {"FACTORS": range(1, 257), "A_HALF": range(2)},
    "als/cumf/direct.cu": {"FACTORS": range(1, 257)},
    "als/cumf/hermitian.cu": {"FACTORS": range(1, 257), "LOAD": range(3), "A_HALF": range(2), "IMPLICIT": range(2)},
    "als/cumf/shape.cu": {"FACTORS": range(1, 257)},
    "als/tensor_core.cu": {"FACTORS": range(1, 257), "IMPLICIT": range(2), "STAGE_ROWS": [64, 32]},
    "als/thesis.cu": {"FACTORS": range(1, 33)},
    "datasets/order.cu": {},
    "datasets/segments.cu": {},
    "datasets/twin.cu": {"RANK": [14]},
    "metrics/errors.cu": {"FACTORS": _COLUMNS},
    "metrics/finite.cu": {},
    "metrics/ranking.cu": {"FACTORS": _COLUMNS},
    "microbenchmarks/elementwise_cube.cu": {},
    "microbenchmarks/occupy.cu": {},
    "models/initial.cu": {},
    **{f"rbm/{name}.cu": _UNITS for name in ("errors", "fast", "thesis")},
    **{f"sgd/{scheme}.cu": {"FACTORS": _COLUMNS, "BIASES": _BIASES} for scheme in _SCHEMES},
}


# The kernels whose threads may touch the same elements without order, one of them writing, and of which arrays.
_BOTH = {"user_factors", "item_factors"}
WANTED_RACES = {
    ("sgd/bsgd.cu", "bsgd"): _BOTH,
    ("sgd/cu2rec.cu", "cu2rec"): {"item_factors", "newest"},
    ("sgd/cu2rec.cu", "cu2rec_loses"): {"item_factors", "newest"},
    ("sgd/cu2rec.cu", "cu2rec_atomic"): {"item_factors"},
    ("sgd/cumf_sgd.cu", "cumf_sgd"): _BOTH,
    ("sgd/cumf_sgd.cu", "cumf_sgd_wavefront"): {"item_factors"},  # one after another, but who is first is left open
    ("sgd/esgd.cu", "esgd"): _BOTH,
    ("sgd/fast.cu", "fast"): {"user_factors"},
    ("sgd/fast.cu", "fast_locked"): {"user_factors"},
    ("sgd/fast.cu", "fast_single"): {"user_factors"},
    ("sgd/fast.cu", "fast_single_locked"): {"user_factors"},
    ("sgd/hogwild.cu", "hogwild"): _BOTH,
}

# The arrays in which each group of so many lanes has a place of its own, which they use in an order that they keep.
GROUP_MEMORY = {
    ("als/thesis.cu", "thesis_global"): (16, {"matrices"}),
    ("als/thesis.cu", "thesis_hybrid"): (16, {"matrices"}),
    ("datasets/twin.cu", "append_users"): (32, {"next"}),
    ("datasets/twin.cu", "draw_ratings"): (32, {"taken", "test_items", "train_items"}),
}


@cache
def kernels_folder():
    """`kernels/` of the repository, or its copy in an installed package."""
    installed, repository = _PACKAGE / "kernels", _PACKAGE.parents[1] / "kernels"
    return installed if installed.is_dir() else repository


def path(source, defines):
    """The file of a source, which VARIANTS has to have with these definitions (a file elsewhere may have any).

    Raises
    ------
    ValueError : the package does not launch this variant
    """
    result = kernels_folder() / source
    if kernels_folder() in result.parents:
        variants = VARIANTS.get(str(source), {})
        if defines.keys() != variants.keys() or any(defines[key] not in variants[key] for key in defines):
            raise ValueError(f"gpumf.gpu.sources.VARIANTS has no {source} with {defines}")
    return result


def variants(**chosen):
    """All that the package can launch, as (source, definitions); of a chosen definition with these values alone."""
    for source, values in VARIANTS.items():
        possible = [[v for v in values[key] if v in chosen.get(key, values[key])] for key in values]
        for combination in product(*possible):
            yield source, dict(zip(values, combination, strict=True))


def text(path, folders=None, first=()):
    """What a compiler is given of a source: itself, and in their place the files that it includes from `folders`.

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
    folders = folders or [kernels_folder()]
    name = next((path.relative_to(folder).as_posix() for folder in folders if path.is_relative_to(folder)), path.name)
    before = [f'#include "{header}"' for header in first]
    return "\n".join([*_expanded(before, "", folders, ()), *_lines(path, name, folders, ()), ""])


def _lines(path, name, folders, within):
    yield f'#line 1 "{name}"'
    yield from _expanded(path.read_text(encoding="utf-8").splitlines(), name, folders, (*within, path))


def _expanded(lines, name, folders, within):
    """The lines of a file, which others `within` each other include, with what it includes."""
    for number, line in enumerate(lines, 1):
        included = _INCLUDE.match(line)
        found = included and next((f / included[1] for f in folders if (f / included[1]).is_file()), None)
        if found in within:
            yield ""
        elif found:
            guard = "INCLUDED_" + re.sub(r"\W", "_", included[1])
            yield from (f"#ifndef {guard}", f"#define {guard}")
            yield from _lines(found, included[1], folders, within)
            yield from ("#endif", f'#line {number + 1} "{name}"')
        else:
            # The guards stand in for it, and in a main file compilers warn of it.
            yield "" if line.strip() == "#pragma once" else line


def kernels(path):
    """The kernels in a source file: a dict name -> dict of the parameters' names -> their types in C."""
    signature = r"__global__\s+void\s+(?:__launch_bounds__\(.*?\)\s+)?(\w+)\((.*?)\)\s*\{"
    code = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
    return {
        name: {parameter: " ".join(kind.split()) for kind, parameter in re.findall(r"([^,]+?)(\w+)\s*(?:,|$)", taken)}
        for name, taken in re.findall(signature, code, re.DOTALL)
    }


def all_kernels():
    """Every kernel of kernels/ as (source, name)."""
    folder = kernels_folder()
    return sorted((p.relative_to(folder).as_posix(), name) for p in folder.rglob("*.cu") for name in kernels(p))


def digest():
    """SHA-256 over all sources of kernels/ as they are now, in hexadecimal."""
    folder = kernels_folder()
    result = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".cu", ".cuh", ".h", ".cpp")):
        result.update(path.relative_to(folder).as_posix().encode())
        result.update(path.read_bytes())
    return result.hexdigest()
