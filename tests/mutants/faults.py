"""Draws realistic single faults of src from its syntax trees, and reads those of kernels from planted.toml."""

import ast
import copy
import hashlib
import random
import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLANTED = Path(__file__).with_name("planted.toml")

# How many faults of Python are drawn where; the first prefix that a path begins with counts.
GROUPS = {
    "src/gpumf/ratings": 42,
    "src/gpumf/solvers": 37,
    "src/gpumf/models": 37,
    "src/gpumf/backends/cpu": 26,
    "src/gpumf_study/experiments": 74,
    "src/gpumf_study/claims.py": 8,
    "src/gpumf_study/results.py": 8,
    "src/gpumf_study/figure_style.py": 12,
    "src/gpumf/backends": 20,
    "src/gpumf": 12,
}
KERNELS = "kernels"

# What only a GPU runs.
ONLY_WITH_A_GPU = {"backends/cuda.py", "backends/cublas.py"}

_WEIGHTS = {
    "comparison": 3,
    "off by one": 3,
    "constant": 2,
    "dropped statement": 3,
    "dropped keyword": 3,
    "arithmetic": 3,
    "negated condition": 3,
    "and for or": 1,
    "swapped arguments": 2,
    "wrong name": 3,
    "wrong reduction": 2,
}
_COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_NAMES = [
    ("train", "test"),
    ("validation", "train"),
    ("users", "items"),
    ("user", "item"),
    ("n_users", "n_items"),
    ("user_factors", "item_factors"),
    ("rmse", "mae"),
    ("seconds", "epoch"),
    ("regularization", "learning_rate"),
    ("rows", "columns"),
    ("p", "q"),
    ("low", "high"),
    ("target", "stretch"),
    ("prepare", "train"),
    ("wall", "train"),
]
_WRONG = {a: b for pair in _NAMES[::-1] for a, b in (pair[::-1], pair)}  # of several pairs the first
_REDUCTIONS = {
    "min": "max", "max": "min", "sum": "max", "mean": "max", "median": "max", "any": "all", "all": "any",
    "minimum": "maximum", "maximum": "minimum", "first": "last", "last": "first", "ceil": "floor",
    "idxmin": "idxmax", "idxmax": "idxmin", "argmin": "argmax", "argmax": "argmin", "zeros": "ones",
}  # fmt: skip
# Looks, wording and what only speed or another system shows: a fault there changes no result.
_NO_KEYWORD = {
    "alpha", "bbox_inches", "borderpad", "bottom", "capsize", "check", "capture_output", "clip_on", "colors", "copy",
    "dpi", "elinewidth", "encoding", "errorbar", "exist_ok", "figsize", "fontsize", "fontweight", "frameon", "ha",
    "handlelength", "handletextpad", "height", "height_ratios", "help", "ignore_errors", "index_col", "layout",
    "legend", "linestyle", "linewidth", "linewidths", "lineterminator", "loc", "lw", "markersize", "mec", "mfc",
    "metavar", "mew", "missing_ok", "ms", "ncol", "ncols", "needed", "observed", "order_by", "pad", "parents", "prog",
    "progress", "rotation", "s", "size", "squeeze", "stacklevel", "strict", "text", "timeout", "top", "transform",
    "va", "verbose", "wspace", "hspace", "width_ratios", "xytext", "zorder", "disable", "leave", "desc", "total",
    "weight", "fontdict", "title", "usecols", "engine", "kind", "stable", "optimize",
}  # fmt: skip
_SILENT_CALLS = {"print", "tqdm", "warn", "annotate", "text", "set_title", "suptitle", "add_argument", "tick_params",
                 "subplots_adjust", "tight_layout", "grid", "margins", "despine", "set_size_inches", "utime",
                 "TypeVar", "ArgumentParser", "error"}  # fmt: skip
_DECLARED = {"Finding", "Near", "Target", "Holds", "ByConstruction", "Open"}
_MAX_KEYWORDS = 4  # a call with more is of something that needs them all, as of a kernel
_PATHS = re.compile(r"path|folder|root|home|place|repository|kernels|Path|named|partial")
_COMMUTE = {"isinstance", "zip", "min", "max", "minimum", "maximum", "product", "gcd", "hypot", "issubclass", "print",
            "super", "array_equal", "logical_and", "logical_or", "multiply", "add"}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One change of one file: bytes begin:end become `new`. `function` is the qualified name of where it is."""

    path: str
    line: int
    function: str
    kind: str
    begin: int
    end: int
    old: str
    new: str

    @property
    def id(self):
        """The same for the same change of the same file."""
        text = "\0".join(map(str, (self.path, self.begin, self.end, self.old, self.new)))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def group(self):
        """The part of the tree that it counts for."""
        return next((group for group in GROUPS if self.path.startswith(group)), KERNELS)

    def applied(self, content):
        """The file's content with the fault in it."""
        assert content[self.begin : self.end] == self.old.encode(), self
        return content[: self.begin] + self.new.encode() + content[self.end :]


class _Finder(ast.NodeVisitor):
    """All faults of a module."""

    def __init__(self, path, content):
        self.path, self.content, self.found, self.scope, self.bound = path, content, [], [], set()
        self.called = set()
        lines = content.splitlines(keepends=True)
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line))

    def add(self, kind, node, new):
        begin = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        old = self.content[begin:end].decode()
        if not isinstance(new, str):
            new = ast.unparse(ast.fix_missing_locations(new))
        if "".join(old.split()) == "".join(new.split()) or "cupy" in old:
            return
        self.found.append(Fault(self.path, node.lineno, ".".join(self.scope), kind, begin, end, old, new))

    def changed(self, kind, node, **fields):
        new = copy.deepcopy(node)
        for name, value in fields.items():
            setattr(new, name, value)
        self.add(kind, node, new)

    # Where nothing is drawn

    def visit_Raise(self, node):
        pass

    def visit_Assert(self, node):
        pass

    def visit_JoinedStr(self, node):
        pass  # positions inside it are not those of the file

    def visit_AnnAssign(self, node):
        if node.value:
            self.visit(node.value)

    def visit_If(self, node):
        if ast.unparse(node.test).startswith("__name__"):
            return
        self.condition(node)

    def visit_Assign(self, node):
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if names & {"PROFILES", "FIGURES_AND_TABLES", "__all__", "CLAIMS"} and not self.scope:
            return
        # What only speed depends on, mostly: blocks, threads, bytes at a time.
        private = names and all(name.startswith("_") and name.isupper() for name in names)
        if not self.scope and private and isinstance(node.value, ast.Constant | ast.BinOp):
            return
        if self.scope and len(node.targets) == 1 and not isinstance(node.targets[0], ast.Name | ast.Tuple):
            self.add("dropped statement", node, "pass")
        self.generic_visit(node)

    def visit_FunctionDef(self, node):
        self.scope.append(node.name)
        outer, self.bound = (
            self.bound,
            self.bound
            | {
                name.arg if isinstance(name, ast.arg) else name.id
                for name in ast.walk(node)
                if isinstance(name, ast.arg) or (isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store))
            },
        )
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self.scope.pop()
        self.bound = outer

    def visit_ClassDef(self, node):
        self.scope.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.scope.pop()

    # What is changed

    def visit_Compare(self, node):
        for k, operator in enumerate(node.ops):
            if swapped := _COMPARISONS.get(type(operator)):
                self.changed("comparison", node, ops=[*node.ops[:k], swapped(), *node.ops[k + 1 :]])
        self.generic_visit(node)

    def visit_BinOp(self, node):
        text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        if (swapped := _ARITHMETIC.get(type(node.op))) and not text and "'" not in (whole := ast.unparse(node)):
            if isinstance(node.op, ast.Div) and _PATHS.search(whole):
                return
            self.changed("arithmetic", node, op=swapped())
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        if swapped := _ARITHMETIC.get(type(node.op)):
            self.changed("arithmetic", node, op=swapped())
        self.add("dropped statement", node, "pass")
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        new = copy.deepcopy(node)
        new.op = other
        self.add("and for or", node, f"({ast.unparse(new)})")
        self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, bool):
            self.add("constant", node, str(not node.value))
        elif isinstance(node.value, int):
            self.add("off by one", node, str(node.value + 1 if node.value < 100 else 2 * node.value))
        elif isinstance(node.value, float):
            self.add("constant", node, repr(2 * node.value or 1.0))
        elif isinstance(node.value, str) and node.value in _WRONG and self.scope:
            self.add("wrong name", node, repr(_WRONG[node.value]))

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load) and _WRONG.get(node.id) in self.bound:  # another would end the run
            self.add("wrong name", node, _WRONG[node.id])

    def visit_Attribute(self, node):
        if isinstance(node.ctx, ast.Load):
            for table, kind in ((_WRONG, "wrong name"), (_REDUCTIONS, "wrong reduction")):
                if node.attr in table and not (node.attr == "items" and node in self.called):
                    self.changed(kind, node, attr=table[node.attr])
        self.generic_visit(node)

    def visit_Call(self, node):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if (
            name in _SILENT_CALLS
            or name in _DECLARED
            or name.startswith("set_")
            or name.endswith(("Error", "Result"))
        ):
            return
        if not node.args:
            self.called.add(node.func)  # a method, as that of a dict
        if isinstance(node.func, ast.Name) and name in _REDUCTIONS:
            self.changed("wrong reduction", node, func=ast.Name(_REDUCTIONS[name], ast.Load()))
        for keyword in node.keywords[: _MAX_KEYWORDS if len(node.keywords) <= _MAX_KEYWORDS else 0]:
            if keyword.arg and keyword.arg not in _NO_KEYWORD:
                kept = [other for other in node.keywords if other is not keyword]
                self.changed("dropped keyword", node, keywords=kept)
        plain = [isinstance(argument, ast.Name | ast.Attribute | ast.Subscript) for argument in node.args]
        if len(plain) >= 2 and all(plain[:2]) and name not in _COMMUTE:
            self.changed("swapped arguments", node, args=[node.args[1], node.args[0], *node.args[2:]])
        self.visit(node.func)
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg not in _NO_KEYWORD:
                self.visit(keyword.value)

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Call):
            before = len(self.found)
            self.visit(node.value)
            name = getattr(node.value.func, "attr", getattr(node.value.func, "id", ""))
            if name not in _SILENT_CALLS and not (name.startswith("set_") and len(self.found) == before):
                self.add("dropped statement", node, "pass")
        elif not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def condition(self, node):
        self.add("negated condition", node.test, f"not ({ast.unparse(node.test)})")
        self.generic_visit(node)

    visit_While = visit_IfExp = condition

    def visit_comprehension(self, node):
        for test in node.ifs:
            self.add("negated condition", test, f"(not ({ast.unparse(test)}))")
        self.generic_visit(node)


def of_module(path, root=ROOT):
    """All faults that can be drawn of a module.

    Parameters
    ----------
    path : str, relative to the root

    Returns
    -------
    list of Fault
    """
    content = (root / path).read_bytes()
    finder = _Finder(path, content)
    finder.visit(ast.parse(content))
    return finder.found


def _compiles(fault, root):
    try:
        compile(fault.applied((root / fault.path).read_bytes()), fault.path, "exec")
    except SyntaxError:
        return False
    return True


def drawn(seed=0, root=ROOT):
    """The faults of Python that a seed draws: list of Fault, by GROUPS."""
    draws, by_group = random.Random(seed), defaultdict(lambda: defaultdict(list))
    for file in sorted((root / "src").rglob("*.py")):
        path = file.relative_to(root).as_posix()
        if path.removeprefix("src/gpumf/") not in ONLY_WITH_A_GPU:
            for fault in of_module(path, root):
                by_group[fault.group][fault.kind].append(fault)
    chosen = []
    for group, number in GROUPS.items():
        kinds, lines, begun = by_group[group], set(), len(chosen)
        while len(chosen) < begun + number:
            kind = draws.choices(list(kinds), [_WEIGHTS[kind] for kind in kinds])[0]
            fault = kinds[kind].pop(draws.randrange(len(kinds[kind])))
            kinds = {kind: faults for kind, faults in kinds.items() if faults}
            if (fault.path, fault.line) not in lines and _compiles(fault, root):  # spread over the lines
                lines.add((fault.path, fault.line))
                chosen.append(fault)
    return chosen


def planted(root=ROOT):
    """The kept faults of kernels and of the CPU's C++: list of Fault.

    Raises
    ------
    ValueError : the text that one replaces does not stand there exactly once
    """
    faults = []
    for path, changes in tomllib.loads(PLANTED.read_text(encoding="utf-8")).items():
        text = (root / path).read_text(encoding="utf-8")
        for change in changes["faults"]:
            old, new = change["old"], change["new"]
            if len(places := list(re.finditer(re.escape(old), text))) != 1:
                raise ValueError(f"{path}: {old!r} stands there {len(places)} times")
            at = places[0].start()
            begin = len(text[:at].encode())
            end = begin + len(old.encode())
            faults.append(Fault(path, text.count("\n", 0, at) + 1, "", "planted", begin, end, old, new))
    return faults
