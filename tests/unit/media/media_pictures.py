"""Pictures for tests, and a slow, plain reference of every conversion: one pixel at a time in meaning, NumPy in form."""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu.media.pixels.formats import PixelFormat, pixel_format
from softnpu.media.pixels.picture import Pixels
from softnpu.spec._generated.pixel_formats import FORMATS

Array = np.ndarray[Any, Any]
ALL = [pixel_format(value) for value in FORMATS]
RESERVED = 0xA5


def picture(form: PixelFormat, width: int, height: int, seed: int = 0) -> Pixels:
    """Random values from 0 to 255 in the way the format keeps them; 10-bit formats use all their bits."""
    rng = np.random.default_rng([seed, form.value, width, height])
    pixels = Pixels.empty(form, width, height)
    for plane in pixels.planes:
        if form.bits == 10:
            plane[...] = rng.integers(0, 1024, plane.shape) << 6
        else:
            plane[...] = encode(rng.integers(0, 256, plane.shape).astype(np.float64), form)
    return pixels


def in_larger_memory(form: PixelFormat, width: int, height: int) -> tuple[Pixels, Array]:
    """A picture whose rows have gaps, and the memory around it as bytes, all of the value RESERVED."""
    plain = Pixels.empty(form, width, height)
    item = plain.planes[0].dtype.itemsize
    steps = [plane[0].nbytes + 5 * item for plane in plain.planes]
    sizes = [step * (plane.shape[0] + 1) for step, plane in zip(steps, plain.planes, strict=True)]
    memory = np.full(sum(sizes) + 64, RESERVED, np.uint8)
    planes, at = [], 2 * item
    for plane, step, size in zip(plain.planes, steps, sizes, strict=True):
        strides = (step, *plane.strides[1:])
        planes.append(np.ndarray(plane.shape, plane.dtype, memory, at, strides))
        at += size
    return Pixels(form, planes, width, height), memory


def outside_is_untouched(pixels: Pixels, memory: Array) -> bool:
    """Whether all bytes beside the picture still have their value; destroys the picture."""
    for plane in pixels.planes:
        plane.view(np.uint8)[...] = RESERVED
    return bool((memory == RESERVED).all())


def decode(plane: Array, form: PixelFormat) -> Array:
    """The numbers that an array of a format stands for, as float64; 10-bit values as they lie in memory."""
    if form.type == "bfloat16":
        return (plane.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return plane.astype(np.float64)


def encode(numbers: Array, form: PixelFormat) -> Array:
    """Numbers from 0 to 255 in the type of a format, cut off where it ends."""
    if form.type == "bfloat16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if form.bits == 10:
        return (numbers.astype(np.uint16)) << 8
    if form.type.startswith("float"):
        return numbers.astype(form.type)
    limits = np.iinfo(form.type)
    return np.rint(numbers).clip(limits.min, min(limits.max, 1 << 40)).astype(form.type)


def channels(pixels: Pixels) -> dict[str, Array]:
    """Every channel at full size, by its letter: chroma repeated."""
    form, width, height = pixels.format, pixels.width, pixels.height
    by_letter: dict[str, Array] = {}
    if form.packed:
        for position, letter in enumerate(form.channels):
            values = pixels.planes[0][..., position]
            if letter == "y":
                luma = by_letter.setdefault("y", np.zeros((height, values.shape[1] * 2)))
                luma[:, position // 2 :: 2] = values
            else:
                by_letter[letter] = decode(values, form).repeat(2, 1)
    else:
        for spec, plane in zip(form.planes, pixels.planes, strict=True):
            cube = plane.reshape(*plane.shape[:2], -1)
            for position, letter in enumerate(spec.channels):
                by_letter[letter] = decode(cube[..., position], form).repeat(spec.y, 0).repeat(spec.x, 1)
    return {letter: values[:height, :width] for letter, values in by_letter.items()}


def mean_of_blocks(channel: Array, across: int, down: int) -> Array:
    """Means of blocks, halves up; the last column and row repeated where a block is not full."""
    rows, columns = channel.shape
    full = np.pad(channel, ((0, -rows % down), (0, -columns % across)), "edge")
    total = sum(full[y::down, x::across] for y in range(down) for x in range(across))
    return np.floor(total / (across * down) + 0.5)


def apply(matrix: Array, channels: dict[str, Array], source: str, target: str) -> dict[str, Array]:
    """A colour matrix in float64."""
    rows = matrix.astype(np.float64)
    stack = np.stack([channels[letter] for letter in source], -1)
    result = np.floor(stack @ rows[:, :3].T + rows[:, 3] + 0.5 + 1e-6).clip(0, 255)
    return {letter: result[..., index] for index, letter in enumerate(target)}


def as_bytes(channels: dict[str, Array], form: PixelFormat) -> dict[str, Array]:
    if form.bits == 10:
        return {letter: np.floor(values / 256) for letter, values in channels.items()}
    return {letter: np.rint(values).clip(0, 255) for letter, values in channels.items()}


def expected(src: Pixels, form: PixelFormat, to_rgb: Array, to_yuv: Array, alpha: int = 255) -> dict[str, Array]:
    """What every channel of the converted picture holds: chroma in its own size, numbers as the format keeps them."""
    by_letter = channels(src)
    if src.format.bits == 10 and form.bits == 10:
        return {
            letter: values if letter == "y" else mean_of_blocks(values, *form.chroma)
            for letter, values in by_letter.items()
        }
    keeps_numbers = src.format.space == form.space == "rgb" or src.format.planes == form.planes
    if not (keeps_numbers and src.format.bits == form.bits):
        by_letter = as_bytes(by_letter, src.format)
    if src.format.space == "yuv":
        for letter in "uv":
            by_letter.setdefault(letter, np.full((src.height, src.width), 128.0))
    if src.format.space != form.space:
        by_letter = (
            apply(to_rgb, by_letter, "yuv", "rgb") if form.space == "rgb" else apply(to_yuv, by_letter, "rgb", "yuv")
        )
    for letter in "ax":
        by_letter.setdefault(letter, np.full((src.height, src.width), float(alpha)))
    wanted = {letter: by_letter[letter] for letter in set(form.channels)}
    for letter in "uv":
        if letter in wanted:
            wanted[letter] = mean_of_blocks(wanted[letter], *form.chroma)
    return {letter: decode(encode(values, form), form) for letter, values in wanted.items()}


def own_size(pixels: Pixels) -> dict[str, Array]:
    """Every channel in its own size, as numbers."""
    across, down = pixels.format.chroma
    return {
        letter: values[::down, ::across] if letter in "uv" else values for letter, values in channels(pixels).items()
    }


def worst(pixels: Pixels, wanted: dict[str, Array]) -> float:
    """The largest difference to what was expected."""
    got = own_size(pixels)
    assert got.keys() == wanted.keys()
    return max(float(np.abs(got[letter] - wanted[letter]).max()) for letter in got)
