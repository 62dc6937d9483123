"""AABiasaddConvFusion: a constant per channel that is added after a convolution without a bias becomes its bias."""

from __future__ import annotations

import numpy as np

from softnpu.compiler.passes.convolution._conv import Convolution, fold_followers
from softnpu.compiler.passes.convolution.conv_add import addend
from softnpu.compiler.passes.edit import Array, Edit, array_of
from softnpu.graph.ir import Graph, Node

NAME = "AABiasaddConvFusion"
GROUP = "GraphFusion"


def run(graph: Graph) -> tuple[int, int]:
    """Fold BiasAdd, and Add where the convolution has no bias yet."""
    return fold_followers(graph, _affine)


def _affine(_edit: Edit, conv: Convolution, node: Node) -> tuple[None, Array] | None:
    shift = _bias(conv, node)
    if shift is None and conv.bias is None:
        shift = addend(conv, node)
    return None if shift is None else (None, shift)


def _bias(conv: Convolution, node: Node) -> Array | None:
    if node.source is not None or node.type != "BiasAdd" or node.inputs[0] is not conv.output:
        return None
    data = str(node.attrs.get("data_format", "NHWC"))
    bias = array_of(node.inputs[1])
    if (1 if data[1:2] == "C" else -1) != conv.channel_axis or bias is None or bias.shape != (conv.channels,):
        return None
    return bias.astype(np.float64)
