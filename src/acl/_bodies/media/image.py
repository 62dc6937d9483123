"""Bodies of `acl.media`: JPEG and PNG."""

from __future__ import annotations

from softnpu.media.v1 import images
from softnpu.media.v1.channel import ChannelDesc
from softnpu.media.v1.descs import JpegeConfig, PicDesc
from softnpu.runtime.streams.stream import Stream


def dvpp_jpeg_get_image_info(data: int, size: int) -> tuple[int, ...]:
    return images.jpeg_info(data, size)[:3]


def dvpp_jpeg_get_image_info_v2(data: int, size: int) -> tuple[int, ...]:
    return images.jpeg_info(data, size)


def dvpp_jpeg_predict_dec_size(data: int, size: int, out_fmt: int) -> int:
    return images.jpeg_decoded_size(data, size, out_fmt)


def dvpp_jpeg_decode_async(ch: ChannelDesc, data: int, size: int, out_desc: PicDesc, stream: Stream) -> None:
    images.decode_jpeg(ch, stream, "JPEGD", (data, size), out_desc)


def dvpp_jpeg_predict_enc_size(in_desc: PicDesc, cfg: JpegeConfig | None) -> int:
    return images.jpeg_encoded_size(in_desc)


def dvpp_jpeg_encode_async(
    ch: ChannelDesc, in_desc: PicDesc, out_ptr: int, size_ptr: int, cfg: JpegeConfig | None, stream: Stream
) -> None:
    images.encode_jpeg(ch, stream, "JPEGE", in_desc, out_ptr, size_ptr, cfg)


def dvpp_png_get_image_info(data: int, size: int) -> tuple[int, ...]:
    return images.png_info(data, size)


def dvpp_png_predict_dec_size(data: int, size: int, out_fmt: int) -> int:
    return images.png_decoded_size(data, size, out_fmt)


def dvpp_png_decode_async(ch: ChannelDesc, data: int, size: int, out_desc: PicDesc, stream: Stream) -> None:
    images.decode_png(ch, stream, "PNGD", (data, size), out_desc)
