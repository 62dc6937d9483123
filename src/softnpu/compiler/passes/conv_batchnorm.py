"""ConvBatchnormFusionPass: an inference batch normalisation goes into the filter and bias of the convolution before it."""

from __future__ import annotations

import numpy as np

from softnpu.compiler.passes._conv import Convolution, fold_followers
from softnpu.compiler.passes._edit import Array, Edit, array_of, attributes, word
from softnpu.graph.ir import Graph, Node

NAME = "ConvBatchnormFusionPass"
GROUP = "GraphFusion"


def run(graph: Graph) -> tuple[int, int]:
    """Fold every batch normalisation with constant statistics that alone takes a convolution's result."""
    return fold_followers(graph, _affine)


def _affine(edit: Edit, conv: Convolution, norm: Node) -> tuple[Array, Array] | None:
    """Factor and shift of a normalisation."""
    if norm.inputs[0] is not conv.output or any(
        edit.users.get(value) or id(value) in edit.results for value in norm.outputs[1:]
    ):
        return None
    given = [array_of(value) for value in norm.inputs[1:]]
    if norm.source is not None:
        found = attributes(norm)
        if word(norm) != "BatchNormalization" or found.get("training_mode", 0) or not found.get("spatial", 1):
            return None
        return _from_statistics(conv, given, float(found.get("epsilon", 1e-5)))
    if norm.type != "BatchNorm" or norm.attrs.get("is_training", True):
        return None
    data = str(norm.attrs.get("data_format", "NHWC"))
    if (1 if data[1:2] == "C" else -1) != conv.channel_axis:
        return None
    return _from_statistics(conv, given, float(norm.attrs.get("epsilon", 1e-4)))


def _from_statistics(conv: Convolution, given: list[Array | None], epsilon: float) -> tuple[Array, Array] | None:
    if len(given) != 4 or any(one is None or one.shape != (conv.channels,) for one in given):
        return None
    scale, offset, mean, variance = (one.astype(np.float64) for one in given if one is not None)
    spread = variance + epsilon
    if not (spread > 0).all():
        return None
    factor = scale / np.sqrt(spread)
    return factor, offset - mean * factor
