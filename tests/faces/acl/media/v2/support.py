"""What the tests of acl.himpi share: pictures in media memory, the values of a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

import acl
from tests.support import ok

Array = np.ndarray[Any, Any]
GRAY, NV12, NV21, NV16, YUYV, YUV444, RGB, BGR, ARGB, RGBA = 0, 1, 2, 3, 7, 11, 12, 13, 14, 16
PLANAR_RGB = 69
VPC, PNGD, SYS, VDEC = 0xA0078000, 0xA0408000, 0xA0028000, 0xA0058000
INVALID_CHN_ID, ILLEGAL_PARAM, EXIST, UNEXIST, NULL_PTR, NOT_SUPPORT, NOT_PERM = 2, 3, 4, 5, 6, 8, 9
BUF_EMPTY, BUF_FULL, NOT_READY, TIMEOUT, SYS_ERROR = 14, 15, 16, 20, 21
PIXEL_BYTES = {GRAY: 1, NV12: 1, NV21: 1, NV16: 1, YUYV: 2, YUV444: 3, RGB: 3, BGR: 3, ARGB: 4, RGBA: 4, PLANAR_RGB: 1}
FACTOR = {NV12: 1.5, NV21: 1.5, NV16: 2.0, PLANAR_RGB: 3.0}
FOREVER = -1


def noise(*shape: int, seed: int = 0) -> Array:
    """Random bytes."""
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def smooth(height: int, width: int, channels: int = 0) -> Array:
    """Bytes that change slowly, as in a photograph."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [128 + 60 * np.sin(x / (7 + 3 * i)) + 60 * np.cos(y / (9 + 2 * i)) for i in range(channels or 1)]
    whole = np.stack(waves, axis=2).clip(0, 255).astype(np.uint8)
    return whole if channels else whole[:, :, 0]


def put(data: Array) -> int:
    """Bytes in media memory; the address."""
    raw = np.ascontiguousarray(data).tobytes()
    address = int(ok(acl.himpi.dvpp_malloc(0, len(raw))))
    ok(acl.rt.memcpy(address, len(raw), acl.util.bytes_to_ptr(raw), len(raw), 1))
    return address


def fetch(address: int, size: int) -> Array:
    """Bytes from media memory."""
    raw = bytes(size)
    pointer = acl.util.bytes_to_ptr(raw)
    ok(acl.rt.memcpy(pointer, size, address, size, 2))
    return np.frombuffer(acl.util.ptr_to_bytes(pointer, size), np.uint8).copy()


def pic(form: int, width: int, height: int, data: Array | None = None, stride: int = 0, rows: int = 0, fill: int = 0xEE) -> dict[str, Any]:  # fmt: skip
    """A picture in media memory: `data` are its bytes without padding, else it is filled."""
    stride = stride or width * PIXEL_BYTES[form]
    rows = rows or height
    size = int(stride * rows * FACTOR.get(form, 1.0))
    whole = np.full(size, fill, np.uint8)
    info = {
        "picture_address": 0,
        "picture_buffer_size": size,
        "picture_width": width,
        "picture_height": height,
        "picture_width_stride": stride,
        "picture_height_stride": rows,
        "picture_format": form,
    }
    if data is not None:
        for view, part in zip(views(info, whole), split(form, width, height, data.reshape(-1)), strict=True):
            view[...] = part
    info["picture_address"] = put(whole)
    return info


def split(form: int, width: int, height: int, flat: Array) -> list[Array]:
    """Planes of a picture without padding."""
    shapes = {
        NV12: [(height, width), (height // 2, width // 2, 2)],
        NV21: [(height, width), (height // 2, width // 2, 2)],
        NV16: [(height, width), (height, width // 2, 2)],
        PLANAR_RGB: [(height, width)] * 3,
        GRAY: [(height, width)],
    }
    planes, start = [], 0
    for shape in shapes.get(form, [(height, width, PIXEL_BYTES[form])]):
        size = int(np.prod(shape))
        planes.append(flat[start : start + size].reshape(shape))
        start += size
    return planes


def views(info: dict[str, Any], whole: Array) -> list[Array]:
    """Planes of a picture with its padding, as views of its bytes."""
    form, width, height = info["picture_format"], info["picture_width"], info["picture_height"]
    stride, rows = info["picture_width_stride"], info["picture_height_stride"]
    if form in (NV12, NV21, NV16):
        part = 1 if form == NV16 else 2
        luma = whole[: stride * rows].reshape(rows, stride)[:height, :width]
        chroma = whole[stride * rows :].reshape(rows // part, stride // 2, 2)
        return [luma, chroma[: height // part, : width // 2]]
    if form == PLANAR_RGB:
        return [plane[:height, :width] for plane in whole.reshape(3, rows, stride)]
    size = PIXEL_BYTES[form]
    if size == 1:
        return [whole.reshape(rows, stride)[:height, :width]]
    return [whole.reshape(rows, stride // size, size)[:height, :width]]


def planes(info: dict[str, Any]) -> list[Array]:
    """The planes of a picture in media memory."""
    return [view.copy() for view in views(info, fetch(info["picture_address"], info["picture_buffer_size"]))]


def done(chn: int, started: tuple[int, int], want: int = 0) -> None:
    """Wait for a started call."""
    task, ret = started
    assert ret == 0, hex(ret)
    code = acl.himpi.vpc_get_process_result(chn, task, FOREVER)
    assert code == want, hex(code)


def region(left: int, top: int, width: int, height: int) -> dict[str, int]:
    """A crop region."""
    return {"left_offset": left, "top_offset": top, "crop_width": width, "crop_height": height}


def descriptors() -> int:
    """How many file descriptors this process has open."""
    import os

    return len(os.listdir("/proc/self/fd"))
