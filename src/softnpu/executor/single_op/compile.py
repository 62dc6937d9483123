"""A single operator for which no model is loaded is compiled when it is first asked for."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from softnpu.base.errors import NpuError, codes
from softnpu.compiler.errors import AtcError
from softnpu.compiler.interface.model_info import describe_model
from softnpu.compiler.options.rows import Options
from softnpu.compiler.options.shapes import Shapes
from softnpu.compiler.single_op.graph import to_graph
from softnpu.compiler.write import write


def compile_op(op: Any) -> tuple[bytes, dict[str, Any]]:
    """The model of an operator as the content of an `.om` file, and its key."""
    try:
        graph = to_graph(op)
        info = describe_model(graph, Shapes())
        key = info.run.single_op = op.key()
        with tempfile.TemporaryDirectory(prefix="softnpu-op-") as folder:
            path = Path(folder) / "op.om"
            write(graph, info, path, Options(), check=True)
            return path.read_bytes(), key
    except AtcError as error:
        raise NpuError(
            codes.OP_NOT_FOUND, f"the operator {op.op} cannot be run as described: {error.message}", error.solution
        ) from error
