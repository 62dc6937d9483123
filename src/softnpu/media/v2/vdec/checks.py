"""What the attributes and parameters of a decode channel of `acl.himpi` may be."""

from __future__ import annotations

from softnpu import constants as c
from softnpu.base.errors import NpuError, codes
from softnpu.media import rules
from softnpu.media.pixels.formats import pixel_format
from softnpu.media.v2.checks import CODECS, check_in
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.struct import Fields

_MAX_STREAM_BUFFER = 1 << 30
_MAX_FRAMES = 16
_MAX_SIDE = 16384


def check_attr(attr: Fields) -> None:
    """The attributes of a new channel."""
    if attr.type not in (c.HI_PT_JPEG, c.HI_PT_H264, c.HI_PT_H265):
        raise himpi_error(
            "vdec",
            "NOT_SUPPORT",
            f"payload type {attr.type} cannot be decoded",
            "use HI_PT_H264, HI_PT_H265 or HI_PT_JPEG",
        )
    if attr.mode != c.HI_VDEC_SEND_MODE_FRAME:
        raise himpi_error(
            "vdec", "NOT_SUPPORT", f"send mode {attr.mode} is not supported", "use HI_VDEC_SEND_MODE_FRAME (1)"
        )
    check_in("pic_width", attr.pic_width, range(1, _MAX_SIDE + 1))
    check_in("pic_height", attr.pic_height, range(1, _MAX_SIDE + 1))
    check_in("stream_buf_size", attr.stream_buf_size, range(1, _MAX_STREAM_BUFFER + 1))
    least = attr.pic_width * attr.pic_height * 3 // 4
    if rules.strict() and attr.stream_buf_size < least:
        raise NpuError(
            codes.INVALID_PARAM,
            f"stream_buf_size is {attr.stream_buf_size}, for {attr.pic_width}x{attr.pic_height} it must be {least} or more",
            "width * height * 3 / 2 is the advice",
        )
    if attr.type == c.HI_PT_JPEG:
        rules.supports("jpegd", 2)
        return
    rules.supports("vdec", 2)
    rules.check("vdec", "out", stream=(attr.pic_width, attr.pic_height))
    rules.check_codec("vdec", CODECS[attr.type], attr.pic_width, attr.pic_height)
    check_in("ref_frame_num", attr.video_attr.ref_frame_num, range(_MAX_FRAMES + 1))


def check_count(open_videos: int) -> None:
    """One more channel of VDEC: the chip may have fewer of them than ids, which JPEGD shares."""
    most = rules.channel_ids("video")
    rules.insist(open_videos < most, f"more than {most} VDEC channels are open at a time", codes.BAD_ALLOC)


def check_param(param: Fields, is_jpeg: bool) -> None:
    """The parameters of a channel."""
    if is_jpeg:
        check_in("alpha", param.pic_param.alpha, range(256))
        if param.pic_param.pixel_format != c.HI_PIXEL_FORMAT_UNKNOWN:
            pixel_format(param.pic_param.pixel_format)
        return
    video = param.video_param
    check_in("dec_mode", video.dec_mode, range(3))
    check_in("out_order", video.out_order, range(2))
    check_in("compress_mode", video.compress_mode, range(4))
    check_in("video_format", video.video_format, range(2))
    check_in("quick_mark_mode", video.quick_mark_mode, range(3))
    check_in("display_frame_num", param.display_frame_num, range(_MAX_FRAMES + 1))
