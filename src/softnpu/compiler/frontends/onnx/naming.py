"""The rows of `table.py` that need more than a new name: what CANN calls an ONNX operator depends on its call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from softnpu.base.dtypes import DType, from_onnx, numpy_name
from softnpu.graph.ir import Value

Row = tuple[str, dict[str, Any]]
_FLOATS = frozenset({-1, 0, 1, 11, 27})


@dataclass(slots=True)
class Call:
    """An ONNX operator as it stands in a graph, with attributes in plain Python values."""

    op_type: str
    opset: int
    attrs: dict[str, Any]
    inputs: list[Value | None]
    outputs: int

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default."""
        return self.attrs.get(name, default)

    def has(self, index: int) -> bool:
        """Whether an input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def rank(self, index: int = 0) -> int | None:
        """The number of dims of an input, where known."""
        value = self.inputs[index] if index < len(self.inputs) else None
        return None if value is None or value.shape is None else len(value.shape)

    def ints(self, index: int) -> list[int] | None:
        """The content of an input that is a small constant of integers."""
        value = self.inputs[index] if index < len(self.inputs) else None
        constant = value.const if value is not None else None
        if constant is None or constant.dtype not in (DType.INT32, DType.INT64) or not numpy_name(constant.dtype):
            return None
        return [int(number) for number in constant.array().ravel()]

    def axes(self, attr: str = "axes", index: int = 1) -> list[int] | None:
        """Axes given as an attribute or, in newer opsets, as a constant input."""
        axes = self.get(attr)
        return list(axes) if isinstance(axes, list | tuple) else self.ints(index)

    def spatial(self) -> int:
        """How many spatial dims a convolution or pooling works on."""
        kernel = self.get("kernel_shape")
        if kernel:
            return len(kernel)
        rank = self.rank(1) if self.rank(1) is not None and self.rank(1) != 1 else self.rank(0)
        return 2 if rank is None else rank - 2


def _full(values: Sequence[int] | None, dims: int, front: int = 2) -> list[int]:
    """Strides and the like for every dim: ones for N and C, and for the H that a 1-D operator lacks."""
    full = list(values or [1] * dims)
    return [1] * front + [1] * max(0, 2 - dims) + full


def _pads(call: Call, dims: int) -> list[int]:
    """ONNX has all the beginnings first; CANN has the beginning and the end of each dim (top, bottom, left, right)."""
    pads = list(call.get("pads") or [0] * (2 * dims))
    half = len(pads) // 2
    pairs = [pad for index in range(half) for pad in (pads[index], pads[index + half])]
    return [0, 0] * max(0, 2 - dims) + pairs


def _layout(dims: int) -> str:
    return "NCDHW" if dims == 3 else "NCHW"


def _conv(call: Call) -> Row:
    dims = call.spatial()
    kind = "Conv3D" if dims == 3 else "Conv2D"
    attrs = {
        "strides": _full(call.get("strides"), dims),
        "pads": _pads(call, dims),
        "dilations": _full(call.get("dilations"), dims),
        "groups": call.get("group", 1),
        "data_format": _layout(dims),
        "offset_x": 0,
    }
    auto = call.get("auto_pad", "NOTSET")
    if auto != "NOTSET":
        attrs["auto_pad"] = auto
    if call.op_type == "ConvTranspose":
        attrs["output_padding"] = [0, 0, *[0] * max(0, 2 - dims), *(call.get("output_padding") or [0] * dims)]
        if call.get("output_shape"):
            attrs["output_shape"] = call.get("output_shape")
        return f"{kind}Transpose", attrs
    return kind, attrs


def _pool_attrs(call: Call, dims: int) -> dict[str, Any]:
    auto = call.get("auto_pad", "NOTSET")
    mode = "SAME" if auto.startswith("SAME") else {"VALID": "VALID"}.get(auto, "CALCULATED")
    return {
        "ksize": _full(call.get("kernel_shape"), dims),
        "strides": _full(call.get("strides"), dims),
        "padding_mode": mode,
        "pads": _pads(call, dims),
        "data_format": _layout(dims),
        "ceil_mode": bool(call.get("ceil_mode", 0)),
    }


def _average_pool(call: Call) -> Row:
    dims = call.spatial()
    attrs = _pool_attrs(call, dims) | {"global_pooling": False, "exclusive": not call.get("count_include_pad", 0)}
    return "AvgPool3D" if dims == 3 else "AvgPoolV2", attrs


def _lp_pool(call: Call) -> Row:
    dims = call.spatial()
    return "AvgPool3D" if dims == 3 else "AvgPoolV2", _pool_attrs(call, dims) | {"p": call.get("p", 2)}


def _max_pool(call: Call) -> Row:
    dims = call.spatial()
    attrs = _pool_attrs(call, dims) | {"global_pooling": False}
    if call.get("dilations"):
        attrs["dilation"] = _full(call.get("dilations"), dims)
    return "MaxPool3D" if dims == 3 else "MaxPoolV3", attrs


def _global_max_pool(call: Call) -> Row:
    rank = call.rank()
    return "ReduceMax", {"keep_dims": True, "axes": None if rank is None else list(range(2, rank))}


def _gemm(call: Call) -> Row:
    attrs = {"transpose_x1": bool(call.get("transA", 0)), "transpose_x2": bool(call.get("transB", 0)), "offset_x": 0}
    scales = {name: call.get(name, 1.0) for name in ("alpha", "beta") if call.get(name, 1.0) != 1.0}
    return "MatMulV2", attrs | scales


def _mat_mul(call: Call) -> Row:
    if call.rank(0) == 2 and call.rank(1) == 2:
        return "MatMulV2", {"transpose_x1": False, "transpose_x2": False, "offset_x": 0}
    return "BatchMatMulV2", {"adj_x1": False, "adj_x2": False, "offset_x": 0}


def _clip(call: Call) -> Row:
    if call.opset < 11:
        low, high = "min" in call.attrs, "max" in call.attrs
    else:
        low, high = call.has(1), call.has(2)
    kind = "ClipByValue" if low and high else "Maximum" if low else "Minimum" if high else "Identity"
    return kind, call.attrs


def _softmax(call: Call) -> Row:
    """Before opset 13 everything from the axis on is flattened, so all these axes take part."""
    rank = call.rank()
    axis = call.get("axis", 1 if call.opset < 13 else -1)
    axes = [axis]
    if call.opset < 13 and rank is not None:
        axes = list(range(axis % rank if rank else 0, rank))
    return f"{call.op_type}V2", {"axes": axes}


def _hardmax(call: Call) -> Row:
    return "HardMax", {"axis": call.get("axis", 1 if call.opset < 13 else -1)}


def _cast(call: Call) -> Row:
    return "Cast", {"dst_type": from_onnx(call.get("to", 0))}


def _concat(call: Call) -> Row:
    if len(call.inputs) == 1:
        return "Identity", {}
    return "ConcatD", {"concat_dim": call.get("axis", 1), "N": len(call.inputs)}


def _division(call: Call) -> Row:
    first = call.inputs[0] if call.inputs else None
    return ("RealDiv" if first is None or first.dtype in _FLOATS else "Div"), {}


def _dropout(call: Call) -> Row:
    if call.outputs > 1 or call.has(2):
        return "Dropout", {"dropout_ratio": call.get("ratio", 0.5)}
    return "Identity", {}


def _extreme(kind: str) -> Callable[[Call], Row]:
    return lambda call: (kind if len(call.inputs) > 1 else "Identity", {})


def _sum(call: Call) -> Row:
    count = len(call.inputs)
    return {1: "Identity", 2: "Add"}.get(count, "AccumulateNV2"), {} if count < 3 else {"N": count}


def _grid_sample(call: Call) -> Row:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(call.get("mode", "bilinear"), call.get("mode", "bilinear"))
    attrs = {
        "interpolation_mode": mode,
        "padding_mode": call.get("padding_mode", "zeros"),
        "align_corners": bool(call.get("align_corners", 0)),
    }
    return "GridSampler3D" if call.rank() == 5 else "GridSampler2D", attrs


def _lrn(call: Call) -> Row:
    attrs = {
        "depth_radius": (call.get("size", 1) - 1) // 2,
        "bias": call.get("bias", 1.0),
        "alpha": call.get("alpha", 1e-4),
    }
    return "LRN", attrs | {"beta": call.get("beta", 0.75), "norm_region": "ACROSS_CHANNELS"}


def _norm(p: int | None) -> Callable[[Call], Row]:
    def row(call: Call) -> Row:
        axes = call.axes() if p is not None else [call.get("axis", -1)]
        return "LpNormV2", {
            "p": float(call.get("p", 2) if p is None else p),
            "axes": axes,
            "keepdim": bool(call.get("keepdims", 1)),
        }

    return row


def _reduce(call: Call) -> Row:
    kind = "SquareSumV1" if call.op_type == "ReduceSumSquare" else call.op_type
    attrs: dict[str, Any] = {"keep_dims": bool(call.get("keepdims", 1)), "axes": call.axes()}
    if call.get("noop_with_empty_axes"):
        attrs["noop_with_empty_axes"] = True
    return kind, attrs


def _pad(call: Call) -> Row:
    mode = call.get("mode", "constant")
    if call.opset >= 11:
        return "PadV3", {"mode": mode, "paddings_contiguous": True}
    pads = call.get("pads") or call.get("paddings") or []
    half = len(pads) // 2
    attrs = {"mode": mode, "paddings": [[pads[index], pads[index + half]] for index in range(half)]}
    if mode == "reflect":
        return "MirrorPad", attrs | {"mode": "REFLECT"}
    return "PadV3", attrs | {"paddings_contiguous": True, "constant_values": call.get("value", 0.0)}


def _random(call: Call) -> Row:
    dtype = from_onnx(call.get("dtype", 1))
    if "Normal" in call.op_type:
        return "RandomStandardNormal", {
            "dtype": dtype,
            "mean": call.get("mean", 0.0),
            "scale": call.get("scale", 1.0),
            "shape": call.get("shape"),
        }
    kind = "RandomUniform" if dtype in _FLOATS else "RandomUniformInt"
    return kind, {
        "dtype": dtype,
        "low": call.get("low", 0.0),
        "high": call.get("high", 1.0),
        "shape": call.get("shape"),
    }


def _resize(call: Call) -> Row:
    transform = call.get("coordinate_transformation_mode", "half_pixel" if call.opset >= 11 else "asymmetric")
    mode = call.get("mode", "nearest")
    if mode == "nearest" and call.op_type == "Resize":
        return "ResizeNearestNeighborV2", {
            "align_corners": transform == "align_corners",
            "half_pixel_centers": "half_pixel" in transform,
        }
    attrs = {
        "mode": mode,
        "coordinate_transformation_mode": transform,
        "nearest_mode": call.get("nearest_mode", "round_prefer_floor"),
    }
    return "Resize", attrs | {"cubic_coeff_a": call.get("cubic_coeff_a", -0.75), "scales": call.get("scales")}


def _roi_pool(call: Call) -> Row:
    height, width = (*(call.get("pooled_shape") or ()), 1, 1)[:2]
    scale = call.get("spatial_scale", 1.0)
    return "ROIPooling", {"pooled_h": height, "pooled_w": width, "spatial_scale_h": scale, "spatial_scale_w": scale}


def _scatter_nd(call: Call) -> Row:
    kind = {"add": "ScatterNdAdd", "max": "ScatterNdMax", "min": "ScatterNdMin"}.get(
        call.get("reduction", "none"), "ScatterNdUpdate"
    )
    return kind, {"reduction": "mul"} if call.get("reduction") == "mul" else {}


def _shift(call: Call) -> Row:
    return "LeftShift" if call.get("direction") == "LEFT" else "RightShift", {}


def _slice(call: Call) -> Row:
    return "StridedSliceV2", {
        "begin": call.get("starts"),
        "end": call.get("ends"),
        "axes": call.get("axes"),
    } if call.opset < 10 else {}


def _split(call: Call) -> Row:
    sizes = call.axes("split")
    attrs = {"split_dim": call.get("axis", 0), "num_split": call.outputs}
    return ("SplitV", attrs | {"size_splits": sizes}) if sizes is not None or call.has(1) else ("Split", attrs)


def _squeeze(call: Call) -> Row:
    attribute = "axis" if call.op_type == "Squeeze" else "axes"
    if call.opset < 13:
        return call.op_type, {attribute: call.axes()}
    return f"{call.op_type}V3", {"axes": call.axes()}


def _transpose(call: Call) -> Row:
    rank = call.rank()
    return "Transpose", {"perm": call.get("perm") or (None if rank is None else list(range(rank))[::-1])}


_VENDOR_ATTRS = {
    "GroupNormSilu": {"group": "num_groups"},
    "BoundingBoxDecode": {"max_shapes": "max_shape"},
    "Slice": {"offsetss": "offsets", "sizes": "size"},
    "StridedSlice": {"begins": "begin", "ends": "end", "stridess": "strides"},
}
_ROTARY_MODES = {"half": 0, "interleave": 1}


def vendor(kind: str, call: Call) -> Row:
    """A vendor's operator: its attributes have CANN's names, or those of torch_npu's exporter, which adds an `s` to lists."""
    if kind == "Cast":
        return kind, {"dst_type": from_onnx(call.get("to", call.get("dtype", 0)))}
    words = _VENDOR_ATTRS.get(kind, {})
    attrs = {words.get(name, name): value for name, value in call.attrs.items()}
    if kind == "RotaryMul" and "rotary_mode" in attrs:
        attrs["mode"] = _ROTARY_MODES.get(attrs.pop("rotary_mode"), -1)
    return kind, attrs


FUNCTIONS: dict[str, Callable[[Call], Row]] = {
    "AveragePool": _average_pool, "BitShift": _shift, "Cast": _cast, "Clip": _clip, "Concat": _concat, "Conv": _conv,
    "ConvTranspose": _conv, "Div": _division, "Dropout": _dropout, "Gemm": _gemm, "GlobalMaxPool": _global_max_pool,
    "GridSample": _grid_sample, "Hardmax": _hardmax, "LRN": _lrn, "LogSoftmax": _softmax, "LpNormalization": _norm(None),
    "LpPool": _lp_pool, "MatMul": _mat_mul, "Max": _extreme("Maximum"), "MaxPool": _max_pool, "MaxRoiPool": _roi_pool,
    "Min": _extreme("Minimum"), "Pad": _pad, "RandomNormal": _random, "RandomNormalLike": _random, "RandomUniform": _random,
    "RandomUniformLike": _random, "ReduceL1": _norm(1), "ReduceL2": _norm(2), "ReduceLogSum": _reduce,
    "ReduceLogSumExp": _reduce, "ReduceMax": _reduce, "ReduceMean": _reduce, "ReduceMin": _reduce, "ReduceProd": _reduce,
    "ReduceSum": _reduce, "ReduceSumSquare": _reduce, "Resize": _resize, "ScatterND": _scatter_nd, "Slice": _slice,
    "Softmax": _softmax, "Split": _split, "Squeeze": _squeeze, "Sum": _sum, "Transpose": _transpose,
    "Unsqueeze": _squeeze, "Upsample": _resize,
}  # fmt: skip
