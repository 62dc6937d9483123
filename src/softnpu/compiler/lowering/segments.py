"""Cutting a graph where an operator has no ONNX form: pieces for the engine, and operators that NumPy computes between them.

Most models are one piece. A detection layer of Caffe, a format conversion or dynamic AIPP makes a cut.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu import ops
from softnpu.compiler.lowering.infer import ir_version
from softnpu.compiler.lowering.lower import Lowered, captures, lower_node
from softnpu.graph.ir import NO_WORK, Constant, Graph, Node, Value
from softnpu.graph.onnx_def import make_value_info
from softnpu.graph.program import Program


def is_host(node: Node) -> bool:
    """Whether only NumPy can compute a node."""
    if node.source is not None or node.type in NO_WORK:
        return False
    operator = ops.find(node.type)
    return operator is not None and operator.lower is None


def programs_of(graph: Graph) -> tuple[list[Program], list[dict[str, Any]]]:
    """What the engine runs, in pieces, and the steps in order; a graph in one piece has no steps."""
    if not any(is_host(node) for node in graph.nodes):
        inputs = [node.output for node in graph.inputs if node.type == "Data" and not node.attrs.get("_added")]
        return [_program(graph, graph.nodes, inputs, [output.value for output in graph.outputs])], []
    programs: list[Program] = []
    steps: list[dict[str, Any]] = []
    needed = _last_uses(graph)
    for host, nodes in _pieces(graph):
        if host:
            steps += [_host_step(node) for node in nodes]
            continue
        inside = {id(value) for node in nodes for value in node.outputs}
        taken = {
            id(value): value
            for node in nodes
            for value in node.inputs
            if value is not None and id(value) not in inside and value.const is None
        }
        own = {id(node) for node in nodes}
        results = [
            value
            for node in nodes
            for value in node.outputs
            if any(user not in own for user in needed.get(id(value), ()))
        ]
        steps.append(
            {
                "program": len(programs),
                "inputs": [value.name for value in taken.values()],
                "outputs": [value.name for value in results],
            }
        )
        programs.append(_program(graph, nodes, list(taken.values()), results))
    return programs, steps


def _last_uses(graph: Graph) -> dict[int, set[int]]:
    """Value → ids of the nodes that take it; 0 stands for the end of the graph."""
    uses: dict[int, set[int]] = {}
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None:
                uses.setdefault(id(value), set()).add(id(node))
    for output in graph.outputs:
        uses.setdefault(id(output.value), set()).add(0)
    return uses


def _pieces(graph: Graph) -> list[tuple[bool, list[Node]]]:
    """Turns of engine nodes and host nodes, each turn as long as possible."""
    done = {id(value) for node in graph.nodes if node.type in NO_WORK for value in node.outputs}
    rest = [node for node in graph.nodes if node.type not in NO_WORK]
    pieces: list[tuple[bool, list[Node]]] = []
    host = False
    while rest:
        turn, later = [], []
        for node in rest:
            ready = is_host(node) == host and all(value is None or id(value) in done for value in node.inputs)
            if ready:
                turn.append(node)
                done.update(id(value) for value in node.outputs)
            else:
                later.append(node)
        if turn:
            pieces.append((host, turn))
        rest, host = later, not host
    return pieces


def _host_step(node: Node) -> dict[str, Any]:
    inputs: list[Any] = []
    for value in node.inputs:
        constant = value.const if value is not None else None
        if constant is not None:
            array = constant.array()
            inputs.append({"dtype": constant.dtype, "shape": list(constant.shape), "data": array.reshape(-1).tolist()})
        else:
            inputs.append(value.name if value is not None else None)
    return {
        "type": node.type,
        "name": node.name,
        "attrs": {key: _plain(value) for key, value in node.attrs.items()},
        "inputs": inputs,
        "input_dtypes": [value.dtype if value is not None else -1 for value in node.inputs],
        "input_formats": [value.format if value is not None else -1 for value in node.inputs],
        "outputs": [value.name for value in node.outputs],
        "output_dtypes": [value.dtype for value in node.outputs],
        "output_shapes": [list(value.shape) if value.shape is not None else None for value in node.outputs],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _program(graph: Graph, nodes: list[Node], inputs: list[Value], outputs: list[Value]) -> Program:
    lowered = Lowered()
    opset = graph.opsets.get("", ops.NATIVE_OPSET)
    for node in nodes:
        lower_node(node, opset, graph.unique, lowered)
    taken = {output.name for output in outputs}
    for op in lowered.nodes:
        taken.update(op.get("input", ()))
        taken |= captures(op)
    constants: dict[str, Constant] = {
        node.output.name: node.data
        for node in graph.nodes
        if node.type == "Const" and node.data is not None and node.output.name in taken
    }
    constants.update(lowered.constants)
    infos = [make_value_info(value.name, value.dtype, value.shape, value.words) for value in inputs]
    results = [
        make_value_info(value.name, value.dtype, value.shape)
        for value in {value.name: value for value in outputs}.values()
    ]
    opsets = {"": ops.NATIVE_OPSET, **lowered.domains, **graph.opsets}
    return Program(
        lowered.nodes, infos, results, constants, opsets, graph.functions, ir_version(opsets[""]), graph.name
    )
