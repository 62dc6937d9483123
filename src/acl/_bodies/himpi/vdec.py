"""Bodies of `acl.himpi`: video and JPEG decoding."""

from __future__ import annotations

from typing import Any

from acl._bodies._common import on_failure
from softnpu.media.v2 import headers
from softnpu.media.v2.struct import written
from softnpu.media.v2.structs import FRAME_INFO, IMAGE_INFO
from softnpu.media.v2.sys.system import need_system
from softnpu.media.v2.vdec import structs, video
from softnpu.media.v2.vdec.answers import got_frame, no_frame
from softnpu.media.v2.vdec.channel import DecodeChannel


def _channel(chn: int) -> DecodeChannel:
    return need_system("vdec").vdec.get(chn)


def vdec_create_chn(chn: int, attr: dict[str, Any]) -> None:
    wanted, registry = structs.CHN_ATTR.read(attr), need_system("vdec").vdec
    registry.open(chn, lambda: DecodeChannel(chn, wanted, registry.channels()))


def vdec_destroy_chn(chn: int) -> None:
    need_system("vdec").vdec.take(chn).close()


def vdec_set_chn_attr(chn: int, attr: dict[str, Any]) -> None:
    _channel(chn).set_attr(structs.CHN_ATTR.read(attr))


def vdec_get_chn_attr(chn: int) -> dict[str, Any]:
    return written(structs.CHN_ATTR, lambda: _channel(chn).attr)


def vdec_set_chn_param(chn: int, param: dict[str, Any]) -> None:
    _channel(chn).set_param(structs.CHN_PARAM.read(param))


def vdec_get_chn_param(chn: int) -> dict[str, Any]:
    return written(structs.CHN_PARAM, lambda: _channel(chn).param)


def vdec_set_protocol_param(chn: int, param: dict[str, Any]) -> None:
    _channel(chn).set_protocol(structs.PROTOCOL_PARAM.read(param))


def vdec_get_protocol_param(chn: int) -> dict[str, Any]:
    return written(structs.PROTOCOL_PARAM, lambda: _channel(chn).protocol)


def vdec_start_recv_stream(chn: int) -> None:
    _channel(chn).start()


def vdec_stop_recv_stream(chn: int) -> None:
    _channel(chn).stop()


def vdec_query_status(chn: int) -> dict[str, Any]:
    return written(structs.STATUS, lambda: _channel(chn).status())


def vdec_reset_chn(chn: int) -> None:
    _channel(chn).reset()


def vdec_send_stream(chn: int, stream: dict[str, Any], pic_info: dict[str, Any], ms: int) -> None:
    _channel(chn).send(structs.STREAM.read(stream), structs.PIC_INFO.read(pic_info), ms)


def vdec_get_frame(chn: int, ms: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    with on_failure(lambda: no_frame()):
        channel = _channel(chn)
        return got_frame(channel, channel.get(ms))


def vdec_release_frame(chn: int, frame_info: dict[str, Any]) -> None:
    _channel(chn).release(FRAME_INFO.read(frame_info))


def vdec_get_fd(chn: int) -> int:
    return _channel(chn).ready.fd


def vdec_close_fd(chn: int) -> None:
    _channel(chn).ready.close()


def vdec_get_pic_buf_size(payload: int, attr: Any) -> int:
    if isinstance(attr, list | tuple):  # as the guide prints it
        attr = dict(zip(structs.PIC_BUF_ATTR.fields, attr, strict=False))
    return video.pic_buf_size(payload, structs.PIC_BUF_ATTR.read(attr))


def vdec_get_tmv_buf_size(payload: int, width: int, height: int) -> int:
    return video.tmv_buf_size(payload, width, height)


def dvpp_get_image_info(payload: int, stream: dict[str, Any]) -> dict[str, Any]:
    packet = structs.STREAM.read(stream)
    return written(IMAGE_INFO, lambda: headers.image_info(payload, packet))


def vdec_get_jpegd_output_info(stream: dict[str, Any], pixel_format: int) -> dict[str, Any]:
    packet = structs.STREAM.read(stream)
    return written(IMAGE_INFO, lambda: headers.output_info(packet, pixel_format))


def vdec_set_jpegd_precision_mode(chn: int, mode: int) -> None:
    _channel(chn).set_precision(mode)


def vdec_set_display_mode(chn: int, mode: int) -> None:
    _channel(chn).set_display_mode(mode)


def vdec_get_display_mode(chn: int) -> int:
    return _channel(chn).display_mode
