"""A Sphinx extension: the package's docstrings, which are plain text, as the reStructuredText that autodoc wants.

Sections underlined with dashes, formulas and lists of `name : what it is` keep their form, all else is words.
"""

import re

_ENTRY = re.compile(r"(\*{0,2}\w[\w.]*(?:, \*{0,2}[\w.]+)*(?:, \.\.)?|\([\w, ]+\)) : (.*)")
_CODE = re.compile(r"(`+)(.+?)\1")


def setup(app):
    """Have autodoc pass every docstring through `convert`."""
    app.connect("autodoc-process-docstring", lambda app, what, name, obj, options, lines: convert(lines))
    return {"parallel_read_safe": True}


def convert(lines):
    """Replace the lines of a docstring, whose common indentation is gone, by reStructuredText."""
    made = []
    for paragraph in _paragraphs(lines):
        if len(paragraph) > 1 and re.fullmatch("-{3,}", paragraph[1]):
            made += [f".. rubric:: {paragraph[0]}", ""]
            paragraph = paragraph[2:]
        if not paragraph:
            continue
        if paragraph[0].startswith(">>>"):
            made += [*paragraph, ""]
        elif paragraph[0].startswith(" "):
            made += [".. code-block:: text", "", *(f" {line}" for line in paragraph), ""]
        elif _ENTRY.match(paragraph[0]):
            made += _entries(paragraph)
        else:
            made += [_words(" ".join(map(str.strip, paragraph))), ""]
    lines[:] = made


def _paragraphs(lines):
    """Lists of lines between empty ones."""
    paragraph = []
    for line in [*lines, ""]:
        if line.strip():
            paragraph.append(line.rstrip())
        elif paragraph:
            yield paragraph
            paragraph = []


def _entries(paragraph):
    """A list of definitions; what belongs to a name is indented, or goes on without a colon."""
    entries = []
    for line in paragraph:
        if entry := _ENTRY.match(line):
            entries.append([entry[1], entry[2]])
        else:
            entries[-1].append(line.strip())
    return [text for name, *rest in entries for text in (f"``{name}``", f"   {_words(' '.join(rest))}", "")]


def _words(text):
    """Words with what is code in backticks as code, and nothing else with a meaning."""
    parts, place = [], 0
    for code in _CODE.finditer(text):
        parts += [_escaped(text[place : code.start()]), rf"\ ``{code[2].strip()}``\ "]
        place = code.end()
    return "".join([*parts, _escaped(text[place:])]).strip()


def _escaped(text):
    return re.sub(r"([\\*`|_@])", r"\\\1", text)  # with @, a word would be an address of mail
