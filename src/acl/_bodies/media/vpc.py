"""Bodies of `acl.media`: crop, resize, paste, colour."""

from __future__ import annotations

from typing import Any

from acl._bodies._common import on_failure
from softnpu.base.errors import NpuError, Raise, codes
from softnpu.media import rules
from softnpu.media.v1 import pictures
from softnpu.media.v1.channel import ChannelDesc
from softnpu.media.v1.descs import MOST_PICTURES, BatchPicDesc, BorderConfig, PicDesc, ResizeConfig, RoiConfig
from softnpu.media.v1.tables import Hist, LutMap
from softnpu.runtime.process import process
from softnpu.runtime.streams.stream import Stream


def dvpp_vpc_resize_async(
    ch: ChannelDesc, in_desc: PicDesc, out_desc: PicDesc, resize_cfg: ResizeConfig | None, stream: Stream
) -> None:
    pictures.move_one(ch, stream, "VPC_RESIZE", in_desc, out_desc, None, None, resize_cfg)


def dvpp_vpc_crop_async(ch: ChannelDesc, in_desc: PicDesc, out_desc: PicDesc, crop: RoiConfig, stream: Stream) -> None:
    pictures.move_one(ch, stream, "VPC_CROP", in_desc, out_desc, crop, None, None)


def dvpp_vpc_crop_resize_async(
    ch: ChannelDesc,
    in_desc: PicDesc,
    out_desc: PicDesc,
    crop: RoiConfig,
    resize_cfg: ResizeConfig | None,
    stream: Stream,
) -> None:
    pictures.move_one(ch, stream, "VPC_CROP_RESIZE", in_desc, out_desc, crop, None, resize_cfg)


def dvpp_vpc_crop_and_paste_async(
    ch: ChannelDesc, in_desc: PicDesc, out_desc: PicDesc, crop: RoiConfig, paste: RoiConfig, stream: Stream
) -> None:
    pictures.move_one(ch, stream, "VPC_CROP_PASTE", in_desc, out_desc, crop, paste, None)


def dvpp_vpc_crop_resize_paste_async(
    ch: ChannelDesc,
    in_desc: PicDesc,
    out_desc: PicDesc,
    crop: RoiConfig,
    paste: RoiConfig,
    resize_cfg: ResizeConfig | None,
    stream: Stream,
) -> None:
    pictures.move_one(ch, stream, "VPC_CROP_RESIZE_PASTE", in_desc, out_desc, crop, paste, resize_cfg)


def dvpp_vpc_convert_color_async(ch: ChannelDesc, in_desc: PicDesc, out_desc: PicDesc, stream: Stream) -> None:
    rules.supports_function("dvpp_vpc_convert_color_async")
    pictures.convert_color(ch, stream, "VPC_CONVERT_COLOR", in_desc, out_desc)


def dvpp_vpc_pyr_down_async(ch: ChannelDesc, in_desc: PicDesc, out_desc: PicDesc, reserve: int, stream: Stream) -> None:
    rules.supports_function("dvpp_vpc_pyr_down_async")
    _need_null(reserve)
    pictures.pyr_down(ch, stream, "VPC_PYR_DOWN", in_desc, out_desc)


def dvpp_vpc_equalize_hist_async(
    ch: ChannelDesc, in_desc: PicDesc, out_desc: PicDesc, lut: LutMap, stream: Stream
) -> None:
    rules.supports_function("dvpp_vpc_equalize_hist_async")
    pictures.equalize_hist(ch, stream, "VPC_EQUALIZE_HIST", in_desc, out_desc, lut)


def dvpp_vpc_make_border_async(
    ch: ChannelDesc, in_desc: PicDesc, out_desc: PicDesc, border_cfg: BorderConfig, stream: Stream
) -> None:
    rules.supports_function("dvpp_vpc_make_border_async")
    pictures.make_border(ch, stream, "VPC_MAKE_BORDER", in_desc, out_desc, border_cfg)


def dvpp_vpc_calc_hist_async(ch: ChannelDesc, in_desc: PicDesc, hist: Hist, reserve: int, stream: Stream) -> None:
    rules.supports_function("dvpp_vpc_calc_hist_async")
    _need_null(reserve)
    pictures.calc_hist(ch, stream, "VPC_CALC_HIST", in_desc, hist)


def _need_null(reserve: int) -> None:
    if reserve:
        raise NpuError(codes.INVALID_PARAM, f"the reserved parameter is {reserve:#x}", "pass 0")


# ---- batches ---------------------------------------------------------------------------------------------------------


def _objects(kind: str, handles: list[int]) -> list[Any]:
    table = process().handles
    return [table.get(kind, handle) for handle in handles]


def _check_lists(roi_nums: list[int], *lists: list[int]) -> None:
    """What the binding itself looks at in two of the calls."""
    if any(not 1 <= len(entries) <= MOST_PICTURES for entries in (roi_nums, *lists)):
        raise Raise(ValueError(f"the lists must have 1 to {MOST_PICTURES} entries"))
    if any(count > MOST_PICTURES for count in roi_nums):
        raise Raise(ValueError(f"a count of roi_nums is larger than {MOST_PICTURES}"))


def _batch(ch: ChannelDesc, name: str, src: BatchPicDesc, roi_nums: list[int], dst: BatchPicDesc, stream: Stream, config: ResizeConfig | None, **regions: list[Any]) -> None:  # fmt: skip
    moves = pictures.batch_moves(src.descs(), roi_nums, dst.descs(), **regions)
    pictures.move(ch, stream, name, moves, config)


def dvpp_vpc_batch_crop_async(
    ch: ChannelDesc,
    src_batch: BatchPicDesc,
    roi_nums: list[int],
    dst_batch: BatchPicDesc,
    crops: list[int],
    stream: Stream,
) -> int:
    _check_lists(roi_nums, crops)
    with on_failure(lambda: (dst_batch.handle,)):
        _batch(ch, "VPC_BATCH_CROP", src_batch, roi_nums, dst_batch, stream, None, crops=_objects("roi_config", crops))
    return dst_batch.handle


def dvpp_vpc_batch_crop_and_paste_async(
    ch: ChannelDesc,
    src_batch: BatchPicDesc,
    roi_nums: list[int],
    dst_batch: BatchPicDesc,
    crops: list[int],
    pastes: list[int],
    stream: Stream,
) -> int:
    _check_lists(roi_nums, crops, pastes)
    with on_failure(lambda: (dst_batch.handle,)):
        dvpp_vpc_batch_crop_resize_paste_async(ch, src_batch, roi_nums, dst_batch, crops, pastes, None, stream)
    return dst_batch.handle


def dvpp_vpc_batch_crop_resize_async(
    ch: ChannelDesc,
    src_batch: BatchPicDesc,
    roi_nums: list[int],
    dst_batch: BatchPicDesc,
    crops: list[int],
    resize_cfg: ResizeConfig | None,
    stream: Stream,
) -> None:
    regions = _objects("roi_config", crops)
    _batch(ch, "VPC_BATCH_CROP_RESIZE", src_batch, roi_nums, dst_batch, stream, resize_cfg, crops=regions)


def dvpp_vpc_batch_crop_resize_paste_async(
    ch: ChannelDesc,
    src_batch: BatchPicDesc,
    roi_nums: list[int],
    dst_batch: BatchPicDesc,
    crops: list[int],
    pastes: list[int],
    resize_cfg: ResizeConfig | None,
    stream: Stream,
) -> None:
    regions = {"crops": _objects("roi_config", crops), "pastes": _objects("roi_config", pastes)}
    _batch(ch, "VPC_BATCH_CROP_PASTE", src_batch, roi_nums, dst_batch, stream, resize_cfg, **regions)


def dvpp_vpc_batch_crop_resize_make_border_async(
    ch: ChannelDesc,
    src_batch: BatchPicDesc,
    roi_nums: list[int],
    dst_batch: BatchPicDesc,
    crops: list[int],
    borders: list[int],
    resize_cfg: ResizeConfig | None,
    stream: Stream,
) -> None:
    rules.supports_function("dvpp_vpc_batch_crop_resize_make_border_async")
    regions = {"crops": _objects("roi_config", crops), "borders": _objects("border_config", borders)}
    _batch(ch, "VPC_BATCH_CROP_BORDER", src_batch, roi_nums, dst_batch, stream, resize_cfg, **regions)
