"""What is made from the rows of torch_npu: the table of `torch.ops.npu` operators and its support page."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

from generators.common import MARK, PAGE_MARK, ROOT, SUPPORT, cell, load

ROWS = "torch/operators.toml"
PACKAGE = ROOT / "native/torch/torch_npu/operators"
_NO_TYPES = (
    "Dimname",
    "QScheme",
)  # types that a schema of torch.library cannot have; none is built for torch 2.13 by the product
_DEFINED = re.compile(r'm\.def\(\s*"([a-z_]\w*(?:\.\w+)?)\(')


def _groups() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = load(ROWS)["group"]
    return groups


def _name(row: dict[str, Any]) -> str:
    return str(row["schema"]).partition("(")[0]


def _declared(row: dict[str, Any]) -> bool:
    return not any(kind in row["schema"] for kind in _NO_TYPES)


def _in_cpp() -> set[str]:
    """The operators whose schema and body are C++."""
    sources = sorted((ROOT / "native/torch/csrc").rglob("*.cpp"))
    return {name for path in sources for name in _DEFINED.findall(path.read_text(encoding="utf-8"))}


def _check_body(row: dict[str, Any]) -> None:
    """The module that a row names defines the operator. Read without importing it: that needs torch."""
    path = PACKAGE / (row["module"].replace(".", "/") + ".py")
    body = _name(row).replace(".", "__")
    if body not in _definitions(path):
        raise SystemExit(f"{ROWS}: the row of {_name(row)} names {row['module']}, but {path} does not define {body}")


@cache
def _definitions(path: Path) -> set[str]:
    if not path.exists():
        return set()
    defined: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return defined


def _by_module(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Schemas by the module of their bodies; under "" those that have no body in Python."""
    schemas: dict[str, list[str]] = {}
    for row in filter(_declared, rows):
        if "module" in row:
            _check_body(row)
        schemas.setdefault(row.get("module", ""), []).append(row["schema"])
    return schemas


def _table() -> str:
    rows = [row for group in _groups() for row in group["operator"]]
    lines = [
        MARK,
        '"""Schemas of `torch.ops.npu` by the module that has their bodies; those under "" have none in Python."""',
        "",
        "# fmt: off",
        "SCHEMAS = {",
    ]
    for module, schemas in _by_module(rows).items():
        lines += [f"    {module!r}: (", *(f"        {schema!r}," for schema in schemas), "    ),"]
    lines += ["}", "", "PUBLIC = ("]
    public = {_name(row).partition(".")[0] for row in rows if "x" in row.get("marks", "")}
    lines += [f"    {name!r}," for name in sorted(public)]
    return "\n".join([*lines, ")", ""])


def _page() -> str:
    in_cpp = _in_cpp()
    done = total = declared = 0
    body: list[str] = []
    for group in _groups():
        body += [f"## {group['title']}", "", "| Operator | | Meaning |", "|---|---|---|"]
        for row in group["operator"]:
            works = _name(row) in in_cpp or "module" in row
            done, total, declared = done + works, total + 1, declared + _declared(row)
            body.append(f"| `{cell(row['schema'])}` | {'✓' if works else ''} | {cell(row['meaning'])} |")
        body.append("")
    head = [
        PAGE_MARK,
        "",
        "# Operators of torch.ops.npu",
        "",
        f"Of {total} schemas {declared} are declared and {done} work (✓). The others raise `NotImplementedError` with their name and ERR01007. "
        "Each is `torch.ops.npu.x` and `torch_npu.x`; the older spellings `torch.npu_x` and `tensor.npu_x()` work and warn.",
        "",
    ]
    return "\n".join([*head, *body])


def tables() -> dict[Path, str]:
    """What code reads."""
    folder = PACKAGE / "_generated"
    return {
        folder / "__init__.py": f'{MARK}\n"""Rows of `torch.ops.npu` as Python tables."""\n',
        folder / "schemas.py": _table(),
    }


def pages() -> dict[Path, str]:
    """What people read."""
    return {SUPPORT / "npu_operators.md": _page()}
