"""acl.mdl: the parameter sets of dynamic AIPP."""

from __future__ import annotations

from typing import Any

import pytest

import acl
from softnpu.runtime.process import process
from tests.support import message, ok

pytestmark = pytest.mark.usefixtures("runtime")
INVALID = 100000
NINE = (256, 443, 0, 256, -86, -178, 256, 0, 350)
CSC = (*NINE, 0, 0, 0, 0, 128, 128)


@pytest.fixture
def aipp() -> int:
    handle = acl.mdl.create_aipp(2)
    assert type(handle) is int and handle > 0
    return int(handle)


def inside(handle: int) -> Any:
    return process().handles.get("aipp", handle)


def test_the_guides_calls(aipp: int) -> None:
    ok(acl.mdl.set_aipp_src_image_size(aipp, 256, 224))
    ok(acl.mdl.set_aipp_input_format(aipp, 1))
    ok(acl.mdl.set_aipp_csc_params(aipp, 1, *CSC))
    ok(acl.mdl.set_aipp_rbuv_swap_switch(aipp, 0))
    ok(acl.mdl.set_aipp_dtc_pixel_mean(aipp, 0, 0, 0, 0, 0))
    ok(acl.mdl.set_aipp_dtc_pixel_min(aipp, 0, 0, 0, 0, 0))
    ok(acl.mdl.set_aipp_pixel_var_reci(aipp, 1, 1, 1, 1, 0))
    ok(acl.mdl.set_aipp_crop_params(aipp, 1, 0, 0, 224, 224, 0))
    first, second = inside(aipp).whole()
    assert (first.src_w, first.src_h, first.csc, first.matrix, first.input_bias) == (
        256,
        224,
        True,
        NINE,
        (0, 128, 128),
    )
    assert (first.crop, first.crop_w, second.crop) == (True, 224, False)
    ok(acl.mdl.destroy_aipp(aipp))
    assert acl.mdl.set_aipp_rbuv_swap_switch(aipp, 0) != 0
    assert acl.mdl.destroy_aipp(aipp) != 0


def test_every_number_goes_to_its_place(aipp: int) -> None:
    ok(acl.mdl.set_aipp_csc_params(aipp, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
    ok(acl.mdl.set_aipp_rbuv_swap_switch(aipp, 1))
    ok(acl.mdl.set_aipp_ax_swap_switch(aipp, 1))
    ok(acl.mdl.set_aipp_crop_params(aipp, 1, 1, 2, 3, 4, 1))
    ok(acl.mdl.set_aipp_padding_params(aipp, 1, 5, 6, 7, 8, 1))
    ok(acl.mdl.set_aipp_dtc_pixel_mean(aipp, 9, 10, 11, 12, 1))
    ok(acl.mdl.set_aipp_dtc_pixel_min(aipp, 0.5, 1.5, 2.5, 3.5, 1))
    ok(acl.mdl.set_aipp_pixel_var_reci(aipp, 0.25, -0.5, 65504.0, 2, 1))
    first, second = inside(aipp).whole()
    assert (first.mean, first.crop, first.padding) == ((0, 0, 0, 0), False, False)
    assert (
        second.matrix == tuple(range(1, 10))
        and second.output_bias == (10, 11, 12)
        and second.input_bias == (13, 14, 15)
    )
    assert second.rbuv_swap and second.ax_swap
    assert (second.crop_start_w, second.crop_start_h, second.crop_w, second.crop_h) == (1, 2, 3, 4)
    assert (second.top, second.bottom, second.left, second.right) == (5, 6, 7, 8)
    assert (second.mean, second.min, second.var_reci) == (
        (9, 10, 11, 12),
        (0.5, 1.5, 2.5, 3.5),
        (0.25, -0.5, 65504.0, 2.0),
    )


def test_min_and_factor_are_kept_as_float16(aipp: int) -> None:
    ok(acl.mdl.set_aipp_pixel_var_reci(aipp, 0.1, 1 / 255, 1, 1, 0))
    assert inside(aipp).whole()[0].var_reci[:2] == (0.0999755859375, 0.003921508789062500)


def test_switches_that_are_off_ignore_the_rest(aipp: int) -> None:
    ok(acl.mdl.set_aipp_csc_params(aipp, 0, *(0,) * 15))
    ok(acl.mdl.set_aipp_crop_params(aipp, 0, -1, -1, 0, 0, 0))
    ok(acl.mdl.set_aipp_padding_params(aipp, 0, 99, 0, 0, 0, 0))
    ok(acl.mdl.set_aipp_scf_params(aipp, 0, 0, 0, 0, 0, 0))
    ok(acl.mdl.set_aipp_scf_params(aipp, 1, 16, 16, 1920, 4096, 0))


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("set_aipp_input_format", (0,), "format 0"),
    ("set_aipp_input_format", (15,), "format 15"),
    ("set_aipp_input_format", (0xFFFF,), "format 65535"),
    ("set_aipp_csc_params", (2, *CSC), "csc_switch 2"),
    ("set_aipp_csc_params", (1, -32678, *CSC[1:]), "csc_matrix_r0c0 -32678"),
    ("set_aipp_csc_params", (1, *CSC[:8], 32677, *CSC[9:]), "csc_matrix_r2c2 32677"),
    ("set_aipp_rbuv_swap_switch", (2,), "rbuv_swap_switch 2"),
    ("set_aipp_ax_swap_switch", (255,), "ax_swap_switch 255"),
    ("set_aipp_src_image_size", (1, 10), "width of the source picture 1"),
    ("set_aipp_src_image_size", (4097, 10), "4097"),
    ("set_aipp_src_image_size", (10, 0), "height of the source picture 0"),
    ("set_aipp_crop_params", (2, 0, 0, 4, 4, 0), "crop_switch 2"),
    ("set_aipp_crop_params", (1, 4096, 0, 4, 4, 0), "crop_start_pos_w 4096"),
    ("set_aipp_crop_params", (1, 0, 0, 4, 0, 0), "crop_size_h 0"),
    ("set_aipp_crop_params", (1, 0, 0, 4, 4, 2), "batch index 2"),
    ("set_aipp_padding_params", (1, 0, 33, 0, 0, 0), "padding_size_bottom 33"),
    ("set_aipp_padding_params", (1, 0, 0, -1, 0, 0), "padding_size_left -1"),
    ("set_aipp_dtc_pixel_mean", (0, 256, 0, 0, 0), "dtc_pixel_mean_chn1 256"),
    ("set_aipp_dtc_pixel_mean", (0, 0, 0, 0, -1), "batch index"),
    ("set_aipp_dtc_pixel_min", (0, 0, -0.5, 0, 0), "dtc_pixel_min_chn2 -0.5"),
    ("set_aipp_dtc_pixel_min", (0, 0, float("nan"), 0, 0), "chn2 nan"),
    ("set_aipp_pixel_var_reci", (0, 0, 0, 65505, 0), "dtc_pixel_var_reci_chn3 65505"),
    ("set_aipp_pixel_var_reci", (0, float("inf"), 0, 0, 0), "chn1 inf"),
    ("set_aipp_scf_params", (1, 15, 16, 16, 16, 0), "scf_input_size_w 15"),
    ("set_aipp_scf_params", (1, 16, 16, 1921, 16, 0), "scf_output_size_w 1921"),
]


@pytest.mark.parametrize(("name", "args", "word"), WRONG)
def test_values_out_of_range(aipp: int, name: str, args: tuple[Any, ...], word: str) -> None:
    before = inside(aipp).whole()
    assert getattr(acl.mdl, name)(aipp, *args) == INVALID
    assert word in message()
    assert inside(aipp).whole() == before


def test_a_set_needs_a_batch() -> None:
    assert acl.mdl.create_aipp(0) == 0
    assert acl.mdl.get_aipp_data_size(0) == (0, INVALID)
    assert ok(acl.mdl.get_aipp_data_size(1)) == 160
    assert ok(acl.mdl.get_aipp_data_size(8)) == 64 + 96 * 8


@pytest.mark.parametrize("handle", [0, 1234, -1])
def test_calls_without_a_set_are_refused(handle: int) -> None:
    assert acl.mdl.set_aipp_src_image_size(handle, 4, 4) != 0
    assert acl.mdl.destroy_aipp(handle) != 0
