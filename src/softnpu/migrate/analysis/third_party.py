"""`third_party`: which functions of a library rest on unsupported interfaces, directly or through others of the library."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst

from softnpu.migrate.analysis.analyse import parse
from softnpu.migrate.errors import MigrateError
from softnpu.migrate.reading import findings
from softnpu.migrate.reading.names import Names
from softnpu.migrate.reading.tree import scan
from softnpu.migrate.reporting.reports import write_csv
from softnpu.migrate.rewriting.edits import EditList
from softnpu.migrate.rules import rows


@dataclass
class Function:
    """A function or method: where it is, what it uses, whom it calls."""

    path: str
    line: int
    name: str
    unsupported: set[str] = field(default_factory=set)
    cuda: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]


class _Reader(cst.CSTVisitor):
    """Collects the functions of a module; code outside of functions counts as `<module>`."""

    def __init__(self, names: Names, edits: EditList, path: str, module: str, extra: frozenset[str]) -> None:
        super().__init__()
        self.names, self.edits, self.path, self.extra = names, edits, path, extra
        self.known = rows.unsupported()
        self.functions = [Function(path, 1, f"{module}.<module>")]
        self._stack, self._prefix, self._inner = [self.functions[0]], [module], set[int]()

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._prefix.append(node.name.value)

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self._prefix.pop()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        line = self.edits.line(self.names.span(node)[0])
        function = Function(self.path, line, ".".join([*self._prefix, node.name.value]))
        self.functions.append(function)
        self._stack.append(function)
        self._prefix.append(node.name.value)

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._stack.pop()
        self._prefix.pop()

    def visit_Attribute(self, node: cst.Attribute) -> None:
        if id(node) not in self._inner:
            self._use(self.names.full(node))
        self._inner |= {id(node.value), id(node.attr)}

    def visit_Name(self, node: cst.Name) -> None:
        if id(node) not in self._inner:
            self._use(self.names.full(node))

    def visit_Call(self, node: cst.Call) -> None:
        func = node.func
        name = func.attr.value if isinstance(func, cst.Attribute) else func.value if isinstance(func, cst.Name) else ""
        self._stack[-1].calls.add(name)

    def _use(self, full: str) -> None:
        row = rows.find(self.known, full) if full else None
        if (row is not None and row.kind == "unsupported") or full in self.extra:
            self._stack[-1].unsupported.add(full)
        elif full.startswith("torch.cuda"):
            self._stack[-1].cuda.add(full)


def read_functions(source: Path, extra: frozenset[str]) -> tuple[list[Function], list[str]]:
    """The functions of a library, and which of its files cannot be read."""
    functions: list[Function] = []
    unread: list[str] = []
    tree = scan(source, frozenset())
    for relative in tree.python:
        module, error = parse(tree.root / relative)
        unread += [f"{relative}: {error}"] if error else []
        if module is not None:
            names = Names(module, findings.parse(module.code))
            dotted = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
            reader = _Reader(names, EditList(module.code.encode()), str(relative), dotted, extra)
            names.module.visit(reader)
            functions += reader.functions
    return functions, unread


def reached(functions: Iterable[Function]) -> dict[int, set[str]]:
    """For each function (by id) the unsupported names that it reaches. Calls are followed by their last name, where only one function has it."""
    functions = list(functions)
    by_name: dict[str, list[Function]] = {}
    for function in functions:
        by_name.setdefault(function.short, []).append(function)
    result = {id(function): set(function.unsupported) for function in functions}
    growing = True
    while growing:
        growing = False
        for function in functions:
            mine = result[id(function)]
            before = len(mine)
            for call in function.calls:
                if len(by_name.get(call, ())) == 1:
                    mine |= result[id(by_name[call][0])]
            growing = growing or len(mine) > before
    return result


def read_extra(paths: Iterable[str]) -> frozenset[str]:
    """Names of further unsupported interfaces from CSV files: the column OP, Api or the first one."""
    names: set[str] = set()
    for text in paths:
        try:
            with Path(text).open(encoding="utf-8-sig", newline="") as file:
                table = list(csv.DictReader(file))
        except (OSError, UnicodeDecodeError, csv.Error) as problem:
            raise MigrateError(f"The list {text} after -api cannot be read ({problem}); give a CSV file.") from problem
        for row in table:
            names.add((row.get("OP") or row.get("Api") or next(iter(row.values()), "") or "").strip())
    return frozenset(names - {""})


def write_third_party(source: Path, folder: Path, extra: frozenset[str]) -> list[str]:
    """Write the three lists; returns one sentence about them, and one about each file that cannot be read."""
    functions, unread = read_functions(source, extra)
    all_reached = reached(functions)
    direct = [(f.path, f.line, f.name, name) for f in functions for name in sorted(f.unsupported)]
    full = [(f.path, f.line, f.name, " ".join(sorted(all_reached[id(f)]))) for f in functions if all_reached[id(f)]]
    cuda = [(f.path, f.line, f.name, name) for f in functions for name in sorted(f.cuda)]
    write_csv(folder / "framework_unsupported_op.csv", ("File", "Line", "Function", "OP"), direct)
    write_csv(folder / "full_unsupported_results.csv", ("File", "Line", "Function", "OP"), full)
    write_csv(folder / "migration_needed_list.csv", ("File", "Line", "Function", "Api"), cuda)
    users = len({row[2] for row in cuda})
    return [f"{len(functions)} functions: {len(full)} reach unsupported interfaces, {users} use torch.cuda.", *unread]
