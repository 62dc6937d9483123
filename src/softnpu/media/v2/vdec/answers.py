"""What `vdec_get_frame` answers: three dictionaries with every key, also when the call failed."""

from __future__ import annotations

from typing import Any

from softnpu import constants as c
from softnpu.media.pixels.formats import is_known, pixel_format
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.structs import FRAME_INFO
from softnpu.media.v2.vdec import structs
from softnpu.media.v2.vdec.channel import DecodeChannel
from softnpu.media.v2.vdec.frames import FAILED, Frame


def got_frame(channel: DecodeChannel, frame: Frame) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What `vdec_get_frame` answers: the frame, its supplement, and the packet with the input buffer."""
    return _frame_info(channel, frame), _supplement(channel, frame), structs.STREAM.write(frame.packet.stream)


def no_frame() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The same when there is none."""
    return FRAME_INFO.zeros(), structs.SUPPLEMENT_INFO.zeros(), structs.STREAM.zeros()


def _frame_info(channel: DecodeChannel, frame: Frame) -> dict[str, Any]:
    info = FRAME_INFO.blank()
    shown, picture = info.v_frame, frame.picture
    shown.width, shown.height = picture.width, picture.height
    shown.field = c.HI_VIDEO_FIELD_FRAME
    shown.pixel_format = picture.format
    shown.dynamic_range = c.HI_DYNAMIC_RANGE_SDR10 if frame.bits == 10 else c.HI_DYNAMIC_RANGE_SDR8
    shown.virt_addr[0] = shown.phys_addr[0] = frame.packet.picture.vir_addr
    if picture.width and is_known(picture.format):
        _fill_planes(shown, picture)
    shown.pts = frame.packet.stream.pts
    shown.user_data[0] = frame.packet.stream.private_data
    shown.time_ref = 2 * frame.number & 0xFFFFFFFF
    shown.frame_flag = frame.flag
    info.mod_id = channel.mod_id
    return FRAME_INFO.write(info)


def _fill_planes(shown: Fields, picture: Any) -> None:
    form = pixel_format(picture.format)
    offset = 0
    for index in range(len(form.planes)):
        stride, rows = form.plane_stride(index, picture.width_stride), form.plane_rows(index, picture.height_stride)
        shown.width_stride[index], shown.height_stride[index] = stride, rows
        shown.virt_addr[index] = shown.phys_addr[index] = picture.address + offset
        offset += stride * rows


def _supplement(channel: DecodeChannel, frame: Frame) -> dict[str, Any]:
    info = structs.SUPPLEMENT_INFO.blank()
    info.type = channel.attr.type
    if not channel.is_jpeg:
        info.video_supplement_info.frame_type = frame.frame_type
        info.video_supplement_info.err_rate = 100 if frame.flag == FAILED else 0
    return structs.SUPPLEMENT_INFO.write(info)
