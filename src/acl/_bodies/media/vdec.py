"""Bodies of `acl.media`: video decoding."""

from __future__ import annotations

from typing import Any

from acl._arguments import resolver
from acl._bodies._common import channel_fields, raw
from softnpu.media.v1 import vdec
from softnpu.media.v1.vdec import VdecChannelDesc
from softnpu.runtime.process import process

_DESC, _FRAME = "vdec_channel_desc", "vdec_frame_config"
_channel_desc, _frame_config = resolver(_DESC), resolver(_FRAME + "?")
_stream_desc, _pic_desc = resolver("stream_desc"), resolver("pic_desc?")


def vdec_create_channel_desc() -> int:
    return process().handles.add(_DESC, VdecChannelDesc())


@raw
def vdec_destroy_channel_desc(desc: int) -> None:
    _channel_desc(desc).discard()
    process().handles.remove(_DESC, desc)


def vdec_create_channel(desc: VdecChannelDesc) -> None:
    vdec.create_channel(desc)


def vdec_destroy_channel(desc: VdecChannelDesc) -> None:
    desc.destroy()


# ---- what a description holds ----------------------------------------------------------------------------------------


channel_fields(
    globals(),
    "vdec",
    (
        "channel_id",
        "thread_id",
        "callback",
        "entype",
        "out_pic_format",
        "out_pic_width",
        "out_pic_height",
        "ref_frame_num",
        "out_mode",
        "bit_depth",
    ),
)


@raw
def vdec_set_channel_desc_param(desc: int, type: int, value: int) -> int:
    _channel_desc(desc).put_param(type, value)
    return desc


def vdec_get_channel_desc_param(desc: VdecChannelDesc, type: int) -> tuple[int, int]:
    return desc.param(type)


# ---- packets ---------------------------------------------------------------------------------------------------------


def vdec_create_frame_config() -> int:
    return process().handles.add(_FRAME, vdec.FrameConfig())


@raw
def vdec_destroy_frame_config(config: int) -> None:
    _frame_config(config)
    process().handles.remove(_FRAME, config)


@raw
def vdec_send_frame(desc: int, stream_desc: int, pic_desc: int, frame_cfg: int, user_data: Any) -> None:
    channel = _channel_desc(desc)
    stream, pic = (stream_desc, _stream_desc(stream_desc)), (pic_desc, _pic_desc(pic_desc))
    _frame_config(frame_cfg)
    vdec.send(channel, stream, pic, user_data, skipped=False)


@raw
def vdec_send_skipped_frame(desc: int, stream_desc: int, frame_cfg: int, user_data: Any) -> None:
    channel, stream = _channel_desc(desc), (stream_desc, _stream_desc(stream_desc))
    _frame_config(frame_cfg)
    vdec.send(channel, stream, (0, None), user_data, skipped=True)
