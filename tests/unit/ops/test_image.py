"""Resizing, crops and sampling against TensorFlow's formulas, OpenCV and ONNX's reference evaluator."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from tests.caffe_support import op
from tests.unit.ops.support import (
    BLOB,
    IMAGE,
    RNG,
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


def tf_bilinear(x: Array, size: tuple[int, int], corners: bool, centres: bool) -> Array:
    """TensorFlow's formula: lower and upper neighbour and the distance, along height and then width."""
    for axis, result in zip((1, 2), size, strict=True):
        length = x.shape[axis]
        scale = (length - 1) / (result - 1) if corners and result > 1 else length / result
        at = (np.arange(result) + 0.5) * scale - 0.5 if centres else np.arange(result) * scale
        low = np.maximum(np.floor(at), 0).astype(int)
        high = np.minimum(np.ceil(at), length - 1).astype(int)
        low = np.minimum(low, length - 1)
        part = (at - np.floor(at)).reshape([-1 if axis == d else 1 for d in range(4)])
        first, second = np.take(x, low, axis), np.take(x, high, axis)
        x = first + (second - first) * part
    return x.astype(F)


def tf_nearest(x: Array, size: tuple[int, int], corners: bool, centres: bool) -> Array:
    for axis, result in zip((1, 2), size, strict=True):
        length = x.shape[axis]
        rows = []
        for position in range(result):
            if corners and result > 1:
                at = math.floor(position * (length - 1) / (result - 1) + 0.5)
            elif corners:
                at = 0
            else:
                at = math.floor((position + 0.5) * length / result) if centres else (position * length) // result
            rows.append(min(at, length - 1))
        x = np.take(x, rows, axis)
    return x


def test_resize_of_onnx() -> None:
    x = floats(2, 3, 4, 4)
    sizes = Const(np.array([2, 3, 8, 8], np.int64))
    nearest = run(
        "Resize",
        [x, None, None, sizes],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )[0]
    close(nearest, x.repeat(2, 2).repeat(2, 3))
    linear = run("Resize", [x, None, Const(np.array([1, 1, 2, 2], np.float32))], mode="linear")[0]
    import cv2

    close(linear[0, 0], cv2.resize(x[0, 0], (8, 8), interpolation=cv2.INTER_LINEAR))


@pytest.mark.parametrize(("mode", "onnx_mode"), [("bilinear", "linear"), ("nearest", "nearest"), ("bicubic", "cubic")])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_grid_sampling(mode: str, onnx_mode: str, padding: str) -> None:
    reach = (
        0.3 if mode == "bicubic" else 1.1
    )  # at the border the evaluator and the engines read the cubic rule differently
    x, grid = floats(1, 2, 5, 6), RNG.uniform(-reach, reach, (1, 3, 4, 2)).astype(np.float32)
    expected = reference("GridSample", [x, grid], mode=onnx_mode, padding_mode=padding, align_corners=1)[0]
    close(
        run("GridSampler2D", [x, grid], interpolation_mode=mode, padding_mode=padding, align_corners=True)[0],
        expected,
        1e-4,
    )


def test_grid_sampling_of_volumes() -> None:
    x, grid = floats(1, 2, 3, 4, 5), RNG.uniform(-1, 1, (1, 2, 2, 2, 3)).astype(np.float32)
    expected = reference("GridSample", [x, grid], mode="linear")[0]
    close(run("GridSampler3D", [x, grid])[0], expected, 1e-4)


@pytest.mark.parametrize(("corners", "centres"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("size", [(10, 12), (3, 4), (7, 9), (1, 1), (5, 6)])
def test_resizing(size: tuple[int, int], corners: bool, centres: bool) -> None:
    attrs = {"align_corners": corners, "half_pixel_centers": centres}
    same(compute("ResizeBilinearV2", IMAGE, C(size), **attrs), tf_bilinear(IMAGE, size, corners, centres))
    same(compute("ResizeNearestNeighborV2", IMAGE, C(size), **attrs), tf_nearest(IMAGE, size, corners, centres))
    swapped = {**attrs, "data_format": "NCHW"}
    same(compute("ResizeBilinearV2", nchw(IMAGE), C(size), **swapped), nchw(tf_bilinear(IMAGE, size, corners, centres)))
    same(
        compute("ResizeNearestNeighborV2", nchw(IMAGE), C(size), **swapped),
        nchw(tf_nearest(IMAGE, size, corners, centres)),
    )
    same(compute("ResizeBilinearV2", IMAGE, C(size), free=True, **attrs), tf_bilinear(IMAGE, size, corners, centres))
    computed = np.array(size, np.int32)
    same(compute("ResizeBilinearV2", IMAGE, computed, **attrs), tf_bilinear(IMAGE, size, corners, centres))
    same(compute("ResizeNearestNeighborV2", IMAGE, computed, **attrs), tf_nearest(IMAGE, size, corners, centres))


def test_resizing_other_types() -> None:
    picture = RNG.integers(0, 255, (1, 4, 4, 3)).astype(np.uint8)
    same(compute("ResizeBilinearV2", picture, C([6, 7])), tf_bilinear(picture.astype(F), (6, 7), False, False))
    same(compute("ResizeNearestNeighborV2", picture, C([6, 7])), tf_nearest(picture, (6, 7), False, False))
    same(compute("ResizeBilinearV2", IMAGE, C([3, 3]), opset=11), tf_bilinear(IMAGE, (3, 3), False, False))
    half = IMAGE.astype(np.float16)
    same(compute("ResizeBilinearV2", half, C([3, 3]), dtype=0), tf_bilinear(half.astype(F), (3, 3), False, False))
    with pytest.raises(AtcError, match="only one may be true"):
        compute("ResizeBilinearV2", IMAGE, C([3, 3]), align_corners=True, half_pixel_centers=True)
    with pytest.raises(AtcError, match="positive height"):
        compute("ResizeNearestNeighborV2", IMAGE, C([0, 3]))


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 1), (2, 1)])
def test_crops(size: tuple[int, int], method: str) -> None:
    boxes = np.array([[0, 0, 1, 1], [0.1, 0.3, 0.75, 0.5], [0.6, 0.9, 0.2, 0.1], [-0.5, 0, 0.5, 1.5]], F)
    owners = np.array([0, 1, 1, 0], np.int32)
    height, width = IMAGE.shape[1:3]
    wanted = np.full((4, *size, 3), 7.0, F)
    for number, (y1, x1, y2, x2) in enumerate(boxes):
        for i, j in itertools.product(range(size[0]), range(size[1])):
            y = (y1 + i * (y2 - y1) / (size[0] - 1) if size[0] > 1 else (y1 + y2) / 2) * (height - 1)
            x = (x1 + j * (x2 - x1) / (size[1] - 1) if size[1] > 1 else (x1 + x2) / 2) * (width - 1)
            if not (0 <= y <= height - 1 and 0 <= x <= width - 1):
                continue
            image = IMAGE[owners[number]]
            if method == "nearest":
                wanted[number, i, j] = image[math.floor(y + 0.5), math.floor(x + 0.5)]
                continue
            top, left = math.floor(y), math.floor(x)
            rows = [
                image[row, left] + (image[row, math.ceil(x)] - image[row, left]) * (x - left)
                for row in (top, math.ceil(y))
            ]
            wanted[number, i, j] = rows[0] + (rows[1] - rows[0]) * (y - top)
    actual = compute("CropAndResize", IMAGE, boxes, owners, C(size), extrapolation_value=7.0, method=method)
    same(actual, wanted, 1e-4)


LAYERS: dict[str, tuple[list[Array], dict[str, Any], Array]] = {
    "Upsample": ([BLOB], {"stride_h": 2, "stride_w": 3, "scale": 0.5}, BLOB.repeat(2, 2).repeat(3, 3) / 2),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_caffe_layer(kind: str) -> None:
    inputs, attrs, wanted = LAYERS[kind]
    match(op(kind, *inputs, **attrs)[0], np.ascontiguousarray(wanted), 1e-5)


def test_interp_keeps_the_corners() -> None:
    x = rand(1, 2, 6, 7)
    inner = x[:, :, 1:5, 1:6]
    (actual,) = op("Interp", x, zoom_factor=2, pad_beg=-1, pad_end=-1)
    rows, columns = np.linspace(0, 3, 7), np.linspace(0, 4, 9)
    y, z = np.minimum(rows.astype(int), 2), np.minimum(columns.astype(int), 3)
    v, u = (rows - y)[:, None], columns - z
    top = inner[:, :, y][..., z] * (1 - u) + inner[:, :, y][..., z + 1] * u
    bottom = inner[:, :, y + 1][..., z] * (1 - u) + inner[:, :, y + 1][..., z + 1] * u
    match(actual, (top * (1 - v) + bottom * v).astype(np.float32))
