"""ConvBatchnormFusionPass: an inference batch normalisation goes into the filter and bias of the convolution before it."""

from __future__ import annotations

import numpy as np

from softnpu.compiler.passes.convolution._conv import Convolution, fold_followers
from softnpu.compiler.passes.edit import Array, Edit, array_of, attributes, op_type_of
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
    statistics = [array_of(value) for value in norm.inputs[1:]]
    if norm.source is not None:
        attrs = attributes(norm)
        if op_type_of(norm) != "BatchNormalization" or attrs.get("training_mode", 0) or not attrs.get("spatial", 1):
            return None
        return _from_statistics(conv, statistics, float(attrs.get("epsilon", 1e-5)))
    if norm.type == "BNInference":
        return _from_sums(conv, norm, statistics)
    if norm.type != "BatchNorm" or norm.attrs.get("is_training", True):
        return None
    data = str(norm.attrs.get("data_format", "NHWC"))
    if (1 if data[1:2] == "C" else -1) != conv.channel_axis:
        return None
    return _from_statistics(conv, statistics, float(norm.attrs.get("epsilon", 1e-4)))


def _from_sums(conv: Convolution, norm: Node, statistics: list[Array | None]) -> tuple[Array, Array] | None:
    """Caffe's kind: mean and variance are sums that a third number counts (0 in an untrained net: they count as 0)."""
    if conv.channel_axis != 1 or not norm.attrs.get("use_global_stats", True) or norm.attrs.get("mode", 1) != 1:
        return None
    statistics = statistics + [None] * (5 - len(statistics))
    mean, variance, count = statistics[:3]
    absent = [len(norm.inputs) <= index or norm.inputs[index] is None for index in (4, 5)]
    scale = np.ones(conv.channels) if absent[0] else statistics[3]
    offset = np.zeros(conv.channels) if absent[1] else statistics[4]
    if mean is None or variance is None or count is None or count.size != 1:
        return None
    number = float(count.ravel()[0])
    share = 1.0 / number if number else 0.0
    sums = [scale, offset, mean.astype(np.float64) * share, variance.astype(np.float64) * share]
    return _from_statistics(conv, sums, float(norm.attrs.get("epsilon", 1e-5)))


def _from_statistics(conv: Convolution, statistics: list[Array | None], epsilon: float) -> tuple[Array, Array] | None:
    if len(statistics) != 4 or any(array is None or array.shape != (conv.channels,) for array in statistics):
        return None
    scale, offset, mean, variance = (array.astype(np.float64) for array in statistics if array is not None)
    spread = variance + epsilon
    if not (spread > 0).all():
        return None
    factor = scale / np.sqrt(spread)
    return factor, offset - mean * factor
