"""What AIPP computes, in NumPy: pixels of a source picture to the numbers that the model takes.

The order is the hardware's: swap of channels, crop, colour conversion, normalisation, padding. Colour conversion is integer
arithmetic; normalisation is float32, one rounding per step.
"""

from __future__ import annotations

import numpy as np

from softnpu.base.aipp import AippParams
from softnpu.base.dtypes import TensorFormat
from softnpu.ops.common.builder import Array

NHWC = TensorFormat.NHWC


def features(
    p: AippParams, pixels: Array, size: tuple[int, int], channels: int, dtype: type[np.generic], layout: int
) -> Array:
    """Pictures as the model takes them. `pixels` has a row of bytes per picture, `size` is the source's height and width,
    `layout` the model's aclFormat."""
    planes = _decode(p, pixels, *size)
    if p.crop:
        top, left = p.crop_start_h, p.crop_start_w
        planes = planes[:, :, top : top + p.crop_h, left : left + p.crop_w]
    if p.csc:
        planes = _convert(p, planes[:, :3])[:, :channels]
    if dtype is np.uint8:
        done: Array = planes.astype(np.uint8)
    else:
        done = _normalise(p, planes)
    done = _pad(p, done).astype(dtype, copy=False)
    return np.ascontiguousarray(done.transpose(0, 2, 3, 1) if layout == NHWC else done)


def channel_order(p: AippParams) -> list[int]:
    """Which byte of a pixel becomes which channel: ax_swap moves the first of four to the end, then rbuv_swap exchanges
    the first and third (those of luma and chroma: the two chroma)."""
    order = list(range(p.format.channels))
    if p.ax_swap and len(order) == 4:
        order = order[1:] + order[:1]
    if p.rbuv_swap and len(order) > 1:
        chroma = 1 if p.format.yuv else 0
        order[chroma], order[2] = order[2], order[chroma]
    return order


def _decode(p: AippParams, pixels: Array, h: int, w: int) -> Array:
    """Channels as planes [N, C, H, W], chroma repeated for the pixels that share it."""
    n = pixels.shape[0]
    row = p.format
    rows, columns = row.step
    if row.planar:
        luma = pixels[:, : h * w].reshape(n, 1, h, w)
        pairs = pixels[:, h * w :].reshape(n, h // rows, w // columns, 2).transpose(0, 3, 1, 2)
        planes = np.concatenate([luma, _repeat(pairs, rows, columns)], axis=1)
    elif columns == 2:
        four = pixels.reshape(n, h, w // 2, 4)
        luma = four[..., 0::2].reshape(n, 1, h, w)
        planes = np.concatenate([luma, _repeat(four[..., 1::2].transpose(0, 3, 1, 2), 1, 2)], axis=1)
    else:
        planes = pixels.reshape(n, h, w, row.channels).transpose(0, 3, 1, 2)
    order = channel_order(p)
    # one copy of bytes into planes here makes every later step several times faster
    return np.ascontiguousarray(planes) if order == sorted(order) else planes[:, order]


def _repeat(chroma: Array, rows: int, columns: int) -> Array:
    wide = chroma.repeat(columns, axis=3)
    return wide.repeat(rows, axis=2) if rows > 1 else wide


def _convert(p: AippParams, planes: Array) -> Array:
    matrix = np.array(p.matrix, np.int32).reshape(3, 3)
    whole = planes.astype(np.int32)
    if p.format.yuv:
        whole -= np.array(p.input_bias, np.int32).reshape(1, 3, 1, 1)
    sums: Array = np.einsum("ij,njhw->nihw", matrix, whole) >> 8
    if not p.format.yuv:
        sums += np.array(p.output_bias, np.int32).reshape(1, 3, 1, 1)
    return np.clip(sums, 0, 255)


def _normalise(p: AippParams, planes: Array) -> Array:
    channels = planes.shape[1]
    done: Array = planes.astype(np.float32)
    for values in (p.mean, p.min):
        if any(values[:channels]):
            done -= np.array(values[:channels], np.float32).reshape(1, -1, 1, 1)
    if any(factor != 1.0 for factor in p.var_reci[:channels]):
        done *= np.array(p.var_reci[:channels], np.float32).reshape(1, -1, 1, 1)
    return done


def padding_byte(value: float) -> int:
    """The padding value for a model that takes uint8."""
    return int(min(max(value, 0.0), 255.0))


def _pad(p: AippParams, planes: Array) -> Array:
    left, right, top, bottom = p.pads
    if not (left or right or top or bottom):
        return planes
    value = padding_byte(p.padding_value) if planes.dtype == np.uint8 else np.float32(p.padding_value)
    return np.pad(planes, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)
