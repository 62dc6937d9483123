"""Bodies of `acl.mdl`: the parameter sets of dynamic AIPP."""

from __future__ import annotations

from acl._bodies._common import raw
from softnpu.executor import aipp as core
from softnpu.executor.aipp import AippSet
from softnpu.runtime.process import process


def create_aipp(batch: int) -> int:
    return process().handles.add("aipp", core.create(batch))


@raw
def destroy_aipp(aipp: int) -> None:
    process().handles.remove("aipp", aipp)


def set_aipp_input_format(aipp: AippSet, code: int) -> None:
    aipp.set_input_format(code)


def set_aipp_csc_params(aipp: AippSet, switch: int, *numbers: int) -> None:
    aipp.set_csc(switch, numbers[:9], numbers[9:12], numbers[12:15])


def set_aipp_rbuv_swap_switch(aipp: AippSet, switch: int) -> None:
    aipp.set_rbuv_swap(switch)


def set_aipp_ax_swap_switch(aipp: AippSet, switch: int) -> None:
    aipp.set_ax_swap(switch)


def set_aipp_src_image_size(aipp: AippSet, width: int, height: int) -> None:
    aipp.set_src_image_size(width, height)


def set_aipp_crop_params(
    aipp: AippSet, switch: int, start_w: int, start_h: int, size_w: int, size_h: int, index: int
) -> None:
    aipp.set_crop(switch, (start_w, start_h), (size_w, size_h), index)


def set_aipp_padding_params(
    aipp: AippSet, switch: int, top: int, bottom: int, left: int, right: int, index: int
) -> None:
    aipp.set_padding(switch, (top, bottom, left, right), index)


def set_aipp_dtc_pixel_mean(aipp: AippSet, c0: int, c1: int, c2: int, c3: int, index: int) -> None:
    aipp.set_mean((c0, c1, c2, c3), index)


def set_aipp_dtc_pixel_min(aipp: AippSet, c0: float, c1: float, c2: float, c3: float, index: int) -> None:
    aipp.set_min((c0, c1, c2, c3), index)


def set_aipp_pixel_var_reci(aipp: AippSet, c0: float, c1: float, c2: float, c3: float, index: int) -> None:
    aipp.set_var_reci((c0, c1, c2, c3), index)


def set_aipp_scf_params(aipp: AippSet, switch: int, src_w: int, src_h: int, dst_w: int, dst_h: int, index: int) -> None:
    aipp.set_scf(switch, (src_w, src_h), (dst_w, dst_h), index)


def get_aipp_data_size(batch: int) -> int:
    return core.data_size(batch)
