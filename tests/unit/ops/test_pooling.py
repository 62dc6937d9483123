"""Pooling against windows by loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from tests.caffe_support import op
from tests.unit.ops.support import (
    IMAGE,
    VOLUME,
    Array,
    close,
    compute,
    floats,
    match,
    naive_pool,
    nchw,
    rand,
    run,
    same,
)


def caffe_pool(
    x: Array, kernel: tuple[int, int], stride: tuple[int, int], pad: tuple[int, int], average: bool, ceil: bool
) -> Array:
    """Window by window, as the layer is described: the divisor is the window inside the padded area."""
    sizes = []
    for size, k, s, p in zip(x.shape[2:], kernel, stride, pad, strict=True):
        room = (size + 2 * p - k) / s
        count = int(math.ceil(room) if ceil else math.floor(room)) + 1
        if any(pad) and (count - 1) * s >= size + p:
            count -= 1
        sizes.append(count)
    pooled = np.zeros((*x.shape[:2], *sizes), np.float32)
    for row in range(sizes[0]):
        for column in range(sizes[1]):
            low = [row * stride[0] - pad[0], column * stride[1] - pad[1]]
            high = [min(low[i] + kernel[i], x.shape[2 + i] + pad[i]) for i in (0, 1)]
            area = (high[0] - low[0]) * (high[1] - low[1])
            part = x[:, :, max(low[0], 0) : high[0], max(low[1], 0) : high[1]]
            pooled[:, :, row, column] = part.sum((2, 3)) / area if average else part.max((2, 3))
    return pooled


def test_pools_over_everything() -> None:
    x = floats(2, 3, 4, 4)
    close(run("GlobalAveragePool", [x])[0], x.mean((2, 3), keepdims=True))
    close(run("GlobalLpPool", [x], p=2.0)[0], np.sqrt((x**2).sum((2, 3), keepdims=True)))


@pytest.mark.parametrize(("kind", "formula"), [("MaxPool", np.max), ("AvgPool", np.mean)])
def test_pooling(kind: str, formula: Any) -> None:
    attrs: dict[str, Any] = {"ksize": [1, 3, 2, 1], "strides": [1, 2, 2, 1]}
    wanted = naive_pool(IMAGE, (3, 2), (2, 2), [1, 1, 0, 0], formula)
    same(compute(kind, IMAGE, padding="SAME", **attrs), wanted)
    same(compute(kind, IMAGE, padding="SAME", free=True, **attrs), wanted)
    valid = naive_pool(IMAGE, (3, 2), (2, 2), [0] * 4, formula)
    same(compute(kind, IMAGE, padding="VALID", data_format="NHWC", **attrs), valid)
    same(
        compute(kind, nchw(IMAGE), padding="VALID", ksize=[1, 1, 3, 2], strides=[1, 1, 2, 2], data_format="NCHW"),
        nchw(valid),
    )
    with pytest.raises(AtcError, match="padding 'FULL'"):
        compute(kind, IMAGE, padding="FULL", **attrs)
    with pytest.raises(AtcError, match="batch and channel"):
        compute(kind, IMAGE, padding="SAME", ksize=[1, 2, 2, 3], strides=[1, 1, 1, 1])


def test_pooling_with_pads() -> None:
    x = nchw(IMAGE)
    attrs: dict[str, Any] = {"ksize": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "pads": [1, 0, 1, 1]}
    same(compute("MaxPoolV3", x, **attrs), nchw(naive_pool(IMAGE, (3, 3), (2, 2), [1, 0, 1, 1], np.max)))
    same(
        compute("AvgPoolV2", x, exclusive=True, **attrs), nchw(naive_pool(IMAGE, (3, 3), (2, 2), [1, 0, 1, 1], np.mean))
    )
    padded = np.pad(IMAGE, [(0, 0), (1, 0), (1, 1), (0, 0)])
    same(compute("AvgPoolV2", x, exclusive=False, **attrs), nchw(naive_pool(padded, (3, 3), (2, 2), [0] * 4, np.mean)))
    everything = {"ksize": [1, 1, 1, 1], "strides": [1, 1, 1, 1], "global_pooling": True}
    same(compute("MaxPoolV3", x, **everything), x.max((2, 3), keepdims=True))
    same(compute("AvgPoolV2", IMAGE, data_format="NHWC", **everything), IMAGE.mean((1, 2), keepdims=True))
    ceil = compute("MaxPoolV3", x, ksize=[1, 1, 2, 2], strides=[1, 1, 2, 2], ceil_mode=True)
    same(ceil[:, :, 2], np.maximum(x[:, :, 4, 0::2], x[:, :, 4, 1::2]))


def test_pooling_of_volumes() -> None:
    pool: dict[str, Any] = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1]}
    same(
        compute("MaxPool3D", VOLUME, padding="SAME", **pool),
        naive_pool(VOLUME, (2, 2, 2), (2, 2, 2), [0, 0, 0, 1, 0, 0], np.max),
    )
    same(
        compute("MaxPool3D", VOLUME, padding="VALID", **pool), naive_pool(VOLUME, (2, 2, 2), (2, 2, 2), [0] * 6, np.max)
    )
    same(
        compute("AvgPool3D", VOLUME, pads=[1, 0, 0, 1, 0, 0], count_include_pad=False, **pool),
        naive_pool(VOLUME, (2, 2, 2), (2, 2, 2), [1, 0, 0, 1, 0, 0], np.mean),
    )
    with pytest.raises(AtcError, match="divisor_override 3"):
        compute("AvgPool3D", VOLUME, divisor_override=3, **pool)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize(
    "window",
    [
        ((2, 2), (2, 2), (0, 0)),
        ((3, 3), (2, 2), (1, 1)),
        ((3, 2), (2, 3), (1, 0)),
        ((5, 4), (3, 3), (2, 2)),
        ((2, 3), (1, 2), (1, 2)),
        ((3, 3), (3, 3), (1, 1)),
    ],
)
@pytest.mark.parametrize("size", [(5, 8), (7, 7), (6, 11)])
def test_pooling_is_exactly_caffes(size: tuple[int, int], window: Any, ceil: bool, average: bool) -> None:
    kernel, stride, pad = window
    x = rand(2, 3, *size, low=-3, high=-1)  # negative, so that a padding that counts for the maximum would show
    pads = [pad[0], pad[0], pad[1], pad[1]]
    (pooled,) = op(
        "Pooling", x, mode=int(average), window=list(kernel), stride=list(stride), pad=pads, ceil_mode=int(not ceil)
    )
    match(pooled, caffe_pool(x, kernel, stride, pad, average, ceil))


@pytest.mark.parametrize("method", [0, 1])
def test_spp_is_a_pyramid_of_poolings(method: int) -> None:
    x = rand(2, 3, 9, 10)
    parts = []
    for bins in (1, 2, 4):
        kernel = (math.ceil(9 / bins), math.ceil(10 / bins))
        pad = ((kernel[0] * bins - 9 + 1) // 2, (kernel[1] * bins - 10 + 1) // 2)
        parts.append(caffe_pool(x, kernel, kernel, pad, bool(method), True).reshape(2, -1))
    match(op("SPP", x, pyramid_height=3, pool_method=method)[0], np.concatenate(parts, 1))


def test_a_window_outside_is_refused() -> None:
    with pytest.raises(AtcError, match="outside"):
        op("Pooling", rand(1, 1, 5, 5), window=[1, 1], stride=[3, 3])
