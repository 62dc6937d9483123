"""The last check of a conversion: does the engine take the model? What it refuses is told now, not when a program loads it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from softnpu import ops
from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.onnx import table
from softnpu.compiler.lowering import evaluate
from softnpu.compiler.lowering.infer import since
from softnpu.graph.ir import Graph, Node
from softnpu.graph.om import Om

_NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)|(\S+?)\(-?\d+\) is not a registered function/op")


@functools.cache
def _schemas() -> frozenset[tuple[str, str]]:
    """Every operator that the engine knows, as (domain, type)."""
    evaluate.runtime()
    from onnxruntime.capi import _pybind_state as state

    return frozenset((_domain(schema.domain), schema.name) for schema in state.get_all_operator_schema())


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def unknown_operators(graph: Graph) -> list[tuple[Node, str]]:
    """Nodes with an ONNX operator that neither the engine nor the model itself defines, with the operator's full name."""
    own = {(_domain(function.get("domain", "")), function.get("name", "")) for function in graph.functions}
    known = _schemas() | own
    unknown = []
    for node in graph.nodes:
        for op in node.source.ops if node.source is not None else ():
            unknown += [(node, operator) for operator in _unknown(op, known)]
    return unknown


def _unknown(op: dict[str, Any], known: Iterable[tuple[str, str]]) -> list[str]:
    domain, op_type = _domain(op.get("domain", "")), op.get("op_type", "")
    unknown = [] if (domain, op_type) in known else [f"{domain}::{op_type}" if domain else op_type]
    for attribute in op.get("attribute", ()):
        for body in [attribute["g"]] if "g" in attribute else attribute.get("graphs", ()):
            for inner in body.get("node", ()):
                unknown += _unknown(inner, known)
    return unknown


def adopt(graph: Graph) -> None:
    """Operators that the engine does not know but a file of ours does (CANN's own, `NPU…`) get that meaning."""
    for node, _ in unknown_operators(graph):
        if node.source is None or len(node.source.ops) != 1 or ops.find(node.type) is None:
            continue
        op = node.source.ops[0]
        if table.known(op.get("op_type", ""), _domain(op.get("domain", ""))):
            node.source = None


def refuse_unknown(graph: Graph) -> None:
    """Raise for operators that cannot be run, all of them in one error."""
    unknown = unknown_operators(graph)
    if not unknown:
        return
    operators = sorted({operator for _, operator in unknown})
    places = ", ".join(f"{node.name} ({operator})" for node, operator in unknown[:10])
    more = f" and {len(unknown) - 10} more" if len(unknown) > 10 else ""
    own = ", ".join(operator for operator in operators if "::" in operator)
    define = f"give {own} a meaning with torch_npu.onnx.define, or " if own else ""
    raise AtcError(
        "E16002",
        f"No parser is registered for the operator type [{', '.join(operators)}] (opset {graph.opsets.get('', 0)})",
        f"the model uses operators that are not known here: {places}{more}",
        f"{define}replace them by standard ONNX operators; atc --mode=3 lists every operator of a model",
    )


def fit_opset(graph: Graph) -> None:
    """An opset that is newer than the engine's is as good as its newest one where none of the operators changed since."""
    opset, newest = graph.opsets.get("", 0), _newest()
    if opset <= newest:
        return
    op_types = {
        op_type for node in graph.nodes if node.source is not None for op in node.source.ops for op_type in _words(op)
    }
    op_types |= {op_type for function in graph.functions for op in function.get("node", ()) for op_type in _words(op)}
    changed = [op_type for op_type in sorted(op_types) if since(op_type, opset) > newest]
    if changed:
        raise AtcError(
            "E16002",
            f"ONNX opset {opset} is newer than what can be run (up to {newest}): [{', '.join(changed)}] changed since",
            "the model was exported with a very new opset",
            f"export it with opset {newest} or older",
        )
    graph.opsets[""] = newest


@functools.cache
def _newest() -> int:
    evaluate.runtime()
    from onnxruntime.capi import _pybind_state as state

    return max(int(schema.since_version) for schema in state.get_all_operator_schema() if _domain(schema.domain) == "")


def _words(op: dict[str, Any]) -> Iterator[str]:
    if not _domain(op.get("domain", "")):
        yield op.get("op_type", "")
    for attribute in op.get("attribute", ()):
        for body in [attribute["g"]] if "g" in attribute else attribute.get("graphs", ()):
            for inner in body.get("node", ()):
                yield from _words(inner)


def check(path: Path, weights: Path | None = None) -> None:
    """Let the engine open the programs of a freshly written file, whose weights may still have a temporary name."""
    model = Om.open(path)
    folder, location, base = model.weights_place() if weights is None else (weights.resolve().parent, weights.name, 0)
    ort = evaluate.runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    for program in model.programs():
        try:
            ort.InferenceSession(program.onnx(location, base), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise explain(error) from error


def explain(error: Exception) -> AtcError:
    """The engine's refusal in atc's words."""
    text = " ".join(str(error)[:8000].split())[:4000]
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    missing = _NO_KERNEL.search(text)
    if missing:
        operator = next(group for group in missing.groups() if group)
        return AtcError(
            "E16002",
            f"No parser is registered for the operator type [{operator}] with these types",
            text[:500],
            "use another operator or other data types; atc --mode=3 lists every operator of a model",
        )
    return AtcError(
        "E19999",
        f"The model is not valid: {text[:500]}",
        "operators, types or shapes do not fit together",
        "check the model with onnx.checker, and the shapes given with --input_shape",
    )
