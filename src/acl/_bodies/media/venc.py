"""Bodies of `acl.media`: video encoding."""

from __future__ import annotations

from typing import Any

from acl._arguments import resolver
from acl._bodies._common import channel_fields, raw
from softnpu.base.errors import NpuError, codes
from softnpu.media.v1 import venc
from softnpu.media.v1.venc import FrameConfig, VencChannelDesc
from softnpu.runtime.process import process

_DESC, _FRAME = "venc_channel_desc", "venc_frame_config"
_channel_desc, _frame_config, _pic_desc = resolver(_DESC), resolver(_FRAME), resolver("pic_desc?")


def venc_create_channel_desc() -> int:
    return process().handles.add(_DESC, VencChannelDesc())


@raw
def venc_destroy_channel_desc(desc: int) -> None:
    _channel_desc(desc).discard()
    process().handles.remove(_DESC, desc)


def venc_create_channel(desc: VencChannelDesc) -> None:
    venc.create_channel(desc)


def venc_destroy_channel(desc: VencChannelDesc) -> None:
    desc.destroy()


channel_fields(
    globals(), "venc", (field for field, _ in venc.PARAMS[:-1])
)  # the last one is newer than functions of this kind


def venc_get_channel_desc_channel_id(desc: VencChannelDesc) -> int:
    return desc.channel.number if desc.channel is not None else 0


def venc_set_channel_desc_param(desc: VencChannelDesc, type: int, value: object) -> None:
    desc.put_param(type, value)


def venc_get_channel_desc_param(desc: VencChannelDesc, type: int) -> Any:
    return desc.param(type)


# ---- pictures --------------------------------------------------------------------------------------------------------


def venc_create_frame_config() -> int:
    return process().handles.add(_FRAME, FrameConfig())


@raw
def venc_destroy_frame_config(config: int) -> None:
    _frame_config(config)
    process().handles.remove(_FRAME, config)


def venc_set_frame_config_force_i_frame(config: FrameConfig, force_i_frame: int) -> None:
    config.force_i_frame = force_i_frame


def venc_set_frame_config_eos(config: FrameConfig, eos: int) -> None:
    config.eos = eos


def venc_get_frame_config_force_i_frame(config: FrameConfig) -> int:
    return config.force_i_frame


def venc_get_frame_config_eos(config: FrameConfig) -> int:
    return config.eos


@raw
def venc_send_frame(desc: int, pic_desc: int, reserve: int, frame_cfg: int, user_data: Any) -> None:
    channel, picture, config = _channel_desc(desc), _pic_desc(pic_desc), _frame_config(frame_cfg)
    if reserve:
        raise NpuError(codes.INVALID_PARAM, f"the reserved argument is {reserve:#x}", "pass 0")
    venc.send(channel, pic_desc, picture, config, user_data)
