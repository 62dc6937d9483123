"""Convolutions for the passes that fold something into them: where the filter has its output channels, scale and bias."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softnpu.compiler.passes.edit import FLOATS, Array, Edit, array_of, attributes, op_type_of, rewrite
from softnpu.graph.ir import Graph, Node, Value

_NATIVE = frozenset({"Conv2D", "Conv3D"})
_TRANSPOSED = "Deconvolution"


@dataclass(slots=True)
class Convolution:
    """A convolution with a constant filter. `layout` tells how its filter is made: "first" has the output channels as dim
    0, "last" as the last dim, "groups" is ONNX's transposed kind (dims C_in, C_out / groups, …)."""

    node: Node
    weight: Array
    bias: Array | None
    layout: str
    groups: int
    channels: int
    channel_axis: int  # of the data: 1, or -1 where the channel is last

    @property
    def output(self) -> Value:
        """What it makes."""
        return self.node.outputs[0]

    @property
    def rank(self) -> int:
        """Number of dims of the data."""
        return self.weight.ndim

    def scaled(self, factor: Array) -> Array:
        """The filter with every output channel multiplied, in double precision."""
        weight = self.weight.astype(np.float64)
        if self.layout == "last":
            return weight * factor
        if self.layout == "first":
            return weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
        shape = weight.shape
        parts = weight.reshape(self.groups, shape[0] // self.groups, *shape[1:])
        grouped = factor.reshape(self.groups, 1, shape[1], *[1] * (weight.ndim - 2))
        return np.asarray((parts * grouped).reshape(shape))

    def apply(self, edit: Edit, factor: Array | None, shift: Array, name: str) -> bool:
        """Let the convolution compute `factor · y + shift` per channel; False where a number does not fit its type."""
        dtype = self.weight.dtype
        bias = np.zeros(self.channels) if self.bias is None else self.bias.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            new_bias = (bias * (1.0 if factor is None else factor) + shift).astype(dtype)
            weight = self.weight if factor is None else self.scaled(factor).astype(dtype)
        if not (np.isfinite(new_bias).all() and np.isfinite(weight).all()):
            return False
        inputs = list(self.node.inputs) + [None] * (3 - len(self.node.inputs))
        if factor is not None:
            inputs[1] = edit.constant(weight, f"{name}/filter")
        if self.bias is not None or np.any(new_bias):
            inputs[2] = edit.constant(new_bias, f"{name}/bias")
        while inputs and inputs[-1] is None:
            inputs.pop()
        edit.set_inputs(self.node, inputs)
        return True


def absorb(edit: Edit, conv: Convolution, follower: Node, factor: Array | None, shift: Array) -> bool:
    """Fold a node that scales and shifts every channel into the convolution before it."""
    node = conv.node
    if not conv.apply(edit, factor, shift, node.name):
        return False
    first = follower.outputs[0]
    for extra in follower.outputs[1:]:  # statistics that nobody takes
        edit.users.pop(extra, None)
    follower.outputs = [first]
    op = op_type_of(node)
    edit.take_over(node, follower)
    node.input_names = ["x", "filter", "bias"][: len(node.inputs)]
    if op:
        rewrite(node, op)
    return True


def convolution(node: Node | None) -> Convolution | None:
    """A node as a convolution with constants, where it is one."""
    if node is None or len(node.inputs) < 2 or len(node.outputs) != 1:
        return None
    weight = array_of(node.inputs[1])
    bias_input = node.inputs[2] if len(node.inputs) > 2 else None
    bias = array_of(bias_input)
    if weight is None or node.inputs[1] is None or node.inputs[1].dtype not in FLOATS or weight.ndim < 3:
        return None
    if (bias_input is not None and bias is None) or any(value is not None for value in node.inputs[3:]):
        return None
    conv = _onnx(node, weight, bias) if node.source is not None else _native(node, weight, bias)
    if conv is None or (bias is not None and bias.shape != (conv.channels,)):
        return None
    return conv


def _onnx(node: Node, weight: Array, bias: Array | None) -> Convolution | None:
    kind = op_type_of(node)
    if kind == "Conv":
        return Convolution(node, weight, bias, "first", 1, weight.shape[0], 1)
    if kind != "ConvTranspose":
        return None
    return _transposed(node, weight, bias, int(attributes(node).get("group", 1)))


def _transposed(node: Node, weight: Array, bias: Array | None, groups: int) -> Convolution | None:
    if groups < 1 or weight.shape[0] % groups:
        return None
    return Convolution(node, weight, bias, "groups", groups, weight.shape[1] * groups, 1)


def _native(node: Node, weight: Array, bias: Array | None) -> Convolution | None:
    """Nodes of the other frontends, which say how data and filter lie."""
    data = str(node.attrs.get("data_format") or "")
    if node.type == _TRANSPOSED and data == "NCHW":
        return _transposed(node, weight, bias, int(node.attrs.get("groups", 1)))
    if node.type not in _NATIVE or len(data) != weight.ndim:
        return None
    order = str(node.attrs.get("filter_format") or "") or ("NC" if data[1] == "C" else "") + "".join(
        c for c in data if c not in "NC"
    ) + ("" if data[1] == "C" else "CN")
    if order[0] != "N" and order[-1] != "N":
        return None
    layout, channels = ("first", weight.shape[0]) if order[0] == "N" else ("last", weight.shape[-1])
    return Convolution(node, weight, bias, layout, 1, channels, 1 if data[1] == "C" else -1)


def per_channel(conv: Convolution, value: Value | None) -> Array | None:
    """A constant that is combined with a convolution's result, as one number per channel; None where it is more."""
    array = array_of(value)
    if array is None or array.dtype.kind != "f" or array.ndim > conv.rank:
        return None
    full = (1,) * (conv.rank - array.ndim) + array.shape
    axis = conv.channel_axis % conv.rank
    if any(dim != 1 for index, dim in enumerate(full) if index != axis) or full[axis] not in (1, conv.channels):
        return None
    return np.broadcast_to(array.astype(np.float64).ravel(), (conv.channels,))


Affine = Callable[[Edit, Convolution, Node], "tuple[Array | None, Array] | None"]


def fold_followers(graph: Graph, affine: Affine) -> tuple[int, int]:
    """Fold the nodes that alone take a convolution's result into it, as long as `affine` can tell factor and shift of them."""
    edit = Edit(graph)
    match = effect = 0
    for node in edit.nodes():
        while not edit.gone(node):
            conv = convolution(node)
            follower = edit.only_user(conv.output) if conv is not None else None
            factors = affine(edit, conv, follower) if conv is not None and follower is not None else None
            if conv is None or follower is None or factors is None:
                break
            match += 1
            if not absorb(edit, conv, follower, *factors):
                break
            effect += 1
    edit.finish()
    return match, effect
