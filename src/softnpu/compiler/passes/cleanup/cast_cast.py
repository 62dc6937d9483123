"""CastCastFusionPass: of two Casts in a row the first goes away where it loses nothing."""

from __future__ import annotations

from softnpu.base.dtypes import DType, from_onnx, to_onnx
from softnpu.compiler.passes.edit import Edit, attributes, op_type_of, origin, rewrite
from softnpu.graph.ir import Graph, Node

NAME = "CastCastFusionPass"
GROUP = "GraphFusion"

_FLOATS = (1, 0, 11)  # float16 fits into float32, that into double
_SIGNED = (2, 6, 3, 9)
_UNSIGNED = (4, 7, 8, 10)
_BOOL = DType.BOOL
_DIGITS = {1: 11, 0: 24, 11: 53}  # integers up to two to this power are exact
_BITS = {2: 7, 6: 15, 3: 31, 9: 63, 4: 8, 7: 16, 8: 32, 10: 64}


def target(node: Node) -> int | None:
    """The type a Cast makes; None for any other node."""
    if op_type_of(node) == "Cast":
        return from_onnx(int(attributes(node).get("to", 0)))
    if node.source is None and node.type == "Cast":
        return int(node.attrs["dst_type"])
    return None


def lossless(first: int, second: int) -> bool:
    """Whether every value of a type is one of the other."""
    if first == second:
        return True
    if first == _BOOL:
        return second in (*_FLOATS, *_SIGNED, *_UNSIGNED)
    if first in _FLOATS:
        return second in _FLOATS and _FLOATS.index(first) < _FLOATS.index(second)
    if first not in _BITS:
        return False
    if second in _FLOATS:
        return _BITS[first] <= _DIGITS[second]
    return second in _BITS and _BITS[first] <= _BITS[second] and (second in _SIGNED or first in _UNSIGNED)


def skippable(first: int, middle: int, last: int) -> bool:
    """Whether first → middle → last is first → last for every value, those that `last` cannot hold included."""
    if not lossless(first, middle):
        return False
    if first in (last, _BOOL) or last in _FLOATS:
        return True
    return first not in _FLOATS and middle not in _FLOATS  # integers wrap the same way


def run(graph: Graph) -> tuple[int, int]:
    """Let the second Cast take what the first one took, or go away as well where it only led back."""
    edit = Edit(graph)
    match = effect = 0
    for node in edit.nodes():
        last = target(node)
        before = node.inputs[0].producer if last is not None and node.inputs[0] is not None else None
        middle = target(before) if before is not None else None
        start = before.inputs[0] if before is not None and middle is not None else None
        if last is None or middle is None or before is None or start is None or start.dtype < 0:
            continue
        match += 1
        if not skippable(start.dtype, middle, last):
            continue
        effect += 1
        if start.dtype == last and id(node.output) not in edit.results:
            edit.bypass(node.output, start)
            edit.drop(node)
        else:
            edit.set_inputs(node, [start])
            if node.source is not None:
                rewrite(node, "Cast", {"to": to_onnx(last)})
            node.origin = list(dict.fromkeys([*origin(before), *origin(node)]))
    edit.finish()
    return match, effect
