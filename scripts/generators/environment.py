"""From `spec/environment.toml`: the page of environment variables."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from generators.common import PAGE_MARK, ROOT, cell


def _torch_variables() -> tuple[Any, ...]:
    """The rows of torch_npu, read without torch: the page is made where it is not installed too."""
    name = "torch_npu_environment"
    spec = importlib.util.spec_from_file_location(name, ROOT / "native/torch/torch_npu/_environment.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.VARIABLES


def environment_page() -> str:
    """All environment variables."""
    from softnpu.base.config import VARIABLES

    variables = [*VARIABLES, *_torch_variables()]
    lines = [
        PAGE_MARK,
        "",
        "# Environment variables",
        "",
        "All of them. They are read in one place (`softnpu/base/config.py`) when `acl.init` runs, those of the log when its first line is written; only whether a real CANN is installed is asked earlier, by `import acl` (`softnpu/base/cann.py`). Those of torch_npu have a door of their own (`torch_npu/_environment.py`).",
        "",
    ]
    for group in dict.fromkeys(variable.group for variable in variables):
        lines += [f"## {group}", "", "| Variable | Default | Meaning |", "|---|---|---|"]
        lines += [f"| `{v.name}` | {v.default or '–'} | {cell(v.meaning)} |" for v in variables if v.group == group] + [
            ""
        ]
    return "\n".join(lines)


def tables() -> dict[Path, str]:
    """What code reads."""
    return {}


def pages() -> dict[Path, str]:
    """What people read."""
    return {ROOT / "docs/environment.md": environment_page()}
