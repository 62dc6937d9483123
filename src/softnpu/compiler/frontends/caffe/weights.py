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
        found = decode(WEIGHTS, _map(path))
        if found.get("layers") and not found.get("layer"):
            raise AtcError(
                "E11023",
                f"The weight file [{path}] holds its layers in the old field [layers]",
                "the file was written by an old version of Caffe",
                "bring it up to date with Caffe's upgrade_net_proto_binary",
            )
        layers = [decode(WEIGHTS_LAYER, one) for one in found.get("layer", ())]
        return {one.get("name", ""): [_blob(blob) for blob in one["blobs"]] for one in layers if one.get("blobs")}
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
        found = decode(BLOB, data)
        content = _content(found)
    except WireError:
        found = decode(BLOB_UNPACKED, data)
        content = _content(
            {key: [np.array(found[key], kind).tobytes()] for key, kind in _KINDS.items() if found.get(key)}
        )
    shape = _shape(found)
    if len(content) != 4 * math.prod(shape):
        raise ValueError(f"a blob of shape {list(shape)} holds {len(content) // 4} values")
    return Constant(0, shape, content)


_KINDS = {"data": "<f4", "double_data": "<f8"}


_RAW_KINDS = {0: "<f8", 1: "<f4", 2: "<f2"}  # of NVIDIA's Caffe and OpenCV


def _content(found: dict[str, Any]) -> bytes | memoryview:
    if "raw_data" in found:
        kind = _RAW_KINDS.get(found.get("raw_data_type", 0))
        if kind is None:
            raise ValueError(f"a blob has the raw_data_type {found['raw_data_type']}")
        raw: memoryview = found["raw_data"]
        return raw if kind == "<f4" else np.frombuffer(raw, kind).astype("<f4").tobytes()
    doubles = found.get("double_data")
    if doubles:
        return np.frombuffer(b"".join(doubles), "<f8").astype("<f4").tobytes()
    pieces: list[memoryview] = found.get("data", [])
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _shape(found: dict[str, Any]) -> Shape:
    """The dims; files of before 2015 name four of them."""
    if "shape" in found:
        shape = tuple(found["shape"].get("dim", ()))
    else:
        shape = tuple(found.get(word, 1) for word in ("num", "channels", "height", "width"))
    if any(dim < 0 for dim in shape):
        raise ValueError(f"a blob has the dims {list(shape)}")
    check_rank(shape)
    return shape
