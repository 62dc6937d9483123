"""What a module uses, from libcst: for sources whose syntax is newer than this Python, which its own parser cannot read."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from softnpu.migrate.reading.bindings import imported
from softnpu.migrate.reading.names import ASSUMED, dotted


@dataclass(frozen=True)
class Place:
    """Lines of a source."""

    lineno: int
    end_lineno: int


class NewerUses(cst.CSTVisitor):
    """The same names, methods and imports as those of `Uses`, several times slower."""

    def __init__(self, module: cst.Module) -> None:
        super().__init__()
        self.imports: list[tuple[str, Place]] = []
        self.names: list[tuple[str, Place]] = []
        self.methods: list[tuple[str, Place]] = []
        wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
        self._positions = wrapper.resolve(PositionProvider)
        self._local: dict[str, str] = {}
        self._labels: set[int] = set()  # of names that are no expressions
        self._chains: list[tuple[tuple[str, ...], Place]] = []
        wrapper.module.visit(self)
        for parts, lines in self._chains:  # an import may stand behind the function that uses it
            self._resolve(parts, lines)

    def _place(self, node: cst.CSTNode) -> Place:
        span = self._positions[node]
        return Place(span.start.line, span.end.line)

    def _resolve(self, parts: tuple[str, ...], lines: Place) -> None:
        if parts[0] in self._local or parts[0] in ASSUMED:
            self.names.append((".".join([self._local.get(parts[0], parts[0]), *parts[1:]]), lines))
        elif len(parts) > 1:
            self.methods.append((parts[-1], lines))

    def _bind(self, node: cst.Import | cst.ImportFrom) -> bool:
        (statement,) = ast.parse(cst.Module([]).code_for_node(node)).body
        assert isinstance(statement, ast.Import | ast.ImportFrom)
        for alias, (local, full) in zip(statement.names, imported(statement), strict=True):
            if not full.startswith("."):
                name = full if isinstance(statement, ast.ImportFrom) else alias.name
                self.imports.append((name, self._place(node)))
                self._local[local] = full
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        return self._bind(node)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return self._bind(node)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._labels.add(id(node.name))

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._labels.add(id(node.name))

    def visit_Param(self, node: cst.Param) -> None:
        self._labels.add(id(node.name))

    def visit_Arg(self, node: cst.Arg) -> None:
        self._labels.add(id(node.keyword))

    def visit_Name(self, node: cst.Name) -> None:
        if id(node) not in self._labels:
            self._chains.append(((node.value,), self._place(node)))

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        written = dotted(node)
        if written is not None:
            self._chains.append((written[0], self._place(node)))
            return False
        self.methods.append((node.attr.value, self._place(node)))
        inner: cst.BaseExpression = node
        while isinstance(inner, cst.Attribute):
            inner = inner.value
        inner.visit(self)
        return False
