"""The weights of a caffemodel: blobs by layer name, as views of the mapped file."""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np

from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends import check_rank
from softnpu.compiler.frontends.caffe.proto import BLOB, BLOB_UNPACKED, WEIGHTS, WEIGHTS_LAYER
from softnpu.graph.ir import Constant, Shape
from softnpu.graph.wire import WireError, decode

Blobs = dict[str, list[Constant]]


def load(path: Path) -> Blobs:
    """The blobs of every layer that has some."""
    try:
        net = decode(WEIGHTS, _map(path))
        if net.get("layers") and not net.get("layer"):
            raise AtcError(
                "E11023",
                f"The weight file [{path}] holds its layers in the old field [layers]",
                "the file was written by an old version of Caffe",
                "bring it up to date with Caffe's upgrade_net_proto_binary",
            )
        layers = [decode(WEIGHTS_LAYER, data) for data in net.get("layer", ())]
        return {
            layer.get("name", ""): [_blob(blob) for blob in layer["blobs"]] for layer in layers if layer.get("blobs")
        }
    except (WireError, ValueError) as error:
        raise AtcError(
            "E11024",
            f"The weight file [{path}] cannot be parsed: {error}",
            "it is no caffemodel, or was cut off",
            "check the value of --weight, and fetch the file again",
        ) from error


def _map(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                raise WireError("the file is empty")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise AtcError(
            "E10410",
            f"The file [{path}] cannot be read: {error.strerror}",
            "it does not exist or is not readable",
            "check the value of --weight",
        ) from error


def _blob(data: memoryview) -> Constant:
    try:
        blob = decode(BLOB, data)
        content = _content(blob)
    except WireError:
        blob = decode(BLOB_UNPACKED, data)
        content = _content(
            {key: [np.array(blob[key], kind).tobytes()] for key, kind in _KINDS.items() if blob.get(key)}
        )
    shape = _shape(blob)
    if len(content) != 4 * math.prod(shape):
        raise ValueError(f"a blob of shape {list(shape)} holds {len(content) // 4} values")
    return Constant(0, shape, content)


_KINDS = {"data": "<f4", "double_data": "<f8"}


_RAW_KINDS = {0: "<f8", 1: "<f4", 2: "<f2"}  # of NVIDIA's Caffe and OpenCV


def _content(blob: dict[str, Any]) -> bytes | memoryview:
    if "raw_data" in blob:
        kind = _RAW_KINDS.get(blob.get("raw_data_type", 0))
        if kind is None:
            raise ValueError(f"a blob has the raw_data_type {blob['raw_data_type']}")
        raw: memoryview = blob["raw_data"]
        return raw if kind == "<f4" else np.frombuffer(raw, kind).astype("<f4").tobytes()
    doubles = blob.get("double_data")
    if doubles:
        return np.frombuffer(b"".join(doubles), "<f8").astype("<f4").tobytes()
    pieces: list[memoryview] = blob.get("data", [])
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _shape(blob: dict[str, Any]) -> Shape:
    """The dims; files of before 2015 name four of them."""
    if "shape" in blob:
        shape = tuple(blob["shape"].get("dim", ()))
    else:
        shape = tuple(blob.get(side, 1) for side in ("num", "channels", "height", "width"))
    if any(dim < 0 for dim in shape):
        raise ValueError(f"a blob has the dims {list(shape)}")
    check_rank(shape)
    return shape
