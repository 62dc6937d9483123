"""TbeAippCommonFusionPass: the normalisation of static AIPP goes into filter and bias of the convolution behind it.

Only when it is switched on by its name: with AIPP's own lowering the normalisation costs no pass of its own, so this gains nothing that
can be measured (0 to 3 per cent), and it changes the last bits of results.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from softnpu.base.aipp import AippParams
from softnpu.base.dtypes import DType, TensorFormat
from softnpu.compiler.passes.convolution._conv import Convolution, convolution
from softnpu.compiler.passes.edit import Edit, attributes, op_type_of, rewrite, text
from softnpu.graph import aipp
from softnpu.graph.ir import Graph, Node

NAME = "TbeAippCommonFusionPass"
GROUP = "UBFusion"
FLOAT, NCHW = DType.FLOAT, TensorFormat.NCHW


def run(graph: Graph) -> tuple[int, int]:
    """Fold every static AIPP that feeds one convolution and nothing else."""
    edit = Edit(graph)
    match = effect = 0
    for node in edit.nodes():
        if node.type != aipp.STATIC:
            continue
        user = edit.only_user(node.output)
        conv = (
            convolution(user)
            if user is not None and op_type_of(user) == "Conv" and user.inputs[0] is node.output
            else None
        )
        params = AippParams.from_json(node.attrs["aipp"])
        if conv is None or not _exact(conv, node, params):
            continue
        match += 1
        effect += _fold(edit, conv, node, params)
    edit.finish()
    return match, effect


def _exact(conv: Convolution, node: Node, params: AippParams) -> bool:
    """Whether folding is the same in real arithmetic: what a border is filled with must not be shifted."""
    attrs = node.attrs
    if (
        params.padding
        or attrs["model_dtype"] != FLOAT
        or attrs["model_format"] != NCHW
        or conv.weight.dtype != np.float32
    ):
        return False
    count = conv.weight.shape[1]
    shifted = any(params.mean[:count]) or any(params.min[:count])
    return count == attrs["model_shape"][1] and (not shifted or _no_pads(attributes(conv.node)))


def _no_pads(attrs: dict[str, Any]) -> bool:
    automatic = text(attrs.get("auto_pad", "NOTSET"))
    return not any(attrs.get("pads") or ()) and automatic in ("NOTSET", "VALID")


def _fold(edit: Edit, conv: Convolution, node: Node, params: AippParams) -> bool:
    count = conv.weight.shape[1]
    factor = np.array(params.var_reci[:count]).reshape(1, -1, 1, 1)
    shift = (np.array(params.mean[:count]) + np.array(params.min[:count])).reshape(1, -1, 1, 1)
    scaled = conv.weight.astype(np.float64) * factor
    bias = np.zeros(conv.channels) if conv.bias is None else conv.bias.astype(np.float64)
    new_bias = (bias - (scaled * shift).sum(axis=(1, 2, 3))).astype(np.float32)
    weight = scaled.astype(np.float32)
    if not (np.isfinite(weight).all() and np.isfinite(new_bias).all()):
        return False
    inputs = [node.output, edit.constant(weight, f"{conv.node.name}/filter")]
    if conv.bias is not None or new_bias.any():
        inputs.append(edit.constant(new_bias, f"{conv.node.name}/bias"))
    edit.set_inputs(conv.node, inputs)
    conv.node.input_names = ["x", "filter", "bias"][: len(inputs)]
    rewrite(conv.node, "Conv")
    plain = replace(params, mean=(0,) * 4, min=(0.0,) * 4, var_reci=(1.0,) * 4)
    node.attrs.setdefault("aipp_given", node.attrs["aipp"])
    node.attrs["aipp"] = plain.to_json()
    return True
