"""What a module uses, from Python's own parser: fast, without scopes and without formatting.

It tells which names have a row (unsupported ones, those with a faster form) and whether a file needs the slow look of libcst.
"""

from __future__ import annotations

import ast
import functools
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from softnpu.migrate.reading.bindings import imported
from softnpu.migrate.reading.names import ASSUMED
from softnpu.migrate.rewriting.strings import may_hold
from softnpu.migrate.rules import rows
from softnpu.migrate.rules.rule_set import Rules

_FRAMEWORKS = frozenset({"torch", "apex", "torchvision"})
_METHOD = "torch.Tensor."
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Finding:
    """A name at a place; lines are those of the original."""

    start_line: int
    end_line: int
    name: str
    row: Any


class Used(Protocol):
    """What `find` looks through: names with the nodes or places that know their lines."""

    @property
    def imports(self) -> Sequence[tuple[str, Any]]: ...
    @property
    def names(self) -> Sequence[tuple[str, Any]]: ...
    @property
    def methods(self) -> Sequence[tuple[str, Any]]: ...


def parse(text: str) -> ast.Module | None:
    """The tree of a source, or None where this Python cannot parse it."""
    try:
        return _parsed(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the source: invalid escapes and the like
        return ast.parse(text)


def invalid(text: str) -> str:
    """That a source is not valid, and where. Python's own parser knows the place better than libcst's."""
    try:
        _parsed(text)
    except SyntaxError as problem:
        return f"not valid Python 3 at line {problem.lineno}, column {problem.offset} ({problem.msg})"
    except (ValueError, RecursionError) as problem:
        return f"not valid Python 3 ({problem})"
    return "not valid Python 3 for libcst; a newer libcst may read it"


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
    def read(cls, tree: ast.Module | None) -> Uses | None:
        """The uses of a source that `parse` read, or None where it could not or where expressions nest too deeply."""
        try:
            return cls(tree) if tree is not None else None
        except RecursionError:
            return None

    def _bind(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias, (local, full) in zip(node.names, imported(node), strict=True):
            if not full.startswith("."):
                self.imports.append((full if isinstance(node, ast.ImportFrom) else alias.name, node))
                self._local[local] = full

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


def find(uses: Used, table: Mapping[str, Any], skip: Callable[[str], bool] = lambda _: False) -> list[Finding]:
    """The names that a table knows, in the order of their lines; `skip` says which are dealt with already."""
    findings: dict[Finding, None] = {}
    libraries = ((name, node) for name, node in uses.imports if name.split(".")[0] not in _FRAMEWORKS)
    methods = ((_METHOD + name, node) for name, node in uses.methods if _METHOD + name in table)
    names = ((name, node) for name, node in uses.names if "." in name)
    for name, node in _all(libraries, names, methods):
        row = rows.find(table, name)
        if row is not None and not skip(name):
            findings[Finding(node.lineno, node.end_lineno or node.lineno, name, row)] = None
    return sorted(findings, key=lambda finding: (finding.start_line, finding.name))


def _all(*sources: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for source in sources:
        yield from source


def may_matter(text: str, rules: Rules) -> bool:
    """Whether a source holds the words of a row or rule at all; most do not, and this costs a tenth of looking closely."""
    words = set(_WORD.findall(text))
    if any(parts <= words for parts in _words_of_rows()):
        return True
    if any(frozenset(name.split(".")) <= words for name in (*rules.names, *rules.custom)):
        return True
    return not words.isdisjoint(_names_alone(rules)) or may_hold(text)


@functools.cache
def _words_of_rows() -> frozenset[frozenset[str]]:
    return frozenset(
        frozenset([name.removeprefix(_METHOD)] if name.startswith(_METHOD) else name.split("."))
        for name in rows.unsupported()
    )


def _names_alone(rules: Rules) -> set[str]:
    """Last names of calls, attributes and keywords that have a rule."""
    calls = {rule.func_name.rpartition(".")[2] for rule in rules.args}
    functions = {name.rpartition(".")[2] for name in rules.functions}
    return {*functions, *rules.attributes, *calls, *(old for _, old in rules.keywords)}


def needs_rewriting(uses: Uses, rules: Rules) -> bool:
    """Whether a rule may apply; says yes rather too often than too seldom."""
    if not uses.words.isdisjoint(_names_alone(rules)):
        return True
    if any(rules.rename(name) != name for name, _ in (*uses.names, *uses.imports)):
        return True
    if any(name.rpartition(".")[2] in rules.custom for name, _ in uses.imports):
        return True
    return any(row.pattern.search(text) for text in uses.strings for row in rules.strings)
