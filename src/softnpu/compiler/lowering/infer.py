"""Shapes and types: of one node as a frontend makes it, or of a whole graph.

ONNX's own inference does the work on the lowered operators, so that an operator file needs no shape rule of its own;
`infer` of an operator goes first where there is one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from softnpu import ops
from softnpu.base.dtypes import DType, from_onnx, to_onnx
from softnpu.compiler.errors import AtcError
from softnpu.compiler.lowering.lower import Lowered, called, lower_node, site_of
from softnpu.graph.ir import GIVEN, Constant, Graph, Node, Shape, Value
from softnpu.graph.onnx_def import MODEL, make_tensor, make_value_info
from softnpu.graph.wire import encode

_SMALL_BYTES = 2048  # constants that inference may want to read (shapes, axes, scales)
_MAX_IR = 11
_LONGEST_VECTOR = 1 << 18


def infer_node(graph: Graph, node: Node, strict: bool = False) -> None:
    """Find type and shape of the outputs of a node whose inputs are known; `strict` raises where they do not fit."""
    operator = None if node.source is not None else ops.find(node.type)
    if operator is not None and operator.infer is not None:
        rule = operator.infer
        results = called(node, lambda: rule(site_of(node)))
        for value, (dtype, shape) in zip(node.outputs, results, strict=False):
            value.dtype, value.shape = dtype, shape
        return
    into = Lowered()
    lower_node(node, graph.opsets.get("", ops.NATIVE_OPSET), graph.unique, into)
    if into.host:
        raise AtcError("E89999", f"{node.type} [{node.name}] has no rule for its shape")
    known = [value for value in node.inputs if value is not None]
    _apply(run(graph, into, known, node.outputs, strict=strict), node.outputs)


def infer_graph(graph: Graph) -> None:
    """Find types and shapes of everything that follows from the inputs of a graph that came from ONNX."""
    if any(node.source is None and node.type not in GIVEN for node in graph.nodes):
        for node in graph.nodes:  # operators of ours need to know the shapes before them
            if node.type not in GIVEN:
                infer_node(graph, node)
        return
    into = Lowered()
    opset = graph.opsets.get("", ops.NATIVE_OPSET)
    for node in graph.nodes:
        lower_node(node, opset, graph.unique, into)
    known = [value for node in graph.nodes if node.type in GIVEN for value in node.outputs]
    rest = [value for node in graph.nodes if node.type not in GIVEN for value in node.outputs]
    _apply(run(graph, into, known, rest), rest)


def _apply(inferred: dict[str, tuple[int, Shape | None]], values: Iterable[Value]) -> None:
    for value in values:
        dtype, shape = inferred.get(value.name, (-1, None))
        if dtype >= 0:
            value.dtype = dtype
        if shape is not None:
            value.shape = shape


def encode_model(
    graph: Graph,
    nodes: list[dict[str, Any]],
    inputs: Sequence[dict[str, Any]],
    outputs: Sequence[dict[str, Any]],
    initializers: Sequence[dict[str, Any]],
    domains: dict[str, int],
) -> bytes:
    """The bytes of an ONNX model with these parts."""
    opsets = {"": ops.NATIVE_OPSET, **domains, **graph.opsets}
    model = {
        "ir_version": min(ir_version(opsets.get("", ops.NATIVE_OPSET)), _MAX_IR),
        "graph": {
            "node": nodes,
            "name": graph.name or "graph",
            "initializer": initializers,
            "input": inputs,
            "output": outputs,
        },
        "opset_import": [{"domain": domain, "version": version} for domain, version in opsets.items()],
        "functions": graph.functions,
    }
    return encode(MODEL, model)


def ir_version(opset: int) -> int:
    """The smallest version of the file format that an opset may stand in."""
    steps = ((24, 13), (23, 11), (21, 10), (19, 9), (15, 8), (12, 7), (11, 6), (10, 5), (9, 4))
    return max(next((version for low, version in steps if opset >= low), 3), 4)


def _tensor(value: Value, constant: Constant) -> dict[str, Any]:
    return make_tensor(value.name, constant)


@functools.cache
def _onnx() -> Any:
    """The one import of onnx."""
    import onnx
    import onnx.shape_inference

    return onnx


def _short(shape: Shape | None) -> bool:
    """Whether a tensor may stand for a shape: following values, ONNX keeps a symbol for every element of a vector."""
    return shape is None or len(shape) != 1 or shape[0] <= _LONGEST_VECTOR


def since(op_type: str, opset: int) -> int:
    """The opset in which an ONNX operator got the meaning that it has in `opset`; `opset` itself for one that ONNX lacks."""
    onnx = _onnx()
    if not onnx.defs.has(op_type):
        return opset
    return int(onnx.defs.get_schema(op_type, max_inclusive_version=opset).since_version)


def run(
    graph: Graph,
    lowered: Lowered,
    known: Iterable[Value],
    wanted: Iterable[Value],
    overrides: dict[str, Shape] | None = None,
    strict: bool = False,
) -> dict[str, tuple[int, Shape | None]]:
    """ONNX's shape inference over lowered operators: name → (type, shape) of every value it could tell."""
    known = list(known)
    values = all(_short((overrides or {}).get(value.name, value.shape)) for value in known)
    inputs, initializers = _known_messages(known, overrides or {})
    initializers += [make_tensor(name, constant) for name, constant in lowered.constants.items()]
    outputs = [{"name": value.name} for value in wanted]
    data = encode_model(graph, lowered.nodes, inputs, outputs, initializers, lowered.domains)
    onnx = _onnx()
    try:
        model = onnx.shape_inference.infer_shapes(data, check_type=False, strict_mode=strict, data_prop=values)
    except Exception as error:
        raise AtcError(
            "E89999",
            f"shape inference failed: {_first_line(error)}",
            "the operators do not fit together",
            "check the input shapes given with --input_shape",
        ) from error
    if isinstance(model, bytes):
        model = onnx.ModelProto.FromString(model)
    return _inferred(model)


def _known_messages(
    known: list[Value], overrides: dict[str, Shape]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What inference starts from: inputs, and small constants with their contents, which shapes may depend on."""
    inputs, initializers = [], []
    for value in known:
        constant = value.const
        if (
            constant is not None
            and constant.dtype != DType.STRING
            and len(constant.data) <= _SMALL_BYTES
            and to_onnx(constant.dtype)
        ):
            initializers.append(_tensor(value, constant))
        else:
            shape = overrides.get(value.name, value.shape)
            inputs.append(make_value_info(value.name, value.dtype, shape, value.words))
    return inputs, initializers


def _inferred(model: Any) -> dict[str, tuple[int, Shape | None]]:
    """The types and shapes that an inferred model tells."""
    inferred: dict[str, tuple[int, Shape | None]] = {}
    for info in (*model.graph.value_info, *model.graph.output):
        if info.type.HasField("tensor_type"):
            tensor = info.type.tensor_type
            shape = None
            if tensor.HasField("shape"):
                shape = tuple(
                    dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else -1
                    for dim in tensor.shape.dim
                )
            inferred[info.name] = (from_onnx(tensor.elem_type), shape)
    return inferred


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
