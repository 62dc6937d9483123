"""Bodies of `acl.himpi`: PNG decoding."""

from __future__ import annotations

from typing import Any

from acl._bodies._common import on_failure
from softnpu.media import rules
from softnpu.media.v2 import pngd
from softnpu.media.v2.structs import IMAGE_INFO, IMAGE_STREAM, PIC
from softnpu.media.v2.sys.system import need_system


def pngd_create_chn(chn: int, attr: dict[str, Any]) -> None:
    attributes = pngd.ATTRIBUTES.read(attr)
    system = need_system("pngd")
    rules.supports("pngd", 2)
    system.pngd.open(chn, lambda: pngd.PngdChannel(chn, attributes))


def pngd_destroy_chn(chn: int) -> None:
    need_system("pngd").pngd.take(chn).close()


def pngd_send_stream(chn: int, img_stream: dict[str, Any], pic_info: dict[str, Any], ms: int) -> None:
    stream, target = IMAGE_STREAM.read(img_stream), PIC.read(pic_info)
    need_system("pngd").pngd.get(chn).send(stream, target, ms)


def pngd_get_image_data(chn: int, ms: int) -> tuple[dict[str, Any], dict[str, Any]]:
    with on_failure(lambda: (PIC.zeros(), IMAGE_STREAM.zeros())):
        return need_system("pngd").pngd.get(chn).get(ms)


def png_get_image_info(img_stream: dict[str, Any]) -> dict[str, Any]:
    stream = IMAGE_STREAM.read(img_stream)
    with on_failure(lambda: (IMAGE_INFO.zeros(),)):
        return pngd.image_info(stream)
