"""A single operator for which no model is loaded is compiled when it is first asked for."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from softnpu.base.errors import NpuError, codes
from softnpu.compiler import build
from softnpu.compiler.errors import AtcError
from softnpu.compiler.interface import model_info, shapes
from softnpu.compiler.options.rows import Options
from softnpu.compiler.single_op.graph import to_graph


def compile_op(op: Any) -> tuple[bytes, dict[str, Any]]:
    """The model of an operator as the content of an `.om` file, and its key."""
    try:
        graph = to_graph(op)
        info = model_info.describe_model(graph, shapes.Shapes())
        key = info.run.single_op = op.key()
        with tempfile.TemporaryDirectory(prefix="softnpu-op-") as folder:
            path = Path(folder) / "op.om"
            build.write(graph, info, path, Options(), check=True)
            return path.read_bytes(), key
    except AtcError as error:
        raise NpuError(
            codes.OP_NOT_FOUND, f"the operator {op.op} cannot be run as described: {error.message}", error.solution
        ) from error
