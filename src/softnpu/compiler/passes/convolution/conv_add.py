"""TBEConvAddFusion: a constant per channel that is added after a convolution with a bias goes into that bias."""

from __future__ import annotations

from softnpu.compiler.passes.convolution._conv import Convolution, fold_followers, per_channel
from softnpu.compiler.passes.edit import Array, Edit, op_type_of, other_input
from softnpu.graph.ir import Graph, Node

NAME = "TBEConvAddFusion"
GROUP = "GraphFusion"


def run(graph: Graph) -> tuple[int, int]:
    """Fold every addition of a constant that alone takes the result of a convolution with a bias."""
    return fold_followers(graph, _affine)


def _affine(_edit: Edit, conv: Convolution, node: Node) -> tuple[None, Array] | None:
    shift = addend(conv, node) if conv.bias is not None else None
    return None if shift is None else (None, shift)


def addend(conv: Convolution, node: Node) -> Array | None:
    """What an Add adds to every channel of a convolution's result."""
    if op_type_of(node) != "Add" and (node.source is not None or node.type not in ("Add", "AddV2")):
        return None
    return per_channel(conv, other_input(node, conv.output))
