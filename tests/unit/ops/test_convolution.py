"""Convolutions against loops, NumPy and ONNX's reference evaluator."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from tests.caffe_support import op
from tests.unit.ops.support import (
    IMAGE,
    VOLUME,
    Array,
    C,
    Const,
    F,
    close,
    compute,
    floats,
    match,
    nchw,
    rand,
    reference,
    run,
    same,
)


def naive_conv(x: Array, w: Array, strides: list[int], pads: list[int], dilations: list[int]) -> Array:
    """NHWC data, HWIO filter, by loops."""
    x = np.pad(x, [(0, 0), pads[:2], pads[2:], (0, 0)])
    kh, kw = ((size - 1) * rate + 1 for size, rate in zip(w.shape, dilations, strict=False))
    oh, ow = (x.shape[1] - kh) // strides[0] + 1, (x.shape[2] - kw) // strides[1] + 1
    y = np.zeros((x.shape[0], oh, ow, w.shape[3]), F)
    for i, j in itertools.product(range(oh), range(ow)):
        top, left = i * strides[0], j * strides[1]
        patch = x[:, top : top + kh : dilations[0], left : left + kw : dilations[1]]
        y[:, i, j] = np.tensordot(patch, w, ([1, 2, 3], [0, 1, 2]))
    return y


def convolve(x: Array, w: Array, stride: int) -> Array:
    rows, columns = [(size - k) // stride + 1 for size, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    actual = np.zeros((len(x), len(w), rows, columns), np.float32)
    for row in range(rows):
        for column in range(columns):
            part = x[:, :, row * stride : row * stride + w.shape[2], column * stride : column * stride + w.shape[3]]
            actual[:, :, row, column] = np.einsum("nchw,ochw->no", part, w)
    return actual


def test_transposed_convolutions() -> None:
    x, w, bias = floats(1, 4, 5, 6), floats(4, 3, 3, 2), floats(3)
    attrs = {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2], "dilations": [1, 2]}
    expected = reference("ConvTranspose", [x, w, bias], **attrs)[0]
    zero = Const(np.zeros(4, np.int32))
    cann = {"strides": [1, 1, 2, 3], "pads": [1, 0, 0, 1], "dilations": [1, 1, 1, 2], "data_format": "NCHW"}
    close(run("Conv2DTranspose", [zero, x, w, bias], output_padding=[0, 0, 1, 2], **cann)[0], expected, 1e-4)
    size = Const(np.array(expected.shape, np.int32))
    close(run("Conv2DTranspose", [size, x, w, bias], **cann)[0], expected, 1e-4)
    cann = {
        "strides": [1, 2, 3, 1],
        "pads": [1, 0, 0, 1],
        "dilations": [1, 1, 2, 1],
        "output_padding": [0, 1, 2, 0],
        "data_format": "NHWC",
    }
    last = run("Conv2DTranspose", [zero, x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy(), bias], **cann)[
        0
    ]
    close(last, expected.transpose(0, 2, 3, 1), 1e-4)


def test_transposed_convolution_of_volumes() -> None:
    x, w = floats(1, 2, 3, 3, 4), floats(2, 3, 2, 2, 2)
    expected = np.zeros((1, 3, 6, 4, 5), np.float32)
    for d in range(3):
        for h in range(3):
            for v in range(4):
                expected[0, :, 2 * d : 2 * d + 2, h : h + 2, v : v + 2] += np.einsum(
                    "i,iodhw->odhw", x[0, :, d, h, v], w
                )
    actual = run(
        "Conv3DTranspose",
        [Const(np.zeros(5, np.int32)), x, w],
        strides=[1, 1, 2, 1, 1],
        pads=[0] * 6,
        data_format="NCDHW",
    )[0]
    close(actual, expected, 1e-4)


def test_columns_to_picture() -> None:
    x = floats(1, 2 * 4, 9)
    sizes = [Const(np.array([4, 4], np.int32)), Const(np.array([2, 2], np.int32))]
    expected = np.zeros((1, 2, 4, 4), np.float32)
    columns = x.reshape(1, 2, 2, 2, 3, 3)
    for i in range(2):
        for j in range(2):
            expected[:, :, i : i + 3, j : j + 3] += columns[:, :, i, j]
    for shaped in (x, x.reshape(1, 2, 4, 9)):
        close(run("Col2ImV2", [shaped, *sizes], dilation=[1, 1], padding=[0, 0], stride=[1, 1])[0], expected)


@pytest.mark.parametrize(("strides", "dilations"), [([1, 1], [1, 1]), ([2, 2], [1, 1]), ([1, 1], [2, 2])])
def test_depthwise_convolution(strides: list[int], dilations: list[int]) -> None:
    w = floats(3, 2, 3, 2)
    pads = [1, 0, 2, 1]
    parts = [naive_conv(IMAGE[..., c : c + 1], w[:, :, c : c + 1], strides, pads, dilations) for c in range(3)]
    wanted = np.concatenate(parts, -1)
    attrs: dict[str, Any] = {"strides": [1, *strides, 1], "dilations": [1, *dilations, 1], "pads": pads}
    same(compute("DepthwiseConv2D", IMAGE, C(w), data_format="NHWC", **attrs), wanted)
    bias = floats(6)
    swapped = {"strides": [1, 1, *strides], "dilations": [1, 1, *dilations], "pads": pads, "data_format": "NCHW"}
    same(compute("DepthwiseConv2D", nchw(IMAGE), w, bias, **swapped), nchw(wanted + bias))
    rows = w.transpose(2, 3, 0, 1).reshape(6, 1, 3, 2)
    same(compute("DepthwiseConv2D", nchw(IMAGE), rows, filter_format="NCHW", **swapped), nchw(wanted))


def test_same_padding_of_free_sizes() -> None:
    w = floats(3, 3, 3, 1)
    parts = [naive_conv(IMAGE[..., c : c + 1], w[:, :, c : c + 1], [2, 2], [1, 1, 0, 1], [1, 1]) for c in range(3)]
    attrs = {"strides": [1, 2, 2, 1], "pads": [-1, -1, -1, -1]}
    same(compute("DepthwiseConv2D", IMAGE, C(w), **attrs), np.concatenate(parts, -1))
    same(compute("DepthwiseConv2D", IMAGE, C(w), free=True, **attrs), np.concatenate(parts, -1))


@pytest.mark.parametrize(
    ("size", "strides", "padding"), [((5, 6), (2, 3), "SAME"), ((7, 9), (2, 3), "VALID"), ((5, 6), (1, 1), "SAME")]
)
def test_transposed_convolution(size: tuple[int, int], strides: tuple[int, int], padding: str) -> None:
    """It is the transpose of the convolution: <conv(a), b> = <a, back(b)> for every a and b."""
    w, a = floats(3, 2, 4, 3), floats(1, *size, 4)
    pads = [0, 0, 0, 0]
    if padding == "SAME":
        totals = [max((-(-s // t) - 1) * t + k - s, 0) for s, t, k in zip(size, strides, (3, 2), strict=True)]
        pads = [totals[0] // 2, totals[0] - totals[0] // 2, totals[1] // 2, totals[1] - totals[1] // 2]
    forward = naive_conv(a, w, list(strides), pads, [1, 1])
    b = floats(*forward.shape)
    for listed in (pads, [-1] * 4 if padding == "SAME" else pads):
        actual = compute(
            "Conv2DBackpropInput", C([1, *size, 4]), C(w), b, strides=[1, *strides, 1], pads=listed, data_format="NHWC"
        )
        assert actual.shape == a.shape
        np.testing.assert_allclose((actual * a).sum(), (forward * b).sum(), rtol=1e-4)
    with pytest.raises(AtcError, match="check input_size"):
        compute("Conv2DBackpropInput", C([1, 40, 40, 4]), C(w), b, strides=[1, *strides, 1], pads=pads)


def test_convolution_of_volumes() -> None:
    w = floats(2, 3, 2, 2, 3)
    wanted = np.zeros((1, 3, 2, 3, 3), F)
    for d, h, k in itertools.product(range(3), range(2), range(3)):
        wanted[0, d, h, k] = np.tensordot(VOLUME[0, d : d + 2, h * 2 : h * 2 + 3, k : k + 2], w, 4)
    attrs = {"strides": [1, 1, 2, 1, 1], "pads": [0] * 6}
    same(compute("Conv3D", VOLUME, C(w), **attrs), wanted)
    turned = w.transpose(4, 3, 0, 1, 2).copy()
    same(
        compute("Conv3D", nchw(VOLUME), turned, strides=[1, 1, 1, 2, 1], pads=[0] * 6, data_format="NCDHW"),
        nchw(wanted),
    )


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_patches(padding: str) -> None:
    attrs = {"ksizes": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "rates": [1, 2, 1, 1], "padding": padding}
    pads = [(1, 1), (1, 1)] if padding == "SAME" else [(0, 0), (0, 0)]
    x = np.pad(IMAGE, [(0, 0), *pads, (0, 0)])
    rows = [
        x[:, i : i + 3 : 2, j : j + 3].reshape(2, -1)
        for i in range(0, x.shape[1] - 2, 2)
        for j in range(x.shape[2] - 2)
    ]
    wanted = np.stack(rows, 1).reshape(2, -1, x.shape[2] - 2, 18)
    same(compute("ExtractImagePatches", IMAGE, **attrs), wanted)


def test_conv2d_in_every_layout() -> None:
    x, w, bias = rand(2, 3, 7, 8), rand(4, 3, 3, 2), rand(4)
    wanted = convolve(np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 2)]), w, 2) + bias[:, None, None]
    pads = [1, 0, 0, 2]
    match(op("Conv2D", x, w, bias, strides=[1, 1, 2, 2], pads=pads, data_format="NCHW")[0], wanted)
    match(op("Conv2D", x, w, bias, strides=[2, 2], pads=pads, data_format="NCHW", dilations=[1, 1])[0], wanted)
    nhwc = [x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), bias]
    match(op("Conv2D", *nhwc, strides=[1, 2, 2, 1], pads=pads, data_format="NHWC")[0], wanted.transpose(0, 2, 3, 1))


def test_conv2d_padding_same_as_tensorflow() -> None:
    x, w = rand(1, 6, 5, 3), rand(3, 3, 3, 2)
    padded = np.pad(x, [(0, 0), (0, 1), (1, 1), (0, 0)]).transpose(0, 3, 1, 2)
    wanted = convolve(padded, w.transpose(3, 2, 0, 1), 2).transpose(0, 2, 3, 1)
    match(op("Conv2D", x, w, strides=[1, 2, 2, 1], pads=[0, 0, 0, 0], padding="SAME", data_format="NHWC")[0], wanted)
