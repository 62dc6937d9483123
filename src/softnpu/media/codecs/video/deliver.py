"""A decoded picture into the memory that the program gave for it."""

from __future__ import annotations

import numpy as np

from softnpu.media.pixels.csc import Csc
from softnpu.media.pixels.formats import NV12, NV21, YUV_PLANAR_420
from softnpu.media.pixels.picture import Pixels
from softnpu.media.pixels.planes import merge
from softnpu.media.vpc.compose import transfer


def deliver(pixels: Pixels, out: Pixels, csc: Csc | None = None) -> None:
    """Write the whole picture into the whole of `out`: same size is a copy, another size is scaled (bilinear)."""
    same = pixels.width == out.width and pixels.height == out.height
    if same and pixels.format.value == YUV_PLANAR_420 and out.format.value in (NV12, NV21):
        _interleave(pixels, out)
        return
    transfer(pixels, out, "bilinear", csc)


def _interleave(pixels: Pixels, out: Pixels) -> None:
    luma, u, v = pixels.planes
    np.copyto(out.planes[0], luma)
    merge([u, v] if out.format.value == NV12 else [v, u], out.planes[1])
