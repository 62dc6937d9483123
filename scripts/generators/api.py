"""From the rows of `spec/api`: the table that the boundary of `acl` reads, the stubs, and the support pages of `acl`."""

from __future__ import annotations

import importlib.util
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

from generators.common import MARK, PAGE_MARK, ROOT, SUPPORT, TABLES, cell, load, mapping

MODULES = ("acl", "rt", "mdl", "op", "blas", "prof", "fv", "util", "media", "himpi")
_PYTHON_TYPES = {
    "int": "int",
    "float": "float",
    "str": "str",
    "dict": "dict[str, Any]",
    "list": "list[Any]",
    "bytes": "bytes",
    "ndarray": "Any",
}
_ARGUMENT_TYPES = {
    "f32": "float", "f64": "float", "str": "str", "bytes": "bytes", "ndarray": "Any", "tuple": "tuple[Any, ...]",
    "dict": "dict[str, Any]", "callable": "Callable[..., Any]", "callable?": "Callable[..., Any] | None", "object": "Any",
}  # fmt: skip


def api(module: str) -> dict[str, Any]:
    """The rows of a face module."""
    return load(f"api/{module}.toml")


def _files_of_bodies(module: str) -> list[ModuleType]:
    """The file or the files of the folder of `acl/_bodies` that have the name of a face module; none while it has no body."""
    name = f"acl._bodies.{module}"
    if importlib.util.find_spec(name) is None:
        return []
    package = importlib.import_module(name)
    files = [
        importlib.import_module(f"{name}.{info.name}")
        for info in pkgutil.iter_modules(getattr(package, "__path__", []))
    ]
    return files or [package]


def bodies(module: str) -> dict[str, str]:
    """Which file has the body of each function: the one that defines a function of the same name."""
    names = {row["name"] for row in api(module)["function"]}
    homes: dict[str, str] = {}
    for file in _files_of_bodies(module):
        home = file.__name__.removeprefix("acl._bodies.")
        for name in names & vars(file).keys():
            if getattr(vars(file)[name], "__module__", "") != file.__name__:
                continue
            if name in homes:
                raise SystemExit(f"acl/_bodies: {name} of {module} has two bodies, in {homes[name]} and {home}")
            homes[name] = home
    return homes


def api_table(module: str) -> str:
    """Rows by name, in the order of the fields of `acl._rows.Row`."""
    from acl._rows import Row

    homes = bodies(module)
    rows = (
        Row(
            args=row["args"],
            returns=row["returns"],
            section=row["section"],
            optional=row.get("optional", 0),
            mod=row.get("mod", ""),
            doc=row["doc"],
            body=homes.get(row["name"], ""),
        )
        for row in api(module)["function"]
    )
    names = (row["name"] for row in api(module)["function"])
    type_ = "dict[str, tuple[str, str, str, int, str, str, str]]"
    return mapping("ROWS", type_, zip(names, map(tuple, rows), strict=True))


def argument_type(kind: str) -> str:
    """The stub type of an argument kind."""
    return "list[Any]" if kind.startswith("list") else _ARGUMENT_TYPES.get(kind, "int")


def return_type(text: str) -> str:
    """The stub type of a return shape."""
    if text == "none":
        return "None"
    types = []
    for item in text.split(","):
        if item.strip() == "ret":
            types.append("int")
            continue
        kind, _, default = (part.strip() for part in item.partition(":")[2].partition("="))
        types.append(_PYTHON_TYPES[kind] + (" | None" if default == "None" else ""))
    return types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]"


def stub(module: str) -> str:
    """The `.pyi` of a face module."""
    lines = [MARK, "from collections.abc import Callable", "from typing import Any", ""]
    if module == "acl":
        lines += [f"from acl import {name} as {name}" for name in sorted(MODULES) if name != "acl"] + [""]
    for row in api(module)["function"]:
        pairs = [part.split(":") for part in row["args"].split(",") if part.strip()]
        optional = len(pairs) - row.get("optional", 0)
        parts = [
            f"{_safe(name.strip())}: {argument_type(kind.strip())}" + (" = ..." if index >= optional else "")
            for index, (name, kind) in enumerate(pairs)
        ]
        head = f"({', '.join(parts)}, /)" if parts else "(*ignored: Any)"
        lines.append(f"def {row['name']}{head} -> {return_type(row['returns'])}:")
        lines.append(f'    """{row["doc"]}"""')
    return "\n".join([*lines, ""])


def _safe(name: str) -> str:
    return f"{name}_" if name in ("in", "type", "list", "range", "len", "filter", "from", "def") else name


def support_page(module: str) -> str:
    """Which functions of a module are there."""
    from acl._rows import implemented

    spec = api(module)
    full = spec["module"]
    rows = spec["function"]
    there = {row["name"]: implemented(full, row["name"]) for row in rows}
    done = sum(there.values())
    lines = [
        PAGE_MARK,
        "",
        f"# {full}",
        "",
        f"{spec['title']}. **{done} of {len(rows)}** functions are implemented; the others answer the not-supported code in their documented shape.",
        "",
    ]
    section = None
    for row in rows:
        if row["section"] != section:
            section = row["section"]
            lines += ["", f"## {section}", "", "| | Call | Returns | |", "|---|---|---|---|"]
        names = ", ".join(part.split(":")[0].strip() for part in row["args"].split(",") if part.strip())
        note = f" *{row['note']}*" if row.get("note") else ""
        mark = "✓" if there[row["name"]] else "–"
        lines.append(f"| {mark} | `{row['name']}({names})` | `{row['returns']}` | {cell(row['doc'] + note)} |")
    return "\n".join([*lines, ""])


def counts() -> list[tuple[str, str, int, int]]:
    """Of each module: its name, the name of its files, how many functions are implemented, how many are declared."""
    from acl._rows import implemented

    rows = []
    for module in MODULES:
        spec = api(module)
        done = sum(implemented(spec["module"], row["name"]) for row in spec["function"])
        rows.append((spec["module"], module, done, len(spec["function"])))
    return rows


def support_index() -> str:
    """Counts per module."""
    lines = [
        PAGE_MARK,
        "",
        "# What is supported",
        "",
        "Every function of the manuals is declared. What has no body yet answers `ACL_ERROR_API_NOT_SUPPORT` (200001), or `…8008` in `acl.himpi`, in its documented return shape, and logs its manual section.",
        "",
        "| Module | Implemented | Declared |",
        "|---|---:|---:|",
    ]
    rows = counts()
    lines += [f"| [{module}]({file}.md) | {done} | {declared} |" for module, file, done, declared in rows]
    lines += [
        f"| **all** | **{sum(row[2] for row in rows)}** | **{sum(row[3] for row in rows)}** |",
        "",
        "See also the [error codes](errors.md), the [constants](constants.md), the [chips](chips.md), the [options of atc](atc_options.md), the [operators](operators.md), the [ONNX test cases](onnx_suite.md), and the [pixel formats and media limits](media_limits.md) of the chips. [DataFlow](dataflow.md) has a page of its own.",
        "",
    ]
    return "\n".join(lines)


def stubs() -> dict[Path, str]:
    """The stubs, which stand beside the modules that they describe."""
    return {
        ROOT / "src/acl" / ("__init__.pyi" if module == "acl" else f"{module}.pyi"): stub(module) for module in MODULES
    }


def tables() -> dict[Path, str]:
    """What code reads."""
    return {TABLES / f"api/{module}.py": api_table(module) for module in MODULES} | stubs()


def pages() -> dict[Path, str]:
    """What people read."""
    return {SUPPORT / f"{module}.md": support_page(module) for module in MODULES} | {
        SUPPORT / "README.md": support_index()
    }
