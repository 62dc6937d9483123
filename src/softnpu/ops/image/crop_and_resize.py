"""CropAndResize: parts of images, each resized to one size."""

from collections.abc import Callable

import numpy as np

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import format_of
from softnpu.ops.common.inputs import ints
from softnpu.ops.common.numbers import FLOAT, INT64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "CropAndResize",
    ("x", "boxes", "box_index", "crop_size"),
    attrs={"extrapolation_value": 0.0, "method": "bilinear", "data_format": "NHWC"},
    note="crop_size must be a constant, height and width of x must be known",
)


def lower(b: Builder, n: Site) -> str:
    height, width, channels = _image(n)
    rows, columns = ints(n, 3, 2)
    if not 1 <= min(rows, columns) <= max(rows, columns) <= 1 << 16:
        raise OpError(f"CropAndResize {n.name!r} has the crop size {[rows, columns]}; both must lie in [1, 65536]")
    edges = b.split(n.input(1), [1, 1, 1, 1], 1)  # y1, x1, y2, x2
    method = n.attr("method", "bilinear")
    if method not in ("bilinear", "nearest"):
        raise OpError(f"CropAndResize {n.name!r} has the method {method!r}; use bilinear or nearest")
    down, across = _places(b, edges[0], edges[2], height, rows), _places(b, edges[1], edges[3], width, columns)
    x = n.input(0) if n.dtype(0) == FLOAT else b.cast(n.input(0), FLOAT)
    pixels = b.reshape(x, [-1, channels])
    images = b.op("Mul", b.cast(n.input(2), INT64), b.const(height * width))
    bases = b.unsqueeze(str(images), [1, 2])

    def taken(y: str, x: str) -> str:
        steps = b.op("Mul", b.unsqueeze(_index(b, y, height), [2]), b.const(width))
        places = b.op("Add", b.op("Add", steps, b.unsqueeze(_index(b, x, width), [1])), bases)
        return str(b.op("Gather", pixels, places, axis=0))

    if method == "nearest":
        half = b.scalar(0.5, FLOAT)
        crops = taken(*(str(b.op("Floor", b.op("Add", position, half))) for position in (down, across)))
    else:
        crops = _interpolated(b, taken, down, across)
    inside = b.op("And", b.unsqueeze(_inside(b, down, height), [2, 3]), b.unsqueeze(_inside(b, across, width), [1, 3]))
    return str(b.op("Where", inside, crops, b.scalar(float(n.attr("extrapolation_value", 0.0)), FLOAT)))


def _image(n: Site) -> tuple[int, int, int]:
    shape = n.shape(0)
    if format_of(n, "NHWC") != "NHWC" or len(shape) != 4 or min(shape[1:]) < 1:
        raise OpError(
            f"CropAndResize {n.name!r} has an image of shape {list(shape)}; it must be NHWC with known height, width, channels"
        )
    return shape[1], shape[2], shape[3]


def _places(b: Builder, low: str, high: str, size: int, count: int) -> str:
    """Where the samples of each box lie along one side, as (boxes, count)."""
    if count == 1:
        return str(b.op("Mul", b.op("Add", low, high), b.scalar(0.5 * (size - 1), FLOAT)))
    step = b.op("Mul", b.op("Sub", high, low), b.scalar((size - 1) / (count - 1), FLOAT))
    numbers = b.const(np.arange(count, dtype=np.float32)[None])
    return str(b.op("Add", b.op("Mul", low, b.scalar(size - 1, FLOAT)), b.op("Mul", step, numbers)))


def _index(b: Builder, position: str, size: int) -> str:
    return b.cast(b.clip(position, 0, size - 1), INT64)


def _inside(b: Builder, position: str, size: int) -> str:
    outside = b.op(
        "Or", b.op("Less", position, b.scalar(0, FLOAT)), b.op("Greater", position, b.scalar(size - 1, FLOAT))
    )
    return str(b.op("Not", outside))


def _interpolated(b: Builder, taken: Callable[[str, str], str], down: str, across: str) -> str:
    top, bottom = (str(b.op(rounding, down)) for rounding in ("Floor", "Ceil"))
    left, right = (str(b.op(rounding, across)) for rounding in ("Floor", "Ceil"))
    along_x = b.unsqueeze(str(b.op("Sub", across, left)), [1, 3])
    along_y = b.unsqueeze(str(b.op("Sub", down, top)), [2, 3])
    rows = []
    for y in (top, bottom):
        first, second = taken(y, left), taken(y, right)
        rows.append(b.op("Add", first, b.op("Mul", b.op("Sub", second, first), along_x)))
    return str(b.op("Add", rows[0], b.op("Mul", b.op("Sub", rows[1], rows[0]), along_y)))
