"""ONNX operators in CANN's words: the type, the attributes and the names of the inputs, for display and for the passes.

What an engine computes never depends on this table: a node keeps its ONNX operator in `source`. An operator that CANN
expands into several is named after the one that carries its meaning. To add a row: a line in `_SAME`, `_RENAMED` or
`_ATTRS`, or a small function in `naming.py` where the attributes change their form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from softnpu.compiler.frontends.onnx import naming
from softnpu.compiler.frontends.onnx.naming import Call
from softnpu.graph.ir import Constant, Graph, Value
from softnpu.graph.onnx_def import EXTERNAL, attributes_of, tensor_constant

STRING = 8  # TensorProto.DataType of text

# Same name, attributes as they stand.
_SAME = [
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "CastLike",
    "Ceil",
    "ConcatFromSequence",
    "Cos",
    "Cosh",
    "Einsum",
    "Equal",
    "Erf",
    "Expand",
    "Floor",
    "GatherElements",
    "GlobalAveragePool",
    "GlobalLpPool",
    "Greater",
    "HardSwish",
    "Identity",
    "If",
    "Less",
    "Mish",
    "Mod",
    "Mul",
    "Multinomial",
    "Neg",
    "OneHot",
    "PRelu",
    "Pow",
    "Range",
    "Reciprocal",
    "Relu",
    "Reshape",
    "Round",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Size",
    "SoftmaxCrossEntropyLoss",
    "Softplus",
    "Softsign",
    "SplitToSequence",
    "Sqrt",
    "Sub",
    "Tan",
    "Tanh",
    "Tile",
    "Trilu",
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

_RENAMED = {
    "And": "LogicalAnd", "Or": "LogicalOr", "Not": "LogicalNot", "Xor": "BitwiseXor", "BitwiseNot": "Invert",
    "Bernoulli": "StatelessBernoulliV2", "Col2Im": "Col2ImV2", "Compress": "GatherV2", "Constant": "Const",
    "ConstantOfShape": "Fill", "Det": "MatrixDeterminant", "EyeLike": "MatrixDiagV2", "GatherND": "GatherNd",
    "GreaterOrEqual": "GreaterEqual", "LessOrEqual": "LessEqual", "IsNaN": "IsNan", "MaxUnpool": "ScatterElements",
    "Mean": "AccumulateNV2", "NonMaxSuppression": "NonMaxSuppressionV6", "Scatter": "ScatterElements",
    "ThresholdedRelu": "Threshold", "Unique": "UniqueWithCountsAndSorting", "Where": "SelectV2",
    "GridSample3D": "GridSampler3D", "QuantBatchMatMul": "QuantBatchMatmulV3", "BatchMultiClassNMS": "BatchMultiClassNonMaxSuppression",
    "MeanVarianceNormalization": "MVNV2",
}  # fmt: skip

# CANN type, then its attributes: name → (ONNX name, default); "" takes the default always.
_ATTRS: dict[str, tuple[str, dict[str, tuple[str, Any]]]] = {
    "ArgMin": ("ArgMin", {"dimension": ("axis", 0), "keep_dims": ("keepdims", True)}),
    "ArgMax": ("ArgMaxV2", {"dimension": ("axis", 0), "keep_dims": ("keepdims", True)}),
    "BatchNormalization": ("BatchNorm", {"epsilon": ("epsilon", 1e-5), "data_format": ("", "NCHW"), "is_training": ("training_mode", False)}),
    "Celu": ("Celu", {"alpha": ("alpha", 1.0)}),
    "CumSum": ("Cumsum", {"exclusive": ("exclusive", False), "reverse": ("reverse", False)}),
    "DepthToSpace": ("DepthToSpace", {"block_size": ("blocksize", 1), "mode": ("mode", "DCR"), "data_format": ("", "NCHW")}),
    "Elu": ("Elu", {"alpha": ("alpha", 1.0)}),
    "Exp": ("Exp", {"base": ("", -1.0), "scale": ("", 1.0), "shift": ("", 0.0)}),
    "Flatten": ("Flatten", {"axis": ("axis", 1)}),
    "GRU": ("CommonGRU", {"direction": ("direction", "forward"), "hidden_size": ("hidden_size", 0), "linear_before_reset": ("linear_before_reset", 0)}),
    "Gather": ("GatherV2", {"axis": ("axis", 0), "batch_dims": ("", 0)}),
    "HardSigmoid": ("HardSigmoid", {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
    "InstanceNormalization": ("InstanceNorm", {"epsilon": ("epsilon", 1e-5), "data_format": ("", "NCHW")}),
    "IsInf": ("IsInf", {"detect_positive": ("detect_positive", True), "detect_negative": ("detect_negative", True)}),
    "LSTM": ("CommonLSTM", {"direction": ("direction", "forward"), "hidden_size": ("hidden_size", 0), "input_forget": ("input_forget", 0)}),
    "LayerNormalization": ("LayerNorm", {"begin_norm_axis": ("axis", -1), "begin_params_axis": ("axis", -1), "epsilon": ("epsilon", 1e-5)}),
    "LeakyRelu": ("LeakyRelu", {"negative_slope": ("alpha", 0.01)}),
    "Log": ("Log", {"base": ("", -1.0), "scale": ("", 1.0), "shift": ("", 0.0)}),
    "NonZero": ("NonZero", {"transpose": ("", True)}),
    "ReverseSequence": ("ReverseSequence", {"seq_dim": ("time_axis", 0), "batch_dim": ("batch_axis", 1)}),
    "RoiAlign": ("ROIAlign", {"spatial_scale": ("spatial_scale", 1.0), "pooled_height": ("output_height", 1), "pooled_width": ("output_width", 1), "sample_num": ("sampling_ratio", 0)}),
    "ScatterElements": ("ScatterElements", {"axis": ("axis", 0), "reduction": ("reduction", "none")}),
    "Selu": ("Selu", {}),
    "Shape": ("Shape", {"dtype": ("", 9)}),
    "Shrink": ("Shrink", {"lambd": ("lambd", 0.5), "bias": ("bias", 0.0)}),
    "SpaceToDepth": ("SpaceToDepth", {"block_size": ("blocksize", 1), "data_format": ("", "NCHW")}),
    "TopK": ("TopK", {"dim": ("axis", -1), "largest": ("largest", True), "sorted": ("sorted", True)}),
}  # fmt: skip
_FLAGS = frozenset(
    {"keep_dims", "exclusive", "reverse", "is_training", "detect_positive", "detect_negative", "largest", "sorted"}
)

_VENDOR = {
    "NPURotaryMul": "RotaryMul", "NPURmsNorm": "RmsNorm", "NPUAddRmsNorm": "AddRmsNorm", "NPUFastGelu": "FastGelu", "NPUGeglu": "GeGluV2",
    "NPUGeluV2": "GeluV2", "NPUMish": "Mish", "NPUIou": "Iou", "NPUCiou": "CIoU", "NPUDiou": "DIoU", "NPUGroupNormSilu": "GroupNormSilu",
    "NPUDynamicQuant": "DynamicQuant", "NPUAscendQuantV2": "AscendQuantV2", "NPUAntiQuant": "AscendAntiQuantV2", "NPUQuantize": "Quantize",
    "NPUDtypeCast": "Cast", "NPUFormatCast": "Identity", "NPURoiAlign": "ROIAlign", "NPUPsRoiPooling": "PSROIPoolingV2",
    "NPUBatchNms": "BatchMultiClassNonMaxSuppression", "NPUNmsWithMask": "NMSWithMask", "NPUBoundingBoxEncode": "BoundingBoxEncode",
    "NPUBoundingBoxDecode": "BoundingBoxDecode", "NPUScatter": "ArgMaxGrad", "NPUWeightQuantBatchMatmulV2": "WeightQuantBatchMatmulV2",
    "NPUGiou": "GIoU", "NPULstm": "DynamicRNN", "NPULstmCell": "DynamicRNN", "NPUGru": "DynamicGRUV2", "NPUSlice": "Slice",
    "NPUIndexing": "StridedSlice", "NPUOneHot": "OneHot", "NPUDeformableConv2d": "DeformableOffsets", "NPURotatedIou": "RotatedIou",
    "NPURotatedOverlaps": "RotatedOverlaps", "NPUNmsV4": "NonMaxSuppressionV4", "NPUGeGlu": "GeGluV2", "NPUGelu": "GeluV2",
    "NPUScatterNdUpdate": "ScatterNdUpdate", "NPUWeightQuantBatchmatmul": "WeightQuantBatchMatmulV2",
}  # fmt: skip
_TORCH = "torch"  # the domain of the guide's own symbolic functions: torch::npu_roi_align is NPURoiAlign

# CANN's names of inputs where they are not x, or x1 and x2.
_INPUTS = {
    kind: names.split()
    for kinds, names in {
        "Conv2D Conv3D Conv2DTranspose Conv3DTranspose": "x filter bias",
        "MatMulV2 BatchMatMulV2": "x1 x2 bias",
        "BatchNorm": "x scale offset mean variance",
        "LayerNorm InstanceNorm": "x gamma beta",
        "GatherV2 GatherNd": "x indices",
        "GatherElements": "x index",
        "ScatterElements": "data indices updates",
        "ScatterNdUpdate ScatterNdAdd ScatterNdMax ScatterNdMin": "var indices updates",
        "SelectV2": "condition then else",
        "PadV3 MirrorPad": "x paddings constant_values axes",
        "StridedSliceV2": "x begin end axes strides",
        "Reshape Expand": "x shape",
        "Tile": "x multiples",
        "TopK": "x k",
        "ClipByValue": "x clip_value_min clip_value_max",
        "SqueezeV3 UnsqueezeV3 ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceLogSum ReduceLogSumExp SquareSumV1 LpNormV2": "x axes",
        "Resize ResizeNearestNeighborV2": "x roi scales sizes",
        "PRelu": "x weight",
        "OneHot": "x depth values",
        "Range": "start limit delta",
        "Fill": "dims",
        "GridSampler2D GridSampler3D": "x grid",
        "ROIAlign": "features rois rois_n",
        "ROIPooling": "x rois",
        "CommonLSTM": "x w r b sequence_lens initial_h initial_c p",
        "CommonGRU": "x w r b sequence_lens initial_h",
        "Iou GIoU DIoU CIoU": "bboxes gtboxes",
        "NonMaxSuppressionV6": "boxes scores max_output_size iou_threshold score_threshold",
        "Cumsum": "x axis",
        "SplitV": "x size_splits",
        "ReverseSequence": "x seq_lengths",
        "If": "cond",
    }.items()
    for kind in kinds.split()
}


@dataclass(slots=True)
class Named:
    """An operator in CANN's words; `input_names` has a name for every input, absent ones included."""

    type: str
    attrs: dict[str, Any] = field(default_factory=dict)
    input_names: list[str] = field(default_factory=list)


def translate(
    op_type: str, domain: str, opset: int, attrs: dict[str, Any], inputs: list[Value | None], outputs: int
) -> Named:
    """Name an ONNX operator as CANN does; one that CANN has no name for keeps its own type and attributes."""
    call = Call(op_type, opset, plain(attrs), inputs, outputs)
    kind, attributes = _named(call, domain)
    return Named(
        kind, {key: value for key, value in attributes.items() if value is not None}, _input_names(kind, len(inputs))
    )


def rename(graph: Graph) -> None:
    """Name the nodes again, now that shapes and types are known: some names depend on them (MatMulV2 or BatchMatMulV2)."""
    for node in graph.nodes:
        source = node.source
        if source is None or len(source.ops) != 1:
            continue
        op = source.ops[0]
        domain = "" if op.get("domain", "") == "ai.onnx" else op.get("domain", "")
        inputs = node.inputs[: len(op.get("input", ()))]
        named = translate(
            op.get("op_type", ""), domain, graph.opsets.get(domain, 0), attributes_of(op), inputs, len(node.outputs)
        )
        node.type, node.attrs, node.input_names = named.type, named.attrs, named.input_names


def known(op_type: str, domain: str) -> bool:
    """Whether CANN's ONNX parser has a row for the operator."""
    if domain == _TORCH:
        return vendor_node(op_type) in _VENDOR
    if domain not in ("", "ai.onnx", "npu"):
        return domain == "mmdeploy" and op_type in ("NMSRotated", "RoiAlignRotated")
    return (
        op_type in _VENDOR
        or op_type in _RENAMED
        or op_type in _ATTRS
        or op_type in _SAME_SET
        or op_type in naming.FUNCTIONS
    )


_SAME_SET = frozenset(_SAME)


def names() -> dict[str, str]:
    """Every ONNX operator that CANN has a name for, with that name ("" where it depends on attributes and shapes)."""
    table = dict.fromkeys(naming.FUNCTIONS, "") | {name: name for name in _SAME} | dict(_RENAMED)
    return table | {name: row[0] for name, row in _ATTRS.items()}


def vendor_node(operator: str) -> str:
    """The node of a function of torch_npu: npu_roi_align → NPURoiAlign."""
    if not operator.startswith("npu_"):
        return ""
    return "NPU" + "".join(part.capitalize() for part in operator.removeprefix("npu_").split("_"))


def _named(call: Call, domain: str) -> tuple[str, dict[str, Any]]:
    op_type = vendor_node(call.op_type) if domain == _TORCH else call.op_type
    if domain in ("", "ai.onnx", "npu", _TORCH) and op_type in _VENDOR:
        return naming.vendor(_VENDOR[op_type], call)
    op_type = call.op_type
    if domain not in ("", "ai.onnx"):
        return op_type, call.attrs
    if op_type in naming.FUNCTIONS:
        return naming.FUNCTIONS[op_type](call)
    if op_type in _ATTRS:
        kind, rows = _ATTRS[op_type]
        return kind, {name: _attr(call, name, *row) for name, row in rows.items()}
    return _RENAMED.get(op_type, op_type), call.attrs


def _attr(call: Call, name: str, onnx_name: str, default: Any) -> Any:
    value = call.attrs.get(onnx_name, default) if onnx_name else default
    return bool(value) if name in _FLAGS else value


def _input_names(kind: str, count: int) -> list[str]:
    names = _INPUTS.get(kind)
    if names is None:
        names = {1: ["x"], 2: ["x1", "x2"]}.get(count, [])
    return [names[index] if index < len(names) else f"x{index}" for index in range(count)]


def plain(attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes as CANN holds them: text for bytes, constants for tensors; bodies (graphs) and types are left out."""
    plain_values = {key: _plain(value) for key, value in attrs.items()}
    return {key: value for key, value in plain_values.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, dict):
        return _constant(value)
    if isinstance(value, list | tuple):
        parts = [_plain(item) for item in value]
        return None if any(part is None for part in parts) else parts
    return value


def _constant(value: dict[str, Any]) -> Constant | None:
    """A tensor's content; None for anything else, and for what an attribute cannot hold (text, data in another file)."""
    if "data_type" not in value or value["data_type"] == STRING or value.get("data_location") == EXTERNAL:
        return None
    return tensor_constant(value)
