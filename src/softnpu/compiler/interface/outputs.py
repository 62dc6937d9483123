"""What the ends of the model look like: `--out_nodes`, `--output_type`, `--input_fp16_nodes` and the two layout options.

`check` looks at the texts alone, `select` changes the graph. It is meant to be called right after a frontend, while nodes
still have the names of the source model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from softnpu.base.dtypes import DType, TensorFormat, numpy_name
from softnpu.compiler.interface.shapes import find_input, near
from softnpu.compiler.lowering.infer import infer_graph, infer_node
from softnpu.compiler.messages import error
from softnpu.compiler.options.rows import Options
from softnpu.graph.ir import GIVEN, Graph, Node, Output, Shape, Value

CAFFE, TENSORFLOW, ONNX = 0, 3, 5
TYPES = {
    "FP32": 0, "FP16": 1, "INT8": 2, "INT32": 3, "UINT8": 4, "INT16": 6, "UINT16": 7, "UINT32": 8, "INT64": 9, "UINT64": 10,
    "DOUBLE": 11,
}  # fmt: skip
_FUTURE = frozenset({"HIF8", "FP8E5M2", "FP8E4M3FN"})
_FP16 = 1
_NCHW, _NHWC, _NC1HWC0 = TensorFormat.NCHW, TensorFormat.NHWC, TensorFormat.NC1HWC0
_LAYOUTS: dict[int, str] = {_NCHW: "NCHW", _NHWC: "NHWC"}
_C0 = 16
_FLOATS = frozenset({DType.FLOAT, DType.DOUBLE})
_LIMITS = {2: (-128, 127), 4: (0, 255), 6: (-32768, 32767), 7: (0, 65535)}  # aclDataType → what it can hold
_INDEXED = re.compile(r"(.+):([0-9]+)", re.ASCII | re.DOTALL)


# ---- texts -----------------------------------------------------------------------------------------------------------


def split(text: str) -> list[str]:
    """The items of a list separated by semicolons."""
    return [item.strip() for item in text.split(";") if item.strip()]


def parse_output_type(text: str) -> tuple[int | None, dict[str, int]]:
    """The type for all outputs, or the types by `node:index`."""
    if not text:
        return None, {}
    if ":" not in text:
        return _type(text.strip(), text), {}
    types: dict[str, int] = {}
    for item in split(text):
        name, _, type_name = item.rpartition(":")
        if not name or name in types:
            reason = f"[{name}] is there twice" if name else "every item must look like node:0:FP16"
            raise error("E10001", parameter="output_type", value=text, reason=reason)
        types[name] = _type(type_name, text)
    return None, types


def _type(type_name: str, text: str) -> int:
    if type_name in _FUTURE:
        raise error("E10055", reason=f"no chip of this version computes the output type {type_name}")
    if type_name not in TYPES:
        reason = f"[{type_name}] is none of {', '.join(TYPES)}"
        raise error("E10001", parameter="output_type", value=text, reason=reason)
    return TYPES[type_name]


def parse_switches(text: str, option: str, nodes: list[str], nodes_option: str) -> list[bool]:
    """A comma list of true and false, one per node of another option."""
    if not text:
        return []
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in ("true", "false"):
            raise error("E10005", parameter=option, value=text)
    if len(words) != len(nodes):
        reason = f"it has {len(words)} words, but {nodes_option} names {len(nodes)} nodes"
        raise error("E10001", parameter=option, value=text, reason=reason)
    return [word == "true" for word in words]


def check(options: Options) -> None:
    """Raise for texts that are wrong whatever the model is."""
    nodes = split(options.out_nodes)
    twice = next((node for index, node in enumerate(nodes) if node in nodes[:index]), None)
    if twice is not None:
        raise error("E10001", parameter="out_nodes", value=options.out_nodes, reason=f"[{twice}] is there twice")
    if options.framework == TENSORFLOW:
        bad = next((node for node in nodes if not _INDEXED.fullmatch(node)), None)
        if bad is not None:
            reason = f"[{bad}] must be written with the index of the output, such as {bad.partition(':')[0]}:0"
            raise error("E10001", parameter="out_nodes", value=options.out_nodes, reason=reason)
    _, types = parse_output_type(options.output_type)
    for name in types:
        if name not in nodes:
            reason = f"[{name}] is not given by out_nodes"
            raise error("E10001", parameter="output_type", value=options.output_type, reason=reason)
    _switches(options)


def _switches(options: Options) -> tuple[list[bool], list[bool]]:
    inputs = parse_switches(
        options.is_input_adjust_hw_layout,
        "is_input_adjust_hw_layout",
        split(options.input_fp16_nodes),
        "input_fp16_nodes",
    )
    outputs = parse_switches(
        options.is_output_adjust_hw_layout, "is_output_adjust_hw_layout", split(options.out_nodes), "out_nodes"
    )
    return inputs, outputs


def check_aipp(options: Options, names: Iterable[str]) -> None:
    """Raise E10034 when an input that AIPP takes shall also be fp16."""
    wanted = split(options.input_fp16_nodes)
    for name in names:
        if name in wanted:
            raise error("E10034", name=name)


# ---- the graph -------------------------------------------------------------------------------------------------------


def select(graph: Graph, options: Options) -> None:
    """Choose the outputs, and give inputs and outputs the types and layouts that the options ask for."""
    check(options)
    input_switches, output_switches = _switches(options)
    if options.out_nodes:
        values = choose(graph, split(options.out_nodes), options.out_nodes)
        graph.outputs = [Output(value, output_name(graph, value)) for value in values]
        graph.sweep()
    everything, types = parse_output_type(options.output_type)
    names = split(options.out_nodes)
    for index, output in enumerate(graph.outputs):
        wanted = types.get(names[index]) if names else None
        wanted = everything if wanted is None else wanted
        packed = bool(output_switches) and output_switches[index]
        if packed:
            _learn(graph, output.value, options.input_format)
            output.value = _pack(graph, _cast(graph, output.value, _FP16), output.name)
        elif wanted is not None:
            output.value = _cast(graph, output.value, wanted)
    for index, name in enumerate(split(options.input_fp16_nodes)):
        node = find_input(graph, name, "input_fp16_nodes")
        _take_fp16(graph, node, bool(input_switches) and input_switches[index])


def output_name(graph: Graph, value: Value) -> str:
    """The name under which programs see an output."""
    node = value.producer
    assert node is not None
    producer = f"{node.name}:{node.outputs.index(value)}"
    return producer if graph.framework == TENSORFLOW else f"{producer}:{value.name}"


def choose(graph: Graph, items: list[str], text: str) -> list[Value]:
    """The values that out_nodes names: all as `node:index`, or all as names of tensors."""
    tensors = {value.name: value for value in graph.values()} | graph.tensors
    nodes = {origin: node for node in graph.nodes for origin in node.origin} | {node.name: node for node in graph.nodes}
    chosen: list[tuple[bool, Value]] = []
    for item in items:
        match = _INDEXED.fullmatch(item)
        if match and (match[1] in nodes or item not in tensors or graph.framework == TENSORFLOW):
            chosen.append((True, _at(graph, nodes, match[1], int(match[2][:9]), text)))
        else:
            chosen.append((False, _named(graph, tensors, nodes, item, text)))
    if len({indexed for indexed, _ in chosen}) > 1:
        reason = "nodes with an index and plain names are mixed; use one of the forms"
        raise error("E10001", parameter="out_nodes", value=text, reason=reason)
    return [value for _, value in chosen]


def _at(graph: Graph, nodes: dict[str, Node], name: str, index: int, text: str) -> Value:
    node = nodes.get(name)
    if node is None:
        reason = near(name, list(nodes), "its nodes are")
        if graph.framework == CAFFE:
            raise error("E11017", name=name, reason=reason)
        raise error("E10016", name=name, parameter="out_nodes", reason=reason)
    if index >= len(node.outputs):
        reason = f"node [{name}] has {len(node.outputs)} outputs, so the index {index} is too large"
        raise error("E10003", parameter="out_nodes", value=text, reason=reason)
    return node.outputs[index]


def _named(graph: Graph, tensors: dict[str, Value], nodes: dict[str, Node], item: str, text: str) -> Value:
    if item in tensors:
        return tensors[item]
    name, colon, index = item.rpartition(":")
    if colon and name in nodes:
        reason = f"[{index}] is no index of an output; write it like {name}:0"
        raise error("E10001", parameter="out_nodes", value=text, reason=reason)
    reason = near(item, list(tensors), "its tensors are")
    if graph.framework == CAFFE:
        raise error("E11017", name=item, reason=reason)
    raise error(
        "E19999",
        reason=f"[{item}] given by parameter [out_nodes] is no tensor of the model; {reason}",
        cause="the name is misspelt, or it belongs to another model",
        solution="Use the name of a tensor, or node:0 with the name of a node",
    )


def _like(value: Value, name: str, dtype: int) -> Value:
    return Value(name, dtype, value.shape, value.format, words=value.words)


def _cast(graph: Graph, value: Value, dtype: int) -> Value:
    """The value in another type, by a Cast at the end of the graph."""
    if value.dtype == dtype:
        return value
    if value.dtype in _FLOATS and dtype in _LIMITS:  # as on the device: what does not fit becomes the nearest that does
        low, high = (
            graph.const(np.array(limit, numpy_name(value.dtype)), f"{value.name}_limit") for limit in _LIMITS[dtype]
        )
        limited = graph.op("ClipByValue", [value, low, high], f"{value.name}_clip").output
        limited.dtype, limited.shape, limited.format = value.dtype, value.shape, value.format
        value = limited
    name = graph.unique(f"{value.name}_cast")
    node = Node(name, "Cast", [value], [_like(value, name, dtype)], {"dst_type": dtype})
    return graph.add(node).output


def _blocked(value: Value, name: str, option: str) -> Shape:
    """The shape of a value as NC1HWC0."""
    if value.shape is None or len(value.shape) != 4 or value.format not in _LAYOUTS:
        reason = f"[{name}] is no 4-D tensor in NCHW or NHWC"
        raise error("E10001", parameter=option, value="true", reason=reason)
    n, c, h, w = value.shape if value.format == _NCHW else [value.shape[index] for index in (0, 3, 1, 2)]
    if c < 0:
        raise error("E10001", parameter=option, value="true", reason=f"the channels of [{name}] are not known")
    return n, -(-c // _C0), h, w, _C0


def _formats(source: int, target: int) -> dict[str, str]:
    words = {**_LAYOUTS, _NC1HWC0: "NC1HWC0"}
    return {"src_format": words[source], "dst_format": words[target]}


def _learn(graph: Graph, value: Value, input_format: str) -> None:
    """Find the shape of an output before its layout is changed; right after a frontend it may not be known yet."""
    if value.shape is None or not value.static:
        if graph.framework == ONNX:
            infer_graph(graph)
        else:
            for node in graph.nodes:
                if node.type not in GIVEN:
                    infer_node(graph, node)
    if value.format not in _LAYOUTS:
        value.format = next((form for form, name in _LAYOUTS.items() if name == input_format), value.format)


def _pack(graph: Graph, value: Value, name: str) -> Value:
    shape = _blocked(value, name, "is_output_adjust_hw_layout")
    packed = Value(graph.unique(f"{value.name}_nc1hwc0"), value.dtype, shape, _NC1HWC0)
    node = Node(packed.name, "TransData", [value], [packed], dict(_formats(value.format, _NC1HWC0)))
    return graph.add(node).output


def _take_fp16(graph: Graph, node: Node, packed: bool) -> None:
    """Let an input come as fp16, and as NC1HWC0 where asked, and turn it back for those who take it."""
    value = node.output
    old_type, old_format, plain = value.dtype, value.format, value.shape
    steps: list[Node] = []
    if packed:
        value.shape = _blocked(value, node.name, "is_input_adjust_hw_layout")
        value.words = ()
        back = Value(graph.unique(f"{value.name}_plain"), _FP16, plain, old_format)
        steps.append(Node(back.name, "TransData", [value], [back], dict(_formats(_NC1HWC0, old_format))))
        value.format = _NC1HWC0
    value.dtype = _FP16
    if old_type != _FP16:
        last = steps[-1].output if steps else value
        name = graph.unique(f"{value.name}_cast")
        steps.append(Node(name, "Cast", [last], [_like(last, name, old_type)], {"dst_type": old_type}))
    if not steps:
        return
    graph.replace(value, steps[-1].output)
    steps[0].inputs = [value]
    # Bodies inside operators know the input by its name, so the name goes to what they shall get.
    value.name, steps[-1].output.name = steps[-1].output.name, value.name
    position = graph.nodes.index(node) + 1
    for step in steps:
        for output in step.outputs:
            output.producer = step
    graph.nodes[position:position] = steps
