"""TensorFlow's operators: which CANN type each one is, and how its attributes and inputs are called there."""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu import ops
from softnpu.compiler.frontends.tensorflow.call import Call
from softnpu.compiler.frontends.tensorflow.row import Row, mapped
from softnpu.compiler.frontends.tensorflow.windows import ROWS as _WINDOWS
from softnpu.graph.ir import Value

_ONE = """
Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Elu Erf Exp Expm1 Floor Inv Invert InvertPermutation IsFinite IsInf IsNan
L2Loss Log Log1p LogicalNot Neg OnesLike Rank Reciprocal Relu Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh Softplus
Softsign Sqrt Square Tan Tanh Where ZerosLike
"""
_TWO = """
Add AddV2 BitwiseAnd BitwiseOr BitwiseXor BroadcastTo Div DivNoNan Equal Fill FloorDiv FloorMod GatherNd Greater GreaterEqual
LeftShift Less LessEqual LogicalAnd LogicalOr Maximum Minimum Mod Mul NotEqual Pad Pow RealDiv RightShift SquaredDifference Sub
Tile Transpose
"""
_THREE = "BatchToSpaceND ClipByValue PadV2 Range Select SelectV2 Slice SpaceToBatchND TensorScatterUpdate"
_REDUCTIONS = "Mean Sum Max Min Prod All Any"


def _attr_inputs(**words: tuple[str, str, Any, type]) -> Any:
    """TensorFlow's inputs, then attributes as constants: suffix = (name, kind, default, NumPy type)."""

    def inputs(call: Call) -> list[Value | None]:
        constants = [call.const(name, np.array(call.attr(*spec[:3]), spec[3])) for name, spec in words.items()]
        return [*call.inputs, *constants]

    return inputs


def _count(name: str) -> Any:
    return lambda call: call.attr(name, "i", None)


def _two(call: Call) -> int:
    return 2


def _batch_norm(call: Call) -> dict[str, Any]:
    return {
        "epsilon": call.attr("epsilon", "f", 0.0001),
        "data_format": call.attr("data_format", "s", "NHWC"),
        "is_training": call.attr("is_training", "b", True),
    }


def _batch_norm_inputs(call: Call) -> list[Value | None]:
    return call.take(0, 1, 2) if call.attr("is_training", "b", True) else call.take(0, 1, 2, 3, 4)


def _global_norm(call: Call) -> list[Value | None]:
    """x, mean, variance, beta, gamma of the old operator in BatchNorm's order."""
    x, mean, variance, beta = call.take(0, 1, 2, 3)
    gamma = call.input(4)
    if not call.attr("scale_after_normalization", "b", None):
        gamma = call.const("scale", np.ones(gamma.shape or (), np.float32))
    return [x, gamma, beta, mean, variance]


def _space_to_batch(call: Call) -> list[Value | None]:
    block = call.attr("block_size", "i", None)
    return [call.input(0), call.const("block_shape", np.array([block, block], np.int32)), call.input(1)]


def _reshape(call: Call) -> dict[str, Any]:
    shape = call.input(1).const
    return {"allowzero": 1} if shape is not None and 0 in shape.array() else {}


def _squeeze(call: Call) -> dict[str, Any]:
    return {"axis": call.attr("squeeze_dims", "ints", []) or call.attr("axis", "ints", [])}


def _text(call: Call) -> dict[str, Any]:
    return {"equation": call.attr("equation", "s", None).replace(" ", ""), "N": len(call.inputs)}


def _suppress(call: Call) -> list[Value | None]:
    """NonMaxSuppression without a limit for the scores; the first kind has the other limit as an attribute."""
    inputs = call.take(0, 1, 2)
    if call.op == "NonMaxSuppression":
        inputs.append(call.const("iou_threshold", np.array(call.attr("iou_threshold", "f", 0.5), np.float32)))
    else:
        inputs.append(call.input(3))
    return [*inputs, call.const("score_threshold", np.array(np.finfo(np.float32).min))]


_masks = mapped(
    **{
        name: (name, "i", 0)
        for name in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    }
)
_resize = mapped(align_corners=("align_corners", "b", False), half_pixel_centers=("half_pixel_centers", "b", False))
_products = mapped(transpose_x1=("transpose_a", "b", False), transpose_x2=("transpose_b", "b", False))
_stacks = mapped(adj_x1=("adj_x", "b", False), adj_x2=("adj_y", "b", False))
_index_type = mapped(dtype=("output_type", "type", 9))
_kind = mapped(dtype=("out_type", "type", 3))
_keep = mapped(keep_dims=("keep_dims", "b", False))
_sorted = mapped(sorted=("sorted", "b", True))
_N = mapped(N=("N", "i", None))
_NHWC = {"data_format": "NHWC"}

ROWS: dict[str, Row] = {
    **{name: Row(name) for name in _ONE.split()},
    **{name: Row(name, needs=2) for name in _TWO.split()},
    **{name: Row(name, needs=3) for name in _THREE.split()},
    **{name: Row(f"Reduce{name}", _keep, needs=2) for name in _REDUCTIONS.split()},
    **_WINDOWS,
    "AddN": Row("AddN", _N),
    "AccumulateNV2": Row("AddN", _N),
    "ArgMax": Row("ArgMaxV2", _index_type, needs=2),
    "ArgMin": Row("ArgMin", _index_type, needs=2),
    "BatchMatMul": Row("BatchMatMul", _stacks, needs=2),
    "BatchMatMulV2": Row("BatchMatMulV2", _stacks, needs=2),
    "BatchMatMulV3": Row("BatchMatMulV2", _stacks, needs=2),
    "BatchNormWithGlobalNormalization": Row(
        "BatchNorm",
        mapped(epsilon=("variance_epsilon", "f", None)),
        _global_norm,
        needs=5,
        fixed={**_NHWC, "is_training": False},
    ),
    "BatchToSpace": Row("BatchToSpaceND", inputs=_space_to_batch, needs=2),
    "Cast": Row("Cast", mapped(dst_type=("DstT", "type", None))),
    "Concat": Row("Concat", _N, needs=2),
    "ConcatV2": Row("ConcatV2", _N, needs=2),
    "CropAndResize": Row(
        "CropAndResize",
        mapped(extrapolation_value=("extrapolation_value", "f", 0.0), method=("method", "s", "bilinear")),
        needs=4,
        fixed=_NHWC,
    ),
    "Cumsum": Row("Cumsum", mapped(exclusive=("exclusive", "b", False), reverse=("reverse", "b", False)), needs=2),
    "Einsum": Row("Einsum", _text),
    "ExpandDims": Row("ExpandDims", needs=2),
    "ExtractImagePatches": Row(
        "ExtractImagePatches",
        mapped(
            ksizes=("ksizes", "ints", None),
            strides=("strides", "ints", None),
            rates=("rates", "ints", None),
            padding=("padding", "s", None),
        ),
        fixed=_NHWC,
    ),
    **{
        name: Row("BatchNorm", _batch_norm, _batch_norm_inputs, needs=3)
        for name in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
    },
    "Gather": Row("Gather", needs=2),
    "GatherV2": Row("GatherV2", mapped(batch_dims=("batch_dims", "i", 0)), needs=3),
    "LRN": Row(
        "LRN",
        mapped(
            depth_radius=("depth_radius", "i", 5),
            bias=("bias", "f", 1.0),
            alpha=("alpha", "f", 1.0),
            beta=("beta", "f", 0.5),
        ),
        fixed=_NHWC,
    ),
    "LeakyRelu": Row("LeakyRelu", mapped(negative_slope=("alpha", "f", 0.2))),
    "LogSoftmax": Row("LogSoftmaxV2", fixed={"axes": [-1]}),
    "MatMul": Row("MatMul", _products, needs=2),
    "MirrorPad": Row("MirrorPad", mapped(mode=("mode", "s", None)), needs=2),
    "NonMaxSuppression": Row("NonMaxSuppressionV3", inputs=_suppress, needs=3),
    "NonMaxSuppressionV2": Row("NonMaxSuppressionV3", inputs=_suppress, needs=4),
    "NonMaxSuppressionV3": Row("NonMaxSuppressionV3", needs=5),
    "OneHot": Row("OneHot", mapped(axis=("axis", "i", -1)), needs=4),
    "Pack": Row("Pack", mapped(axis=("axis", "i", 0), N=("N", "i", None))),
    "Reshape": Row("Reshape", _reshape, needs=2),
    "ResizeBilinear": Row("ResizeBilinearV2", _resize, needs=2, fixed={**_NHWC, "dtype": 0}),
    "ResizeNearestNeighbor": Row("ResizeNearestNeighborV2", _resize, needs=2, fixed=_NHWC),
    "ReverseSequence": Row(
        "ReverseSequence", mapped(seq_dim=("seq_dim", "i", None), batch_dim=("batch_dim", "i", 0)), needs=2
    ),
    "ReverseV2": Row("ReverseV2", needs=2),
    "Shape": Row("Shape", _kind),
    "Size": Row("Size", _kind),
    "Softmax": Row("SoftmaxV2", fixed={"axes": [-1]}),
    "SpaceToBatch": Row("SpaceToBatchND", inputs=_space_to_batch, needs=2),
    "Split": Row("Split", mapped(num_split=("num_split", "i", None)), outputs=_count("num_split"), needs=2),
    "SplitV": Row("SplitV", mapped(num_split=("num_split", "i", None)), outputs=_count("num_split"), needs=3),
    "Squeeze": Row("Squeeze", _squeeze),
    "StridedSlice": Row("StridedSlice", _masks, needs=4),
    "TopK": Row("TopKV2", _sorted, _attr_inputs(k=("k", "i", None, np.int32)), outputs=_two),
    "TopKV2": Row("TopKV2", _sorted, outputs=_two, needs=2),
    "TruncateDiv": Row("Div", needs=2),
    "TruncateMod": Row("Mod", needs=2),
    "Unpack": Row("Unpack", mapped(num=("num", "i", None), axis=("axis", "i", 0)), outputs=_count("num")),
}


def find(op: str) -> Row | None:
    """The row of an operator whose CANN type this version has."""
    row = ROWS.get(op)
    return row if row is not None and ops.find(row.type) is not None else None
