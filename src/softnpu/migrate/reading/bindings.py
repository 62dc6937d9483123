"""Who gives a name its meaning, from Python's own parser: it answers most questions, so that libcst's scopes are rarely needed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


class Bindings:
    """The names that a module binds: by imports or otherwise, at its top or in functions, classes and comprehensions."""

    def __init__(self, tree: ast.Module) -> None:
        self._top: dict[str, set[str]] = {}
        self._inner: dict[str, set[str]] = {}
        self._others: set[str] = set()
        self._inner_others: set[str] = set()
        waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
        while waiting:
            node, inner = waiting.pop()
            self._note(node, inner)
            inner = inner or isinstance(node, _SCOPES)
            waiting += [(child, inner) for child in ast.iter_child_nodes(node)]

    def _note(self, node: ast.AST, inner: bool) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for local, full in imported(node):
                (self._inner if inner else self._top).setdefault(local, set()).add(full)
        elif name := _bound(node):
            (self._inner_others if inner else self._others).add(name)

    def imports(self, name: str) -> bool:
        """Whether an import binds a name somewhere."""
        return name in self._top or name in self._inner

    def unknown(self, name: str) -> bool:
        """Whether nothing in the module binds a name: it comes from a star import or is a builtin."""
        return not (self.imports(name) or name in self._others or name in self._inner_others)

    def meanings(self, name: str) -> set[str] | None:
        """What a name is imported as wherever it is used, and None where that depends on the place."""
        if name in self._inner_others:
            return None
        meanings = self._top.get(name, set()) | self._inner.get(name, set())
        plain = name not in self._inner or (len(meanings) == 1 and name not in self._others)
        return meanings if plain else None


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The local names of an import statement and what they stand for; relative ones start with dots."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield alias.asname or alias.name, f"{module}.{alias.name}" if node.module else module + alias.name
        else:
            name = alias.name if alias.asname else alias.name.split(".")[0]
            yield alias.asname or name, name


def _bound(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return None if isinstance(node.ctx, ast.Load) else node.id
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler):
        return node.name
    if isinstance(node, ast.MatchAs | ast.MatchStar):
        return node.name
    return node.rest if isinstance(node, ast.MatchMapping) else None
