"""The settings of an encode channel of `acl.himpi`: kept, handed out again, and what they mean for the encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition
from typing import Protocol

from softnpu import constants as c
from softnpu.base.errors import NpuError
from softnpu.media.codecs.jpeg.tables import JpegTables, complete, standard_tables
from softnpu.media.v2.checks import check_in
from softnpu.media.v2.struct import Fields, Struct
from softnpu.media.v2.venc import checks, structs

DEFAULT_QUALITY = 90
OWN_TABLES = 0xFFFFFFFF
_JPEG = (c.HI_PT_JPEG,)
_VIDEO = tuple(checks.VIDEO)
_MAX_REGIONS = 8
_TAKEN_EACH_TIME = ("chn_param", "jpeg_param", "jpeg_huffman_param")  # looked at for each picture


@dataclass(frozen=True)
class Setting:
    """One pair of set and get functions. `idle`: that it has no effect here, said when a program changes it."""

    struct: Struct
    payloads: tuple[int, ...]
    check: Callable[[Fields], None] | None = None
    idle: str = ""


SETTINGS = {
    "chn_param": Setting(structs.CHN_PARAM, _VIDEO + _JPEG),
    "jpeg_param": Setting(structs.JPEG_PARAM, _JPEG, checks.check_jpeg_param),
    "jpeg_huffman_param": Setting(structs.HUFFMAN_PARAM, _JPEG),
    "cu_pred": Setting(structs.CU_PRED, _VIDEO, idle="cu_pred has no effect: the encoder weighs its blocks itself"),
    "h264_vui": Setting(structs.H264_VUI, (c.HI_PT_H264,)),
    "h265_vui": Setting(structs.H265_VUI, (c.HI_PT_H265,)),
    "intra_refresh": Setting(structs.INTRA_REFRESH, _VIDEO),
    "ref_param": Setting(
        structs.REF_PARAM, _VIDEO, idle="ref_param has no effect: each P picture refers to the one before"
    ),
    "slice_split": Setting(structs.SLICE_SPLIT, _VIDEO),
    "streamcopy_param": Setting(structs.STREAMCOPY_PARAM, _VIDEO + _JPEG, idle="streamcopy_param has no effect"),
    "rc_param": Setting(structs.RC_PARAM, _VIDEO),
}


class Owner(Protocol):
    """What the settings see of their channel."""

    attr: Fields
    changed: Condition

    @property
    def is_jpeg(self) -> bool:
        """Whether it is a channel of JPEGE."""

    def need_open(self) -> None:
        """Raise when the channel was destroyed."""

    def settle(self) -> None:
        """Look again at what waits for the channel."""

    def tell(self, text: str) -> None:
        """Warn once."""

    def error(self, name: str, text: str, remedy: str = "") -> NpuError:
        """A failure of the channel."""


class Settings:
    """All settings of a channel. `version` goes up when the encoder must be set up anew."""

    def __init__(self, channel: Owner) -> None:
        self._channel = channel
        self.version = 0
        self.scene_mode = 0
        self.merge_tables = False
        self.regions: dict[int, Fields] = {}
        payload = channel.attr.venc_attr.type
        self.values = {name: row.struct.blank() for name, row in SETTINGS.items() if payload in row.payloads}
        _fill_defaults(self.values)
        self.tell_about(channel.attr)

    def tell_about(self, attr: Fields) -> None:
        """Say which of the attributes have no effect."""
        gop, venc = attr.gop_attr.gop_mode, attr.venc_attr
        if gop != c.HI_VENC_GOP_MODE_NORMAL_P:
            self._channel.tell(f"gop_mode {gop} is encoded like NORMAL_P: each P picture refers to the one before")
        if any((*vars(venc.h264_attr).values(), *vars(venc.h265_attr).values())):
            self._channel.tell("rcn_ref_share_buf_en and frame_buf_ratio have no effect")

    def get(self, name: str) -> Fields:
        """The values of a setting."""
        if name not in self.values:
            raise self._channel.error(
                "NOT_SUPPORT", f"{name} does not belong to payload type {self._channel.attr.venc_attr.type}", ""
            )
        return self.values[name]

    def set(self, name: str, values: Fields) -> None:
        """Check and keep a setting; it counts from the next picture on."""
        old, row = self.get(name), SETTINGS[name]
        if row.check is not None:
            row.check(values)
        _CHECKS.get(name, _nothing)(self._channel, values)
        if row.struct.write(values) == row.struct.write(old):
            return
        if row.idle:
            self._channel.tell(row.idle)
        with self._channel.changed:
            self._channel.need_open()
            self.values[name] = values
            self.version += name not in _TAKEN_EACH_TIME
            self._channel.settle()

    def rate_parameters(self, rc_mode: int) -> Fields:
        """`venc_get_rc_param`: all modes come, the one that is named must exist."""
        parameters = self.get("rc_param")
        check_in("rc_mode", rc_mode, range(1, max(structs.RC_MODES) + 1))
        return parameters

    def set_region(self, region: Fields) -> None:
        """`venc_set_roi_attr`."""
        self.get("rc_param")
        check_in("idx", region.idx, range(_MAX_REGIONS))
        check_in("qp", region.qp, range(52) if region.is_abs_qp else range(-51, 52))
        if region.enable:
            self._channel.tell("regions of interest have no effect: all of a picture gets the same quality")
        self.regions[region.idx] = region

    def region(self, index: int) -> Fields:
        """`venc_get_roi_attr`."""
        self.get("rc_param")
        check_in("idx", index, range(_MAX_REGIONS))
        blank = structs.ROI_ATTR.blank()
        blank.idx = index
        return self.regions.get(index, blank)

    def set_scene_mode(self, mode: int) -> None:
        """`venc_set_scene_mode`."""
        self.get("rc_param")
        check_in("scene mode", mode, range(3))
        if mode != self.scene_mode:
            self._channel.tell("the scene mode has no effect")
        self.scene_mode = mode

    def set_merged_tables(self, table_type: int, enable: int) -> None:
        """`venc_compact_jpeg_tables`."""
        self.get("jpeg_param")
        check_in("table type", table_type, range(1))
        self.merge_tables = bool(enable)

    def frame_rates(self) -> tuple[int, int]:
        """Pictures a second that come in, and that go into the stream."""
        rate = self.values["chn_param"].frame_rate
        if rate.src_frame_rate > 0 and rate.dst_frame_rate > 0:
            return rate.src_frame_rate, rate.dst_frame_rate
        if self._channel.is_jpeg:
            return 1, 1
        values = rate_control(self._channel.attr.rc_attr)[1]
        return values.src_frame_rate, values.dst_frame_rate


def rate_control(rc: Fields) -> tuple[str, Fields]:
    """The kind of rate control, and its values."""
    codec, kind = structs.RC_MODES[rc.rc_mode]
    return kind, getattr(rc, f"{codec}_{kind}")


# ---- defaults --------------------------------------------------------------------------------------------------------

_MODE_DEFAULTS = {"max_i_proportion": 100, "min_i_proportion": 1, "max_qp": 51, "min_qp": 0, "max_i_qp": 51, "min_i_qp": 0, "max_reencode_times": 2, "chg_pos": 90, "max_qfactor": 99, "min_qfactor": 20}  # fmt: skip


def _fill_defaults(values: dict[str, Fields]) -> None:
    if "rc_param" in values:
        values["rc_param"].first_frame_start_qp = -1
        for name in structs.RC_PARAM_NAMES.values():
            member = getattr(values["rc_param"], name)
            for key, number in _MODE_DEFAULTS.items():
                if hasattr(member, key):
                    setattr(member, key, number)
    if "slice_split" in values:
        values["slice_split"].split_mode = 1
    if "jpeg_param" in values:
        _fill_jpeg_defaults(values["jpeg_param"], values["jpeg_huffman_param"])


def _fill_jpeg_defaults(param: Fields, huffman: Fields) -> None:
    tables = standard_tables(DEFAULT_QUALITY)
    param.qfactor = DEFAULT_QUALITY
    param.y_qt, param.cb_qt, param.cr_qt = (list(row or ()) for row in (tables.y_qt, tables.cb_qt, tables.cr_qt))
    for kind, most in (("dc", 12), ("ac", 162)):
        rows = []
        for bits, symbols in zip(getattr(tables, f"{kind}_bits"), getattr(tables, f"{kind}_values"), strict=True):
            table = {f"{kind}_bits": list(bits), f"{kind}_value": list(symbols)[:most]}
            rows.append(structs.HUFFMAN_TABLES[kind].read(table))
        setattr(huffman, f"{kind}_tables", rows)


def tables_of(param: Fields | None, huffman: Fields | None) -> JpegTables | None:
    """The tables of a program as the encoder takes them; None where the standard's are good."""
    if param is None and huffman is None:
        return None
    tables = JpegTables()
    if param is not None:
        tables.y_qt, tables.cb_qt, tables.cr_qt = param.y_qt, param.cb_qt, param.cr_qt
    if huffman is not None:
        tables.dc_bits = [row.dc_bits for row in huffman.dc_tables]
        tables.dc_values = [row.dc_value for row in huffman.dc_tables]
        tables.ac_bits = [row.ac_bits for row in huffman.ac_tables]
        tables.ac_values = [row.ac_value for row in huffman.ac_tables]
    return tables


# ---- checks that look at the channel ---------------------------------------------------------------------------------


def _nothing(_channel: Owner, _values: Fields) -> None:
    """Most settings need no further look."""


def _check_chn_param(channel: Owner, values: Fields) -> None:
    rate = values.frame_rate
    if rate.src_frame_rate > 0 and not 0 < rate.dst_frame_rate <= rate.src_frame_rate:
        raise checks.refused(
            f"the frame rates are {rate.src_frame_rate} and {rate.dst_frame_rate}",
            "dst_frame_rate must be 1 to src_frame_rate",
        )
    if values.priority:
        channel.tell("the priority of a channel has no effect")


def _check_rc_param(channel: Owner, values: Fields) -> None:
    name = structs.RC_PARAM_NAMES.get(channel.attr.rc_attr.rc_mode, "")
    checks.check_rc_param(values, name)
    idle = [name for name in ("threshold_i", "threshold_p", "threshold_b") if any(getattr(values, name))]
    idle += ["row_qp_delta"] if values.row_qp_delta else []
    idle += ["first_frame_start_qp"] if values.first_frame_start_qp != -1 else []
    for name in idle:
        channel.tell(f"the rate control parameter {name} has no effect; min_qp and max_qp have one")


def _check_slice_split(channel: Owner, values: Fields) -> None:
    if not values.split_enable:
        return
    if values.split_mode != 1 or values.slice_output_en:
        raise channel.error(
            "NOT_SUPPORT",
            f"split_mode {values.split_mode} with slice_output_en {values.slice_output_en}",
            "only split_mode 1 (rows of blocks) and slice_output_en 0 are there",
        )
    check_in("split_size", values.split_size, range(1, -(-channel.attr.venc_attr.pic_height // 16) + 1))
    if channel.attr.venc_attr.type == c.HI_PT_H265:
        channel.tell("slice_split has no effect on H.265: each picture is one slice")


def _check_intra_refresh(channel: Owner, values: Fields) -> None:
    if values.refresh_enable:
        channel.tell(
            "intra refresh runs in columns over a group of pictures; its mode, refresh_num and req_i_qp have no effect"
        )


def _check_vui(channel: Owner, values: Fields) -> None:
    if values.vui_time_info.timing_info_present_flag or values.vui_bitstream_restric.bitstream_restriction_flag:
        channel.tell("vui_time_info and vui_bitstream_restric have no effect: the times follow the frame rate")


def _check_jpeg_param(channel: Owner, values: Fields) -> None:
    check_in("mcu_per_ecs", values.mcu_per_ecs, range(1 << 16))
    if values.ecs_output_en:
        channel.tell("ecs_output_en has no effect: a picture comes whole")


def _check_huffman(channel: Owner, values: Fields) -> None:
    complete(tables_of(None, values), DEFAULT_QUALITY)  # raises what is wrong with them


_CHECKS: dict[str, Callable[[Owner, Fields], None]] = {
    "chn_param": _check_chn_param,
    "rc_param": _check_rc_param,
    "slice_split": _check_slice_split,
    "intra_refresh": _check_intra_refresh,
    "h264_vui": _check_vui,
    "h265_vui": _check_vui,
    "jpeg_param": _check_jpeg_param,
    "jpeg_huffman_param": _check_huffman,
}
