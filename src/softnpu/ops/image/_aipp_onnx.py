"""What AIPP computes, in ONNX operators that onnxruntime runs fast on a CPU, with the results of `_aipp_numpy` bit for bit.

Pixels stay bytes as long as possible. Colour conversion is a ConvTranspose, which also repeats chroma for the pixels that
share it; its sums are whole multiples of 1/512 below 2^24 of them, so float32 holds them exactly. QuantizeLinear then
rounds and clamps at once, DequantizeLinear normalises at once. Measured against Resize, Tile, Expand, Conv and MatMul,
this form was the fastest for every subsampled format, and within a quarter of the fastest for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softnpu.base.aipp import AippParams
from softnpu.ops.common.builder import Array, Builder, Shape
from softnpu.ops.common.numbers import FLOAT, HALF, UINT8
from softnpu.ops.image._aipp_numpy import NHWC, channel_order, padding_byte

_EXACT = 1 << 24
Mix = Callable[[Array, Array], str]  # matrix and biases to the sums of the channels
_TO_NCHW, _TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
_QUANTIZE, _PER_CHANNEL, _BYTE_PAD = 10, 13, 11  # opsets that brought these


@dataclass(frozen=True)
class Target:
    """What the model takes: channels, aclDataType, aclFormat, and the width where it is known (-1 elsewhere)."""

    channels: int
    dtype: int
    layout: int
    width: int


@dataclass(frozen=True)
class _Pixels:
    """Where the picture is on its way: the tensor, whether it holds bytes or whole float32 numbers, its layout."""

    name: str
    bytes: bool
    layout: int


def lower(b: Builder, p: AippParams, images: str, target: Target) -> str:
    """The calls for pictures as `Format.memory_dims` lays them out; sizes need not be known."""
    pixels = _shared(b, p, images, target) if p.format.step != (1, 1) else _packed(b, p, images, target)
    features = _finish(b, p, pixels, target)
    return b.cast(features, HALF) if target.dtype == HALF else features


# ---- pixels ----------------------------------------------------------------------------------------------------------


def _packed(b: Builder, p: AippParams, images: str, target: Target) -> _Pixels:
    """Formats in which every pixel has its own channels."""
    if p.crop:
        starts = [p.crop_start_h, p.crop_start_w]
        images = b.slice(images, starts, [starts[0] + p.crop_h, starts[1] + p.crop_w], [1, 2])
    order = channel_order(p)
    swapped = order != sorted(order)
    if not p.csc and not swapped and target.layout == NHWC:
        return _Pixels(images, True, NHWC)
    planes = b.transpose(images, _TO_NCHW)
    if not p.csc:
        return _Pixels(str(b.op("Gather", planes, b.const(order), axis=1)) if swapped else planes, True, 0)
    values = b.cast(planes, FLOAT)

    def mix(matrix: Array, bias: Array) -> str:
        weights = np.zeros((len(order), len(matrix), 1, 1), np.float32)
        weights[order[:3], :, 0, 0] = matrix.T / 256
        return _conv(b, values, weights, bias, (1, 1))

    return _convert(b, p, mix, target)


def _shared(b: Builder, p: AippParams, images: str, target: Target) -> _Pixels:
    """Formats in which pixels share chroma: planes of their own (420SP, 422SP) or four bytes for two pixels (YUYV)."""
    rows, columns = p.format.step
    edges = _early_crop(p)
    if p.format.planar:
        luma, chroma = _split_planes(b, images, rows)
        if edges is not None:
            (top, bottom), (left, right) = edges
            luma = b.slice(luma, [top, left], [bottom, right], [2, 3])
            chroma = b.slice(chroma, [top // rows, left // columns], [bottom // rows, right // columns], [2, 3])
        luma, chroma = b.cast(luma, FLOAT), b.cast(chroma, FLOAT)
    else:
        chroma = b.transpose(b.reshape(images, [0, 0, -1, 4]), _TO_NCHW)
        if edges is not None:
            (top, bottom), (left, right) = edges
            chroma = b.slice(chroma, [top, left // 2], [bottom, right // 2], [2, 3])
        luma, chroma = "", b.cast(chroma, FLOAT)
    order = channel_order(p)

    def mix(matrix: Array, bias: Array) -> str:
        columns_of = matrix[:, np.argsort(order)]  # the matrix for channels as they lie in memory
        if not luma:
            return _conv(b, chroma, _yuyv_weights(columns_of), bias, (1, 2))
        weights = np.broadcast_to(columns_of.T[1:, :, None, None] / 256, (2, len(matrix), rows, columns))
        return str(b.op("Add", _conv(b, chroma, weights, bias, p.format.step), _scaled(b, luma, columns_of[:, 0])))

    if p.csc:
        pixels = _convert(b, p, mix, target)
    elif luma:
        copies = np.zeros((2, 2, rows, columns), np.float32)
        copies[order[1] - 1, 0] = copies[order[2] - 1, 1] = 1
        wide = _conv(b, chroma, copies, np.zeros(2), p.format.step)
        pixels = _Pixels(str(b.op("Concat", luma, wide, axis=1)), False, 0)
    else:
        pixels = _Pixels(mix(np.eye(3) * 256, np.zeros(3)), False, 0)
    return _Pixels(_late_crop(b, p, pixels.name), pixels.bytes, 0)


def _split_planes(b: Builder, images: str, rows: int) -> tuple[str, str]:
    """Luma [N, 1, H, W] and chroma [N, 2, H/rows, W/2] of [N, H + chroma rows, W, 1], for any size."""
    parts = 3 if rows == 2 else 2  # the picture as equal bands: two of luma and one of chroma, or one and one
    bands = b.reshape(b.unsqueeze(b.squeeze(images, [3]), [2]), [0, parts, -1, 0])
    luma = b.reshape(b.slice(bands, [0], [parts - 1], [1]), [0, 1, -1, 0])
    pairs = b.reshape(b.squeeze(b.slice(bands, [parts - 1], [parts], [1]), [1]), [0, 0, -1, 2])
    return luma, b.transpose(pairs, _TO_NCHW)


def _early_crop(p: AippParams) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The crop widened to whole groups of pixels that share chroma: (top, bottom), (left, right)."""
    if not p.crop:
        return None
    edges = []
    for start, size, step in zip((p.crop_start_h, p.crop_start_w), (p.crop_h, p.crop_w), p.format.step, strict=True):
        edges.append((start // step * step, -(-(start + size) // step) * step))
    return edges[0], edges[1]


def _late_crop(b: Builder, p: AippParams, x: str) -> str:
    edges = _early_crop(p)
    if edges is None:
        return x
    (top, bottom), (left, right) = edges
    first = [p.crop_start_h - top, p.crop_start_w - left]
    if first == [0, 0] and (bottom - top, right - left) == (p.crop_h, p.crop_w):
        return x
    return b.slice(x, first, [first[0] + p.crop_h, first[1] + p.crop_w], [2, 3])


def _yuyv_weights(matrix: Array) -> Array:
    """For channels Y0, U, Y1, V of two neighbouring pixels."""
    weights = np.zeros((4, len(matrix), 1, 2), np.float32)
    for pixel in (0, 1):
        weights[2 * pixel, :, 0, pixel] = matrix[:, 0] / 256
        weights[1, :, 0, pixel] = matrix[:, 1] / 256
        weights[3, :, 0, pixel] = matrix[:, 2] / 256
    return weights


# ---- colour conversion -----------------------------------------------------------------------------------------------


def _convert(b: Builder, p: AippParams, mix: Mix, target: Target) -> _Pixels:
    """`mix(matrix, bias)` makes (matrix · channels + bias) / 256; here it is floored and clamped."""
    matrix = np.array(p.matrix, np.int64).reshape(3, 3)[: target.channels]
    if p.format.yuv:
        bias = -matrix @ np.array(p.input_bias, np.int64)
    else:
        bias = 256 * np.array(p.output_bias, np.int64)[: target.channels]
    quantize = b.opset >= _QUANTIZE
    largest = 2 * int((255 * np.abs(matrix).sum(axis=1) + np.abs(bias)).max()) + 512
    if largest < _EXACT:
        # multiples of 1/256 moved down by 255/512 are rounded to what floor gives, with no ties
        total = mix(matrix, bias - 127.5 if quantize else bias)
        whole = total if quantize else str(b.op("Floor", total))
    else:  # in two halves, each small enough: floor(x) = high part + floor(low part)
        low, low_bias = matrix & 255, bias & 255
        whole = str(b.op("Add", str(b.op("Floor", mix(low, low_bias))), mix(matrix - low, bias - low_bias)))
    if quantize:
        zero = b.const(np.array(0, np.uint8))
        return _Pixels(str(b.op("QuantizeLinear", whole, b.scalar(1.0, FLOAT), zero)), True, 0)
    return _Pixels(b.clip(whole, 0.0, 255.0), False, 0)


def _conv(b: Builder, x: str, weights: Array, bias: Array, step: tuple[int, int]) -> str:
    """Every pixel becomes a block of step pixels, each a weighted sum of its channels plus bias / 256."""
    inputs = [b.const(np.ascontiguousarray(weights, np.float32)), b.const((np.asarray(bias) / 256).astype(np.float32))]
    return str(b.op("ConvTranspose", x, *inputs, strides=list(step), kernel_shape=list(step)))


def _scaled(b: Builder, luma: str, factors: Array) -> str:
    if (factors == factors[0]).all():
        return str(b.op("Mul", luma, b.scalar(float(factors[0]) / 256, FLOAT)))
    return str(b.op("Mul", luma, b.const((factors / 256).astype(np.float32).reshape(1, -1, 1, 1))))


# ---- normalisation and padding ---------------------------------------------------------------------------------------


def _finish(b: Builder, p: AippParams, pixels: _Pixels, target: Target) -> str:
    x = pixels.name
    if target.dtype == UINT8:
        x = x if pixels.bytes else b.cast(x, UINT8)
    if target.layout == NHWC and pixels.layout != NHWC:
        x = b.transpose(x, _TO_NHWC)
    if target.dtype != UINT8:
        x = _normalise(b, p, x, pixels.bytes, target)
    return _pad(b, p, x, target)


def _normalise(b: Builder, p: AippParams, x: str, is_bytes: bool, target: Target) -> str:
    count = target.channels
    mean, low, factor = p.mean[:count], p.min[:count], p.var_reci[:count]
    zero = [first + second for first, second in zip(mean, low, strict=True)]
    plain = not any(zero) and all(number == 1.0 for number in factor)
    uniform = len({*zip(mean, low, factor, strict=True)}) == 1
    if is_bytes and not plain and all(number == int(number) and number <= 255 for number in zero):
        if uniform and b.opset >= _QUANTIZE:
            return str(
                b.op("DequantizeLinear", x, b.scalar(factor[0], FLOAT), b.const(np.array(int(zero[0]), np.uint8)))
            )
        if target.layout != NHWC and b.opset >= _PER_CHANNEL:
            scales = b.const(np.array(factor, np.float32))
            return str(
                b.op("DequantizeLinear", x, scales, b.const(np.array(zero, np.float32).astype(np.uint8)), axis=1)
            )
    if is_bytes:
        x = b.cast(x, FLOAT)
    if plain:
        return x
    steps = [("Sub", np.array(values, np.float32)) for values in _subtrahends(mean, low)]
    steps.append(("Mul", np.array(factor, np.float32)))
    if uniform:
        return _chain(b, x, [(onnx_type, values[:1].reshape(())) for onnx_type, values in steps])
    return _per_channel(b, x, steps, target)


def _subtrahends(mean: tuple[int, ...], low: tuple[float, ...]) -> list[tuple[float, ...]]:
    """Mean and min, as one number per channel where float32 holds their sums."""
    both = tuple(float(first) + second for first, second in zip(mean, low, strict=True))
    if all(float(np.float32(values)) == values for values in both):
        return [both] if any(both) else []
    return [values for values in (tuple(map(float, mean)), low) if any(values)]


def _chain(b: Builder, x: str, steps: list[tuple[str, Array]]) -> str:
    for onnx_type, values in steps:
        if onnx_type != "Mul" or (values != 1).any():
            x = str(b.op(onnx_type, x, b.const(values)))
    return x


def _per_channel(b: Builder, x: str, steps: list[tuple[str, Array]], target: Target) -> str:
    if target.layout != NHWC:
        return _chain(b, x, [(onnx_type, values.reshape(1, -1, 1, 1)) for onnx_type, values in steps])
    if target.width < 0:
        return _chain(b, x, steps)
    # numbers for a whole row at once: broadcasting along three channels is ten times slower
    rows = _chain(
        b, b.reshape(x, [0, 0, -1]), [(onnx_type, np.tile(values, target.width)) for onnx_type, values in steps]
    )
    return b.reshape(rows, [0, 0, -1, target.channels])


def _pad(b: Builder, p: AippParams, x: str, target: Target) -> str:
    left, right, top, bottom = p.pads
    if not (left or right or top or bottom):
        return x
    before, after = (
        ([0, top, left, 0], [0, bottom, right, 0])
        if target.layout == NHWC
        else ([0, 0, top, left], [0, 0, bottom, right])
    )
    if target.dtype != UINT8:
        return b.pad(x, before, after, p.padding_value)
    value = padding_byte(p.padding_value)
    if b.opset >= _BYTE_PAD:
        return b.pad(x, before, after, value, dtype=UINT8)
    return b.cast(b.pad(b.cast(x, FLOAT), before, after, value), UINT8)


def width_of(p: AippParams, shape: Shape | None) -> int:
    """The width of the picture before padding, -1 where it is not known."""
    if p.crop:
        return p.crop_w
    return p.src_w or (shape[2] if shape is not None and len(shape) == 4 else -1)
