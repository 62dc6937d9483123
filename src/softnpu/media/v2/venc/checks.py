"""What the attributes of an encode channel of `acl.himpi` may be."""

from __future__ import annotations

from softnpu import constants as c
from softnpu.base.errors import NpuError, codes
from softnpu.base.units import align_up
from softnpu.media import rules
from softnpu.media.pixels.picture import Picture
from softnpu.media.v2.checks import CODECS, check_in
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.venc.structs import RC_MODES

VIDEO = {c.HI_PT_H264: "h264", c.HI_PT_H265: "h265"}
_SVC_T = 3
_MAX_BUFFER = 1 << 30
_LEAST_BUFFER = 32 << 10
_MAX_SIDE = 32768
_QP = range(52)
_RANGES = {
    "gop": range(1, 65537),
    "stats_time": range(1, 61),
    "src_frame_rate": range(1, 241),
    "dst_frame_rate": range(1, 241),
    **dict.fromkeys(("bit_rate", "max_bit_rate", "target_bit_rate"), range(2, 614401)),
    **dict.fromkeys(("i_qp", "p_qp", "b_qp"), _QP),
    "qfactor": range(1, 101),
}
_PARAM_RANGES = {
    "max_reencode_times": range(4),
    "max_i_proportion": range(1, 101),
    "min_i_proportion": range(1, 101),
    "chg_pos": range(50, 101),
    "max_qfactor": range(1, 101),
    "min_qfactor": range(1, 101),
    **dict.fromkeys(("max_qp", "min_qp", "max_i_qp", "min_i_qp"), _QP),
}
_DELTA = range(-10, 31)


def refused(text: str, remedy: str) -> NpuError:
    """A value that is out of its range."""
    return NpuError(codes.INVALID_PARAM, text, remedy)


def check_attr(attr: Fields) -> None:
    """All attributes of a channel."""
    venc = attr.venc_attr
    if venc.type in VIDEO:
        rules.supports("venc", 2)
        _check_sides(venc, even=True)
        _check_video(attr)
    elif venc.type == c.HI_PT_JPEG:
        rules.supports("jpege", 2)
        _check_sides(venc, even=False)
        rules.check_size("jpege", venc.max_pic_width, venc.max_pic_height, "a picture of the channel")
        rules.check_size("jpege", venc.pic_width, venc.pic_height, "a picture of the channel")
        _check_jpeg_buffer(venc)
    else:
        slip = ", a module number where a payload type belongs" if venc.type in (2, 3, 4) else ""
        raise himpi_error(
            "venc",
            "NOT_SUPPORT",
            f"payload type {venc.type} cannot be encoded{slip}",
            "use HI_PT_H264 (96), HI_PT_H265 (265) or HI_PT_JPEG (26)",
        )
    if venc.is_by_frame not in (0, 1):
        raise refused(f"is_by_frame is {venc.is_by_frame}", "1 hands out whole frames, 0 single packets")


def _check_sides(venc: Fields, even: bool) -> None:
    for name in ("width", "height"):
        most, side = getattr(venc, f"max_pic_{name}"), getattr(venc, f"pic_{name}")
        check_in(f"max_pic_{name}", most, range(1, _MAX_SIDE + 1))
        check_in(f"pic_{name}", side, range(1, most + 1))
        if even and (most % 2 or side % 2):
            raise refused(f"pic_{name} is {side}, max_pic_{name} {most}", "video wants even sides")


def _check_video(attr: Fields) -> None:
    venc = attr.venc_attr
    if venc.buf_size % 64 or not _LEAST_BUFFER <= venc.buf_size <= _MAX_BUFFER:
        raise refused(
            f"buf_size is {venc.buf_size}",
            "use a multiple of 64 from 32 KiB to 1 GiB; width * height * 3 / 2 is the advice",
        )
    if venc.type == c.HI_PT_H264 and venc.profile == _SVC_T:
        raise himpi_error(
            "venc",
            "NOT_SUPPORT",
            f"profile {_SVC_T} (SVC-T) is not supported",
            "use 0 (baseline), 1 (main) or 2 (high)",
        )
    check_in("profile", venc.profile, range(3 if venc.type == c.HI_PT_H264 else 2))
    rules.check(
        "venc", "in", Picture(0, 0, venc.pic_width, venc.pic_height, 0, 0, c.HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420)
    )
    rules.check_codec("venc", CODECS[venc.type], venc.pic_width, venc.pic_height)
    check_rc(attr.rc_attr, VIDEO[venc.type])
    check_gop(attr.gop_attr)


def _check_jpeg_buffer(venc: Fields) -> None:
    if not venc.buf_size:  # then the program brings the output memory of each picture
        return
    least = align_up(venc.max_pic_width, 16) * align_up(venc.max_pic_height, 16) * 3 // 2
    if venc.buf_size % 64 or not least <= venc.buf_size <= _MAX_BUFFER:
        raise refused(
            f"buf_size is {venc.buf_size}, for {venc.max_pic_width}x{venc.max_pic_height} at least {least}",
            "use a multiple of 64; width * height * 5 is the advice, 0 with venc_send_jpege_frame",
        )


def check_rc(rc: Fields, codec: str) -> None:
    """The rate control attributes of a video channel."""
    mode_codec, kind = RC_MODES.get(rc.rc_mode, ("", ""))
    if mode_codec != codec:
        raise refused(
            f"rc_mode {rc.rc_mode} is none of {codec}", f"use one of HI_VENC_RC_MODE_{codec.upper()}_…, e.g. …_VBR"
        )
    if kind == "qpmap":
        raise himpi_error(
            "venc", "NOT_SUPPORT", f"rc_mode {rc.rc_mode} (quality map) is not supported", "use another mode"
        )
    values = vars(getattr(rc, f"{codec}_{kind}"))
    for name, value in values.items():
        if name in _RANGES:
            check_in(name, value, _RANGES[name])
    if values["dst_frame_rate"] > values["src_frame_rate"]:
        raise refused(
            f"dst_frame_rate {values['dst_frame_rate']} is above src_frame_rate {values['src_frame_rate']}", "lower it"
        )


def check_gop(gop: Fields) -> None:
    """The attributes of a group of pictures. What it asks beyond plain P pictures is told by the channel."""
    if gop.gop_mode not in range(3):
        raise himpi_error(
            "venc",
            "NOT_SUPPORT",
            f"gop_mode {gop.gop_mode} is not supported",
            "use NORMAL_P (0), DUAL_P (1) or SMART_P (2)",
        )
    check_in("ip_qp_delta", gop.normal_p.ip_qp_delta, _DELTA)
    check_in("ip_qp_delta", gop.dual_p.ip_qp_delta, _DELTA)


def check_rc_param(param: Fields, member: str) -> None:
    """The advanced rate control parameters, and those of the mode in use (`member`, or "" where it has none)."""
    check_in("direction", param.direction, range(17))
    check_in("row_qp_delta", param.row_qp_delta, range(11))
    check_in("first_frame_start_qp", param.first_frame_start_qp, range(-1, 52))
    if not member:
        return
    values = vars(getattr(param, member))
    for name, value in values.items():
        if name in _PARAM_RANGES:
            check_in(name, value, _PARAM_RANGES[name])
    for low, high in (("min_qp", "max_qp"), ("min_i_qp", "max_i_qp"), ("min_i_proportion", "max_i_proportion")):
        if low in values and values[low] > values[high]:
            raise refused(f"{low} {values[low]} is above {high} {values[high]}", "swap them")


def check_jpeg_param(param: Fields) -> None:
    """Quality and tables of a JPEG channel."""
    own = param.qfactor == 0xFFFFFFFF
    if not own:
        check_in("qfactor", param.qfactor, range(1, 101))
    elif 0 in (*param.y_qt, *param.cb_qt, *param.cr_qt):
        raise refused(
            "a quantisation table has a 0", "with qfactor 0xFFFFFFFF give 64 values from 1 to 255 in each table"
        )
