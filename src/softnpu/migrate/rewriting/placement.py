"""Where lines are put in: before the first import of torch, and after the imports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from softnpu.migrate.reading.names import Names, dotted
from softnpu.migrate.rewriting.edits import EditList

_Statements = Sequence[cst.BaseStatement | cst.BaseSmallStatement]


class Placer:
    """Knows the imports of a module and notes insertions as edits."""

    def __init__(self, names: Names, edits: EditList, newline: str) -> None:
        self.names, self.edits, self.newline = names, edits, newline
        self._body = names.module.body

    def before_torch(self, line: str) -> None:
        """Put a line before the first import of torch that runs, unless `line` is there already."""
        statement = self._first_torch()
        if statement is None:
            return
        start = self.edits.line_start(self.names.span(statement)[0])
        indent = self.edits.text[start : self.names.span(statement)[0]].decode()
        if self.has_import(line.split()[1], everywhere=bool(indent)):
            return
        if indent.strip():  # something else stands before it on the line: `if x: import torch`
            return
        self.edits.add(start, start, f"{indent}{line}{self.newline}", f"Add {line}")

    def after_imports(self, lines: Sequence[str], message: str) -> None:
        """Put lines below the imports at the head of the module."""
        last = self._last_import()
        if last is None:
            return
        line_end = self.line_end(last)
        text = self.newline.join(lines) + self.newline
        if line_end == len(self.edits.text) and not self.edits.text.endswith(b"\n"):
            text = self.newline + text
        self.edits.add(line_end, line_end, text, message)

    def line_end(self, node: cst.CSTNode) -> int:
        """The offset of the line after a statement."""
        end = self.names.span(node)[1]
        stop = self.edits.text.find(b"\n", end)
        return len(self.edits.text) if stop < 0 else stop + 1

    def local(self, module: str) -> str:
        """The name under which a module is imported at the top, or an empty text."""
        for _, node in imports(self._body):
            if isinstance(node, cst.Import):
                for alias in node.names:
                    written = ".".join(_parts(alias.name))
                    if written == module:
                        return alias.evaluated_alias or module
                    if alias.asname is None and written.startswith(module + "."):
                        return module
        return ""

    def has_import(self, module: str, everywhere: bool = True) -> bool:
        """Whether a module, or something of it, is imported; `everywhere`: functions count too."""
        imported = (name for _, node in imports(self._body, everywhere) for name in modules(node))
        return any(name == module or name.startswith(module + ".") for name in imported)

    def _first_torch(self) -> cst.CSTNode | None:
        first = None
        for statement, node in imports(self._body, everywhere=True):
            if any(name.split(".")[0] == "torch" for name in modules(node)):
                if self.edits.line_start(self.names.span(statement)[0]) == self.names.span(statement)[0]:
                    return statement  # not indented: it runs when the module is imported
                first = first or statement
        return first

    def _last_import(self) -> cst.CSTNode | None:
        """The last statement of the head that imports; the head ends where functions, classes or other work begin."""
        last: cst.CSTNode | None = None
        for statement in self._body:
            if isinstance(statement, cst.FunctionDef | cst.ClassDef | cst.For | cst.While | cst.With):
                break
            if any(True for _ in imports([statement])):
                last = statement
        return last


def imports(
    body: _Statements, everywhere: bool = False
) -> Iterator[tuple[cst.SimpleStatementLine, cst.Import | cst.ImportFrom]]:
    """The import statements of a body in their order, with their lines; `everywhere`: also those in functions."""
    for statement in body:
        if isinstance(statement, cst.SimpleStatementLine):
            for small in statement.body:
                if isinstance(small, cst.Import | cst.ImportFrom):
                    yield statement, small
        elif isinstance(statement, cst.FunctionDef | cst.ClassDef):
            if everywhere:
                yield from imports(statement.body.body, everywhere)
        else:
            for block in blocks(statement):
                yield from imports(block, everywhere)


def blocks(statement: cst.CSTNode) -> Iterator[_Statements]:
    """The bodies of a compound statement that run; `if TYPE_CHECKING` does not."""
    if isinstance(statement, cst.If):
        if not _type_checking(statement.test):
            yield statement.body.body
        if statement.orelse is not None:
            yield from blocks(statement.orelse)
    elif isinstance(statement, cst.Try | cst.TryStar):
        yield statement.body.body
        for part in (*statement.handlers, statement.orelse, statement.finalbody):
            if part is not None:
                yield part.body.body
    elif isinstance(statement, cst.For | cst.While | cst.With | cst.Else):
        yield statement.body.body
        if isinstance(statement, cst.For | cst.While) and statement.orelse is not None:
            yield statement.orelse.body.body


def _type_checking(test: cst.BaseExpression) -> bool:
    return _parts(test)[-1:] == ("TYPE_CHECKING",)


def modules(node: cst.Import | cst.ImportFrom) -> set[str]:
    """The modules that a statement imports or imports from."""
    if isinstance(node, cst.Import):
        return {".".join(_parts(alias.name)) for alias in node.names}
    if node.relative or node.module is None:
        return set()
    return {".".join(_parts(node.module))}


def _parts(node: cst.BaseExpression) -> tuple[str, ...]:
    written = dotted(node)
    return written[0] if written else ()
