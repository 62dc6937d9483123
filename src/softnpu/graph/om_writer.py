"""Writing an `.om`: the graph as a GE ModelDef, weights, the description of inputs and outputs, the programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from softnpu.base.dtypes import DType
from softnpu.graph import container, digest, runtime_info
from softnpu.graph.attrs import list_attr, tensor_desc, to_attr
from softnpu.graph.inout import ModelInfo, inout_bytes
from softnpu.graph.ir import Constant, Graph, Node, Shape
from softnpu.graph.model_def import MODEL, TENSOR_DESC
from softnpu.graph.program import PROGRAM, Program, Weights, kernel_item, program_bytes
from softnpu.graph.wire import encode

STRING = DType.STRING
Describe = Callable[
    [int, "Shape | None", int], Any
]  # dtype, shape, format → a TensorDescriptor, as dictionary or as bytes


def _op_def(
    node: Node, index: int, weights: Weights, places: dict[int, tuple[Node, int]], describe: Describe
) -> dict[str, Any]:
    inputs, sources, numbers, const, descs = [], [], [], [], []
    for value in node.inputs:
        if value is None:
            inputs.append("")
            const.append(False)
            descs.append(describe(-1, (), 2))
            continue
        producer, port = places[id(value)]
        inputs.append(f"{producer.name}:{port}")
        sources.append(producer.name)
        numbers.append(port)
        const.append(producer.type == "Const")
        descs.append(describe(value.dtype, value.shape, value.format))
    attrs = {key: attr for key, value in node.attrs.items() if (attr := to_attr(value)) is not None}
    if node.data is not None:
        attrs["value"] = {"t": {"desc": _const_desc(node.data, weights, describe)}}
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
        "output_desc": [describe(value.dtype, value.shape, value.format) for value in node.outputs],
    }


@functools.lru_cache(maxsize=4096)
def _packed(dtype: int, shape: Shape | None, format: int) -> bytes:
    """A description as bytes; few of them differ in a graph, so each is encoded once."""
    return encode(TENSOR_DESC, tensor_desc(dtype, shape, format))


def _const_desc(constant: Constant, weights: Weights, describe: Describe) -> Any:
    desc = describe(constant.dtype, constant.shape, 2)
    if constant.dtype == STRING:
        return desc
    location = {"data_offset": weights.add(constant), "weight_size": len(constant.data)}
    return desc + encode(TENSOR_DESC, location) if isinstance(desc, bytes) else {**desc, **location}


def graph_def(graph: Graph, weights: Weights, describe: Describe = tensor_desc) -> dict[str, Any]:
    """The graph as a GraphDef, with a NetOutput at its end."""
    places = {id(value): (node, port) for node in graph.nodes for port, value in enumerate(node.outputs)}
    result = [_op_def(node, index, weights, places, describe) for index, node in enumerate(graph.nodes)]
    end = Node("Node_Output", "NetOutput", [output.value for output in graph.outputs])
    result.append(_op_def(end, len(result), weights, places, describe))
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
    weights_name: str = "",
) -> None:
    """Write a model; with `weights_file` the weights go there and the `.om` only names their places (in a file that will be
    called `weights_name` one day)."""
    name = _utf8(graph.name or path.stem)
    weights = Weights()
    definition = graph_def(graph, weights, _packed)
    kernels = [
        part
        for index, program in enumerate(programs)
        for part in kernel_item(f"{PROGRAM}.{index}", program_bytes(program, weights))
    ]
    info.weight_size = weights.size
    sizes = {
        "memory_size": info.memory_size,
        "weight_size": info.weight_size,
        "om_info_list": [weights.size, sum(map(len, kernels)) + digest.ITEM_BYTES, 0, 0, 0],
    }
    more = {"softnpu": runtime_info.write(info)}
    if weights_file is not None:
        more["softnpu_weight_file"] = weights_name or weights_file.name
    model = {
        "name": name,
        "version": 1,
        "graph": [definition],
        "attr": {
            key: attr
            for key, value in {**attrs, **sizes, **more}.items()
            if (attr := to_attr(_utf8(value) if isinstance(value, str) else value)) is not None
        },
    }
    dynamic = any(tensor.ranges for tensor in info.inputs)
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
    container.write(path, name, platform, dynamic, partitions)


def _utf8(text: str) -> str:
    """A text from a command line, which may hold bytes that are no UTF-8."""
    return text.encode("utf-8", "replace").decode()
