"""Mode 3 of atc: which operators of a model can be converted."""

from __future__ import annotations

from typing import Any

from softnpu.compiler.load import ONNX, load
from softnpu.compiler.lowering import engine_check
from softnpu.compiler.options.rows import Options
from softnpu.graph.ir import Graph

_REPEATED = "name repeated"


def check(options: Options) -> dict[str, Any]:
    """Every operator of a model, and whether it is supported."""
    graph, _, _ = load(options)
    reasons = _reasons(graph, options.framework)
    rows = [_row(node.name, node.type, reasons) for node in graph.nodes if node.type not in ("Const", "Data")]
    failed = len(reasons)
    return {
        "name": graph.name,
        "result": "failed" if failed else "success",
        "total": len(rows),
        "pass": len(rows) - failed,
        "fail": failed,
        "op": rows,
    }


def _reasons(graph: Graph, framework: int) -> dict[str, str]:
    """Why nodes cannot be converted, by name."""
    reasons = {}
    if framework == ONNX:
        engine_check.adopt(graph)
        for node, operator in engine_check.unknown_operators(graph):
            reasons[node.name] = f"type {operator} is not supported"
    for name in graph.repeated:
        reasons.setdefault(name, _REPEATED)
    return reasons


def _row(name: str, kind: str, reasons: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "type": kind, "result": "failed" if name in reasons else "success"}
    if name in reasons:
        code = "E19009" if reasons[name] == _REPEATED else "E16002"
        row["cause"] = [{"code": code, "message": reasons[name]}]
    return row
