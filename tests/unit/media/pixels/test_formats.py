"""Where a format keeps its channels: FFmpeg writes the same picture in its own format of that layout, and every byte agrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softnpu.media.pixels import csc
from softnpu.media.pixels.convert import convert
from softnpu.media.pixels.formats import pixel_format
from softnpu.media.pixels.picture import Pixels

av = pytest.importorskip("av")

WIDTH, HEIGHT = 64, 48
# Our number, FFmpeg's name of the same layout, and the planar format that both can reach by moving bytes alone.
YUV_420, YUV_422, YUV_444, YUV_411, YUV_440, RGB = "yuv420p", "yuv422p", "yuv444p", "yuv411p", "yuv440p", "rgb24"
LAYOUTS = [
    (0, "gray", "gray"), (1, "nv12", YUV_420), (2, "nv21", YUV_420), (3, "nv16", YUV_422), (5, "nv24", YUV_444),
    (6, "nv42", YUV_444), (7, "yuyv422", YUV_422), (8, "uyvy422", YUV_422), (9, "yvyu422", YUV_422), (12, "rgb24", RGB),
    (13, "bgr24", RGB), (14, "argb", RGB), (15, "abgr", RGB), (16, "rgba", RGB), (17, "bgra", RGB), (55, YUV_420, YUV_420),
    (56, YUV_422, YUV_422), (57, YUV_444, YUV_444), (63, YUV_411, YUV_411), (65, YUV_440, YUV_440), (70, "gbrp", RGB),
]  # fmt: skip


def written(frame: Any) -> list[np.ndarray]:
    """The rows of every plane as FFmpeg keeps them, without the gaps behind them."""
    planes = []
    for plane in frame.planes:
        rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
        planes.append(rows[: plane.height])
    return planes


def filled(name: str) -> Any:
    """A frame of FFmpeg whose planes are noise."""
    frame = av.VideoFrame(WIDTH, HEIGHT, name)
    draw = np.random.default_rng(len(name))
    for plane in frame.planes:
        plane.update(draw.integers(0, 256, plane.buffer_size, np.uint8).tobytes())
    return frame


@pytest.mark.parametrize(("number", "name", "neutral"), LAYOUTS, ids=[name for _, name, _ in LAYOUTS])
def test_a_format_lies_in_memory_as_ffmpeg_keeps_it(number: int, name: str, neutral: str) -> None:
    source = filled(neutral)
    frame = source if name == neutral else source.reformat(format=name)
    theirs = written(frame)
    if name == "gbrp":  # FFmpeg's order of planes is its own
        theirs = [theirs[1], theirs[0], theirs[2]]
    ours = Pixels.empty(pixel_format(number), WIDTH, HEIGHT)
    assert len(ours.planes) == len(theirs)
    for mine, rows in zip(ours.planes, theirs, strict=True):
        flat = rows[:, : mine[0].nbytes]
        assert mine.shape[0] == flat.shape[0] and mine.nbytes == flat.size
        mine[...] = flat.reshape(mine.shape)
    target = {"gray": 0, YUV_420: 55, YUV_422: 56, YUV_444: 57, YUV_411: 63, YUV_440: 65, RGB: 12}[neutral]
    back = convert(ours, pixel_format(target), csc.matrix(csc.DEFAULT))
    for mine, rows in zip(back.planes, written(source), strict=True):
        np.testing.assert_array_equal(mine.reshape(mine.shape[0], -1), rows[:, : mine[0].nbytes])
