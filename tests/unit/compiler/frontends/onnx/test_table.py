"""Every row of the ONNX → CANN naming: types, the attributes that change their form, the names of inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from softnpu.compiler.frontends.onnx.table import known, translate
from softnpu.graph.ir import Constant, Graph, Value
from softnpu.graph.onnx_def import make_tensor

# ONNX type, or several with the same rule → CANN type; one float input of rank 4 (two for the binary ones).
UNARY = {
    "Abs": "Abs", "Acos": "Acos", "Acosh": "Acosh", "ArgMax": "ArgMaxV2", "ArgMin": "ArgMin", "Asin": "Asin", "Asinh": "Asinh",
    "Atan": "Atan", "Atanh": "Atanh", "Bernoulli": "StatelessBernoulliV2", "BitwiseNot": "Invert", "Cast": "Cast", "Ceil": "Ceil",
    "Celu": "Celu", "Constant": "Const", "ConstantOfShape": "Fill", "Cos": "Cos", "Cosh": "Cosh", "DepthToSpace": "DepthToSpace",
    "Det": "MatrixDeterminant", "Dropout": "Identity", "Elu": "Elu", "Erf": "Erf", "Exp": "Exp", "EyeLike": "MatrixDiagV2",
    "Flatten": "Flatten", "Floor": "Floor", "GlobalAveragePool": "GlobalAveragePool", "GlobalLpPool": "GlobalLpPool",
    "GlobalMaxPool": "ReduceMax", "HardSigmoid": "HardSigmoid", "HardSwish": "HardSwish", "Hardmax": "HardMax", "Identity": "Identity",
    "If": "If", "IsInf": "IsInf", "IsNaN": "IsNan", "LRN": "LRN", "LeakyRelu": "LeakyRelu", "Log": "Log",
    "LogSoftmax": "LogSoftmaxV2", "LpNormalization": "LpNormV2", "MeanVarianceNormalization": "MVNV2", "Mish": "Mish",
    "Multinomial": "Multinomial", "Neg": "Neg", "NonZero": "NonZero", "Not": "LogicalNot", "RandomNormal": "RandomStandardNormal",
    "RandomNormalLike": "RandomStandardNormal", "RandomUniform": "RandomUniform", "RandomUniformLike": "RandomUniform",
    "Reciprocal": "Reciprocal", "ReduceL1": "LpNormV2", "ReduceL2": "LpNormV2", "ReduceLogSum": "ReduceLogSum",
    "ReduceLogSumExp": "ReduceLogSumExp", "ReduceMax": "ReduceMax", "ReduceMean": "ReduceMean", "ReduceMin": "ReduceMin",
    "ReduceProd": "ReduceProd", "ReduceSum": "ReduceSum", "ReduceSumSquare": "SquareSumV1", "Relu": "Relu", "Round": "Round",
    "Selu": "Selu", "SequenceConstruct": "SequenceConstruct", "SequenceEmpty": "SequenceEmpty", "SequenceLength": "SequenceLength",
    "ConcatFromSequence": "ConcatFromSequence", "Shape": "Shape", "Shrink": "Shrink", "Sigmoid": "Sigmoid", "Sign": "Sign",
    "Sin": "Sin", "Sinh": "Sinh", "Size": "Size", "Softmax": "SoftmaxV2", "Softplus": "Softplus", "Softsign": "Softsign",
    "SpaceToDepth": "SpaceToDepth", "SplitToSequence": "SplitToSequence", "Sqrt": "Sqrt", "Tan": "Tan", "Tanh": "Tanh",
    "ThresholdedRelu": "Threshold", "Transpose": "Transpose", "Trilu": "Trilu", "Unique": "UniqueWithCountsAndSorting",
    "Upsample": "Resize", "Einsum": "Einsum", "Squeeze": "SqueezeV3", "Unsqueeze": "UnsqueezeV3",
}  # fmt: skip
BINARY = {
    "Add": "Add", "And": "LogicalAnd", "BitwiseAnd": "BitwiseAnd", "BitwiseOr": "BitwiseOr", "BitwiseXor": "BitwiseXor",
    "CastLike": "CastLike", "Col2Im": "Col2ImV2", "Compress": "GatherV2", "CumSum": "Cumsum", "Div": "RealDiv", "Equal": "Equal",
    "Expand": "Expand", "Gather": "GatherV2", "GatherElements": "GatherElements", "GatherND": "GatherNd", "Greater": "Greater",
    "GreaterOrEqual": "GreaterEqual", "Less": "Less", "LessOrEqual": "LessEqual", "MaxRoiPool": "ROIPooling", "Mod": "Mod",
    "Mul": "Mul", "Or": "LogicalOr", "PRelu": "PRelu", "Pow": "Pow", "Reshape": "Reshape", "ReverseSequence": "ReverseSequence",
    "SequenceAt": "SequenceAt", "SequenceErase": "SequenceErase", "SequenceInsert": "SequenceInsert", "Sub": "Sub", "Tile": "Tile",
    "TopK": "TopK", "Xor": "BitwiseXor", "Max": "Maximum", "Min": "Minimum", "Sum": "Add", "Mean": "AccumulateNV2",
    "Concat": "ConcatD", "GridSample": "GridSampler2D", "MatMul": "BatchMatMulV2", "Pad": "PadV3", "MaxUnpool": "ScatterElements",
    "SoftmaxCrossEntropyLoss": "SoftmaxCrossEntropyLoss",
}  # fmt: skip
TERNARY = {
    "NonMaxSuppression": "NonMaxSuppressionV6", "OneHot": "OneHot", "Range": "Range", "RoiAlign": "ROIAlign", "Where": "SelectV2",
    "Scatter": "ScatterElements", "ScatterElements": "ScatterElements", "ScatterND": "ScatterNdUpdate", "Slice": "StridedSliceV2",
    "InstanceNormalization": "InstanceNorm", "LayerNormalization": "LayerNorm", "Clip": "ClipByValue", "GRU": "CommonGRU",
    "LSTM": "CommonLSTM", "Gemm": "MatMulV2", "BatchNormalization": "BatchNorm", "Sum": "AccumulateNV2",
}  # fmt: skip
VENDOR = {
    "NPURotaryMul": "RotaryMul", "NPURmsNorm": "RmsNorm", "NPUAddRmsNorm": "AddRmsNorm", "NPUFastGelu": "FastGelu",
    "NPUGeglu": "GeGluV2", "NPUGeluV2": "GeluV2", "NPUMish": "Mish", "NPUIou": "Iou", "NPUCiou": "CIoU", "NPUDiou": "DIoU",
    "NPUGroupNormSilu": "GroupNormSilu", "NPUDynamicQuant": "DynamicQuant", "NPUAscendQuantV2": "AscendQuantV2",
    "NPUAntiQuant": "AscendAntiQuantV2", "NPUQuantize": "Quantize", "NPUDtypeCast": "Cast", "NPUFormatCast": "Identity",
    "NPURoiAlign": "ROIAlign", "NPUPsRoiPooling": "PSROIPoolingV2", "NPUBatchNms": "BatchMultiClassNonMaxSuppression",
    "NPUNmsWithMask": "NMSWithMask", "NPUBoundingBoxEncode": "BoundingBoxEncode", "NPUBoundingBoxDecode": "BoundingBoxDecode",
    "NPUScatter": "ArgMaxGrad", "NPUWeightQuantBatchMatmulV2": "WeightQuantBatchMatmulV2",
}  # fmt: skip
SAME = [
    "AscendQuant",
    "AscendDequant",
    "AscendAntiQuant",
    "AscendRequant",
    "Int8Conv",
    "Int8FC",
    "Int8Quantize",
    "Int8Dequantize",
    "Int8Transpose",
    "DeformableConv2D",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool2d",
    "AffineGrid",
    "YoloPreDetection",
    "YoloV3DetectionOutputV2",
    "YoloV5DetectionOutput",
    "RoiExtractor",
    "PSROIPooling",
    "Col2im",
    "Bucketize",
    "LSTMP",
]
EXPANDED = "NPUGiou NPULstm NPULstmCell NPUGru NPUSlice NPUIndexing NPUOneHot NPUDeformableConv2d NPURotatedIou NPURotatedOverlaps NPUNmsV4"


def tensor(rank: int | None = 4, dtype: int = 0) -> Value:
    return Value("x", dtype, None if rank is None else (2,) * rank)


def constant(*numbers: int) -> Value:
    return Graph("g").const(np.array(numbers, np.int64))


def call(
    op_type: str,
    inputs: list[Value | None] | None = None,
    opset: int = 13,
    outputs: int = 1,
    domain: str = "",
    **attrs: Any,
):
    encoded = {key: value.encode() if isinstance(value, str) else value for key, value in attrs.items()}
    return translate(op_type, domain, opset, encoded, [tensor()] if inputs is None else inputs, outputs)


@pytest.mark.parametrize(
    ("word", "kind", "count"),
    [(op_type, kind, n) for n, rows in enumerate((UNARY, BINARY, TERNARY), 1) for op_type, kind in rows.items()],
)
def test_operators_have_cann_s_type(word: str, kind: str, count: int) -> None:
    named = call(word, [tensor()] * count)
    assert named.type == kind
    assert len(named.input_names) == len(set(named.input_names)) == count
    assert known(word, "")


@pytest.mark.parametrize(("word", "kind"), VENDOR.items())
def test_vendor_operators_have_cann_s_type(word: str, kind: str) -> None:
    assert call(word, domain="npu", opset=1).type == kind
    assert call(word, domain="", opset=11, scale=0.5).type == kind
    assert known(word, "npu")


def test_vendor_operators_with_more_to_them() -> None:
    for op_type in EXPANDED.split():
        assert known(op_type, "npu")
        assert not call(op_type, domain="npu").type.startswith("NPU")
    for op_type in SAME:
        assert call(op_type).type == op_type
        assert known(op_type, "")
    assert call("GridSample3D").type == "GridSampler3D"
    assert call("QuantBatchMatMul").type == "QuantBatchMatmulV3"
    assert call("BatchMultiClassNMS").type == "BatchMultiClassNonMaxSuppression"
    assert call("NPUDtypeCast", domain="npu", to=TensorProto.FLOAT16).attrs == {"dst_type": 1}
    assert call("RoiAlignRotated", domain="mmdeploy").type == "RoiAlignRotated"
    assert known("NMSRotated", "mmdeploy")


def test_operators_without_a_name_keep_theirs() -> None:
    named = call("FusedConv", domain="com.microsoft", activation="Relu", group=2)
    assert (named.type, named.attrs) == ("FusedConv", {"activation": "Relu", "group": 2})
    assert not known("FusedConv", "com.microsoft")
    assert call("Conv", domain="my.own").type == "Conv"
    assert call("QuantizeLinear", axis=1).attrs == {"axis": 1}
    for op_type in ("Loop", "Scan", "QLinearConv", "STFT", "RNN", "GroupNormalization"):
        assert call(op_type).type == op_type
        assert not known(op_type, "")


def test_convolutions_have_cann_s_attributes() -> None:
    named = call("Conv", [tensor(), tensor(4), tensor(1)], pads=[1, 2, 3, 4], strides=[2, 3], group=4, dilations=[1, 2])
    assert named.type == "Conv2D"
    assert named.attrs == {
        "strides": [1, 1, 2, 3],
        "pads": [1, 3, 2, 4],
        "dilations": [1, 1, 1, 2],
        "groups": 4,
        "data_format": "NCHW",
        "offset_x": 0,
    }
    assert named.input_names == ["x", "filter", "bias"]
    line = call("Conv", [tensor(3), tensor(3)], pads=[1, 2], strides=[2])
    assert (line.type, line.attrs["pads"], line.attrs["strides"]) == ("Conv2D", [0, 0, 1, 2], [1, 1, 1, 2])
    volume = call("Conv", [tensor(5), tensor(5)])
    assert (volume.type, volume.attrs["data_format"], volume.attrs["pads"]) == ("Conv3D", "NCDHW", [0] * 6)
    assert call("Conv", [tensor(None), tensor(None)], auto_pad="SAME_UPPER").attrs["auto_pad"] == "SAME_UPPER"
    back = call("ConvTranspose", [tensor(), tensor()], output_padding=[1, 0])
    assert (back.type, back.attrs["output_padding"]) == ("Conv2DTranspose", [0, 0, 1, 0])
    assert call("ConvTranspose", [tensor(5), tensor(5)]).type == "Conv3DTranspose"


def test_pooling_has_cann_s_attributes() -> None:
    average = call("AveragePool", kernel_shape=[3, 2], strides=[2, 1], count_include_pad=1, ceil_mode=1)
    assert average.type == "AvgPoolV2"
    assert average.attrs["ksize"] == [1, 1, 3, 2]
    assert average.attrs["exclusive"] is False
    assert average.attrs["ceil_mode"] is True
    assert average.attrs["padding_mode"] == "CALCULATED"
    assert call("AveragePool", [tensor(5)], kernel_shape=[2, 2, 2]).type == "AvgPool3D"
    assert call("AveragePool", [tensor(3)], kernel_shape=[2]).attrs["ksize"] == [1, 1, 1, 2]
    assert call("AveragePool", kernel_shape=[2, 2], auto_pad="SAME_LOWER").attrs["padding_mode"] == "SAME"
    assert call("MaxPool", kernel_shape=[2, 2], auto_pad="VALID").attrs["padding_mode"] == "VALID"
    assert call("MaxPool", kernel_shape=[2, 2]).type == "MaxPoolV3"
    assert call("MaxPool", kernel_shape=[2, 2, 2]).type == "MaxPool3D"
    assert call("LpPool", kernel_shape=[2, 2], p=3).attrs["p"] == 3
    assert call("GlobalMaxPool").attrs == {"keep_dims": True, "axes": [2, 3]}
    assert call("MaxRoiPool", pooled_shape=[2, 3], spatial_scale=0.5).attrs["pooled_w"] == 3


def test_products_have_cann_s_attributes() -> None:
    named = call("Gemm", [tensor(2), tensor(2)], transB=1, alpha=0.5)
    assert named.attrs == {"transpose_x1": False, "transpose_x2": True, "offset_x": 0, "alpha": 0.5}
    assert call("MatMul", [tensor(2), tensor(2)]).type == "MatMulV2"
    assert call("MatMul", [tensor(3), tensor(2)]).type == "BatchMatMulV2"
    assert call("MatMul", [tensor(None), tensor(2)]).type == "BatchMatMulV2"


def test_names_that_depend_on_what_is_there() -> None:
    assert call("Clip", [tensor(), tensor(0)]).type == "Maximum"
    assert call("Clip", [tensor(), None, tensor(0)]).type == "Minimum"
    assert call("Clip", [tensor()]).type == "Identity"
    assert call("Clip", opset=6, min=0.0, max=6.0).type == "ClipByValue"
    assert call("Clip", opset=6, max=6.0).type == "Minimum"
    assert call("Concat", [tensor()], axis=1).type == "Identity"
    assert call("Concat", [tensor()] * 3, axis=1).attrs == {"concat_dim": 1, "N": 3}
    assert call("Div", [tensor(dtype=3), tensor(dtype=3)]).type == "Div"
    assert call("Dropout", outputs=2).type == "Dropout"
    assert call("Sum").type == "Identity"
    assert call("Max").type == "Identity"
    assert call("BitShift", [tensor(), tensor()], direction="LEFT").type == "LeftShift"
    assert call("BitShift", [tensor(), tensor()], direction="RIGHT").type == "RightShift"
    assert call("GridSample", [tensor(5), tensor(5)], opset=20, mode="linear").attrs["interpolation_mode"] == "bilinear"
    assert call("GridSample", [tensor(5), tensor(5)]).type == "GridSampler3D"
    assert call("RandomUniform", dtype=TensorProto.INT32, shape=[2]).type == "RandomUniformInt"
    assert call("Resize", mode="linear").type == "Resize"
    assert call("Resize", coordinate_transformation_mode="align_corners").attrs["align_corners"] is True
    assert call("Resize").type == "ResizeNearestNeighborV2"
    for reduction, kind in {"add": "ScatterNdAdd", "max": "ScatterNdMax", "min": "ScatterNdMin"}.items():
        assert call("ScatterND", [tensor()] * 3, reduction=reduction).type == kind


def test_names_that_depend_on_the_opset() -> None:
    assert (call("Squeeze", opset=11, axes=[1]).type, call("Squeeze", opset=11, axes=[1]).attrs) == (
        "Squeeze",
        {"axis": [1]},
    )
    assert call("Squeeze", [tensor(), constant(2)]).attrs == {"axes": [2]}
    assert call("Unsqueeze", opset=11, axes=[1]).type == "Unsqueeze"
    assert call("Softmax", opset=11).attrs == {"axes": [1, 2, 3]}
    assert call("Softmax", opset=13).attrs == {"axes": [-1]}
    assert call("LogSoftmax", [tensor(None)], opset=11, axis=2).attrs == {"axes": [2]}
    assert call("Pad", opset=10, mode="reflect", pads=[0, 1, 2, 3]).type == "MirrorPad"
    assert call("Pad", opset=10, pads=[0, 1, 2, 3]).attrs["paddings"] == [[0, 2], [1, 3]]
    assert call("Pad", [tensor(), tensor(1)], mode="edge").attrs == {"mode": "edge", "paddings_contiguous": True}
    assert call("Slice", opset=9, starts=[0], ends=[1]).attrs == {"begin": [0], "end": [1]}
    assert call("Hardmax", opset=11).attrs == {"axis": 1}


def test_attributes_in_cann_s_words() -> None:
    assert call("Cast", to=TensorProto.INT64).attrs == {"dst_type": 9}
    assert call("LeakyRelu").attrs == {"negative_slope": 0.01}
    assert call("Gather", [tensor(), tensor()], axis=2).attrs == {"axis": 2, "batch_dims": 0}
    assert call("ReduceMean", axes=[1], keepdims=0).attrs == {"keep_dims": False, "axes": [1]}
    assert call("ReduceSum", [tensor(), constant(1, 2)]).attrs == {"keep_dims": True, "axes": [1, 2]}
    assert call("ReduceL1", axes=[1]).attrs == {"p": 1.0, "axes": [1], "keepdim": True}
    assert call("LRN", size=5).attrs["depth_radius"] == 2
    assert call("Transpose").attrs == {"perm": [3, 2, 1, 0]}
    assert call("Transpose", [tensor(None)]).attrs == {}
    assert call("BatchNormalization", [tensor()] * 5).attrs["is_training"] is False
    assert call("Split", outputs=3, axis=1).type == "Split"
    assert call("Split", [tensor(), constant(1, 1)], outputs=2).attrs["size_splits"] == [1, 1]
    assert call("TopK", [tensor(), constant(1)], largest=0).attrs == {"dim": -1, "largest": False, "sorted": True}
    assert call("Exp").attrs == {"base": -1.0, "scale": 1.0, "shift": 0.0}
    assert call("RoiAlign", [tensor()] * 3, output_height=7).attrs["pooled_height"] == 7


def test_attributes_become_plain_values() -> None:
    value = make_tensor("", Constant.of(np.array([1.5], np.float32)))
    named = translate(
        "Foo",
        "a.b",
        1,
        {"t": value, "s": memoryview(b"abc"), "g": {"node": [], "name": "body"}, "l": [b"x"], "i": 3},
        [None],
        1,
    )
    assert named.attrs["t"].array().tolist() == [1.5]
    assert {key: named.attrs[key] for key in ("s", "l", "i")} == {"s": "abc", "l": ["x"], "i": 3}
    assert "g" not in named.attrs
    text = translate("Foo", "a.b", 1, {"t": {"data_type": 8, "string_data": [b"x"]}}, [], 1)
    assert text.attrs == {}
    assert "then_branch" not in translate("If", "", 13, {"then_branch": {"node": []}}, [None], 1).attrs
