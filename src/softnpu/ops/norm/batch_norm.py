"""BatchNorm: normalises per channel, with given statistics or (in training) those of the batch."""

import math

import numpy as np

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import back, channels_last, first
from softnpu.ops.common.numbers import FLOAT, HALF
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "BatchNorm",
    ("x", "scale", "offset", "mean?", "variance?"),
    ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"),
    attrs={"epsilon": 0.0001, "data_format": "NHWC", "is_training": True},
)


def lower(b: Builder, n: Site) -> tuple[str, ...]:
    layout = channels_last(n)
    rank = n.rank(0)
    if layout not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
        raise OpError(f"BatchNorm {n.name!r} has the data format {layout!r}; use NHWC, NCHW, NDHWC or NCDHW")
    letters = "NC" + "S" * (rank - 2) if layout[1] == "C" else "N" + "S" * (rank - 2) + "C"
    empty = b.const(np.zeros(0, np.float32)) if n.outputs > 5 else ""
    if n.attr("is_training", True):
        return (*_training(b, n, letters), empty)
    x = first(b, n.input(0), letters) if rank > 2 else n.input(0)
    scale, offset, mean, variance = (n.input(index) for index in range(1, 5))
    if n.dtype(0) == HALF and n.dtype(1) == FLOAT:  # ONNX before 15 wants one type
        x = b.cast(x, FLOAT)
    y = str(b.op("BatchNormalization", x, scale, offset, mean, variance, epsilon=float(n.attr("epsilon", 0.0001))))
    if n.dtype(0) == HALF and n.dtype(1) == FLOAT:
        y = b.cast(y, HALF)
    return (back(b, y, letters) if rank > 2 else y, mean, variance, mean, variance, empty)


def _training(b: Builder, n: Site, letters: str) -> tuple[str, ...]:
    """The statistics of the batch; the variance that is handed out is the unbiased one, as in TensorFlow."""
    axes = [index for index, letter in enumerate(letters) if letter != "C"]
    dtype = n.dtype(0)
    if any(n.shape(0)[axis] < 0 for axis in axes):
        raise OpError(
            f"BatchNorm {n.name!r} in training needs fixed shapes; set is_training to false or give the input shape"
        )
    count = math.prod(n.shape(0)[axis] for axis in axes)
    mean = b.reduce("Mean", n.input(0), axes)
    centred = b.op("Sub", n.input(0), mean)
    variance = b.reduce("Mean", str(b.op("Mul", centred, centred)), axes)
    deviation = b.op("Sqrt", b.op("Add", variance, b.scalar(float(n.attr("epsilon", 0.0001)), dtype)))
    tail = range(1, len(letters) - 1) if letters[1] == "C" else ()
    scale, offset = (b.unsqueeze(n.input(index), tail) if tail else n.input(index) for index in (1, 2))
    y = str(b.op("Add", b.op("Mul", b.op("Div", centred, deviation), scale), offset))
    unbiased = b.op("Mul", variance, b.scalar(count / max(count - 1, 1), dtype))
    flat_mean, flat_variance = b.squeeze(mean, axes), b.squeeze(str(unbiased), axes)
    return y, flat_mean, flat_variance, flat_mean, b.squeeze(variance, axes)
