"""Bodies of `acl.media`: descriptions of pictures, streams, regions and settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from acl._bodies._common import raw
from softnpu.media.v1 import descs
from softnpu.media.v1.descs import BatchPicDesc, BorderConfig, JpegeConfig, PicDesc, ResizeConfig, RoiConfig, StreamDesc
from softnpu.media.v1.tables import DIMS, Hist, LutMap
from softnpu.runtime.process import process


def _getter(field: str) -> Callable[[Any], Any]:
    def get(desc: Any) -> Any:
        return getattr(desc, field)

    return get


def _setter(field: str) -> Callable[[Any, Any], None]:
    def put(desc: Any, value: Any) -> None:
        setattr(desc, field, value)

    return put


def _destroyer(kind: str) -> Callable[[int], None]:
    @raw
    def destroy(handle: int) -> None:
        process().handles.remove(kind, handle)

    return destroy


# Fields that are kept as they are given.
_FIELDS = {
    "pic_desc": ("data", "size", "format", "width", "height", "width_stride", "height_stride", "ret_code"),
    "stream_desc": ("data", "size", "format", "timestamp", "ret_code", "eos"),
    "border_config": ("top", "bottom", "left", "right"),
    "roi_config": ("left", "right", "top", "bottom"),
}
for _kind, _fields in _FIELDS.items():
    for _field in _fields:
        globals()[f"dvpp_set_{_kind}_{_field}"] = _setter(_field)
        if _kind != "roi_config":  # the manual has no way to read it
            globals()[f"dvpp_get_{_kind}_{_field}"] = _getter(_field)

for _kind in ("roi_config", "resize_config", "border_config", "jpege_config"):
    globals()[f"dvpp_destroy_{_kind}"] = _destroyer(_kind)


def dvpp_create_pic_desc() -> int:
    return process().handles.add("pic_desc", PicDesc())


@raw
def dvpp_destroy_pic_desc(desc: int) -> None:
    descs.destroy_picture(desc)


def dvpp_create_stream_desc() -> int:
    return process().handles.add("stream_desc", StreamDesc())


@raw
def dvpp_destroy_stream_desc(desc: int) -> None:
    descs.destroy_stream(desc)


def dvpp_create_batch_pic_desc(batch_size: int) -> int:
    return descs.create_batch(batch_size).handle


@raw
def dvpp_destroy_batch_pic_desc(batch: int) -> None:
    descs.destroy_batch(batch)


def dvpp_get_pic_desc(batch: BatchPicDesc, index: int) -> int:
    return batch.at(index)


def dvpp_create_roi_config(left: int, right: int, top: int, bottom: int) -> int:
    return process().handles.add("roi_config", RoiConfig(left, right, top, bottom))


def dvpp_set_roi_config(config: RoiConfig, left: int, right: int, top: int, bottom: int) -> None:
    config.left, config.right, config.top, config.bottom = left, right, top, bottom


def dvpp_create_resize_config() -> int:
    return process().handles.add("resize_config", ResizeConfig())


def dvpp_set_resize_config_interpolation(config: ResizeConfig, interpolation: int) -> None:
    config.set_interpolation(interpolation)


def dvpp_get_resize_config_interpolation(config: ResizeConfig) -> int:
    return config.interpolation


def dvpp_create_border_config() -> int:
    return process().handles.add("border_config", BorderConfig())


def dvpp_set_border_config_value(config: BorderConfig, index: int, value: float) -> None:
    config.values[config.index(index)] = value


def dvpp_get_border_config_value(config: BorderConfig, index: int) -> float:
    return config.values[config.index(index)]


def dvpp_set_border_config_border_type(config: BorderConfig, border_type: int) -> None:
    config.set_border_type(border_type)


def dvpp_get_border_config_border_type(config: BorderConfig) -> int:
    return config.border_type


def dvpp_create_jpege_config() -> int:
    return process().handles.add("jpege_config", JpegeConfig())


def dvpp_set_jpege_config_level(config: JpegeConfig, level: int) -> None:
    config.set_level(level)


def dvpp_get_jpege_config_level(config: JpegeConfig) -> int:
    return config.level


def dvpp_create_hist() -> int:
    return process().handles.add("hist", Hist())


@raw
def dvpp_destroy_hist(hist: int) -> None:
    process().handles.remove("hist", hist).free()


def dvpp_get_hist_dims(hist: Hist) -> int:
    return DIMS


def dvpp_get_hist_data(hist: Hist, dim: int) -> tuple[int, int]:
    return hist.row(dim)


def dvpp_get_hist_ret_code(hist: Hist) -> int:
    return hist.ret_code


def dvpp_clear_hist(hist: Hist) -> None:
    hist.clear()


def dvpp_create_lut_map() -> int:
    return process().handles.add("lut_map", LutMap())


@raw
def dvpp_destroy_lut_map(lut: int) -> None:
    process().handles.remove("lut_map", lut).free()


def dvpp_get_lut_map_dims(lut: LutMap) -> int:
    return DIMS


def dvpp_get_lut_map_data(lut: LutMap, dim: int) -> tuple[int, int]:
    return lut.row(dim)
