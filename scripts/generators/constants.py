"""From `spec/errors.toml` and `spec/enums.toml`: return codes, constants and data types."""

from __future__ import annotations

from pathlib import Path

from generators import media
from generators.common import MARK, PAGE_MARK, SUPPORT, TABLES, cell, load, mapping


def codes_table() -> str:
    """Error codes as constants and a table code → (name, text, message family)."""
    rows = load("errors.toml")["error"]
    lines = [MARK, ""]
    for row in rows:
        lines.append(f"{row['name'].removeprefix('ACL_ERROR_').removeprefix('ACL_')} = {row['code']}")
    lines += ["", "TABLE: dict[int, tuple[str, str, str]] = {"]
    lines += [f"    {row['code']}: ({row['name']!r}, {row['text']!r}, {row['message']!r})," for row in rows]
    return "\n".join([*lines, "}", ""])


def dtypes_table() -> str:
    """Data types: value → (name, bytes or None, numpy name)."""
    rows = load("enums.toml")["dtype"]
    items = ((row["value"], (row["name"], row.get("bytes"), row.get("numpy", ""))) for row in rows)
    return mapping("DTYPES", "dict[int, tuple[str, int | None, str]]", items)


def constants() -> str:
    """All constants of the manuals, which `softnpu.constants` hands on."""
    lines = [
        MARK,
        '"""Constants of the CANN manuals; programs import them from `softnpu.constants`."""',
        "",
    ]
    seen: dict[str, int] = {}
    for enum in load("enums.toml")["enum"]:
        lines.append(f"# {enum['name']}: {enum['title']}")
        for name, value in enum["values"].items():
            if not name.isidentifier() or name in seen:
                if seen.get(name, value) != value:
                    raise SystemExit(f"enums.toml: {name} has two values, {seen[name]} and {value}")
                continue
            seen[name] = value
            lines.append(f"{name} = {value}")
        lines.append("")
    lines.append("# Return codes")
    for row in load("errors.toml")["error"]:
        if row["name"] not in seen:
            lines.append(f"{row['name']} = {row['code']}")
    lines += [f"{name} = {code:#x}" for name, code in media.himpi_names().items()]
    return "\n".join([*lines, ""])


def errors_page() -> str:
    """All return codes."""
    lines = [PAGE_MARK, "", "# Error codes", "", "| Code | Name | Meaning | Message |", "|---:|---|---|---|"]
    spec = load("errors.toml")
    lines += [f"| {row['code']} | `{row['name']}` | {cell(row['text'])} | {row['message']} |" for row in spec["error"]]
    modules = ", ".join(f"{row['name']} `{0xA0008000 | row['id'] << 16:#x}`" for row in spec.get("himpi_module", []))
    lines += [
        "",
        "## acl.himpi",
        "",
        f"Code = base of the module + error. Bases: {modules}.",
        "",
        "| Error | Name |",
        "|---:|---|",
    ]
    lines += [f"| {row['err']:#04x} | `{row['name']}` |" for row in spec.get("himpi_error", [])]
    return "\n".join([*lines, ""])


def constants_page() -> str:
    """All enumerations."""
    lines = [
        PAGE_MARK,
        "",
        "# Constants",
        "",
        "`acl` exports no constants, as in CANN: programs write their own. `softnpu.constants` has them all.",
        "",
    ]
    for enum in load("enums.toml")["enum"]:
        lines += [f"## {enum['name']}", "", f"{enum['title']} ({enum['source']})", "", "| Value | Name |", "|---:|---|"]
        lines += [f"| {value} | `{name}` |" for name, value in enum["values"].items()] + [""]
    return "\n".join(lines)


def tables() -> dict[Path, str]:
    """What code reads."""
    return {
        TABLES / "codes.py": codes_table(),
        TABLES / "dtypes.py": dtypes_table(),
        TABLES / "constants.py": constants(),
    }


def pages() -> dict[Path, str]:
    """What people read."""
    return {SUPPORT / "errors.md": errors_page(), SUPPORT / "constants.md": constants_page()}
