"""Constant folding: whatever follows from constants and from known shapes is computed once, now.

Shape arithmetic (Shape → Gather → Concat → Reshape) becomes constants when the shapes are known, which makes the shapes
behind it known in turn; so folding and shape inference alternate until nothing changes any more.
"""

from __future__ import annotations

import numpy as np

from softnpu.base.dtypes import DType, numpy_name
from softnpu.base.log import WARNING, log
from softnpu.compiler.lowering import evaluate
from softnpu.compiler.lowering.infer import infer_graph
from softnpu.compiler.lowering.lower import Lowered, lower_node
from softnpu.graph.ir import Constant, Graph, Node, Value
from softnpu.graph.onnx_def import attributes_of

_MAX_ROUNDS = 12
_LARGE_BYTES = 1 << 20  # a result above this must not be larger than what it is made of
_GROWING = frozenset(
    {"ConstantOfShape", "Range", "Expand", "Tile", "Resize", "Upsample", "OneHot", "EyeLike", "Pad"}
)  # small inputs may make large results
_KEPT = frozenset(
    {
        "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout",
        "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "If", "Loop", "Scan", "SequenceMap", "Constant",
    }
)  # fmt: skip


def fold(graph: Graph, known: bool = False) -> int:
    """Fold until nothing changes; returns how many nodes became constants. `known` says that shapes are there already."""
    total = 0
    for round_ in range(_MAX_ROUNDS):
        if not (known and round_ == 0):
            infer_graph(graph)
        done = _shapes(graph) + _constants(graph)
        total += done
        if not done:
            break
    if total:
        graph.sweep()
    return total


def _op_type(node: Node) -> str:
    """The ONNX operator that a node is; "" for several, and for those of other domains."""
    if node.source is None or len(node.source.ops) != 1:
        return ""
    op = node.source.ops[0]
    return str(op.get("op_type", "")) if op.get("domain", "") in ("", "ai.onnx") else ""


def _become_const(node: Node, constant: Constant) -> None:
    value = node.outputs[0]
    value.dtype, value.shape = constant.dtype, constant.shape
    node.type, node.inputs, node.attrs, node.data, node.source = "Const", [], {}, constant, None


def _shapes(graph: Graph) -> int:
    """Shape and Size of tensors whose dims are known."""
    done = 0
    for node in graph.nodes:
        op_type = _op_type(node)
        if op_type not in ("Shape", "Size") or not node.inputs or node.inputs[0] is None or len(node.outputs) != 1:
            continue
        value = node.inputs[0]
        if value.shape is None or not value.static:
            continue
        dims = np.array(value.shape, np.int64)
        if op_type == "Size":
            _become_const(node, Constant.of(np.array(int(np.prod(dims)), np.int64)))
        else:
            assert node.source is not None
            attrs = attributes_of(node.source.ops[0])
            rank = len(value.shape)
            start, end = _bound(attrs.get("start", 0), rank), _bound(attrs.get("end", rank), rank)
            _become_const(node, Constant.of(dims[start:end]))
        done += 1
    return done


def _bound(value: int, rank: int) -> int:
    return min(max(value + rank if value < 0 else value, 0), rank)


def _constants(graph: Graph) -> int:
    """Nodes whose inputs are all constants, evaluated together in one run of the engine."""
    fixed: set[int] = set()
    chosen: list[Node] = []
    for node in graph.nodes:
        if node.type == "Const":
            fixed.update(id(value) for value in node.outputs)
        elif node.inputs and all(value is None or id(value) in fixed for value in node.inputs) and _foldable(node):
            fixed.update(id(value) for value in node.outputs)
            chosen.append(node)
    if not chosen:
        return 0
    return _evaluate(graph, chosen)


def _foldable(node: Node) -> bool:
    if node.source is None or any(
        op.get("op_type", "") in _KEPT or op.get("domain", "") not in ("", "ai.onnx") for op in node.source.ops
    ):
        return False
    size = 0
    for value in node.outputs:
        if not numpy_name(value.dtype) or value.dtype == DType.STRING:
            return False
        size += value.bytes()
    taken = sum(value.bytes() for value in node.inputs if value is not None)
    if not all(value.static for value in node.outputs):  # once its shape input is folded, a later round knows the size
        return _op_type(node) not in _GROWING and taken <= _LARGE_BYTES
    return size <= _LARGE_BYTES or size <= taken


def _evaluate(graph: Graph, chosen: list[Node]) -> int:
    inside = {id(node) for node in chosen}
    into = Lowered()
    constants: dict[int, Value] = {}
    for node in chosen:
        lower_node(node, graph.opsets.get("", 0), graph.unique, into)
        for value in node.inputs:
            if value is not None and value.const is not None:
                constants[id(value)] = value
    used = {id(output.value) for output in graph.outputs}
    kept: set[int] = set()
    for node in graph.nodes:
        if id(node) not in inside:
            used.update(id(value) for value in node.inputs if value is not None)
            if _op_type(node) in (
                "If",
                "Loop",
            ):  # the engine unrolls what has a constant condition, and not always rightly
                kept.update(id(value) for value in node.inputs[:2] if value is not None)
    wanted = [value for node in chosen for value in node.outputs if id(value) in used and id(value) not in kept]
    if not wanted:
        return 0
    try:
        arrays = evaluate.fold(graph, into, constants.values(), wanted)
    except Exception as error:  # the engine refuses something in there: the check of the whole model will say what
        log().write(WARNING, f"constants are not folded: {' '.join(str(error).split())[:300]}", "GE", "fold")
        return 0
    return _put(graph, wanted, arrays)


def _put(graph: Graph, wanted: list[Value], arrays: list[evaluate.Array]) -> int:
    done = 0
    ready: list[Node] = []
    for value, array in zip(wanted, arrays, strict=True):
        producer = value.producer
        assert producer is not None
        if array.nbytes > _LARGE_BYTES and array.nbytes > 4 * sum(
            taken.bytes() for taken in producer.inputs if taken is not None
        ):
            continue
        constant = Constant.of(array)
        if len(producer.outputs) == 1:
            _become_const(producer, constant)
        else:
            producer.outputs = [
                output if output is not value else Value(graph.unique(f"{value.name}/folded"), producer=producer)
                for output in producer.outputs
            ]
            value.dtype, value.shape = constant.dtype, constant.shape
            constant_node = Node(graph.unique(value.name), "Const", [], [value], data=constant)
            value.producer = constant_node
            ready.append(constant_node)
        done += 1
    graph.nodes[:0] = ready
    return done
