"""Aipp: the picture preprocessing of a model with fixed parameters: bytes of pictures to what the model takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu.base.aipp import AippParams
from softnpu.base.dtypes import numpy_name
from softnpu.ops.common.builder import Array, Builder, OpError, Shape, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.image import _aipp_onnx
from softnpu.ops.image._aipp_numpy import NHWC, features

SCHEMA = Schema(
    "Aipp",
    inputs=("images",),
    outputs=("features",),
    attrs={"aipp": REQUIRED, "model_dtype": 0, "model_format": 0, "model_shape": REQUIRED},
    note="formats YUV420SP_U8, YUV422SP_U8, YUYV_U8, YUV400_U8, AYUV444_U8, RGB888_U8, XRGB8888_U8, ARGB8888_U8; no resize",
)


def params_of(n: Site) -> AippParams:
    """The parameters of a node."""
    try:
        return AippParams.from_json(n.need("aipp"))
    except ValueError as error:
        raise OpError(f"{n.type} {n.name!r}: {error}; convert the model again") from error


def result_of(n: Site) -> tuple[int, Any, int]:
    """Channels, NumPy type and layout of what the model takes."""
    shape = [int(dim) for dim in n.need("model_shape")]
    layout = int(n.attr("model_format", 0))
    return shape[3 if layout == NHWC else 1], np.dtype(numpy_name(int(n.attr("model_dtype", 0)))).type, layout


def _source_size(p: AippParams, shape: Shape | None) -> tuple[int, int]:
    """Height and width of the source: the parameters', or those of the tensor."""
    if p.src_w:
        return p.src_h, p.src_w
    if shape is None or len(shape) != 4:
        return -1, -1
    return p.format.source_height(shape[1]), shape[2]


def compute(n: Site, images: Array) -> tuple[Array, ...]:
    p = params_of(n)
    channels, dtype, layout = result_of(n)
    return (features(p, images.reshape(images.shape[0], -1), _source_size(p, images.shape), channels, dtype, layout),)


def lower(b: Builder, n: Site) -> str:
    p = params_of(n)
    channels, _, layout = result_of(n)
    target = _aipp_onnx.Target(
        channels, int(n.attr("model_dtype", 0)), layout, _aipp_onnx.width_of(p, n.input_shapes[0])
    )
    return _aipp_onnx.lower(b, p, n.input(0), target)


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    p = params_of(n)
    channels, _, layout = result_of(n)
    shape = n.input_shapes[0]
    batch = shape[0] if shape else -1
    h, w = p.output_size(*_source_size(p, shape))
    return [(int(n.attr("model_dtype", 0)), (batch, h, w, channels) if layout == NHWC else (batch, channels, h, w))]
