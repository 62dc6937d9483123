"""AConv2dMulFusion: a constant factor per channel after a convolution goes into its filter and bias."""

from __future__ import annotations

import numpy as np

from softnpu.compiler.passes.convolution._conv import Convolution, fold_followers, per_channel
from softnpu.compiler.passes.edit import Array, Edit, op_type_of, other_input
from softnpu.graph.ir import Graph, Node

NAME = "AConv2dMulFusion"
GROUP = "GraphFusion"


def run(graph: Graph) -> tuple[int, int]:
    """Fold every multiplication by a constant that alone takes a convolution's result."""
    return fold_followers(graph, _affine)


def _affine(_edit: Edit, conv: Convolution, node: Node) -> tuple[Array, Array] | None:
    if op_type_of(node) != "Mul" and (node.source is not None or node.type != "Mul"):
        return None
    factor = per_channel(conv, other_input(node, conv.output))
    return None if factor is None else (factor, np.zeros(conv.channels))
