"""ConvScaleFusionPass: a Scale layer (a factor and a bias per channel) goes into the convolution before it."""

from __future__ import annotations

import numpy as np

from softnpu.compiler.passes.convolution._conv import Convolution, fold_followers
from softnpu.compiler.passes.edit import Array, Edit, array_of
from softnpu.graph.ir import Graph, Node

NAME = "ConvScaleFusionPass"
GROUP = "GraphFusion"


def run(graph: Graph) -> tuple[int, int]:
    """Fold every Scale with constants that alone takes a convolution's result."""
    return fold_followers(graph, _affine)


def _affine(_edit: Edit, conv: Convolution, node: Node) -> tuple[Array, Array] | None:
    if node.source is not None or node.type != "Scale" or node.inputs[0] is not conv.output:
        return None
    if int(node.attrs.get("axis", 1)) % conv.rank != conv.channel_axis % conv.rank:
        return None
    factor = _channels(conv, array_of(node.inputs[1]))
    shift_input = node.inputs[2] if len(node.inputs) > 2 else None
    shift = _channels(conv, array_of(shift_input)) if shift_input is not None else np.zeros(conv.channels)
    return None if factor is None or shift is None else (factor, shift)


def _channels(conv: Convolution, array: Array | None) -> Array | None:
    if array is None or array.shape != (conv.channels,) or array.dtype.kind != "f":
        return None
    return array.astype(np.float64)
