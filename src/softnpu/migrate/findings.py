"""What a module uses, from Python's own parser: fast, without scopes and without formatting.

It tells which names have a row (unsupported ones, those with a faster form) and whether a file needs the slow look of libcst.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from softnpu.migrate import rows
from softnpu.migrate.names import ASSUMED
from softnpu.migrate.rules import Rules

_FRAMEWORKS = frozenset({"torch", "apex", "torchvision"})
_METHOD = "torch.Tensor."


@dataclass(frozen=True)
class Finding:
    """A name at a place; lines are those of the original."""

    start_line: int
    end_line: int
    name: str
    row: Any


class Uses(ast.NodeVisitor):
    """The dotted names, methods, imports, strings and definitions of a module."""

    def __init__(self, tree: ast.Module) -> None:
        self.imports: list[tuple[str, ast.stmt]] = []
        self.names: list[tuple[str, ast.expr]] = []
        self.methods: list[tuple[str, ast.expr]] = []
        self.words: set[str] = set()  # attributes, names, keywords, functions that are defined
        self.strings: list[str] = []
        self._local: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._bind(node)
        self.visit(tree)

    @classmethod
    def read(cls, text: str) -> Uses | None:
        """The uses of a source, or None where this Python cannot parse it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the source: invalid escapes and the like
            try:
                return cls(ast.parse(text))
            except (SyntaxError, ValueError, RecursionError):
                return None

    def _bind(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.imports.append((alias.name, node))
                name = alias.name if alias.asname else alias.name.split(".")[0]
                self._local[alias.asname or name] = name
        elif node.module and not node.level:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                self.imports.append((full, node))
                self._local[alias.asname or alias.name] = full

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant | ast.JoinedStr):  # a docstring
            self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.strings.append(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.words.add(node.name)
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        self.words.add(node.arg or "")
        self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        self.words.add(node.id)
        full = self._full(node)
        if full:
            self.names.append((full, node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        full = self._full(node)
        if full:
            self.names.append((full, node))
        else:
            self.methods.append((node.attr, node))
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            self.words.add(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            self.visit(inner)

    def _full(self, node: ast.expr) -> str:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or not (node.id in self._local or node.id in ASSUMED):
            return ""
        return ".".join([self._local.get(node.id, node.id), *reversed(parts)])


def find(uses: Uses, table: Mapping[str, Any], skip: Callable[[str], bool] = lambda _: False) -> list[Finding]:
    """The names that a table knows, in the order of their lines; `skip` says which are dealt with already."""
    found: dict[Finding, None] = {}
    libraries = ((name, node) for name, node in uses.imports if name.split(".")[0] not in _FRAMEWORKS)
    methods = ((_METHOD + name, node) for name, node in uses.methods if _METHOD + name in table)
    names = ((name, node) for name, node in uses.names if "." in name)
    for name, node in _all(libraries, names, methods):
        row = rows.find(table, name)
        if row is not None and not skip(name):
            found[Finding(node.lineno, node.end_lineno or node.lineno, name, row)] = None
    return sorted(found, key=lambda one: (one.start_line, one.name))


def _all(*sources: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for source in sources:
        yield from source


def needs_rewriting(uses: Uses, rules: Rules) -> bool:
    """Whether a rule may apply; says yes rather too often than too seldom."""
    calls = {rule.func_name.rpartition(".")[2] for rule in rules.args}
    functions = {name.rpartition(".")[2] for name in rules.functions}
    if uses.words & {*functions, *rules.attributes, *calls, *(old for _, old in rules.keywords)}:
        return True
    if any(rules.rename(name) != name for name, _ in (*uses.names, *uses.imports)):
        return True
    if any(name.rpartition(".")[2] in rules.custom for name, _ in uses.imports):
        return True
    return any(row.pattern.search(text) for text in uses.strings for row in rules.strings)
