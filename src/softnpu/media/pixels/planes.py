"""Planes of pictures taken apart into channels and put together again, in pieces that stay in the cache."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from softnpu.media.doors import cv2
from softnpu.media.pixels.picture import Pixels

Array = np.ndarray[Any, Any]
Channels = dict[str, Array]
_BYTE = np.dtype(np.uint8)
BAND_PIXELS = 1 << 19  # measured: smaller bands cost more in calls than they save in memory traffic
_KEPT_BYTES = 32 << 20
# OpenCV moves values of any size, but knows few types.
_MOVABLE = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.int32), 8: np.dtype(np.float64)}


class _Scratch(threading.local):
    """Buffers of this thread. New memory for each call would cost more in page faults than the work in it."""

    def __init__(self) -> None:
        self.blocks: dict[str, Array] = {}


_scratch = _Scratch()


def scratch(name: str, shape: tuple[int, ...], dtype: np.dtype[Any] = _BYTE) -> Array:
    """An array with undefined contents, valid until the same thread asks for the same name again."""
    size = math.prod(shape) * dtype.itemsize
    block = _scratch.blocks.get(name)
    if block is None or block.size < size:
        block = np.empty(size, np.uint8)
        if size <= _KEPT_BYTES:
            _scratch.blocks[name] = block
    return block[:size].view(dtype).reshape(shape)


def apart(src: Pixels, out: Pixels) -> Pixels:
    """`src`, or a copy of it when writing `out` could change it."""
    if any(np.may_share_memory(mine, other) for mine in src.planes for other in out.planes):
        return src.copy()
    return src


def bands(first: Pixels, second: Pixels) -> Iterator[tuple[Pixels, Pixels]]:
    """Two pictures of one size in pieces of an even number of rows, from top to bottom; an odd last row is a piece of its own."""
    step = max(2, BAND_PIXELS // max(1, first.width) & ~1)
    edges = [*range(0, first.height & ~1, step), first.height & ~1, first.height]
    for top, bottom in itertools.pairwise(edges):
        if bottom > top:
            yield first.crop(0, top, first.width, bottom - top), second.crop(0, top, second.width, bottom - top)


def movable(array: Array) -> Array:
    """The same memory as a type that OpenCV can move about."""
    dtype = _MOVABLE[array.dtype.itemsize]
    return array if array.dtype == dtype else array.view(dtype)


def settle(result: Array, out: Array) -> Array:
    """`out` with the result in it: OpenCV allocates memory of its own when it cannot use what it was given."""
    if result is not out:
        np.copyto(out, result)
    return out


def merge(parts: list[Array], out: Array) -> None:
    """Interleave arrays of one shape as the channels of `out`."""
    target = movable(out)
    joined = _solid_room(target, "merged")
    sources = [_solid(movable(part), f"part {index}") for index, part in enumerate(parts)]
    settle(settle(cv2().merge(sources, dst=joined), joined), target)


def split(src: Array, outs: list[Array]) -> None:
    """The opposite of `merge`."""
    targets = [movable(out) for out in outs]
    rooms = [_solid_room(target, f"part {index}") for index, target in enumerate(targets)]
    results = cv2().split(_solid(movable(src), "merged"), rooms)
    for result, room, target in zip(results, rooms, targets, strict=True):
        settle(settle(result, room), target)


def transform(src: Array, matrix: Array, out: Array) -> None:
    """Each pixel of three channels times a matrix of (3, 4)."""
    room = _solid_room(out, "transformed")
    settle(settle(cv2().transform(_solid(src, "merged"), matrix, dst=room), room), out)


def _solid(array: Array, name: str) -> Array:
    """The array without gaps between its rows, where OpenCV can be ten times slower: a copy costs little beside that."""
    return array if array.flags.c_contiguous else settle(array, scratch(name, array.shape, array.dtype))


def _solid_room(out: Array, name: str) -> Array:
    return out if out.flags.c_contiguous else scratch(name, out.shape, out.dtype)


def single_planes(out: Pixels) -> Channels:
    """Planes that hold one channel, by its letter: what is written there needs not be copied again."""
    specs = out.format.planes
    return {spec.channels: plane for spec, plane in zip(specs, out.planes, strict=True) if len(spec.channels) == 1}


def take(src: Pixels, into: Mapping[str, Array]) -> Channels:
    """The channels of a picture by letter: views where it has them as planes, else in `into` or in scratch memory."""
    if src.format.packed:
        return _take_packed(src, into)
    channels: Channels = {}
    for spec, plane in zip(src.format.planes, src.planes, strict=True):
        if len(spec.channels) == 1:
            channels[spec.channels] = plane
        else:
            channels |= take_apart(plane, spec.channels, into)
    return channels


def take_apart(plane: Array, letters: str, into: Mapping[str, Array]) -> Channels:
    """The channels of one array, of which `letters` are the names."""
    shape = plane.shape[:2]
    channels: Channels = {}
    for letter in letters:
        room = into.get(letter)
        channels[letter] = (
            room if room is not None and room.shape == shape else scratch(f"take {letter}", shape, plane.dtype)
        )
    split(plane, list(channels.values()))
    return channels


def pairs(plane: Array) -> Array:
    """A packed 4:2:2 plane as one luma and one chroma value for each pixel."""
    rows, columns, _ = plane.shape
    return plane.reshape(rows, columns * 2, 2)


def _take_packed(src: Pixels, into: Mapping[str, Array]) -> Channels:
    letters = src.format.channels
    both = pairs(src.planes[0])
    order = "y-" if letters[0] == "y" else "-y"
    channels = take_apart(both, order, into)
    chroma = channels.pop("-").reshape(src.planes[0].shape[0], -1, 2)
    if src.width & 1:
        channels["y"] = channels["y"][:, : src.width]
    return channels | take_apart(chroma, letters.replace("y", ""), into)


def put(out: Pixels, channels: Channels, filler: int) -> None:
    """Write channels into the planes of a picture; a channel that is missing (alpha, or x) gets the value `filler`."""
    if out.format.packed:
        _put_packed(out, channels)
        return
    for spec, plane in zip(out.format.planes, out.planes, strict=True):
        if len(spec.channels) > 1:
            parts = [channels[c] if c in channels else _constant(plane, filler) for c in spec.channels]
            merge(parts, plane)
        elif channels[spec.channels] is not plane:
            np.copyto(plane, channels[spec.channels])


def _constant(plane: Array, value: int) -> Array:
    array = scratch("constant", plane.shape[:2], plane.dtype)
    array.fill(value)
    return array


def _put_packed(out: Pixels, channels: Channels) -> None:
    letters = out.format.channels
    plane = out.planes[0]
    rows, columns, _ = plane.shape
    luma = channels["y"]
    if luma.shape[1] < columns * 2:
        luma = np.pad(luma, ((0, 0), (0, 1)), "edge")
    chroma = scratch("pairs", (rows, columns, 2))
    merge([channels[c] for c in letters.replace("y", "")], chroma)
    flat = chroma.reshape(rows, columns * 2)
    merge([luma, flat] if letters[0] == "y" else [flat, luma], pairs(plane))
