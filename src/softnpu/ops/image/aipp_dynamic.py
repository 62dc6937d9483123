"""AippDynamic: picture preprocessing whose parameters come as an input, each picture of a batch with its own.

CANN calls this Aipp with an input `params`. It has a name of its own because it has no ONNX form: whoever runs the graph
computes it before the engine.
"""

from __future__ import annotations

import numpy as np

from softnpu.base.aipp_block import unpack
from softnpu.ops.common.builder import Array, OpError, Shape, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.image._aipp_numpy import features
from softnpu.ops.image.aipp import result_of

SCHEMA = Schema(
    "AippDynamic",
    inputs=("images", "params"),
    outputs=("features",),
    attrs={"model_dtype": 0, "model_format": 0, "model_shape": REQUIRED},
    note="computed on the host before the model runs",
)


def compute(n: Site, images: Array, params: Array) -> tuple[Array, ...]:
    return (apply(n.name, params.tobytes(), images.reshape(-1), *result_of(n)),)


def apply(name: str, block: bytes, pixels: Array, channels: int, dtype: type[np.generic], layout: int) -> Array:
    """Every picture of a block through its own parameters; `pixels` are the bytes of all of them, one behind the other."""
    try:
        pictures = unpack(block)
    except ValueError as error:
        raise OpError(
            f"{name}: {error}; set the parameters with acl.mdl.set_input_aipp before the model runs"
        ) from error
    first, count = pictures[0], len(pictures)
    if channels != first.channels and not (channels == 1 and first.grey):
        raise OpError(
            f"{name}: AIPP makes {first.channels} channels of these pictures, the model takes {channels}; choose another input format or turn colour conversion on"
        )
    size = first.format.source_bytes(1, first.src_h, first.src_w)
    if pixels.size < size * count:
        raise OpError(
            f"{name}: {count} pictures of {size} bytes are expected, the input has {pixels.size} bytes; give it a larger buffer"
        )
    rows = pixels[: size * count].reshape(count, size)
    if all(picture == first for picture in pictures):
        return features(first, rows, (first.src_h, first.src_w), channels, dtype, layout)
    if len({picture.output_size() for picture in pictures}) > 1:
        raise OpError(
            f"{name}: the pictures of the batch have different sizes after AIPP; give all the same crop and padding sizes"
        )
    return np.concatenate(
        [
            features(picture, rows[i : i + 1], (picture.src_h, picture.src_w), channels, dtype, layout)
            for i, picture in enumerate(pictures)
        ]
    )


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    return [(int(n.attr("model_dtype", 0)), tuple(int(dim) for dim in n.need("model_shape")))]
