"""Bodies of `acl.media`: picture-processing channels."""

from __future__ import annotations

from acl._bodies._common import on_failure, raw
from softnpu.media.v1.channel import ChannelDesc
from softnpu.runtime.process import process


def dvpp_create_channel_desc() -> int:
    desc = ChannelDesc()
    desc.handle = process().handles.add("channel_desc", desc)
    return desc.handle


@raw
def dvpp_destroy_channel_desc(desc: int) -> None:
    handles = process().handles
    handles.get("channel_desc", desc).discard()
    handles.remove("channel_desc", desc)


def dvpp_create_channel(desc: ChannelDesc) -> None:
    desc.open()


def dvpp_destroy_channel(desc: ChannelDesc) -> None:
    desc.close()


def dvpp_get_channel_desc_channel_id(desc: ChannelDesc) -> int:
    return desc.id


def dvpp_set_channel_desc_mode(desc: ChannelDesc, mode: int) -> None:
    desc.set_mode(mode)


def dvpp_set_channel_desc_param(desc: ChannelDesc, type: int, value: int) -> int:
    with on_failure(lambda: (desc.handle,)):
        desc.set_param(type, value)
    return desc.handle


def dvpp_get_channel_desc_param(desc: ChannelDesc, type: int) -> tuple[int, int]:
    return desc.param(type)
