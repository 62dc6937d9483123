"""Pictures and files for the tests of JPEG and PNG, made with other libraries, and pictures with guard bytes around them."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from softnpu.media.pixels.formats import pixel_format
from softnpu.media.pixels.picture import Pixels

GUARD = 0xA5


def picture(width: int, height: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """RGB with slopes, edges and some noise."""
    y, x = np.mgrid[:height, :width]
    rng = np.random.default_rng(seed)
    planes = [
        128 + 90 * np.sin(x / 9 + seed) + 30 * np.cos(y / 5),
        60 + 4 * y % 150 + 20 * np.sin(x / 3),
        200 - 2 * x % 180,
    ]
    noisy = np.stack(planes, -1) + rng.normal(0, 6, (height, width, 3))
    return np.ascontiguousarray(noisy.clip(0, 255).astype(np.uint8))


def jpeg(width: int, height: int, sampling: str = "420", quality: int = 85, seed: int = 0) -> bytes:
    """A file by libjpeg-turbo; sampling 400 is grey."""
    rgb = picture(width, height, seed)
    if sampling == "400":
        grey = np.ascontiguousarray(rgb[:, :, :1])
        return bytes(simplejpeg.encode_jpeg(grey, quality, "GRAY", "Gray"))
    return bytes(simplejpeg.encode_jpeg(rgb, quality, "RGB", sampling))


def pillow_jpeg(width: int, height: int, **options: Any) -> bytes:
    """A file by Pillow, for what the other cannot write."""
    file = io.BytesIO()
    Image.fromarray(picture(width, height)).save(file, "JPEG", **options)
    return file.getvalue()


def with_orientation(file: bytes, orientation: int, order: str = "<") -> bytes:
    """The same file with an EXIF segment that says how to turn it."""
    mark = b"II" if order == "<" else b"MM"
    tiff = mark + struct.pack(order + "HIH", 42, 8, 2)
    tiff += struct.pack(order + "HHIHH", 0x0100, 3, 1, 7, 0) + struct.pack(
        order + "HHIHH", 0x0112, 3, 1, orientation, 0
    )
    contents = b"Exif\0\0" + tiff + struct.pack(order + "I", 0)
    return file[:2] + b"\xff\xe1" + struct.pack(">H", len(contents) + 2) + contents + file[2:]


def three_scans(planes: list[np.ndarray[Any, Any]], quality: int = 85) -> bytes:
    """A 4:4:4 file with one scan for each component, put together from three grey files."""
    files = [
        bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(p[:, :, None]), quality, "GRAY", "Gray")) for p in planes
    ]
    frame = files[0].index(b"\xff\xc0")
    height, width = planes[0].shape
    head = files[0][:frame] + b"\xff\xc0" + struct.pack(">HBHHB", 17, 8, height, width, 3)
    head += b"".join(bytes([number, 0x11, 0]) for number in (1, 2, 3))
    head += files[0][frame + 13 : files[0].index(b"\xff\xda")]
    for number, file in enumerate(files, 1):
        data = file[file.index(b"\xff\xda") + 10 : -2]
        head += b"\xff\xda" + struct.pack(">HB", 8, 1) + bytes([number, 0, 0, 63, 0]) + data
    return head + b"\xff\xd9"


def luma(file: bytes) -> np.ndarray[Any, Any]:
    """The Y plane of a file by libjpeg-turbo (that of simplejpeg)."""
    return np.asarray(simplejpeg.decode_jpeg(file, "GRAY")[:, :, 0])


def planes_by_ffmpeg(file: bytes) -> list[np.ndarray[Any, Any]]:
    """The planes of a file by FFmpeg, without anything of ours."""
    import av

    decoder = av.CodecContext.create("mjpeg", "r")
    frame = decoder.decode(av.Packet(file))[0]
    planes = []
    for plane in frame.planes:
        rows = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
        planes.append(rows[:, : plane.width].copy())
    return planes


class Guarded:
    """A picture in one buffer with strides and with guard bytes everywhere else."""

    def __init__(self, form: int, width: int, height: int, gap: int = 6) -> None:
        spec = pixel_format(form)
        shapes = [plane.shape for plane in Pixels.empty(spec, width, height).planes]
        self.memory = np.full(
            64 + sum((s[1] * (s[2] if len(s) > 2 else 1) + gap) * (s[0] + 1) for s in shapes) + 64, GUARD, np.uint8
        )
        self.used = np.zeros(self.memory.size, bool)
        planes, start = [], 64
        for shape in shapes:
            inner = shape[2] if len(shape) > 2 else 1
            stride = shape[1] * inner + gap
            strides = (stride, inner, 1)[: len(shape)] if len(shape) > 2 else (stride, 1)
            planes.append(np.ndarray(shape, np.uint8, self.memory, start, strides))
            np.ndarray(shape, bool, self.used, start, strides)[...] = True
            start += stride * (shape[0] + 1)
        self.pixels = Pixels(spec, planes, width, height)

    def intact(self) -> bool:
        return bool((self.memory[~self.used] == GUARD).all())


def psnr(first: Any, second: Any) -> float:
    error = np.mean((np.asarray(first, np.float64) - np.asarray(second, np.float64)) ** 2)
    return float(10 * np.log10(255**2 / max(error, 1e-10)))


def distance(first: Any, second: Any) -> int:
    """The largest difference of two arrays of bytes."""
    assert np.shape(first) == np.shape(second)
    return int(np.abs(np.asarray(first, int) - np.asarray(second, int)).max())


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(
    array: np.ndarray[Any, Any], colour: int, depth: int = 8, extra: bytes = b"", interlaced: bool = False
) -> bytes:
    """A PNG of rows of samples (height, width, channels), without filters."""
    height, width = array.shape[:2]
    parts = [array]
    if interlaced:
        steps = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
        parts = [array[y::dy, x::dx] for x, y, dx, dy in steps]
    raw = b"".join(b"\0" + _row(row, depth) for part in parts if part.size for row in part)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    middle = zlib.compress(raw)
    half = len(middle) // 2
    data = chunk(b"IDAT", middle[:half]) + chunk(b"IDAT", middle[half:])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + data + chunk(b"IEND", b"")


def _row(row: np.ndarray[Any, Any], depth: int) -> bytes:
    if depth == 16:
        return row.astype(">u2").tobytes()
    if depth == 8:
        return row.astype(np.uint8).tobytes()
    bits = (row.reshape(-1, 1) >> np.arange(depth - 1, -1, -1)) & 1
    return np.packbits(bits.reshape(-1).astype(np.uint8)).tobytes()


def by_pillow(file: bytes, mode: str) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(file)).convert(mode))


def by_opencv(file: bytes) -> np.ndarray[Any, Any]:
    return np.asarray(cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR_RGB))
