"""The graph of a single operator: an input for every tensor that is no constant, the operator, and its outputs.

A tensor in a private format gets a TransData beside it, so that the operator itself sees the logical tensor.
"""

from __future__ import annotations

import math

import numpy as np

from softnpu import ops
from softnpu.base.dtypes import numpy_name
from softnpu.compiler.lowering.infer import infer_node
from softnpu.compiler.messages import error
from softnpu.compiler.single_op.description import UNKNOWN_RANK, SingleOp, Tensor, operator_of
from softnpu.compiler.single_op.words import ND, format_word
from softnpu.graph.ir import Graph, Node, Output, Shape, Value
from softnpu.ops.common.private_formats import cube_width, private

_CASTS = frozenset({(9, 3), (3, 9), (1, 0), (0, 1)})  # found and said types of an output that a Cast may bridge
_TRANSDATA = "TransData"


def to_graph(op: SingleOp) -> Graph:
    """The graph; raises where tensors and operator do not fit together."""
    graph, node, operator = _one_node(op)
    wanted = [_logical(op, tensor, f"output {index}") for index, tensor in enumerate(op.outputs)]
    for value, (shape, form) in zip(node.outputs, wanted, strict=True):
        value.format = form
        if operator.infer is not None:
            value.shape = shape  # some operators cannot tell and take what is said
    infer_node(graph, node)
    for index, tensor in enumerate(op.outputs):
        value = _agree(graph, op, index, node, wanted[index][0])
        stored = _stored(graph, op, tensor, index, value)
        stored.format = tensor.format
        graph.outputs.append(Output(stored, f"output_{index}"))
    graph.verify()
    return graph


def infer(op: SingleOp) -> list[tuple[int, Shape | None]]:
    """Types and shapes of the outputs as they follow from the inputs."""
    graph, node, operator = _one_node(op)
    if operator.infer is not None:
        for value, tensor in zip(node.outputs, op.outputs, strict=True):
            value.shape = None if tensor.shape == UNKNOWN_RANK else tensor.shape
    infer_node(graph, node, strict=True)
    return [(value.dtype, value.shape) for value in node.outputs]


def _one_node(op: SingleOp) -> tuple[Graph, Node, ops.Operator]:
    operator = operator_of(op.op)
    if operator is None:
        raise error("E10501", type=op.op, name=op.name or op.op)
    _check_inputs(op, operator)
    graph = Graph(op.op)
    inputs = [_input(graph, op, tensor, index) for index, tensor in enumerate(op.inputs)]
    while inputs and inputs[-1] is None:
        inputs.pop()
    attrs = dict(op.attrs)
    if op.op == "Cast":
        attrs.setdefault("dst_type", op.outputs[0].dtype)  # acl.op.cast and the samples leave it to the output
    node = graph.op(op.op, inputs, op.op, len(op.outputs), **attrs)
    node.input_names = _input_names(op, operator)[: len(inputs)]
    return graph, node, operator


def _check_inputs(op: SingleOp, operator: ops.Operator) -> None:
    """Every input that is not optional must be there, and none that the operator does not have."""
    names = operator.schema.inputs
    for index, name in enumerate(names):
        if not name.endswith(("?", "*")) and (index >= len(op.inputs) or op.inputs[index].absent):
            raise error("E10028", op=op.op, reason=f"its input {index} ({name}) is missing")
        if name.endswith("*"):
            return  # from here on the positions depend on how many there are
    if len(op.inputs) > len(names):
        listed = ", ".join(names) or "none"
        raise error("E10028", op=op.op, reason=f"it has {len(op.inputs)} inputs, the operator takes {listed}")


def _input(graph: Graph, op: SingleOp, tensor: Tensor, index: int) -> Value | None:
    if tensor.absent:
        return None
    name = tensor.name or f"input_{index}"
    if tensor.const is not None:
        value = graph.const(tensor.const, name)
        value.format = tensor.format
    else:
        value = graph.data_node(
            graph.unique(name), tensor.dtype, None if tensor.shape == UNKNOWN_RANK else tensor.shape, tensor.format
        ).output
        value.ranges = tensor.ranges
    if not _converted(op, tensor):
        return value
    shape, form = _logical(op, tensor, f"input {index}")
    words = {"src_format": format_word(tensor.format), "dst_format": format_word(form)}
    node = graph.op(_TRANSDATA, [value], f"{name}_{_TRANSDATA}", 1, **words)
    node.output.shape, node.output.format = shape, form
    infer_node(graph, node)
    return node.output


def _converted(op: SingleOp, tensor: Tensor) -> bool:
    return op.op != _TRANSDATA and private(format_word(tensor.format))


def _logical(op: SingleOp, tensor: Tensor, where: str) -> tuple[Shape | None, int]:
    """Shape and format that the operator sees."""
    if not _converted(op, tensor):
        return None if tensor.shape == UNKNOWN_RANK else tensor.shape, tensor.format
    if tensor.origin_shape is not None:
        return tensor.origin_shape, tensor.origin_format
    format_name, dims = format_word(tensor.format), tensor.shape
    if format_name == "FRACTAL_NZ" and len(dims) >= 4:  # whole blocks
        return (*dims[:-4], dims[-3] * dims[-2], dims[-4] * dims[-1]), ND
    if format_name == "NC1HWC0" and len(dims) == 5:
        return (dims[0], dims[1] * dims[4], dims[2], dims[3]), 0
    raise error(
        "E10027",
        op=op.op,
        tensor=where,
        reason=f"the format {format_name} with the shape {list(dims)} needs origin_shape and origin_format",
    )


def _input_names(op: SingleOp, operator: ops.Operator) -> list[str]:
    """CANN's names: those of the schema; a tensor of a variadic input is `<base><number>`."""
    schema = [name.rstrip("?") for name in operator.schema.inputs]
    names: list[str] = []
    counts: dict[str, int] = {}
    position = 0
    for tensor in op.inputs:
        name = schema[min(position, len(schema) - 1)] if schema else "x"
        group = tensor.dynamic_input or (name[:-1] if name.endswith("*") else "")
        if group:
            number = counts[group] = counts.get(group, -1) + 1
            names.append(f"{group}{number}")
            continue
        names.append(name)
        position += 1
    return names


def _agree(graph: Graph, op: SingleOp, index: int, node: Node, said: Shape | None) -> Value:
    """The output with the type and shape that the description says, where they fit what was found."""
    value, tensor = node.outputs[index], op.outputs[index]
    if value.dtype < 0:
        value.dtype = tensor.dtype
    if value.dtype != tensor.dtype:
        if (value.dtype, tensor.dtype) not in _CASTS:
            difference = f"it has the type {numpy_name(value.dtype) or value.dtype}, the description says {numpy_name(tensor.dtype) or tensor.dtype}"
            raise error("E10027", op=op.op, tensor=f"output {index}", reason=difference)
        cast = graph.op("Cast", [value], f"{node.name}_Cast", 1, dst_type=tensor.dtype)
        cast.output.dtype, cast.output.shape, cast.output.format = tensor.dtype, value.shape, value.format
        value = cast.output
    if value.shape is None:
        value.shape = None if said is None else (-1,) * len(said)  # the run will tell
    if said is None or value.shape is None or value.shape == said:
        return value
    if len(said) == len(value.shape) and all(
        -1 in pair or pair[0] == pair[1] for pair in zip(said, value.shape, strict=True)
    ):
        return value  # what is not known here depends on the data; the description says how much room there is
    if value.static and math.prod(value.shape) == 1 and math.prod(said) == 1:
        return _reshape(graph, value, said)
    reason = f"it has the shape {list(value.shape)}, the description says {list(said)}"
    raise error("E10027", op=op.op, tensor=f"output {index}", reason=reason)


def _reshape(graph: Graph, value: Value, shape: Shape) -> Value:
    """One element in another number of dims."""
    node = graph.op("Reshape", [value, graph.const(np.array(shape, np.int64))], f"{value.name}_Reshape")
    node.output.dtype, node.output.shape, node.output.format = value.dtype, shape, value.format
    return node.output


def _stored(graph: Graph, op: SingleOp, tensor: Tensor, index: int, value: Value) -> Value:
    """The output as it lies in memory."""
    if not _converted(op, tensor):
        return value
    form = _logical(op, tensor, f"output {index}")[1]
    words = {"src_format": format_word(form), "dst_format": format_word(tensor.format)}
    node = graph.op(_TRANSDATA, [value], f"{op.op}_{_TRANSDATA}_{index}", 1, **words)
    infer_node(graph, node)
    if node.output.shape != tensor.shape:
        width = cube_width(numpy_name(tensor.dtype))
        reason = f"stored as {words['dst_format']} (C0 {width}) it has the shape {list(node.output.shape or ())}, the description says {list(tensor.shape)}"
        raise error("E10027", op=op.op, tensor=f"output {index}", reason=reason)
    return node.output
