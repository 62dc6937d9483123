"""OpenCV on the planes of a picture: results into views, border values by channel, packed pictures taken apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from softnpu.media.doors import cv2
from softnpu.media.pixels import csc
from softnpu.media.pixels.convert import convert
from softnpu.media.pixels.formats import PlaneSpec, pixel_format
from softnpu.media.pixels.picture import Pixels
from softnpu.media.pixels.planes import Array, apart
from softnpu.media.vpc.checks import finite, wrong

PlaneWork = Callable[[Array, Array, PlaneSpec], None]
BLACK = (0.0, 0.0, 0.0, 0.0)
# Where a channel stands in a value or table that a program gives: R,G,B or Y,U,V, then alpha.
CHANNEL_INDEX = {"y": 0, "r": 0, "u": 1, "g": 1, "v": 2, "b": 2, "a": 3, "x": 3}
_SEMIPLANAR_422 = 3


def scalar(spec: PlaneSpec, value: Sequence[float]) -> tuple[float, ...]:
    """What a border value in R,G,B,A or Y,U,V order is for the channels of one plane."""
    finite("border value", *value)
    whole = (*value, *BLACK)
    return (*(float(whole[CHANNEL_INDEX[channel]]) for channel in spec.channels), *BLACK)[:4]


@contextmanager
def guarded() -> Iterator[None]:
    """What OpenCV refuses becomes an error of ours."""
    try:
        yield
    except cv2().error as error:
        raise wrong(f"OpenCV refused the picture: {error}", "check sizes and parameters") from error


def into(target: Array, call: Callable[[Array | None], Array]) -> None:
    """Run an OpenCV function whose result goes to `target`, at once where OpenCV can write to such an array."""
    item, steps = target.itemsize, target.strides
    dense = (item,) if target.ndim == 2 else (item * target.shape[2], item)
    with guarded():
        if steps[1:] == dense and steps[0] >= item * math.prod(target.shape[1:]):
            call(target)
        else:
            target[...] = call(None)


def unpacked(src: Pixels) -> Pixels:
    """A packed 4:2:2 picture as luma and chroma plane (a copy), any other as it is."""
    return convert(src, pixel_format(_SEMIPLANAR_422), csc.matrix(csc.DEFAULT)) if src.format.packed else src


def each_plane(src: Pixels, out: Pixels, work: PlaneWork) -> None:
    """Run `work(plane of src, plane of out, its row)` for every plane; packed 4:2:2 is taken apart and put together again."""
    if src.format.packed:
        loose = Pixels.empty(pixel_format(_SEMIPLANAR_422), out.width, out.height)
        each_plane(unpacked(src), loose, work)
        convert(loose, out.format, csc.matrix(csc.DEFAULT), out)
        return
    src = apart(src, out)
    for source, target, spec in zip(src.planes, out.planes, src.format.planes, strict=True):
        work(source, target, spec)
