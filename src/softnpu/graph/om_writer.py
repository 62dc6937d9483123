"""Writing an `.om`: the graph as a GE ModelDef, weights, the description of inputs and outputs, the programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from softnpu.graph import container, digest
from softnpu.graph.attrs import list_attr, tensor_desc, to_attr
from softnpu.graph.inout import ModelInfo, inout_bytes
from softnpu.graph.ir import Constant, Graph, Node, Value
from softnpu.graph.model_def import MODEL
from softnpu.graph.program import PROGRAM, Program, Weights, kernel_item, program_bytes
from softnpu.graph.wire import encode


def _op_def(node: Node, index: int, weights: Weights, places: dict[int, tuple[Node, int]]) -> dict[str, Any]:
    inputs, sources, numbers, const, descs = [], [], [], [], []
    for value in node.inputs:
        if value is None:
            inputs.append("")
            const.append(False)
            descs.append(tensor_desc(-1, (), 2))
            continue
        producer, port = places[id(value)]
        inputs.append(f"{producer.name}:{port}")
        sources.append(producer.name)
        numbers.append(port)
        const.append(producer.type == "Const")
        descs.append(_value_desc(value))
    attrs = {key: attr for key, value in node.attrs.items() if (attr := to_attr(value)) is not None}
    if node.data is not None:
        attrs["value"] = {"t": _const_def(node.data, weights)}
    if node.origin and node.origin != [node.name]:
        attrs["_datadump_original_op_names"] = list_attr(list(node.origin)) or {}
    return {
        "name": node.name,
        "type": node.type,
        "input": inputs,
        "attr": attrs,
        "id": index,
        "input_name": node.input_names[: len(inputs)],
        "src_name": sources,
        "src_index": numbers,
        "is_input_const": const,
        "input_desc": descs,
        "output_desc": [_value_desc(value) for value in node.outputs],
    }


def _value_desc(value: Value) -> dict[str, Any]:
    return tensor_desc(value.dtype, value.shape, value.format)


def _const_def(constant: Constant, weights: Weights) -> dict[str, Any]:
    desc = tensor_desc(constant.dtype, constant.shape, 2)
    if constant.dtype != 13:
        desc["data_offset"] = weights.add(constant)
        desc["weight_size"] = len(constant.data)
    return {"desc": desc}


def graph_def(graph: Graph, weights: Weights) -> dict[str, Any]:
    """The graph as a GraphDef, with a NetOutput at its end."""
    places = {id(value): (node, port) for node in graph.nodes for port, value in enumerate(node.outputs)}
    result = [_op_def(node, index, weights, places) for index, node in enumerate(graph.nodes)]
    end = Node("Node_Output", "NetOutput", [output.value for output in graph.outputs])
    result.append(_op_def(end, len(result), weights, places))
    names = [f"{places[id(output.value)][0].name}:{places[id(output.value)][1]}" for output in graph.outputs]
    return {"name": graph.name or "graph", "input": [node.name for node in graph.inputs], "output": names, "op": result}


def write(
    path: Path,
    graph: Graph,
    programs: Sequence[Program],
    info: ModelInfo,
    attrs: dict[str, Any],
    platform: str,
    weights_file: Path | None = None,
) -> None:
    """Write a model; with `weights_file` the weights go there and the `.om` only names their places."""
    weights = Weights()
    definition = graph_def(graph, weights)
    kernels = [
        part
        for index, one in enumerate(programs)
        for part in kernel_item(f"{PROGRAM}.{index}", program_bytes(one, weights))
    ]
    info.weight_size = weights.size
    sizes = {
        "memory_size": info.memory_size,
        "weight_size": info.weight_size,
        "om_info_list": [weights.size, sum(map(len, kernels)) + digest.ITEM_BYTES, 0, 0, 0],
    }
    more = {"softnpu": json.dumps(_runtime_dict(info), separators=(",", ":"))}
    if weights_file is not None:
        more["softnpu_weight_file"] = weights_file.name
    model = {
        "name": graph.name or path.stem,
        "version": 1,
        "graph": [definition],
        "attr": {
            key: attr for key, value in {**attrs, **sizes, **more}.items() if (attr := to_attr(value)) is not None
        },
    }
    dynamic = any(one.ranges for one in info.inputs)
    inside: list[bytes | memoryview] = weights.pieces
    if weights_file is not None:
        container.write_pieces(weights_file, weights.pieces)
        inside = []
    described, defined = inout_bytes(info), encode(MODEL, model)
    kernels.append(digest.item(described, defined, kernels, weights.pieces))
    partitions: list[tuple[int, Sequence[container.Bytes]]] = [
        (container.MODEL_INOUT_INFO, [described]),
        (container.MODEL_DEF, [defined]),
        (container.WEIGHTS_DATA, inside),
        (container.TBE_KERNELS, kernels),
        (container.CUST_AICPU_KERNELS, []),
        (container.TASK_INFO, []),
    ]
    container.write(path, graph.name or path.stem, platform, dynamic, partitions)


def _runtime_dict(info: ModelInfo) -> dict[str, Any]:
    return {
        "gear_kind": info.gear_kind,
        "gear_outputs": info.gear_outputs,
        "gear_inputs": info.gear_inputs,
        "extra": info.extra,
    }
