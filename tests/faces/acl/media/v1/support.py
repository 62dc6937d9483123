"""Pictures and channels for the tests of `acl.media`. Sizes are calculated here, by the tables of the manual."""

from __future__ import annotations

from typing import Any

import numpy as np

import acl
from tests.support import ok

YUV_400, NV12, NV21, YUYV, RGB, BGR, RGBA, UNKNOWN = 0, 1, 2, 7, 12, 13, 16, 10000
_SIZES = {YUV_400: 2, NV12: 3, NV21: 3, YUYV: 2, RGB: 2, BGR: 2, RGBA: 2}  # halves of width stride times height stride
_PIXEL = {YUYV: 2, RGB: 3, BGR: 3, RGBA: 4}
Array = np.ndarray[Any, Any]


def up(value: int, unit: int) -> int:
    """Rounded up."""
    return -(-value // unit) * unit


def upload(data: bytes | Array) -> tuple[int, int]:
    """Bytes in media memory: address and size."""
    content = data if isinstance(data, bytes) else data.tobytes()
    ptr = ok(acl.media.dvpp_malloc(len(content)))
    ok(acl.rt.memcpy(ptr, len(content), acl.util.bytes_to_ptr(content), len(content), 1))
    return ptr, len(content)


def download(ptr: int, size: int) -> Array:
    """A copy of device memory."""
    target = bytes(size)
    ok(acl.rt.memcpy(acl.util.bytes_to_ptr(target), size, ptr, size, 2))
    return np.frombuffer(target, np.uint8)


class Pic:
    """A picture in media memory with its description."""

    def __init__(self, form: int, width: int, height: int, desc: int = 0, fill: int = 0) -> None:
        self.form, self.width, self.height = form, width, height
        self.width_stride, self.height_stride = up(width, 16) * _PIXEL.get(form, 1), up(height, 2)
        self.size = self.width_stride * self.height_stride * _SIZES[form] // 2
        self.ptr = ok(acl.media.dvpp_malloc(self.size))
        ok(acl.rt.memset(self.ptr, self.size, fill, self.size))
        self.desc = desc or acl.media.dvpp_create_pic_desc()
        for name, value in {
            "data": self.ptr, "size": self.size, "format": form, "width": width, "height": height,
            "width_stride": self.width_stride, "height_stride": self.height_stride,
        }.items():  # fmt: skip
            ok(getattr(acl.media, f"dvpp_set_pic_desc_{name}")(self.desc, value))

    def write(self, *planes: Array) -> Pic:
        """Put planes (rows, bytes of a row) into the memory, the rest as it was."""
        whole = self.memory()
        rows = 0
        for plane in planes:
            flat = plane.reshape(plane.shape[0], -1)
            whole[rows : rows + flat.shape[0], : flat.shape[1]] = flat
            rows += self.height_stride
        content = whole.tobytes()
        ok(acl.rt.memcpy(self.ptr, self.size, acl.util.bytes_to_ptr(content), self.size, 1))
        return self

    def memory(self) -> Array:
        """All of its rows, with what only aligns."""
        return download(self.ptr, self.size).reshape(-1, self.width_stride).copy()

    def first(self) -> Array:
        """The first plane: Y, or the pixels of RGB."""
        part = self.memory()[: self.height, : self.width * _PIXEL.get(self.form, 1)]
        channels = _PIXEL.get(self.form, 1)
        return part if channels == 1 else part.reshape(self.height, self.width, channels)

    def chroma(self) -> Array:
        """The second plane of NV12 or NV21: (rows, columns, 2)."""
        part = self.memory()[self.height_stride :][: self.height // 2, : self.width]
        return part.reshape(self.height // 2, self.width // 2, 2)


def nv12(width: int, height: int, seed: int = 1, form: int = NV12) -> Pic:
    """A picture with smooth content (so that scaling can be compared) and rubbish outside of it."""
    y, x = np.mgrid[0:height, 0:width]
    luma = (x * 2 + y * 3 + seed * 17) % 256
    u = (np.arange(width // 2)[None, :] * 3 + np.arange(height // 2)[:, None] + seed) % 256
    v = (np.arange(width // 2)[None, :] + np.arange(height // 2)[:, None] * 5 + seed) % 256
    return Pic(form, width, height, fill=0xEE).write(luma.astype(np.uint8), np.stack([u, v], axis=2).astype(np.uint8))


def rgb(width: int, height: int, form: int = RGB) -> Pic:
    """Three channels of which no two are alike."""
    y, x = np.mgrid[0:height, 0:width]
    values = np.stack([x * 2 + y, x + y * 2 + 50, 255 - x], axis=2) % 256
    return Pic(form, width, height, fill=0xEE).write(values.astype(np.uint8))


def channel(mode: int | None = None) -> int:
    """An open channel."""
    desc: int = acl.media.dvpp_create_channel_desc()
    if mode is not None:
        ok(acl.media.dvpp_set_channel_desc_mode(desc, mode))
    ok(acl.media.dvpp_create_channel(desc))
    return desc


def roi(left: int, top: int, width: int, height: int) -> int:
    """A region by its corner and size; the manual counts the last row and column in."""
    handle: int = acl.media.dvpp_create_roi_config(left, left + width - 1, top, top + height - 1)
    return handle
