"""Measures of the house: what one meets when walking through it. `python scripts/house.py [CHECKOUT]`.

A late import is one of our own modules inside a function; a cycle is a set of modules that import each other, late imports
counted, imports for type checking not.
"""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

OURS = ("softnpu", "acl", "dataflow", "torch_npu", "apex", "torchnpugen")
TREES = ("src", "native/torch")
VAGUE = ("one", "found", "made", "given", "word", "place", "thing")
FULL = 25


def tracked(root: Path) -> list[str]:
    """The files of the checkout."""
    listing = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=True).stdout
    return [name for name in listing.splitlines() if (root / name).is_file()]


def full_folders(names: list[str]) -> dict[str, int]:
    """Folders of code and tests with more than a screenful of entries."""
    entries: dict[str, set[str]] = {}
    for name in names:
        parts = Path(name).parts
        for depth in range(1, len(parts)):
            entries.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    counts = {folder: len(inside - {"__init__.py", "README.md"}) for folder, inside in entries.items()}
    return {folder: count for folder, count in sorted(counts.items()) if count > FULL}


def module_of(name: str) -> str | None:
    """The dotted name of a source file of ours."""
    for tree in TREES:
        if name.startswith(tree + "/") and name.endswith((".py", ".pyi")):
            dotted = name[len(tree) + 1 :].rpartition(".")[0].replace("/", ".").removesuffix(".__init__")
            return dotted if dotted.split(".")[0] in OURS else None
    return None


def is_checking(test: ast.expr) -> bool:
    """`if TYPE_CHECKING:`"""
    return "TYPE_CHECKING" in ast.unparse(test)


def own_imports(tree: ast.Module, modules: set[str]) -> Iterator[tuple[list[str], bool]]:
    """Every statement that imports modules of ours: which, and whether it stands inside a function."""

    def walk(node: ast.AST, late: bool) -> Iterator[tuple[list[str], bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and is_checking(child.test):
                continue
            if isinstance(child, ast.Import):
                targets = [alias.name for alias in child.names if alias.name.split(".")[0] in OURS]
            elif isinstance(child, ast.ImportFrom) and child.module and child.module.split(".")[0] in OURS:
                inner = [f"{child.module}.{alias.name}" for alias in child.names]
                targets = sorted({name if name in modules else child.module for name in inner})
            else:
                targets = []
            if targets:
                yield targets, late
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from walk(child, late or function)

    yield from walk(tree, False)


def cycles(edges: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected sets of more than one module (Tarjan, without recursion limits to worry about at this size)."""
    sys.setrecursionlimit(10_000)
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[set[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in edges.get(module, ()):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            component: set[str] = set()
            while module not in component:
                component.add(stack.pop())
            components.append(component)

    for module in edges:
        if module not in index:
            visit(module)
    return [component for component in components if len(component) > 1]


def measure(root: Path) -> list[tuple[str, str]]:
    """The table."""
    names = tracked(root)
    stubs = {module for name in names if name.endswith(".pyi") and (module := module_of(name))}
    stubs.add("torch_npu._C")  # before it had a stub
    sources = {module: root / name for name in names if name.endswith(".py") and (module := module_of(name))}
    written = {module: path for module, path in sources.items() if "Generated" not in path.read_text()[:200]}
    known = sources.keys() | stubs
    edges: dict[str, set[str]] = {}
    imports: Counter[bool] = Counter()
    any_lines = vague = f401 = 0
    functions: list[int] = []
    for module, path in written.items():
        text = path.read_text()
        tree = ast.parse(text)
        for targets, late in own_imports(tree, known):
            imports[late] += 1
            edges.setdefault(module, set()).update(set(targets) & sources.keys() - {module})
        for node in ast.walk(tree):
            name = node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else ""
            vague += name in VAGUE
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append((node.end_lineno or node.lineno) - node.lineno + 1)
        any_lines += len(re.findall(r"(?m)^.*\bAny\b.*$", text)) - text.count("import Any")
        f401 += text.count("noqa: F401")
    lengths = sorted((len(path.read_text().splitlines()), module) for module, path in written.items())
    tangles = cycles(edges)
    rooms = Counter(".".join(module.split(".")[:2]) for tangle in tangles for module in tangle)
    full = full_folders(
        [name for name in names if name.startswith((*TREES, "tests", "examples", "benchmarks", "scripts"))]
    )
    total = sum(imports.values())
    return [
        (f"folders with more than {FULL} entries", f"{len(full)}: " + ", ".join(f"{k} {v}" for k, v in full.items())),
        ("modules; median, 90th percentile, longest file (lines)", f"{len(lengths)}; {statistics.median(n for n, _ in lengths):.0f}, {lengths[len(lengths) * 9 // 10][0]}, {lengths[-1][0]} ({lengths[-1][1]})"),
        ("files over 400 lines", str(sum(n > 400 for n, _ in lengths))),
        ("functions; over 40 lines, longest", f"{len(functions)}; {sum(n > 40 for n in functions)}, {max(functions)}"),
        ("late imports of our own modules", f"{imports[True]} of {total} ({100 * imports[True] / total:.1f} %)"),
        ("modules in import cycles, late ones counted", f"{sum(map(len, tangles))}: " + ", ".join(f"{room} {count}" for room, count in sorted(rooms.items()))),
        ("lines with Any", str(any_lines)),
        ("noqa: F401", str(f401)),
        ("names that say nothing (" + ", ".join(VAGUE) + ")", str(vague)),
    ]  # fmt: skip


if __name__ == "__main__":
    checkout = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    for label, value in measure(checkout):
        print(f"{label:58s} {value}")
