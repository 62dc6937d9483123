"""One door to each thing outside: environment variables, the devices of softnpu; and one list of what is changed in torch."""

from __future__ import annotations

import ast
from pathlib import Path

from torch_npu._patches import order

from tests.paths import NATIVE

FILES = [path for package in ("torch_npu", "apex", "torchnpugen") for path in sorted((NATIVE / package).rglob("*.py"))]


def mentions(path: Path, names: set[str]) -> bool:
    tree = ast.parse(path.read_text("utf-8"))
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    return bool(names & (attributes | imported))


def test_the_environment_is_read_in_one_place() -> None:
    readers = [path for path in FILES if mentions(path, {"environ", "getenv", "environb", "putenv", "unsetenv"})]
    assert readers == [NATIVE / "torch_npu" / "_environment.py"]


def test_what_an_import_changes_is_in_the_list_with_a_reason() -> None:
    text = (NATIVE / "torch_npu" / "_patches" / "order.py").read_text("utf-8")
    rooms = {path.stem for path in (NATIVE / "torch_npu" / "_patches").glob("*.py")} - {"__init__", "order"}
    assert not [name for name in rooms if f"{name}.install" not in text and f"{name}.expose" not in text]
    assert all(len(step.why_here.split()) > 2 for step in order.STEPS)
