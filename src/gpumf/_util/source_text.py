"""The text of a C++ or CUDA source with all that it includes: what compilers are given and caches are keyed by."""

import os
import re

_INCLUDE = re.compile(r'\s*#\s*include\s*["<](.+?)[">]')


def text(path, folders, first=()):
    """What a compiler is given of a source: itself, and in their place the files that it includes from `folders`.

    Files are read once in a process; where the environment has GPUMF_DEV, again whenever one of them has changed.
    What is compiled is in this text whole, but for the compiler's own headers. A cache that is keyed by it misses no
    change, and none is possible between the key and the compiler's reading. Line directives name the files.

    folders : where included files are looked for; others are left to the compiler
    first : names of files that are included before it
    """
    key = path, tuple(folders), tuple(first)
    if key in _TEXTS and ("GPUMF_DEV" not in os.environ or _unchanged(_TEXTS[key][0])):
        return _TEXTS[key][1]
    name = next((path.relative_to(folder).as_posix() for folder in folders if path.is_relative_to(folder)), path.name)
    before = [f'#include "{header}"' for header in first]
    read = {}
    lines = *_expanded(before, "", folders, (), read), *_lines(path, name, folders, (), read), ""
    _TEXTS[key] = read, "\n".join(lines)
    return _TEXTS[key][1]


_TEXTS: dict = {}  # of `text`, by its arguments: (contents by file, text)


_CONTENTS: dict = {}


def content(path):
    """The bytes of a file, read once in a process; where the environment has GPUMF_DEV, each time."""
    if path not in _CONTENTS or "GPUMF_DEV" in os.environ:
        _CONTENTS[path] = path.read_bytes()
    return _CONTENTS[path]


def _unchanged(read):
    """Whether these files still have these contents, bytes."""
    try:
        return all(file.read_bytes() == content for file, content in read.items())
    except OSError:
        return False


def _lines(path, name, folders, within, read):
    read[path] = content(path)
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
