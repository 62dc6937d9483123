"""Dynamic AIPP at run time: attach checks, the block, and pictures through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from softnpu.base.aipp_block import unpack
from softnpu.base.errors import NpuError, codes
from softnpu.executor.aipp import AippSet, Slot, apply, check_attach, create, data_size, write_block

NCHW, NHWC = 0, 1
BT601 = (256, 443, 0, 256, -86, -178, 256, 0, 350)  # the matrix of the guide's example: to B, G, R


def guide(batch: int = 1) -> AippSet:
    """The set of the guide's example, smaller: source 16 x 12, crop 8 x 8."""
    parameters = create(batch)
    parameters.set_src_image_size(16, 12)
    parameters.set_input_format(1)
    parameters.set_csc(1, BT601, (0, 0, 0), (0, 128, 128))
    parameters.set_rbuv_swap(0)
    for index in range(batch):
        parameters.set_mean((0, 0, 0, 0), index)
        parameters.set_min((0.0, 0.0, 0.0, 0.0), index)
        parameters.set_var_reci((1, 1, 1, 1), index)
        parameters.set_crop(1, (2, 2), (8, 8), index)
    return parameters


SLOT = Slot(max_src_image_size=2 * 288, batch=-1, height=8, width=8, channels=3)


def test_a_new_set() -> None:
    (picture,) = create(1).whole()
    assert not (picture.csc or picture.rbuv_swap or picture.ax_swap or picture.crop or picture.padding)
    assert (picture.mean, picture.min, picture.var_reci) == ((0,) * 4, (0.0,) * 4, (1.0,) * 4)


def test_the_guides_set_is_attached_and_computed() -> None:
    parameters = guide(2)
    parameters.set_mean((1, 2, 3, 0), 1)
    parameters.set_var_reci((0.1, 0.2, 0.3, 0.0), 1)
    assert [picture.crop_w for picture in check_attach(parameters, SLOT)] == [8, 8]
    block = write_block(parameters)
    assert len(block) == data_size(2) == 256
    assert unpack(block) == parameters.whole()
    pixels = np.random.default_rng(0).integers(0, 256, 2 * 288, np.uint8)
    result = apply(block, pixels, (2, 3, 8, 8), np.float32, NCHW)
    for n in range(2):
        picture = pixels[n * 288 : (n + 1) * 288]
        y = picture[:192].reshape(12, 16).astype(int)
        uv = picture[192:].reshape(6, 8, 2).astype(int)
        for row, column in np.ndindex(8, 8):
            c = np.array([y[row + 2, column + 2], *uv[(row + 2) // 2, (column + 2) // 2]]) - (0, 128, 128)
            bgr = np.clip((np.array(BT601).reshape(3, 3) @ c) >> 8, 0, 255).astype(np.float32)
            mean = np.array([1, 2, 3], np.float32) if n else np.float32(0)
            factor = np.array([0.1, 0.2, 0.3], np.float16).astype(np.float32) if n else np.float32(1)
            assert np.array_equal(result[n, :, row, column], (bgr - mean) * factor)
    assert np.array_equal(
        apply(block, pixels, (2, -1, -1, 3), np.float16, NHWC), result.transpose(0, 2, 3, 1).astype(np.float16)
    )


def rgb(batch: int = 1) -> AippSet:
    parameters = create(batch)
    parameters.set_input_format(3)
    parameters.set_src_image_size(8, 8)
    return parameters


def crop_out(parameters: AippSet) -> None:
    parameters.set_crop(1, (10, 0), (8, 8), 0)


def different(parameters: AippSet) -> None:
    parameters.set_padding(1, (1, 0, 0, 0), 1)


CHECKS: list[tuple[AippSet, Callable[[AippSet], None], Slot, str]] = [
    (guide(), lambda s: s.set_input_format(7), SLOT, "format 7"),
    (guide(), lambda s: s.set_input_format(11), SLOT, "format 11"),
    (create(1), lambda s: None, SLOT, "format 0"),
    (guide(), lambda s: s.set_input_format(4), SLOT, "no colour"),
    (create(1), lambda s: s.set_input_format(3), SLOT, "set_aipp_src_image_size|size of the source picture is not set"),
    (guide(), lambda s: s.set_src_image_size(15, 12), SLOT, "15 x 12"),
    (guide(), lambda s: s.set_scf(1, (16, 16), (16, 16), 0), SLOT, "scaling"),
    (guide(3), lambda s: None, SLOT, "864 bytes, more than max_src_image_size 576"),
    (guide(), crop_out, SLOT, "ends at 18, beyond the source's width 16"),
    (guide(), lambda s: s.set_crop(1, (1, 2), (8, 8), 0), SLOT, "even"),
    (guide(2), different, SLOT, "different sizes"),
    (guide(), lambda s: s.set_crop(0, (0, 0), (0, 0), 0), SLOT, "height after AIPP is 12, the model takes 8"),
    (guide(2), lambda s: None, Slot(9999, 1, 8, 8), "batch after AIPP is 2"),
    (rgb(), lambda s: s.set_padding(1, (0, 0, 1, 0), 0), SLOT, "width after AIPP is 9"),
    (rgb(), lambda s: s.set_input_format(2), SLOT, "4 channels of XRGB8888_U8"),
    (rgb(), lambda s: s.set_src_image_size(1090, 8), Slot(1 << 30, -1, -1, -1, family="310P"), "1090 wide .* 1080"),
]


@pytest.mark.parametrize(("parameters", "change", "slot", "text"), CHECKS, ids=[case[3] for case in CHECKS])
def test_attach_checks(parameters: AippSet, change: Callable[[AippSet], None], slot: Slot, text: str) -> None:
    change(parameters)
    with pytest.raises(NpuError, match=text) as caught:
        check_attach(parameters, slot)
    assert caught.value.code == codes.INVALID_PARAM


def test_open_sizes_of_the_model_are_not_compared() -> None:
    assert check_attach(rgb(), Slot(192, -1, -1, -1))


@pytest.mark.parametrize(
    ("block", "pixels", "shape", "text"),
    [
        (bytes(160), 192, (1, 3, 8, 8), "set_input_aipp"),
        (write_block(rgb()), 191, (1, 3, 8, 8), "191 bytes"),
        (write_block(rgb()), 192, (1, 3, 8, 9), "makes .* takes"),
        (write_block(rgb()), 192, (1, 1, 8, 8), "3 channels"),
    ],
)
def test_pictures_that_do_not_fit(block: bytes, pixels: int, shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(NpuError, match=text) as caught:
        apply(block, np.zeros(pixels, np.uint8), shape, np.float32, NCHW)
    assert caught.value.code == codes.INVALID_PARAM


@pytest.mark.parametrize("batch", [0, 128, 1 << 40])
def test_impossible_batches(batch: Any) -> None:
    for call in (create, data_size):
        with pytest.raises(NpuError, match="batch"):
            call(batch)
